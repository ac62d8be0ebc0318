/* futex.h: the kernel's wait queue of a word (internal).
 *
 * Not the private form: the words lie in memory shared between processes.
 */
#ifndef MARU_BASE_FUTEX_H
#define MARU_BASE_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word == expected, until the CLOCK_MONOTONIC time `until`.
 * 0, -EAGAIN (the word differs), -ETIMEDOUT, -EINTR, or another -errno. */
static inline int mr_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t until_ns) {
  /* The BITSET form takes an absolute time. */
  struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
  long rc =
      syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, &until, NULL, FUTEX_BITSET_MATCH_ANY);
  return rc < 0 ? -errno : 0;
}

/* How many slept.  Where the kernel refuses futexes nobody sleeps in one: none. */
static inline int mr_futex_wake_count(_Atomic uint32_t *word) {
  long rc = syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  return rc > 0 ? (int)rc : 0;
}

static inline void mr_futex_wake_all(_Atomic uint32_t *word) { (void)mr_futex_wake_count(word); }

#endif
