/* clh.c: the queue of Craig, Magnusson, Landin and Hagersten.
 *
 * Each waits at the node of its predecessor, which becomes its own to free; its own
 * node is its successor's, or, at the tail, the lock's.  Who gives up leaves word of its
 * predecessor in its node, and its successor waits there instead. */
#include "kinds.h"

#include <errno.h>
#include <stdlib.h>

#define LEFT 4u /* with MR_SET: the owner has given up; `next` is its predecessor */

static struct maru_lock_node *new_node(uint32_t state) {
  struct maru_lock_node *node = aligned_alloc(alignof(struct maru_lock_node), sizeof *node);
  if (node != NULL)
    *node = (struct maru_lock_node){.state = state};
  return node;
}

static int create(struct maru_lock *lock, const struct maru_lock_options *options) {
  (void)options;
  struct maru_lock_node *free_already = new_node(MR_SET);
  atomic_init(&lock->clh_tail, free_already);
  return free_already != NULL ? 0 : -ENOMEM;
}

static void destroy(struct maru_lock *lock) {
  /* Relaxed: nobody else is here. */
  free(atomic_load_explicit(&lock->clh_tail, memory_order_relaxed));
}

/* A thread that is late, or only tries, looks once: it neither spins nor arms the word. */
static int await_done(struct maru_lock *lock, struct maru_hold *hold, struct maru_lock_node *node,
                      const struct mr_deadline *deadline) {
  /* Acquire: what the last holder did is visible. */
  if (atomic_load_explicit(&node->state, memory_order_acquire) & MR_SET)
    return 0;
  if (deadline->ns != MARU_WAIT_FOREVER && mr_deadline_passed(deadline))
    return -ETIMEDOUT;
  return mr_waiting_turn(&lock->waiting, &lock->turns, &hold->turn, &node->state, MR_SET, MR_SET,
                         deadline);
}

/* Waits until the last one that has not given up is done; frees who is passed over. */
static int await_turn(struct maru_lock *lock, struct maru_hold *hold,
                      struct maru_lock_node **before, const struct mr_deadline *deadline) {
  for (;;) {
    struct maru_lock_node *node = *before;
    int rc = await_done(lock, hold, node, deadline);
    if (rc < 0)
      return rc;
    /* Relaxed, both: ordered by the wait. */
    bool left = atomic_load_explicit(&node->state, memory_order_relaxed) & LEFT;
    *before = atomic_load_explicit(&node->next, memory_order_relaxed);
    free(node);
    if (!left)
      return 0;
  }
}

static void give_up(struct maru_lock *lock, struct maru_lock_node *node,
                    struct maru_lock_node *before) {
  struct maru_lock_node *last = node;
  /* Release: `before` is ready for the one that queues behind it.  Acquire: the one behind this
     node, and gave up before, reads it no more. */
  if (atomic_compare_exchange_strong_explicit(&lock->clh_tail, &last, before, memory_order_acq_rel,
                                              memory_order_relaxed)) {
    free(node);
    return;
  }
  /* Relaxed: published by the word. */
  atomic_store_explicit(&node->next, before, memory_order_relaxed);
  mr_waiting_grant(&lock->waiting, &lock->turns, &node->state, MR_SET | LEFT);
}

static int acquire(struct maru_lock *lock, struct maru_hold *hold,
                   const struct mr_deadline *deadline) {
  struct maru_lock_node *node = new_node(0);
  if (node == NULL)
    return -ENOMEM;
  /* Release: the node is ready.  Acquire: so is the predecessor's. */
  struct maru_lock_node *before =
      atomic_exchange_explicit(&lock->clh_tail, node, memory_order_acq_rel);
  hold->turn.counted = 0;
  int rc = await_turn(lock, hold, &before, deadline);
  if (rc == 0) {
    hold->used = node;
  } else {
    mr_waiting_leave(&lock->turns, &hold->turn);
    give_up(lock, node, before);
  }
  return rc;
}

static int try(struct maru_lock *lock, struct maru_hold *hold) {
  static const struct mr_deadline passed = {CLOCK_MONOTONIC, 0};
  int rc = acquire(lock, hold, &passed);
  return rc == -ETIMEDOUT ? -EBUSY : rc;
}

static void release(struct maru_lock *lock, struct maru_hold *hold) {
  mr_waiting_grant(&lock->waiting, &lock->turns, &hold->used->state, MR_SET);
  mr_waiting_end(&lock->waiting, &lock->turns, &hold->turn);
}

const struct mr_lock_kind mr_clh = {.name = "clh",
                                    .create = create,
                                    .destroy = destroy,
                                    .acquire = acquire,
                                    .try = try,
                                    .release = release};
