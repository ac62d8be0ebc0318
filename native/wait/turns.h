/* turns.h: how the threads of one queue wait for their turns (internal).
 *
 * A waiter is awake while its turn is near, and sleeps while it is far.  A turn is near while those
 * before it take no longer than four times the rule's spin_ns.  A crowd is a queue that has been
 * longer than there are CPUs (MR_CROWD_OF_FEW: where there are few); in a crowd only one waiter for
 * MR_CROWD_SHARE CPUs is near.  A thread whose turn is over wakes waiters whose turns have come
 * near.  So a wake-up happens while others have their turns, no hand-over waits for it, and a queue
 * that sleeps finds its way out.
 *
 * Turns are only counted here; the queue says which waiter is next.  The counts are guesses: where
 * they are wrong a waiter sleeps too long or too little, and no grant is lost.
 *
 * A waiter sleeps on a slot of the queue's, so a wake-up touches no waiter's memory.  The word that
 * it waits for says which slot, in the bits of MR_TURN_MARK; one thread at a time waits for such a
 * word, and mr_turn_grant changes it.  A word whose value takes these bits (they are in the mask)
 * carries no mark: its owner stores the value and then calls the slot of the next one.
 *
 * Memory: an empty queue's is all zero.  It outlives all its turns.
 * Thread-safety: all functions; a turn is its owner's. */
#ifndef MARU_WAIT_TURNS_H
#define MARU_WAIT_TURNS_H

#include <maru/wait.h>

#define MR_TURN_SLOTS 64u
#define MR_TURN_WAKES 2u   /* the front of those awake moves twice as fast as the queue */
#define MR_CROWD_SHARE 4u  /* in a crowd one waiter for so many CPUs is awake */
#define MR_CROWD_OF_FEW 3u /* with fewer CPUs than that: so many times these are no crowd */
#define MR_TURN_MARK (MARU_WAIT_ARMED | (MR_TURN_SLOTS - 1) << 8)

struct mr_turns {
  _Alignas(64) MARU_ATOMIC(uint32_t) arrived; /* turns begun */
  _Alignas(64) MARU_ATOMIC(uint32_t) over;    /* turns that are over, or were given up */
  MARU_ATOMIC(uint32_t) turn_ns;              /* what one takes; 0: not known */
  MARU_ATOMIC(uint32_t) crowd;                /* the longest queue of late */
  _Alignas(64) MARU_ATOMIC(uint32_t) slots[MR_TURN_SLOTS];
};

/* Fixed. */
struct mr_turn_rule {
  uint32_t spin_ns;
  uint32_t cpus; /* that this process may use; with one, every turn is far */
};

void mr_turn_rule_init(struct mr_turn_rule *rule, uint32_t spin_ns);

/* Counts the waiter in.  Its slot is that of its number, until the caller says otherwise. */
void mr_turn_begin(struct mr_turns *turns, struct maru_wait_turn *turn);
/* As maru_wait, by turns instead of the policy's kind. */
int mr_turn_wait(struct mr_turns *turns, const struct mr_turn_rule *rule,
                 const struct maru_wait_turn *turn, MARU_ATOMIC(uint32_t) * word, uint32_t want,
                 uint32_t mask, struct maru_wait_policy *policy, int64_t deadline_ns);
/* Gives it up. */
void mr_turn_leave(struct mr_turns *turns, struct maru_wait_turn *turn);
/* It was had, and the next one has been given its own.  Wakes MR_TURN_WAKES others at most. */
void mr_turn_end(struct mr_turns *turns, const struct mr_turn_rule *rule,
                 struct maru_wait_turn *turn);

/* Stores `value`, which has no bit of MR_TURN_MARK, with release order, and calls the waiter
 * that sleeps for it. Touches the word once: the waiter may free it as soon as it sees the value.
 */
void mr_turn_grant(struct mr_turns *turns, MARU_ATOMIC(uint32_t) * word, uint32_t value);
/* Calls the waiter that sleeps on a slot, after a store that it waits for. */
void mr_turn_call(struct mr_turns *turns, uint32_t slot);

#endif
