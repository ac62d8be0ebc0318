/* slow_disk.c: a disk that fails or hangs, a node that does not end its image, and a clock that
 * hurries, for a test (46-dsm-folder).
 *
 * Preloaded.  In launchers: DISK_FAILS: after a rename the folder cannot be synced.
 * DISK_WAITS=FILE: a process that syncs a file makes FILE.here, and waits until FILE is there.
 * CLOCK_TIMES=N: the monotonic clock goes N times as fast.  NODE_WAITS=FILE: in all other processes
 * what sets an image's length waits until FILE is there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static bool renamed;

static bool is_launcher(void) { return strcmp(program_invocation_short_name, "maru-launch") == 0; }

/* Of a launcher; else NULL, as where it is empty. */
static const char *asked(const char *name) {
  const char *text = is_launcher() ? getenv(name) : NULL;
  return text != NULL && *text != 0 ? text : NULL;
}

static void await(const char *file) {
  char here[4096];
  snprintf(here, sizeof here, "%s.here", file);
  int fd = open(here, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0)
    close(fd);
  while (access(file, F_OK) < 0)
    poll(NULL, 0, 10);
}

int renameat(int from, const char *name, int to, const char *as) {
  int (*next)(int, const char *, int, const char *) = dlsym(RTLD_NEXT, "renameat");
  renamed = true;
  return next(from, name, to, as);
}

int fsync(int fd) {
  int (*next)(int) = dlsym(RTLD_NEXT, "fsync");
  const char *file = asked("DISK_WAITS");
  struct stat is;
  if (renamed && asked("DISK_FAILS") != NULL && fstat(fd, &is) == 0 && S_ISDIR(is.st_mode)) {
    errno = EIO;
    return -1;
  }
  if (file != NULL && fstat(fd, &is) == 0 && S_ISREG(is.st_mode))
    await(file);
  return next(fd);
}

int ftruncate64(int fd, off64_t length) {
  int (*next)(int, off64_t) = dlsym(RTLD_NEXT, "ftruncate64");
  const char *file = getenv("NODE_WAITS");
  char path[64], name[64] = "";
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  bool waits = file != NULL && !is_launcher() && readlink(path, name, sizeof name - 1) > 0 &&
               strstr(name, "maru-image") != NULL;
  while (waits && access(file, F_OK) < 0)
    poll(NULL, 0, 10);
  return next(fd, length);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int (*next)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  const char *times = clock == CLOCK_MONOTONIC ? asked("CLOCK_TIMES") : NULL;
  int rc = next(clock, now);
  if (rc == 0 && times != NULL) {
    int64_t ns = (now->tv_sec * SECOND + now->tv_nsec) * atoi(times);
    *now = (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
  }
  return rc;
}
