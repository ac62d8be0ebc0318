#include "commons.h"

#include <errno.h>

/* So many nodes may each be the last of a turn, and not have told it yet. */
#define BEHIND (UINT16_MAX * MARU_WAIT_STEP)

/* One swap is the arrival and says of which turn it is.  Of a turn that was looked at before, or
 * after, all may have come meanwhile: others, where fewer than all nodes meet. */
int mr_gathering_come(struct mr_gathering *barrier, uint32_t parties, uint32_t *turn) {
  uint64_t seen = atomic_load_explicit(&barrier->come, memory_order_relaxed), next;
  bool last;
  do {
    if ((uint16_t)seen > 0 && (uint16_t)(seen >> 16) != parties)
      return -EINVAL;
    *turn = (uint32_t)(seen >> 32);
    uint32_t there = (uint16_t)seen + 1u;
    last = there == parties;
    next = last ? (uint64_t)(*turn + MARU_WAIT_STEP) << 32
                : (uint64_t)*turn << 32 | (uint64_t)parties << 16 | there;
    /* Release: what this one did is seen by the last; acquire: it sees what all did. */
  } while (!atomic_compare_exchange_weak_explicit(&barrier->come, &seen, next, memory_order_acq_rel,
                                                  memory_order_relaxed));
  if (!last)
    return 0;
  maru_notify(&barrier->told);
  return 1;
}

void mr_gathering_await(struct mr_gathering *barrier, uint32_t turn,
                        struct maru_wait_policy *policy) {
  for (;;) {
    /* Acquire: what all of the turn did is seen, also where the last of a later one told it. */
    uint32_t told = atomic_load_explicit(&barrier->told, memory_order_acquire) & ~MARU_WAIT_ARMED;
    if (turn - told > BEHIND)
      return;
    maru_wait_while(&barrier->told, told, ~MARU_WAIT_ARMED, policy, MARU_WAIT_FOREVER);
  }
}
