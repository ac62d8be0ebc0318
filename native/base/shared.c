#define _GNU_SOURCE
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>

size_t mr_page_round(size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return size > SIZE_MAX - page ? 0 : (size + page - 1) & ~(page - 1);
}

int mr_file_allowed(size_t size) {
  struct rlimit limit;
  bool limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited && size > limit.rlim_cur ? -EFBIG : 0;
}

int mr_sealed_memfd(const char *name, size_t size) {
  int rc = mr_file_allowed(size);
  if (rc < 0)
    return rc;
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return -errno;
  if (ftruncate(fd, (off_t)size) < 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
    int error = errno;
    close(fd);
    return -error;
  }
  return fd;
}

int mr_write_at(int fd, const void *bytes, size_t length, uint64_t at) {
  for (size_t done = 0; done < length;) {
    ssize_t n = pwrite(fd, (const uint8_t *)bytes + done, length - done, (off_t)(at + done));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 ? -errno : -ENOSPC;
    done += (size_t)n;
  }
  return 0;
}

/* The file system that all memfds lie in. */
static int memfd_device(dev_t *device) {
  struct stat status;
  int fd = memfd_create("maru-device", MFD_CLOEXEC);
  if (fd < 0)
    return -errno;
  int rc = fstat(fd, &status) < 0 ? -errno : 0;
  *device = status.st_dev;
  close(fd);
  return rc;
}

static int check_memfd(int fd, struct stat *status) {
  struct statx seen;
  dev_t device = 0;
  int rc = memfd_device(&device);
  if (rc < 0)
    return rc;
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
            STATX_TYPE | STATX_UID | STATX_SIZE | STATX_INO, &seen) < 0)
    return -errno;
  if (!S_ISREG(seen.stx_mode) || makedev(seen.stx_dev_major, seen.stx_dev_minor) != device)
    return -EPROTO;
  *status = (struct stat){.st_mode = seen.stx_mode,
                          .st_uid = seen.stx_uid,
                          .st_size = (off_t)seen.stx_size,
                          .st_ino = seen.stx_ino,
                          .st_dev = device};
  return 0;
}

int mr_memfd_at(const char *path, struct stat *status) {
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  int rc = check_memfd(fd, status);
  if (rc == 0)
    return fd;
  close(fd);
  return rc;
}

int mr_shared_map(const char *name, size_t size, void **base) {
  /* Without a memfd (a sandbox, no descriptor left, ulimit -f) the same memory is had
   * anonymously; only its name in /proc/PID/maps is lost. */
  int fd = mr_sealed_memfd(name, size);
  int flags = MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd < 0 ? -1 : fd, 0);
  if (fd >= 0)
    close(fd);
  if (memory == MAP_FAILED)
    return -ENOMEM;
  *base = memory;
  return 0;
}
