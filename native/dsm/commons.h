/* commons.h: what nodes that have one memory keep there beside pages (internal to libmaru-dsm).
 *
 * For each id of a program these are a lock (latch.h), a barrier and a counter. Each has a line of
 * its own.  All zero: nobody holds the lock, nobody is at the barrier, and the counter is 0.
 * Thread-safety: any thread of any process that maps it.
 */
#ifndef MARU_DSM_COMMONS_H
#define MARU_DSM_COMMONS_H

#include "latch.h"

#include <maru/dsm.h>

/* A barrier.  Its turns are counted in steps of maru_wait's. */
struct mr_gathering {
  _Alignas(64) MARU_ATOMIC(uint32_t) told; /* a step for each turn to which all have come */
  /* From below, 16 bits each: how many are there, and how many are to meet; the turn in the rest.
   */
  MARU_ATOMIC(uint64_t) come;
};

struct mr_tally {
  _Alignas(64) MARU_ATOMIC(int64_t) value;
};

struct mr_commons {
  struct mr_latch locks[MARU_DSM_IDS];
  struct mr_gathering barriers[MARU_DSM_IDS];
  struct mr_tally counters[MARU_DSM_IDS];
};

/* Comes to the barrier of so many, less than 65536.  1: all have come, and the others are told.
 *
 * 0: the caller has to wait until that turn is told.
 *
 * -EINVAL, and nothing has changed: others are there that wait for another number. */
int mr_gathering_come(struct mr_gathering *barrier, uint32_t parties, uint32_t *turn);
/* Until all have come to that turn.  Others may be at later ones by then. */
void mr_gathering_await(struct mr_gathering *barrier, uint32_t turn,
                        struct maru_wait_policy *policy);

#endif
