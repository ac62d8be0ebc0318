/* queue.h: the queue lock of Mellor-Crummey and Scott, and CNA on top of it (internal).
 *
 * Arrivals join the tail of the main queue.  Only the holder works on what is before:
 *
 *   in turn   it hands over to the next (MCS)
 *   near      it looks along the main queue for a waiter of its own socket and sets those
 *             of others that stand before it aside, in the secondary queue (CNA; seed 5)
 *   few       while more than one waits it sets the next one aside, so that few threads
 *             circulate; the youngest returns when nobody waits, the oldest now and then
 *             (Malthusian)
 *
 * Invariant of `near`: the secondary queue followed by the main queue is in order of
 * arrival.
 */
#ifndef MARU_LOCK_QUEUE_H
#define MARU_LOCK_QUEUE_H

#include "place.h"
#include "waiting.h"

#include <maru/lock.h>
#include <stdalign.h>

enum mr_queue_order { MR_IN_TURN, MR_NEAR, MR_FEW };

struct mr_queue {
  alignas(64) struct maru_lock_node *_Atomic own_tail;
  _Atomic uint32_t left; /* nodes whose owners gave up */

  /* Fixed. */
  alignas(64) struct maru_lock_node *_Atomic *tail; /* at NULL: free */
  bool travels;                                     /* see struct mr_traveller */
  const struct mr_place *place;                     /* NULL: nobody asks for a waiter's socket */
  enum mr_queue_order order;
  struct mr_waiting *waiting;
  struct mr_turns *turns; /* NULL: it has no order */
  uint64_t deadline_ns;
  uint64_t max_bypass;
  uint32_t handoff_range;
  uint32_t shuffle_reduction;

  /* The holder's. */
  alignas(64) struct maru_lock_node *aside_first; /* the secondary queue */
  struct maru_lock_node *aside_last;
  uint64_t aside_length;
  uint64_t random;
  uint32_t in_a_row; /* holders that have shuffled */
  uint64_t arrivals; /* waiters seen, in order of arrival */
  uint64_t grants;   /* of these, offered the lock */
  struct maru_lock_counts counts;
};

/* A waiter at a queue that has no memory but its tail: each brings a queue that travels.
 * The thread that hands over copies what is the holder's to the one that gets it. A thread that
 * finds the queue empty begins with its own. */
struct mr_traveller {
  struct maru_hold hold; /* first: a node is found in the main queue, its traveller by it */
  struct mr_queue queue;
};

/* MR_NEAR needs a `place`.  MR_FEW waits by no turns. */
void mr_queue_init(struct mr_queue *queue, enum mr_queue_order order, struct mr_waiting *waiting,
                   struct mr_turns *turns, const struct mr_place *place,
                   const struct maru_lock_options *options);

/* 0; with a deadline also -ETIMEDOUT, -ENOMEM.  Past the deadline it only tries. */
int mr_queue_acquire(struct mr_queue *queue, struct maru_hold *hold,
                     const struct mr_deadline *deadline);
bool mr_queue_try(struct mr_queue *queue, struct maru_hold *hold);
/* True: somebody has it now. */
bool mr_queue_release(struct mr_queue *queue, struct maru_hold *hold);
/* The same in two steps, for a holder that has something else to release in between: the second
 * may wake waiters, which takes time.  A hold that did not wait may go without the second. */
bool mr_queue_pass(struct mr_queue *queue, struct maru_hold *hold);
void mr_queue_end(struct mr_queue *queue, struct maru_hold *hold);
/* Releases it if somebody takes it; false: nobody waits, it is still held. */
bool mr_queue_hand_on(struct mr_queue *queue, struct maru_hold *hold);
/* Makes a queue travel, whose tail is *tail.  It never serves a deadline. */
void mr_queue_travel(struct mr_traveller *traveller, struct maru_lock_node *_Atomic *tail);
/* By the holder of an MR_IN_TURN queue with a `place`: moves waiters of its socket forward,
 * behind itself, past at most `passes` others in all; after `passes` holders in a row that
 * have done so, one does not. */
void mr_queue_shuffle(struct mr_queue *queue, struct maru_hold *hold, uint32_t passes);

#endif
