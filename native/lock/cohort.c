/* cohort.c: a queue for each socket, and a global lock that its holder owns for all of them.
 *
 * A release hands on within the socket, and the global lock with it, `passes` times at
 * most; then, or when nobody of the socket waits, the global lock goes first.  Whether it
 * came along is written by the one holder of the socket's queue and read by the next.
 *
 *   c-bo-mcs   the global lock is a word, taken by whoever comes first
 *   hmcs       it is a queue: sockets take turns */
#include "kinds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int create(struct maru_lock *lock, const struct maru_lock_options *options) {
  size_t size = lock->place.sockets * sizeof *lock->cohort.sockets;
  lock->cohort.sockets = aligned_alloc(alignof(struct mr_cohort_socket), size);
  if (lock->cohort.sockets == NULL)
    return -ENOMEM;
  memset(lock->cohort.sockets, 0, size);
  for (uint32_t i = 0; i < lock->place.sockets; i++)
    mr_queue_init(&lock->cohort.sockets[i].local, MR_IN_TURN, &lock->waiting,
                  &lock->cohort.sockets[i].turns, NULL, options);
  mr_queue_init(&lock->cohort.queue, MR_IN_TURN, &lock->waiting, &lock->turns, NULL, options);
  lock->passes = options->passes;
  return 0;
}

static void destroy(struct maru_lock *lock) { free(lock->cohort.sockets); }

static struct mr_cohort_socket *enter(struct maru_lock *lock, struct maru_hold *hold) {
  hold->socket = mr_place_here(&lock->place);
  return &lock->cohort.sockets[hold->socket];
}

/* ---- the global lock ---------------------------------------------------- */

static bool is_hmcs(const struct maru_lock *lock) { return lock->kind == &mr_hmcs; }

static int global_acquire(struct maru_lock *lock, struct mr_cohort_socket *socket,
                          const struct mr_deadline *deadline) {
  return is_hmcs(lock) ? mr_queue_acquire(&lock->cohort.queue, &socket->global, deadline)
                       : mr_word_acquire(&lock->cohort.word, &lock->waiting, deadline);
}

static bool global_try(struct maru_lock *lock, struct mr_cohort_socket *socket) {
  return is_hmcs(lock) ? mr_queue_try(&lock->cohort.queue, &socket->global)
                       : mr_word_try(&lock->cohort.word);
}

static void global_release(struct maru_lock *lock, struct mr_cohort_socket *socket) {
  if (is_hmcs(lock))
    mr_queue_release(&lock->cohort.queue, &socket->global);
  else
    mr_word_release(&lock->cohort.word);
}

/* ---- both --------------------------------------------------------------- */

/* The local queue is ours; 0 once the global lock is too, else the queue is released. */
static int settle(struct mr_cohort_socket *socket, struct maru_hold *hold, int rc) {
  if (rc < 0) {
    mr_queue_release(&socket->local, hold);
    return rc;
  }
  socket->owns_global = true;
  socket->passed = 0;
  return 0;
}

static int acquire(struct maru_lock *lock, struct maru_hold *hold,
                   const struct mr_deadline *deadline) {
  struct mr_cohort_socket *socket = enter(lock, hold);
  int rc = mr_queue_acquire(&socket->local, hold, deadline);
  if (rc < 0 || socket->owns_global)
    return rc;
  return settle(socket, hold, global_acquire(lock, socket, deadline));
}

static int try(struct maru_lock *lock, struct maru_hold *hold) {
  struct mr_cohort_socket *socket = enter(lock, hold);
  /* A free queue never owns the global lock. */
  if (!mr_queue_try(&socket->local, hold))
    return -EBUSY;
  return settle(socket, hold, global_try(lock, socket) ? 0 : -EBUSY);
}

static void release(struct maru_lock *lock, struct maru_hold *hold) {
  struct mr_cohort_socket *socket = &lock->cohort.sockets[hold->socket];
  if (socket->passed < lock->passes) {
    socket->passed++;
    if (mr_queue_hand_on(&socket->local, hold))
      return;
  }
  socket->owns_global = false;
  global_release(lock, socket);
  mr_queue_release(&socket->local, hold);
}

const struct mr_lock_kind mr_c_bo_mcs = {.name = "c-bo-mcs",
                                         .needs_place = true,
                                         .create = create,
                                         .destroy = destroy,
                                         .acquire = acquire,
                                         .try = try,
                                         .release = release};

const struct mr_lock_kind mr_hmcs = {.name = "hmcs",
                                     .needs_place = true,
                                     .create = create,
                                     .destroy = destroy,
                                     .acquire = acquire,
                                     .try = try,
                                     .release = release};
