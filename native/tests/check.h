/* check.h: what every test uses.  A test is a program: 0 passed, 1 failed,
 * 77 not possible here. */
#ifndef MARU_TESTS_CHECK_H
#define MARU_TESTS_CHECK_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a failing check says last: which random case it was. */
static char check_note[128] __attribute__((unused));

/* The calling thread's children end with a failed test: one that lived on would hold the test's
 * output, and its reader would wait for it. */
static inline _Noreturn void check_failed(void) {
  FILE *children = fopen("/proc/thread-self/children", "r");
  for (int pid; children != NULL && fscanf(children, "%d", &pid) == 1;)
    kill(pid, SIGKILL);
  _exit(1);
}

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not true: %s %s\n", __FILE__, __LINE__, #condition, check_note);     \
      check_failed();                                                                              \
    }                                                                                              \
  } while (0)

#define CHECK_EQUAL(left, right)                                                                   \
  do {                                                                                             \
    long long left_ = (long long)(left), right_ = (long long)(right);                              \
    if (left_ != right_) {                                                                         \
      fprintf(stderr, "%s:%d: %s is %lld, not %s (%lld) %s\n", __FILE__, __LINE__, #left, left_,   \
              #right, right_, check_note);                                                         \
      check_failed();                                                                              \
    }                                                                                              \
  } while (0)

static inline _Noreturn void skip(const char *why) {
  fprintf(stderr, "skipped: %s\n", why);
  exit(77);
}

/* Runs `body` in a child process. */
static inline pid_t start(void (*body)(void *), void *argument) {
  fflush(NULL);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    body(argument);
    _exit(0);
  }
  return pid;
}

/* Waits for a child; its wait status. */
static inline int finish(pid_t pid) {
  int status;
  while (waitpid(pid, &status, 0) < 0)
    CHECK(errno == EINTR);
  return status;
}

/* A small seeded generator (xorshift64*), so that a failing run can be repeated. */
static inline uint64_t next_random(uint64_t *seed) {
  *seed ^= *seed >> 12;
  *seed ^= *seed << 25;
  *seed ^= *seed >> 27;
  return *seed * UINT64_C(2685821657736338717);
}

/* Of this process: lines of /proc/self/maps. */
static inline int mappings(void) {
  int lines = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  CHECK(file != NULL);
  for (int c; (c = fgetc(file)) != EOF;)
    lines += c == '\n';
  fclose(file);
  return lines;
}

/* Of this process: the first mapping whose line in /proc/self/maps has that name, and its size. */
static inline void *mapping_of(const char *name, size_t *size) {
  char line[512];
  unsigned long begin = 0, end = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  CHECK(file != NULL);
  while (begin == 0 && fgets(line, sizeof line, file) != NULL)
    if (strstr(line, name) != NULL)
      CHECK_EQUAL(sscanf(line, "%lx-%lx", &begin, &end), 2);
  fclose(file);
  CHECK(begin != 0);
  *size = end - begin;
  return (void *)begin;
}

/* A whole number from the environment, for longer runs. */
static inline uint64_t setting(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

#endif
