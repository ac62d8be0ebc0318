/* stream_reads.c: a stream gives what read gives, in order, and lets go of everything. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <maru/stream.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#define MOST 300000

static unsigned char data[MOST];

static int file_of(size_t size) {
  char path[] = "/tmp/maru-stream-XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0);
  unlink(path);
  CHECK_EQUAL(write(fd, data, size), size);
  CHECK_EQUAL(lseek(fd, 0, SEEK_SET), 0);
  return fd;
}

/* Reads up to `most` bytes; how many there were. */
static size_t consume(struct maru_stream *stream, size_t most, uint64_t *seed) {
  size_t at = 0;
  const void *part;
  ssize_t got = 1;
  while (at < most && (got = maru_stream_next(stream, &part)) > 0) {
    CHECK(memcmp(part, data + at, (size_t)got) == 0);
    at += (size_t)got;
    if (next_random(seed) % 8 == 0)
      sched_yield();
  }
  CHECK(got >= 0);
  if (got == 0)
    CHECK_EQUAL(maru_stream_next(stream, &part), 0);
  return at;
}

static void files(uint64_t *seed) {
  for (int i = 0; i < 60; i++) {
    size_t size = next_random(seed) % MOST, block = 1 + next_random(seed) % 20000;
    struct maru_stream *stream;
    int fd = file_of(size);
    CHECK_EQUAL(maru_stream_open(&stream, fd, block, 2 + next_random(seed) % 9), 0);
    CHECK_EQUAL(consume(stream, MOST, seed), size);
    maru_stream_close(stream);
    close(fd);
  }
}

