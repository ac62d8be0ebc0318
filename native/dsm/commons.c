#include "commons.h"

#include <errno.h>

int mr_gathering_come(struct mr_gathering *barrier, uint32_t parties, uint32_t *turn) {
  uint64_t seen, next;
  /* Before this one comes: until then the turn cannot end.  Acquire: nobody is there from the turn
   * before. */
  *turn = atomic_load_explicit(&barrier->turn, memory_order_acquire) & ~MARU_WAIT_ARMED;
  seen = atomic_load_explicit(&barrier->come, memory_order_relaxed);
  do {
    if ((uint32_t)seen > 0 && seen >> 32 != parties)
      return -EINVAL;
    next = (uint64_t)parties << 32 | ((uint32_t)seen + 1);
    if ((uint32_t)next == parties)
      next = 0;
    /* Release: what this one did is seen by the last; acquire: it sees what all did. */
  } while (!atomic_compare_exchange_weak_explicit(&barrier->come, &seen, next, memory_order_acq_rel,
                                                  memory_order_relaxed));
  if (next != 0)
    return 0;
  maru_notify(&barrier->turn);
  return 1;
}
