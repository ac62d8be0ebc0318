/* maru-bench-io: one side of a measurement of input.
 *
 *   maru-bench-io [--under MODE LIBRARY] calls SECONDS
 *       ns of a read of one byte, and of a write of one byte
 *   maru-bench-io calibrate FILE
 *       ns of a read of 64 KiB of FILE, in memory, and of hashing a byte
 *   maru-bench-io [--under MODE LIBRARY] overlap FILE WORK SECONDS THREADS WAY
 *       ns of a block of 64 KiB: it is read and WORK bytes are hashed.  WAY: `read`; `stream`
 *       (maru/stream.h); `cold` (the page cache is emptied before each pass over the file);
 *       `random` (the same, and the kernel is told not to read ahead)
 *
 * Says "ready", begins when a line comes, and prints one line of JSON.  Before it is ready it
 * runs for a tenth of a second unmeasured: what starts has started by then. */
#define _GNU_SOURCE
#include "json.h"
#include "numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <maru/stream.h>
#include <maru/wait.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 65536
#define WARM_S 0.1
#define THREADS_MOST 16

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "maru: maru-bench-io: %s: %s\n", what, strerror(errno));
  exit(69);
}

static void usage(void) {
  fprintf(stderr, "maru: maru-bench-io: calls SECONDS | calibrate FILE | overlap FILE WORK SECONDS "
                  "THREADS read|stream|cold|random; ahead of it --under MODE LIBRARY\n");
  exit(64);
}

static void await_go(void) {
  puts("ready");
  fflush(stdout);
  for (int c = 0; c != '\n' && c != EOF;)
    c = getchar();
}

/* ---- calls --------------------------------------------------------------- */

static double ns_per_call(int fd, bool writes, double seconds) {
  char byte = 0;
  int64_t begin = maru_now_ns(), end = begin + (int64_t)(seconds * 1e9), now;
  int64_t calls = 0;
  do {
    for (int i = 0; i < 1000; i++)
      if ((writes ? pwrite(fd, &byte, 1, 0) : pread(fd, &byte, 1, 0)) < 0)
        fail("a call");
    calls += 1000;
    now = maru_now_ns();
  } while (now < end);
  return (double)(now - begin) / (double)calls;
}

/* Figures as one line of JSON. */
static void say(size_t count, const char *const *names, const double *values) {
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  for (size_t i = 0; i < count; i++)
    mr_json_real(&json, names[i], values[i], 6);
  mr_json_end_object(&json);
  putchar('\n');
}

static void calls(double seconds) {
  int null = open("/dev/null", O_WRONLY), zero = open("/dev/zero", O_RDONLY);
  if (null < 0 || zero < 0)
    fail("/dev");
  ns_per_call(zero, false, WARM_S);
  await_go();
  double reads = ns_per_call(zero, false, seconds / 2),
         writes = ns_per_call(null, true, seconds / 2);
  say(2, (const char *[]){"read_ns", "write_ns"}, (double[]){reads, writes});
}

/* ---- overlap ------------------------------------------------------------- */

enum way { READ, STREAM, COLD, RANDOM };

static volatile uint64_t sink;

static void hash(const char *block, size_t size, size_t work) {
  uint64_t value = 0;
  for (size_t at = 0; size >= 8 && work >= 8; work -= 8) {
    uint64_t word;
    memcpy(&word, block + at, 8);
    value = (value ^ word) * 1099511628211u;
    at = at + 16 > size ? 0 : at + 8;
  }
  sink = value;
}

struct side {
  const char *file;
  size_t work;
  double seconds;
  enum way way;
  pthread_barrier_t *together;
  int64_t blocks, ns;
};

static int64_t one_pass_reading(int fd, const struct side *side, char *block) {
  int64_t blocks = 0;
  ssize_t got;
  if (lseek(fd, 0, SEEK_SET) < 0)
    fail("lseek");
  for (; (got = read(fd, block, BLOCK)) > 0; blocks++)
    hash(block, (size_t)got, side->work);
  if (got < 0)
    fail(side->file);
  return blocks;
}

static int64_t one_pass_streaming(int fd, const struct side *side) {
  struct maru_stream *stream;
  const void *block;
  int64_t blocks = 0;
  ssize_t got;
  if (lseek(fd, 0, SEEK_SET) < 0 || maru_stream_open(&stream, fd, 0, 0) < 0)
    fail("a stream");
  for (; (got = maru_stream_next(stream, &block)) > 0; blocks++)
    hash(block, (size_t)got, side->work);
  maru_stream_close(stream);
  if (got < 0)
    fail(side->file);
  return blocks;
}