/* Without a core for the thread it is read into the same block again and again. */
static void on_one_core(void) {
  cpu_set_t before, one;
  struct maru_stream *stream;
  const void *part, *last = NULL;
  unsigned again = 0;
  size_t at = 0;
  CHECK_EQUAL(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
    if (CPU_ISSET(cpu, &before))
      CPU_SET(cpu, &one);
  CHECK_EQUAL(sched_setaffinity(0, sizeof one, &one), 0);
  int fd = file_of(MOST);
  CHECK_EQUAL(maru_stream_open(&stream, fd, 300, 4), 0);
  for (ssize_t got; (got = maru_stream_next(stream, &part)) > 0; last = part, at += (size_t)got) {
    CHECK(memcmp(part, data + at, (size_t)got) == 0);
    again += part == last;
  }
  CHECK_EQUAL(at, MOST);
  CHECK(again > 0);
  maru_stream_close(stream);
  close(fd);
  CHECK_EQUAL(sched_setaffinity(0, sizeof before, &before), 0);
}

static void *feed(void *argument) {
  int fd = *(int *)argument;
  uint64_t seed = 5;
  for (size_t at = 0; at < MOST;) {
    size_t size = 1 + next_random(&seed) % 9000;
    ssize_t put = write(fd, data + at, size < MOST - at ? size : MOST - at);
    CHECK(put > 0);
    at += (size_t)put;
  }
  close(fd);
  return NULL;
}

static void pipes(uint64_t *seed) {
  for (int flags = 0; flags < 2; flags++) {
    int ends[2];
    pthread_t thread;
    struct maru_stream *stream;
    CHECK_EQUAL(pipe(ends), 0);
    if (flags)
      fcntl(ends[0], F_SETFL, O_NONBLOCK);
    CHECK_EQUAL(pthread_create(&thread, NULL, feed, &ends[1]), 0);
    CHECK_EQUAL(maru_stream_open(&stream, ends[0], 4096, 4), 0);
    CHECK_EQUAL(consume(stream, MOST, seed), MOST);
    maru_stream_close(stream);
    pthread_join(thread, NULL);
    close(ends[0]);
  }
}

/* The program stops in the middle; the other side of a pipe never says anything. */
static void abandoned(uint64_t *seed) {
  int before = mappings();
  for (int i = 0; i < 60; i++) {
    struct maru_stream *stream;
    int ends[2], fd = file_of(MOST);
    CHECK_EQUAL(maru_stream_open(&stream, fd, 1 + next_random(seed) % 5000, 4), 0);
    consume(stream, next_random(seed) % MOST, seed);
    maru_stream_close(stream);
    close(fd);
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_EQUAL(maru_stream_open(&stream, ends[0], 0, 0), 0);
    maru_stream_close(stream);
    close(ends[0]);
    close(ends[1]);
  }
  maru_stream_close(NULL);
  /* Stacks of threads that ended are kept by libc, a few. */
  CHECK(mappings() < before + 24);
}

/* What poll told of is gone when it is to be read: another reader had it, or a datagram was
 * damaged. This poll tells of it all the same, as long as `robbed` says so. */
static _Atomic bool robbed;

int poll(struct pollfd *fds, nfds_t number, int timeout) {
  bool lie = atomic_load(&robbed);
  struct timespec none = {0};
  int ready = (int)syscall(SYS_ppoll, fds, number, timeout < 0 && !lie ? NULL : &none, NULL, 0);
  if (lie)
    fds[0].revents |= POLLIN;
  return lie ? 1 : ready;
}

static void nothing_there(void) {
  atomic_store(&robbed, true);
  for (int i = 0; i < 20; i++) {
    struct maru_stream *stream;
    int ends[2];
    CHECK_EQUAL(i % 2 ? pipe(ends) : socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    CHECK_EQUAL(maru_stream_open(&stream, ends[0], 4096, 4), 0);
    usleep(2000); /* the thread reads */
    maru_stream_close(stream);
    close(ends[0]);
    close(ends[1]);
  }
  atomic_store(&robbed, false);
}

static void errors(void) {
  struct maru_stream *stream;
  const void *part;
  int pair[2], folder = open("/", O_RDONLY), closed = dup(0);
  close(closed);
  CHECK_EQUAL(maru_stream_open(&stream, closed, 0, 0), -EBADF);
  CHECK_EQUAL(pipe(pair), 0);
  CHECK_EQUAL(maru_stream_open(&stream, pair[1], 0, 0), -EBADF); /* to be written only */
  close(pair[0]);
  close(pair[1]);
  CHECK_EQUAL(maru_stream_open(&stream, folder, 0, 1), -EINVAL);
  CHECK_EQUAL(maru_stream_open(&stream, folder, SIZE_MAX, 4), -EINVAL);
  CHECK_EQUAL(maru_stream_open(&stream, folder, 0, 0), 0);
  CHECK_EQUAL(maru_stream_next(stream, &part), -EISDIR);
  CHECK_EQUAL(maru_stream_next(stream, &part), -EISDIR);
  maru_stream_close(stream);
  /* What came before an error comes before it. */
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  CHECK_EQUAL(write(pair[1], "abc", 3), 3);
  CHECK_EQUAL(write(pair[0], "x", 1), 1); /* unread at the close: a reset */
  CHECK_EQUAL(maru_stream_open(&stream, pair[0], 2, 4), 0);
  CHECK_EQUAL(maru_stream_next(stream, &part), 2);
  CHECK(memcmp(part, "ab", 2) == 0);
  CHECK_EQUAL(maru_stream_next(stream, &part), 1);
  close(pair[1]);
  CHECK_EQUAL(maru_stream_next(stream, &part), -ECONNRESET);
  maru_stream_close(stream);
  close(pair[0]);
  close(folder);
}

int main(void) {
  uint64_t seed = setting("MARU_SEED", 11);
  snprintf(check_note, sizeof check_note, "(MARU_SEED=%llu)", (unsigned long long)seed);
  for (size_t i = 0; i < MOST; i++)
    data[i] = (unsigned char)(i * 2654435761u >> 11);
  files(&seed);
  on_one_core();
  pipes(&seed);
  abandoned(&seed);
  nothing_there();
  errors();
  return 0;
}
