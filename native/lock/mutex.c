/* mutex.c: a lock that a program declares, and that keeps the hold of its holder.
 *
 * A hold stays where it is while it is queued.  Kinds with a word queue only for the right to
 * compete for it, so that a holder's hold is in no queue any more: the caller's stack serves, and
 * the lock keeps the turn that the release ends.  With the others the hold is the lock's, from the
 * heap.
 */
#include "kinds.h"

#include <errno.h>
#include <stdlib.h>

/* The lock behind it.  Threads that find none make one each; one of these becomes the mutex's. */
static int lock_of(struct maru_mutex *mutex, struct maru_lock **lock) {
  struct maru_lock_options options;
  struct maru_lock *made;
  /* Acquire: the lock that another thread made is whole. */
  *lock = atomic_load_explicit(&mutex->lock, memory_order_acquire);
  if (*lock != NULL)
    return 0;
  int rc = maru_lock_options_init(&options, (enum maru_lock_kind)mutex->kind);
  if (rc == 0)
    rc = maru_lock_create(&made, &options);
  if (rc < 0)
    return rc;
  /* Release: ours is whole before another thread finds it.  Acquire: as above. */
  if (atomic_compare_exchange_strong_explicit(&mutex->lock, lock, made, memory_order_acq_rel,
                                              memory_order_acquire))
    *lock = made;
  else
    maru_lock_destroy(made);
  return 0;
}

/* By the holder. */
static void keep(struct maru_lock *lock, struct maru_hold *hold) {
  if (lock->kind->hold_moves)
    lock->held_turn = hold->turn;
  else
    lock->held = hold;
}

/* `deadline` NULL: it only tries. */
static int take(struct maru_mutex *mutex, const struct mr_deadline *deadline) {
  struct maru_hold here, *hold = &here;
  struct maru_lock *lock;
  int rc = lock_of(mutex, &lock);
  if (rc < 0)
    return rc;
  if (!lock->kind->hold_moves)
    hold = aligned_alloc(alignof(struct maru_hold), sizeof *hold);
  if (hold == NULL)
    return -ENOMEM;
  hold->turn = (struct maru_wait_turn){0};
  rc = deadline == NULL ? lock->kind->try(lock, hold) : lock->kind->acquire(lock, hold, deadline);
  if (rc == 0)
    keep(lock, hold);
  else if (hold != &here)
    free(hold);
  return rc;
}

int maru_mutex_init(struct maru_mutex *mutex, const struct maru_lock_options *options) {
  struct maru_lock *lock;
  int rc = maru_lock_create(&lock, options);
  if (rc < 0)
    return rc;
  atomic_init(&mutex->lock, lock);
  mutex->kind = options->kind;
  return 0;
}

void maru_mutex_destroy(struct maru_mutex *mutex) {
  /* Acquire: as in lock_of.  Relaxed: nobody else uses the mutex any more. */
  struct maru_lock *lock = atomic_load_explicit(&mutex->lock, memory_order_acquire);
  atomic_store_explicit(&mutex->lock, NULL, memory_order_relaxed);
  if (lock != NULL)
    maru_lock_destroy(lock);
}

int maru_mutex_acquire(struct maru_mutex *mutex) { return take(mutex, &mr_forever); }

int maru_mutex_try(struct maru_mutex *mutex) { return take(mutex, NULL); }

int maru_mutex_acquire_until(struct maru_mutex *mutex, clockid_t clock,
                             const struct timespec *deadline) {
  struct mr_deadline until;
  int rc = mr_deadline_read(&until, clock, deadline);
  return rc < 0 ? rc : take(mutex, &until);
}

void maru_mutex_release(struct maru_mutex *mutex) {
  /* Relaxed: the holder has found it before, or has been told of it by the one that did. */
  struct maru_lock *lock = atomic_load_explicit(&mutex->lock, memory_order_relaxed);
  struct maru_hold here, *hold = lock->held;
  if (lock->kind->hold_moves) {
    here.turn = lock->held_turn;
    hold = &here;
  }
  lock->kind->release(lock, hold);
  if (hold != &here)
    free(hold);
}
