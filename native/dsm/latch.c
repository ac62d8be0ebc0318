#include "latch.h"

#include <errno.h>

#ifndef LATCH_PATIENCE_NS /* a test sets it lower */
#define LATCH_PATIENCE_NS 1000000
#endif

#define HOLDER (~MARU_WAIT_ARMED)

static uint32_t word_of(uint16_t node) { return (node + 1u) * MARU_WAIT_STEP; }

/* For a node that may go first now. Acquire: what the last holder did is seen. */
static bool take_free(struct mr_latch *latch, uint16_t me) {
  uint32_t seen = atomic_load_explicit(&latch->holder, memory_order_relaxed);
  /* The doorbell of a first that is about to sleep stays set. */
  return (seen & HOLDER) == 0 &&
         atomic_compare_exchange_strong_explicit(&latch->holder, &seen, seen | word_of(me),
                                                 memory_order_acquire, memory_order_relaxed);
}

/* Relaxed: a node that reads it late goes first once more. */
static bool is_impatient(const struct mr_latch *latch) {
  return atomic_load_explicit(&latch->impatient, memory_order_relaxed) != 0;
}

bool mr_latch_try(struct mr_latch *latch, uint16_t me) {
  return !is_impatient(latch) && take_free(latch, me);
}

bool mr_latch_try_until(struct mr_latch *latch, uint16_t me, struct maru_wait_policy *policy,
                        int64_t deadline_ns) {
  while (!is_impatient(latch) &&
         maru_wait(&latch->holder, 0, HOLDER, policy, deadline_ns) != -ETIMEDOUT)
    if (mr_latch_try(latch, me))
      return true;
  return false;
}

void mr_latch_take(struct mr_latch *latch, uint16_t me, struct maru_wait_policy *policy) {
  int64_t deadline = maru_now_ns() + LATCH_PATIENCE_NS;
  while (!take_free(latch, me)) {
    if (deadline != MARU_WAIT_FOREVER && maru_now_ns() >= deadline) {
      atomic_store_explicit(&latch->impatient, 1, memory_order_relaxed);
      deadline = MARU_WAIT_FOREVER;
    }
    /* For ever: the holder's death ends this node, too. */
    maru_wait(&latch->holder, 0, HOLDER, policy, deadline);
  }
  /* The next first begins to be patient after this one has given the protocol's lock away. */
  atomic_store_explicit(&latch->impatient, 0, memory_order_relaxed);
}

int mr_latch_give(struct mr_latch *latch, uint16_t me) {
  if (mr_latch_holder(latch) != me)
    return -EPERM;
  maru_notify_store(&latch->holder, 0);
  return 0;
}

uint16_t mr_latch_holder(const struct mr_latch *latch) {
  /* Relaxed: a node knows what it has stored itself; of others it is a look. */
  uint32_t holder = atomic_load_explicit(&latch->holder, memory_order_relaxed) / MARU_WAIT_STEP;
  return holder == 0 ? MR_LATCH_NOBODY : (uint16_t)(holder - 1);
}

bool mr_latch_waits(const struct mr_latch *latch, uint16_t me) {
  uint16_t holder = mr_latch_holder(latch);
  return holder != MR_LATCH_NOBODY && holder != me;
}
