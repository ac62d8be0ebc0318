#define _GNU_SOURCE
#include "theirs.h"

#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH 64

/* Opens what `fd`, of this process, leads to. */
static int open_again(int fd, int flags) {
  char path[PATH];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int again = open(path, flags | O_CLOEXEC);
  int error = errno;
  close(fd);
  return again >= 0 ? again : -error;
}

static void path_of(int32_t pid, int32_t fd, char *path) {
  snprintf(path, PATH, "/proc/%d/fd/%d", pid, fd);
}

int mr_their_memory(int32_t pid, int32_t theirs, size_t size, bool writes, void **at) {
  char path[PATH];
  struct stat status;
  path_of(pid, theirs, path);
  int fd = mr_memfd_at(path, &status);
  if (fd >= 0)
    fd = open_again(fd, writes ? O_RDWR : O_RDONLY);
  if (fd < 0)
    return fd;
  void *found = MAP_FAILED;
  errno = EPROTO;
  if ((size_t)status.st_size == size)
    found =
        mmap(NULL, size, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED | MAP_NORESERVE, fd, 0);
  int error = errno;
  close(fd);
  if (found == MAP_FAILED)
    return -error;
  *at = found;
  return 0;
}

int mr_their_pipe(int32_t pid, int32_t theirs) {
  char path[PATH];
  struct stat status;
  path_of(pid, theirs, path);
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  if (fstat(fd, &status) < 0 || !S_ISFIFO(status.st_mode)) {
    close(fd);
    return -EPROTO;
  }
  return open_again(fd, O_RDWR | O_NONBLOCK);
}
