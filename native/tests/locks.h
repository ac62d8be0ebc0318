/* locks.h: what the tests of locks share. */
#ifndef MARU_TESTS_LOCKS_H
#define MARU_TESTS_LOCKS_H

#include <maru/lock.h>

#include <time.h>

#ifdef __SANITIZE_THREAD__
#define FIRST_KIND MARU_LOCK_TTAS /* GCC's does not know pthread_mutex_clocklock */
#else
#define FIRST_KIND MARU_LOCK_PTHREAD
#endif

static inline struct timespec in_us(clockid_t clock, int64_t us) {
  struct timespec now;
  clock_gettime(clock, &now);
  int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + us * 1000;
  return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

#endif
