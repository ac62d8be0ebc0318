/* latch.h: a lock of nodes that have one memory (internal to libmaru-dsm).
 *
 * A *latch* lies in memory that all of them map, and says which node holds the lock.  Who finds it
 * free takes it: no message is sent.  Who does not for a while takes the lock of the protocol
 * (manager.h) of the same number, whose turns make a queue.  So one node at a time is *first*.  It
 * alone sleeps at the latch.  When it has the latch it gives the protocol's lock to the next.
 *
 * A free latch may be taken in front of the first: it is asleep, and who runs need not wait until
 * it has woken up.  After a millisecond the first is *impatient*.  Then nobody else takes
 * the latch, but who was about to: once a node.  So each waiter's turn comes (fissile locks: Dice
 * and Kogan, 2020).
 *
 * A node that dies holding a latch ends the job: latches are not for jobs that take checkpoints.
 * models/dsm-latch.pml has all this.  It also has how a job is found of which every node waits.
 *
 * Thread-safety: any thread of any process that maps it; a node counts as one holder.
 * Signal-safety: as maru_wait.
 */
#ifndef MARU_DSM_LATCH_H
#define MARU_DSM_LATCH_H

#include <maru/wait.h>
#include <stdbool.h>
#include <stdint.h>

#define MR_LATCH_NOBODY UINT16_MAX

/* All zero: nobody holds it.  A line of its own: programs take neighbours' locks at once. */
struct mr_latch {
  _Alignas(64) MARU_ATOMIC(uint32_t) holder; /* maru_wait's: twice its number + 1; 0: nobody */
  MARU_ATOMIC(uint32_t) impatient;
};

/* Whether node `me` has taken it.  Makes no system call. */
bool mr_latch_try(struct mr_latch *latch, uint16_t me);
/* The same, looking for it until then at most, while the first is patient.  Here and below
 * `policy` is that thread's; here it is one that stays awake. */
bool mr_latch_try_until(struct mr_latch *latch, uint16_t me, struct maru_wait_policy *policy,
                        int64_t deadline_ns);
/* Returns when `me` holds it.  Called by the first alone. */
void mr_latch_take(struct mr_latch *latch, uint16_t me, struct maru_wait_policy *policy);
/* 0: `me` held it, and does no more; -EPERM: it does not hold it. */
int mr_latch_give(struct mr_latch *latch, uint16_t me);
/* MR_LATCH_NOBODY: it was free when it was looked at. */
uint16_t mr_latch_holder(const struct mr_latch *latch);
/* Whether the first, `me`, can go on only once another node has given it: what is free, or its own
 * already, is about to be left. */
bool mr_latch_waits(const struct mr_latch *latch, uint16_t me);

#endif
