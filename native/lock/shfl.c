/* shfl.c: one word that anybody may take while it is free; those who found it taken queue,
 * and the head, before it waits for the word, moves waiters of its socket up behind itself.
 *
 * So the order is made by those who wait, not by the holder.  After `passes` heads that have
 * done so, one does not, and whoever has been passed comes closer. */
#include "kinds.h"

#include <errno.h>

static int create(struct maru_lock *lock, const struct maru_lock_options *options) {
  mr_queue_init(&lock->shfl.queue, MR_IN_TURN, &lock->waiting, &lock->turns, &lock->place, options);
  lock->passes = options->passes;
  return 0;
}

static int try(struct maru_lock *lock, struct maru_hold *hold) {
  hold->turn.counted = 0;
  return mr_word_try(&lock->shfl.word) ? 0 : -EBUSY;
}

static int acquire(struct maru_lock *lock, struct maru_hold *hold,
                   const struct mr_deadline *deadline) {
  if (try(lock, hold) == 0)
    return 0;
  int rc = mr_queue_acquire(&lock->shfl.queue, hold, deadline);
  if (rc < 0)
    return rc;
  mr_queue_shuffle(&lock->shfl.queue, hold, lock->passes);
  rc = mr_word_acquire(&lock->shfl.word, &lock->waiting, deadline);
  mr_queue_pass(&lock->shfl.queue, hold);
  if (rc < 0)
    mr_queue_end(&lock->shfl.queue, hold);
  return rc;
}

static void release(struct maru_lock *lock, struct maru_hold *hold) {
  mr_word_release(&lock->shfl.word);
  mr_queue_end(&lock->shfl.queue, hold);
}

const struct mr_lock_kind mr_shfl = {.name = "shfl",
                                     .hold_moves = true,
                                     .needs_place = true,
                                     .create = create,
                                     .acquire = acquire,
                                     .try = try,
                                     .release = release};