/* Whole passes; what empties the page cache is not counted. */
static void passes(struct side *side, int fd, char *block, double seconds) {
  int64_t most = (int64_t)(seconds * 1e9);
  for (side->blocks = side->ns = 0; side->ns < most || side->blocks == 0;) {
    if (side->way >= COLD && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
      fail("posix_fadvise");
    int64_t begin = maru_now_ns();
    side->blocks +=
        side->way == STREAM ? one_pass_streaming(fd, side) : one_pass_reading(fd, side, block);
    side->ns += maru_now_ns() - begin;
  }
}

static void *run(void *argument) {
  struct side *side = argument;
  int fd = open(side->file, O_RDONLY);
  char *block = malloc(BLOCK);
  if (fd < 0 || block == NULL)
    fail(side->file);
  if (side->way == RANDOM && posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) != 0)
    fail("posix_fadvise");
  passes(side, fd, block, WARM_S);
  pthread_barrier_wait(side->together); /* warm */
  pthread_barrier_wait(side->together); /* go */
  passes(side, fd, block, side->seconds);
  free(block);
  close(fd);
  return NULL;
}

static void overlap(struct side side, int threads) {
  pthread_barrier_t together;
  pthread_t thread[THREADS_MOST];
  struct side sides[THREADS_MOST];
  double rate = 0;
  side.together = &together;
  pthread_barrier_init(&together, NULL, (unsigned)threads + 1);
  for (int i = 0; i < threads; i++) {
    sides[i] = side;
    if (pthread_create(&thread[i], NULL, run, &sides[i]) != 0)
      fail("a thread");
  }
  pthread_barrier_wait(&together);
  await_go();
  pthread_barrier_wait(&together);
  for (int i = 0; i < threads; i++) {
    pthread_join(thread[i], NULL);
    rate += (double)sides[i].blocks / (double)sides[i].ns;
  }
  say(1, (const char *[]){"block_ns"}, (double[]){1 / rate});
}

static void calibrate(const char *file) {
  pthread_barrier_t alone;
  pthread_barrier_init(&alone, NULL, 1);
  const size_t work = 4 * BLOCK;
  struct side copy = {.file = file, .seconds = 0.3, .together = &alone}, both = copy;
  both.work = work;
  int fd = open(file, O_RDONLY);
  if (fd < 0 || fsync(fd) < 0) /* only clean pages leave the cache when they are told to */
    fail(file);
  close(fd);
  run(&copy);
  run(&both);
  await_go();
  double copy_ns = (double)copy.ns / (double)copy.blocks;
  double hash_ns = ((double)both.ns / (double)both.blocks - copy_ns) / (double)work;
  say(2, (const char *[]){"copy_ns", "hash_ns_per_byte"}, (double[]){copy_ns, hash_ns});
}

/* ---- main ---------------------------------------------------------------- */

/* Starts again with the library before libc. */
static void under(const char *mode, const char *library, char **argv) {
  if (setenv("LD_PRELOAD", library, 1) < 0 || setenv("MARU_IO", mode, 1) < 0)
    fail("setenv");
  execv("/proc/self/exe", argv);
  fail("exec");
}

static double seconds_of(const char *text) {
  double seconds;
  if (mr_real(text, 1e-6, 3600, &seconds) < 0)
    usage();
  return seconds;
}

static int64_t number_of(const char *text, int64_t most) {
  int64_t number;
  if (mr_whole(text, 0, most, &number) < 0)
    usage();
  return number;
}

int main(int argc, char **argv) {
  static const char *const ways[] = {"read", "stream", "cold", "random"};
  if (argc > 4 && strcmp(argv[1], "--under") == 0) {
    char *name = argv[0], **rest = argv + 3;
    char *mode = argv[2], *library = argv[3];
    rest[0] = name;
    under(mode, library, rest);
  }
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "calls") == 0 && argc == 3) {
    calls(seconds_of(argv[2]));
  } else if (strcmp(what, "calibrate") == 0 && argc == 3) {
    calibrate(argv[2]);
  } else if (strcmp(what, "overlap") == 0 && argc == 7) {
    int way = 0, threads = (int)number_of(argv[5], THREADS_MOST);
    while (way < 4 && strcmp(argv[6], ways[way]) != 0)
      way++;
    if (way == 4 || threads == 0)
      usage();
    overlap((struct side){.file = argv[2],
                          .work = (size_t)number_of(argv[3], 1L << 30),
                          .seconds = seconds_of(argv[4]),
                          .way = (enum way)way},
            threads);
  } else {
    usage();
  }
  return 0;
}
