/* files.c: what is remembered of a descriptor is of what stands there, whatever thread replaces
 * it while another looks. The kernel is played here: `now` is what each number is. */
#define _GNU_SOURCE
#include "check.h"

#include "../io.h"

#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#define NUMBERS 2000

static mode_t now[NUMBERS];     /* 0: closed */
static void (*meanwhile)(void); /* done once, after the kernel has answered fstat */
static unsigned looks;

/* ---- what files.c calls --------------------------------------------------- */

struct io_process io_process = {.mode = MARU_IO_ALWAYS};
bool io_same_process(void) { return true; }
void io_wait_for_requests(unsigned first, unsigned last) { (void)first, (void)last; }

static long stat_of(long fd, struct stat *status) {
  mode_t mode = now[fd];
  looks++;
  if (meanwhile != NULL) {
    void (*act)(void) = meanwhile;
    meanwhile = NULL;
    act();
  }
  *status = (struct stat){.st_mode = mode};
  return mode != 0 ? 0 : -EBADF;
}

static long option_of(long option, int *value) {
  *value = option == SO_DOMAIN ? AF_UNIX : option == SO_TYPE ? SOCK_STREAM : 1;
  return 0;
}

long io_raw(long number, long a, long b, long c, long d, long e, long f) {
  (void)e, (void)f;
  switch (number) {
  case SYS_fstat:
    return stat_of(a, (struct stat *)b);
  case SYS_fstatfs:
    *(struct statfs *)b = (struct statfs){.f_type = EXT4_SUPER_MAGIC};
    return 0;
  case SYS_getsockopt:
    return option_of(c, (int *)d);
  default:
    CHECK(false);
    return -ENOSYS;
  }
}

/* ---- the program ---------------------------------------------------------- */

static void replace(int fd, mode_t mode) {
  io_forget(fd);
  now[fd] = mode;
  io_forget(fd);
}

static enum io_kind kind(int fd) { return io_kind_of(io_file(fd)); }

static void remembered(void) {
  now[3] = S_IFREG;
  now[4] = S_IFIFO;
  now[5] = S_IFSOCK;
  for (int i = 0; i < 3; i++) {
    CHECK_EQUAL(kind(3), IO_REGULAR);
    CHECK_EQUAL(kind(4), IO_OTHER);
    CHECK_EQUAL(kind(5), IO_STREAM);
    CHECK_EQUAL(io_file(6), 0); /* nothing is there */
    CHECK_EQUAL(io_file(-1), 0);
    CHECK_EQUAL(io_file(IO_FDS), 0);
  }
  CHECK_EQUAL(looks, 3 + 3);
  uint32_t before = io_file(3);
  replace(3, S_IFSOCK);
  CHECK_EQUAL(kind(3), IO_STREAM);
  CHECK(io_file(3) >> 8 != before >> 8);
  now[6] = S_IFREG;
  io_forget(6); /* as open does */
  CHECK_EQUAL(kind(6), IO_REGULAR);
  io_forget_from(3, 5);
  now[4] = S_IFREG;
  CHECK_EQUAL(kind(4), IO_REGULAR);
}

static void closed_and_opened(void) { replace(7, S_IFIFO); }
static void closed(void) { replace(7, 0); }

/* What was a file when somebody asked is a pipe before he stores the answer. */
static void replaced_meanwhile(void) {
  for (int round = 0; round < 3; round++) {
    now[7] = S_IFREG;
    io_forget(7);
    meanwhile = closed_and_opened;
    CHECK_EQUAL(io_file(7), 0);
    CHECK_EQUAL(kind(7), IO_OTHER);
    CHECK_EQUAL(kind(7), IO_OTHER);
    replace(7, S_IFREG);
    meanwhile = closed;
    CHECK_EQUAL(io_file(7), 0);
    CHECK_EQUAL(io_file(7), 0);
    now[7] = S_IFIFO;
    io_forget(7);
    CHECK_EQUAL(kind(7), IO_OTHER);
    replace(7, 0);
  }
}

/* A thread that is not in the child has replaced it, and did not get to say so. */
static void forked(void) {
  now[8] = now[NUMBERS - 1] = S_IFREG;
  CHECK_EQUAL(kind(8), IO_REGULAR);
  CHECK_EQUAL(kind(NUMBERS - 1), IO_REGULAR);
  now[8] = now[NUMBERS - 1] = S_IFSOCK;
  CHECK_EQUAL(kind(8), IO_REGULAR);
  io_files_fork();
  CHECK_EQUAL(kind(8), IO_STREAM);
  CHECK_EQUAL(kind(NUMBERS - 1), IO_STREAM);
}

/* Below always: a program that uses a descriptor a few times and closes it pays for no look. */
static void used_a_few_times(void) {
  enum { FEW = 15 };
  io_process.mode = MARU_IO_HINT;
  looks = 0;
  for (int round = 0; round < 3; round++) {
    replace(9, S_IFREG);
    for (int use = 0; use < FEW; use++)
      CHECK_EQUAL(io_file(9), 0);
  }
  CHECK_EQUAL(looks, 0);
  meanwhile = closed_and_opened; /* of another number */
  CHECK_EQUAL(kind(9), IO_REGULAR);
  CHECK_EQUAL(kind(9), IO_REGULAR);
  CHECK_EQUAL(looks, 1);
  uint32_t before = io_file(9);
  replace(9, S_IFSOCK);
  for (int use = 0; use < FEW; use++)
    CHECK_EQUAL(io_file(9), 0);
  CHECK_EQUAL(kind(9), IO_STREAM);
  CHECK(io_file(9) >> 8 != before >> 8);
  replace(9, 0); /* and opened behind our back */
  for (int use = 0; use < 2 * FEW; use++)
    CHECK_EQUAL(io_file(9), 0);
  now[9] = S_IFREG;
  CHECK_EQUAL(kind(9), IO_REGULAR);
}

int main(void) {
  remembered();
  replaced_meanwhile();
  forked();
  used_a_few_times();
  return 0;
}
