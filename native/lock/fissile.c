/* fissile.c: one word that anybody may take while it is free; threads that found it taken
 * queue, and only the queue's head competes for it.
 *
 * So a woken waiter never holds up a lock that a running thread could use.  A newcomer looks at the
 * word for GRACE_NS before it queues: it is awake, and those in the queue may not be.  The head
 * that has lost PATIENCE rounds, or has waited for PATIENCE_NS, tells newcomers to queue: those
 * already on their way, at most one acquisition a thread, may still go first.  The time counts
 * what the rounds do not: a head that sleeps may find the word taken whenever it wakes. */
#include "kinds.h"

#include <errno.h>

#ifndef PATIENCE /* a test sets it lower */
#define PATIENCE 16
#endif

#define PATIENCE_NS 1000000 /* of maru/lock.h */

#ifndef GRACE_NS /* ten short holds, and less than a wake-up */
#define GRACE_NS 5000
#endif

static int create(struct maru_lock *lock, const struct maru_lock_options *options) {
  mr_queue_init(&lock->fissile.queue, MR_NEAR, &lock->waiting, &lock->turns, &lock->place, options);
  return 0;
}

/* Relaxed: advice. */
static bool impatient(struct maru_lock *lock) {
  return atomic_load_explicit(&lock->fissile.impatient, memory_order_relaxed) != 0;
}

static int try(struct maru_lock *lock, struct maru_hold *hold) {
  hold->turn.counted = 0;
  return !impatient(lock) && mr_word_try(&lock->fissile.word) ? 0 : -EBUSY;
}

static struct mr_deadline end_of_patience(const struct mr_deadline *deadline) {
  if (mr_deadline_left(deadline) < PATIENCE_NS)
    return *deadline;
  return (struct mr_deadline){CLOCK_MONOTONIC, maru_now_ns() + PATIENCE_NS};
}

static bool lose_patience(struct maru_lock *lock) {
  atomic_store_explicit(&lock->fissile.impatient, 1, memory_order_relaxed);
  return true;
}

/* By a head that has found it taken. */
static int insist(struct maru_lock *lock, const struct mr_deadline *deadline) {
  _Atomic uint32_t *word = &lock->fissile.word;
  const struct mr_deadline patience = end_of_patience(deadline);
  bool insists = false;
  int rc = 0, lost = 0;
  do {
    if (lost++ == PATIENCE)
      insists = lose_patience(lock);
    rc = mr_waiting_for(&lock->waiting, word, 0, MR_SET, insists ? deadline : &patience);
    if (rc == -ETIMEDOUT && !insists && !mr_deadline_passed(deadline)) {
      insists = lose_patience(lock);
      rc = 0;
    }
  } while (rc == 0 && !mr_word_try(word));
  if (insists)
    atomic_store_explicit(&lock->fissile.impatient, 0, memory_order_relaxed);
  return rc;
}

/* By the queue's head. */
static int compete(struct maru_lock *lock, const struct mr_deadline *deadline) {
  return mr_word_try(&lock->fissile.word) ? 0 : insist(lock, deadline);
}

/* By a newcomer that found it taken. */
static bool barge(struct maru_lock *lock) {
  int64_t end_ns = maru_now_ns() + GRACE_NS;
  while (!impatient(lock) &&
         mr_waiting_spins(&lock->waiting, &lock->fissile.word, 0, MR_SET, end_ns))
    if (mr_word_try(&lock->fissile.word))
      return true;
  return false;
}

static int acquire(struct maru_lock *lock, struct maru_hold *hold,
                   const struct mr_deadline *deadline) {
  if (try(lock, hold) == 0 || (deadline->ns == MARU_WAIT_FOREVER && barge(lock)))
    return 0;
  int rc = mr_queue_acquire(&lock->fissile.queue, hold, deadline);
  if (rc < 0)
    return rc;
  rc = compete(lock, deadline);
  mr_queue_pass(&lock->fissile.queue, hold);
  if (rc < 0)
    mr_queue_end(&lock->fissile.queue, hold);
  return rc;
}

static void release(struct maru_lock *lock, struct maru_hold *hold) {
  mr_word_release(&lock->fissile.word);
  mr_queue_end(&lock->fissile.queue, hold);
}

const struct mr_lock_kind mr_fissile = {.name = "fissile",
                                        .hold_moves = true,
                                        .needs_place = true,
                                        .create = create,
                                        .acquire = acquire,
                                        .try = try,
                                        .release = release};
