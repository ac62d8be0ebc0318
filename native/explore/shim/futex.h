/* futex.h as the explorer's tests see it: the explorer's model. */
#ifndef MARU_BASE_FUTEX_H
#define MARU_BASE_FUTEX_H

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

static inline int mr_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t until_ns) {
  return explore_futex_wait(word, expected, until_ns);
}

static inline void mr_futex_wake_all(_Atomic uint32_t *word) { explore_futex_wake(word); }

#endif
