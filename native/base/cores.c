#define _GNU_SOURCE
#include "cores.h"

#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int maru_cores_open(void) { return mr_sealed_memfd("maru-cores", 1); }

static int record(int fd, int command, struct flock *lock) {
  return fcntl(fd, command, lock) < 0 ? (errno == EACCES ? -EAGAIN : -errno) : 0;
}

static struct flock of(short type, uint32_t number) {
  return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
}

int maru_cores_take(int fd, uint32_t number) {
  struct flock lock = of(F_WRLCK, number);
  return record(fd, F_SETLK, &lock);
}

int maru_cores_give(int fd, uint32_t number) {
  struct flock lock = of(F_UNLCK, number);
  return record(fd, F_SETLK, &lock);
}

int maru_cores_taken(int fd, uint32_t number) {
  struct flock lock = of(F_WRLCK, number);
  int rc = record(fd, F_GETLK, &lock);
  return rc < 0 ? rc : lock.l_type != F_UNLCK;
}
