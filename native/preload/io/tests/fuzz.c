/* fuzz.c: threads read, close, duplicate, replace and inherit descriptors of one table at random.
 * What a read returns must come from a file that stood there.
 *
 *   fuzz SEED SECONDS
 *
 * Every file holds its own number in each word, so a result tells which file it came from, and
 * torn ones show.  Some reads go on in order, long enough to be read ahead, from files that are not
 * in memory.  Legal results: the words of one file, nothing (a pipe or socket that is
 * empty, without blocking), or EBADF.  Descriptors that are closed meanwhile are part of it;
 * that a number stands for another file by then is, too (the program's own race).  What is
 * not: bytes of two files, a call that never returns, another errno. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#define FILES 6
#define WORDS 4096
#define FILE_WORDS (96 * WORDS) /* 3 MiB: what is read in order is a stream from 1 MiB on */
#define PLACES 24
#define FIRST 100
#define THREADS 4

static int files[FILES];
static double end_at;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void look(const uint64_t *words, ssize_t got) {
  if (got < 0) {
    if (errno != EBADF && errno != EAGAIN && errno != EINVAL && errno != ESPIPE && errno != EIO)
      CHECK_EQUAL(errno, EBADF);
    return;
  }
  CHECK_EQUAL(got % 8, 0);
  for (ssize_t i = 0; i < got / 8; i++) {
    CHECK(words[i] >= 1000 && words[i] < 1000 + FILES);
    CHECK_EQUAL(words[i], words[0]);
  }
}

/* Others come in between: a thread that forks while the place is there and its other end still
 * open. */
static void dawdle(uint64_t *seed) {
  if (next_random(seed) % 4 == 0)
    usleep(200);
}

static void put_something(int place, uint64_t *seed) {
  int pair[2];
  switch (next_random(seed) % 4) {
  case 0:
    if (pipe2(pair, O_NONBLOCK | O_CLOEXEC) == 0) {
      dup3(pair[0], place, O_CLOEXEC);
      dawdle(seed);
      close(pair[0]);
      close(pair[1]);
    }
    break;
  case 1:
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0) {
      dup3(pair[0], place, O_CLOEXEC);
      dawdle(seed);
      close(pair[0]);
      close(pair[1]);
    }
    break;
  default:
    dup2(files[next_random(seed) % FILES], place);
  }
}

static void child_reads(uint64_t *seed) {
  uint64_t words[64];
  int place = FIRST + (int)(next_random(seed) % PLACES);
  pid_t pid = fork();
  if (pid < 0)
    return;
  if (pid == 0) {
    for (int i = 0; i < 5; i++)
      look(words, pread(place, words, sizeof words, (off_t)(next_random(seed) % 64) * 8));
    _exit(0);
  }
  CHECK_EQUAL(finish(pid), 0);
}

/* By a number of the thread's own, so that nobody ends the stream; one time in four by the place
 * itself.  What is being read ahead when its number is closed is part of it. */
static void read_in_order(int place, uint64_t *seed) {
  uint64_t words[WORDS];
  int own = dup(place), fd = next_random(seed) % 4 != 0 ? own : place;
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* refused by what is no file */
  posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  for (off_t at = 0; at < (off_t)(FILE_WORDS * 8); at += sizeof words)
    look(words, pread(fd, words, sizeof words, at));
  close(own);
}

static void step(uint64_t *seed) {
  uint64_t words[WORDS], choice = next_random(seed) % 100;
  int place = FIRST + (int)(next_random(seed) % PLACES);
  size_t size = 8 * (1 + next_random(seed) % WORDS);
  if (next_random(seed) % 400 == 0)
    read_in_order(place, seed);
  else if (choice < 60)
    look(words, pread(place, words, size, (off_t)(next_random(seed) % 64) * 8));
  else if (choice < 75)
    CHECK(recv(place, words, size, MSG_DONTWAIT) <= 0); /* nobody sends */
  else if (choice < 85)
    close(place);
  else if (choice < 94)
    put_something(place, seed);
  else if (choice < 96)
    close(dup(place));
  else
    child_reads(seed);
}

static void *work(void *argument) {
  uint64_t seed = (uint64_t)(uintptr_t)argument;
  while (seconds() < end_at)
    for (int i = 0; i < 50; i++)
      step(&seed);
  return NULL;
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  uint64_t seed = strtoull(argv[1], NULL, 0), words[WORDS];
  end_at = seconds() + atof(argv[2]);
  snprintf(check_note, sizeof check_note, "(seed %s)", argv[1]);
  for (int f = 0; f < FILES; f++) {
    char path[] = "/var/tmp/maru-fuzz-XXXXXX"; /* on a disk, where there is one */
    files[f] = mkstemp(path);
    CHECK(files[f] >= 0 && files[f] < FIRST);
    unlink(path);
    for (int i = 0; i < WORDS; i++)
      words[i] = 1000 + (uint64_t)f;
    for (int i = 0; i < FILE_WORDS / WORDS; i++)
      CHECK_EQUAL(write(files[f], words, sizeof words), sizeof words);
    CHECK_EQUAL(fsync(files[f]), 0); /* what is not on the disk stays in memory */
  }
  pthread_t threads[THREADS];
  for (uintptr_t t = 0; t < THREADS; t++)
    CHECK_EQUAL(pthread_create(&threads[t], NULL, work,
                               (void *)(uintptr_t)(seed * 0x9e3779b97f4a7c15u + t + 1)),
                0);
  for (int t = 0; t < THREADS; t++)
    pthread_join(threads[t], NULL);
  printf("done\n");
  return 0;
}
