/* clock.c: the clock by which everything here waits. */
#define _GNU_SOURCE
#include <maru/wait.h>

#include <time.h>

int64_t maru_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
