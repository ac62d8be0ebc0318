/* qspin.c: one word; the first to find it taken waits for it and is the next one, those
 * who come then queue.  Nobody takes the word while somebody is next or queues, but for
 * who looked just before: so at most one acquisition a thread is out of turn. */
#include "kinds.h"

#include <errno.h>

static int create(struct maru_lock *lock, const struct maru_lock_options *options) {
  mr_queue_init(&lock->qspin.queue, MR_IN_TURN, &lock->waiting, &lock->turns, NULL, options);
  return 0;
}

/* Relaxed, both: advice; the words decide. */
static bool queue_is_empty(struct maru_lock *lock) {
  return atomic_load_explicit(lock->qspin.queue.tail, memory_order_relaxed) == NULL;
}

static bool somebody_is_next(struct maru_lock *lock) {
  return atomic_load_explicit(&lock->qspin.pending, memory_order_relaxed) & MR_SET;
}

static int try(struct maru_lock *lock, struct maru_hold *hold) {
  hold->turn.counted = 0;
  bool may = queue_is_empty(lock) && !somebody_is_next(lock);
  return may && mr_word_try(&lock->qspin.word) ? 0 : -EBUSY;
}

/* Becomes the next one. */
static int step_forward(struct maru_lock *lock, struct maru_hold *hold,
                        const struct mr_deadline *deadline) {
  if (queue_is_empty(lock) && mr_word_try(&lock->qspin.pending))
    return 0;
  int rc = mr_queue_acquire(&lock->qspin.queue, hold, deadline);
  if (rc < 0)
    return rc;
  rc = mr_word_acquire(&lock->qspin.pending, &lock->waiting, deadline);
  mr_queue_pass(&lock->qspin.queue, hold);
  return rc;
}

static int acquire(struct maru_lock *lock, struct maru_hold *hold,
                   const struct mr_deadline *deadline) {
  if (try(lock, hold) == 0)
    return 0;
  int rc = step_forward(lock, hold, deadline);
  if (rc == 0) {
    rc = mr_word_acquire(&lock->qspin.word, &lock->waiting, deadline);
    mr_word_release(&lock->qspin.pending);
  }
  if (rc < 0)
    mr_queue_end(&lock->qspin.queue, hold);
  return rc;
}

static void release(struct maru_lock *lock, struct maru_hold *hold) {
  mr_word_release(&lock->qspin.word);
  mr_queue_end(&lock->qspin.queue, hold);
}

const struct mr_lock_kind mr_qspin = {.name = "qspin",
                                      .hold_moves = true,
                                      .create = create,
                                      .acquire = acquire,
                                      .try = try,
                                      .release = release};
