/* queue.c: which waiter gets the lock next.
 *
 * Over 500 lines: one invariant of two queues holds over all of it, and a reader who follows a node
 * from its arrival to its end needs the parts beside each other.
 *
 * Why everybody in the queue gets it.  An arrival swaps itself into `tail` and then
 * tells its predecessor; a holder that finds no successor but another tail waits for that
 * word.  The secondary queue is emptied into the main queue's front, or becomes the
 * main queue when that has run empty; nothing is ever dropped.  models/cna.pml and the
 * tests lock_explore check this.
 *
 * A waiter that gives up leaves its node behind, from the heap.  What `claim` was when it
 * changed says who was first, the waiter that leaves or the holder that offers the lock.
 * A node that was left is freed when its turn comes, as if its owner had got the lock
 * and released it at once; or, when a holder that looks for its own socket meets it before
 * it has a number, as if it had never come.  `left` counts such nodes: from LEFT_MAX on
 * a waiter that may give up does not queue, but looks again every POLL_NS.
 *
 * A release is linear in the nodes that it passes: once it has decided to leave the socket
 * it does not look for it again.
 *
 * Counting bypasses.  By the invariant of queue.h a node is first looked at in the order
 * of arrival: then it gets its number.  When a node is granted as number g of all
 * grants, g - 1 nodes went before it; its number a says that a - 1 arrived before it; of
 * these `older` still wait.  So g - 1 - (a - 1 - older) that came later went first.
 * For the node that has waited longest, `older` is 0.  A numbered node that was left is
 * passed over only then, so it is never one that went first. */
#include "queue.h"

#include "chance.h"

#include <errno.h>
#include <stdlib.h>

enum { WAITING, GIVEN_UP, OFFERED }; /* claim */

#ifndef LEFT_MAX /* a test sets it lower */
#define LEFT_MAX MARU_LOCK_LEFT_MAX
#endif
#define POLL_NS 100000

void mr_queue_init(struct mr_queue *queue, enum mr_queue_order order, struct mr_waiting *waiting,
                   struct mr_turns *turns, const struct mr_place *place,
                   const struct maru_lock_options *options) {
  *queue = (struct mr_queue){.place = place,
                             .order = order,
                             .waiting = waiting,
                             .turns = order != MR_FEW ? turns : NULL,
                             .deadline_ns = options->deadline_ns,
                             .max_bypass = options->max_bypass,
                             .handoff_range = options->handoff_range,
                             .shuffle_reduction = options->shuffle_reduction,
                             .random = options->seed};
  queue->tail = &queue->own_tail;
}

void mr_queue_travel(struct mr_traveller *traveller, struct maru_lock_node *_Atomic *tail) {
  traveller->queue.tail = tail;
  traveller->queue.travels = true;
}

/* ---- nodes -------------------------------------------------------------- */

static void node_init(struct maru_lock_node *node, bool may_give_up) {
  *node = (struct maru_lock_node){.socket = -1, .may_give_up = may_give_up};
}

/* `used` is in no queue any more. */
static void retire(struct maru_hold *hold, struct maru_lock_node *used) {
  if (used != &hold->own)
    free(used);
}

/* Has its owner left it?  Acquire: the owner is done with it. */
static bool was_left(struct maru_lock_node *node) {
  return node->may_give_up && atomic_load_explicit(&node->claim, memory_order_acquire) == GIVEN_UP;
}

/* By the holder, for a node that was left.  Relaxed: a count, no order. */
static void queue_forget(struct mr_queue *queue) {
  atomic_fetch_sub_explicit(&queue->left, 1, memory_order_relaxed);
}

/* NULL: the last one, or its successor has not said so yet. */
static struct maru_lock_node *linked(struct maru_lock_node *node) {
  /* Acquire: the successor's fields, written before it linked itself. */
  if (!(atomic_load_explicit(&node->linked, memory_order_acquire) & MR_SET))
    return NULL;
  /* Relaxed: ordered by `linked`. */
  return atomic_load_explicit(&node->next, memory_order_relaxed);
}

/* By the holder, among nodes that only holders touch: relaxed, the next holder sees it
 * with the grant. */
static void chain(struct maru_lock_node *node, struct maru_lock_node *next) {
  atomic_store_explicit(&node->next, next, memory_order_relaxed);
  atomic_store_explicit(&node->linked, next != NULL ? MR_SET : 0, memory_order_relaxed);
}

/* ---- arriving ----------------------------------------------------------- */

/* True: it was free, and is ours. */
static bool join(struct mr_queue *queue, struct maru_lock_node *node) {
  /* Release: our node is ready before anybody finds it.  Acquire: the predecessor's is
   * ready, and what the last holder did is visible. */
  struct maru_lock_node *before = atomic_exchange_explicit(queue->tail, node, memory_order_acq_rel);
  if (before == NULL)
    return true;
  if (queue->place != NULL)
    node->socket = (int32_t)mr_place_here(queue->place);
  /* Relaxed: published by the word, which is the last we touch of `before`. */
  atomic_store_explicit(&before->next, node, memory_order_relaxed);
  maru_notify_store(&before->linked, MR_SET);
  return false;
}

static int await_grant(struct mr_queue *queue, struct maru_hold *hold, struct maru_lock_node *node,
                       const struct mr_deadline *deadline) {
  int rc = mr_waiting_turn(queue->waiting, queue->turns, &hold->turn, &node->state, MR_SET, MR_SET,
                           deadline);
  if (rc == 0)
    return 0;
  /* Before the node is left, so that nobody subtracts it first. */
  atomic_fetch_add_explicit(&queue->left, 1, memory_order_relaxed);
  uint32_t claim = WAITING;
  /* Release: we are done with the node when the holder finds it left.  Relaxed: the grant orders.
   */
  if (atomic_compare_exchange_strong_explicit(&node->claim, &claim, GIVEN_UP, memory_order_release,
                                              memory_order_relaxed)) {
    mr_waiting_leave(queue->turns, &hold->turn);
    return rc;
  }
  queue_forget(queue);
  /* The lock was offered before we gave up: the grant is on its way. */
  return mr_waiting_turn(queue->waiting, queue->turns, &hold->turn, &node->state, MR_SET, MR_SET,
                         &mr_forever);
}

static int queue_up(struct mr_queue *queue, struct maru_hold *hold, struct maru_lock_node *node,
                    const struct mr_deadline *deadline) {
  node_init(node, node != &hold->own);
  hold->turn.counted = 0;
  int rc = join(queue, node) ? 0 : await_grant(queue, hold, node, deadline);
  if (rc == 0)
    hold->used = node;
  return rc;
}

/* 0: it was free, and is ours; -EAGAIN: there is room to queue. */
static int await_room(struct mr_queue *queue, struct maru_hold *hold,
                      const struct mr_deadline *deadline) {
  while (!mr_queue_try(queue, hold)) {
    if (mr_deadline_passed(deadline))
      return -ETIMEDOUT;
    /* Relaxed: a count, no order. */
    if (atomic_load_explicit(&queue->left, memory_order_relaxed) < LEFT_MAX)
      return -EAGAIN;
    mr_waiting_pause(queue->waiting, POLL_NS, deadline);
  }
  return 0;
}

int mr_queue_acquire(struct mr_queue *queue, struct maru_hold *hold,
                     const struct mr_deadline *deadline) {
  if (deadline->ns == MARU_WAIT_FOREVER)
    return queue_up(queue, hold, &hold->own, deadline);
  int rc = await_room(queue, hold, deadline);
  if (rc != -EAGAIN)
    return rc;
  struct maru_lock_node *node = aligned_alloc(alignof(struct maru_lock_node), sizeof *node);
  return node != NULL ? queue_up(queue, hold, node, deadline) : -ENOMEM;
}

bool mr_queue_try(struct mr_queue *queue, struct maru_hold *hold) {
  struct maru_lock_node *nobody = NULL;
  node_init(&hold->own, false);
  hold->used = &hold->own;
  hold->turn.counted = 0;
  /* As in join(). */
  return atomic_compare_exchange_strong_explicit(queue->tail, &nobody, &hold->own,
                                                 memory_order_acq_rel, memory_order_relaxed);
}

/* ---- choosing ----------------------------------------------------------- */

/* Where one release gives the lock. */
struct direction {
  int32_t socket; /* the holder's */
  bool leaves;    /* it has been decided that it goes to whoever has waited longest */
};

/* It may be in the main queue again, where it has come back and not got the lock. */
static bool overdue(const struct mr_queue *queue, const struct maru_lock_node *oldest) {
  return queue->deadline_ns > 0 && oldest->aside_since != 0 &&
         maru_now_ns() - oldest->aside_since >= (int64_t)queue->deadline_ns;
}

/* May one more that came later go before whoever has waited longest? */
static bool bypass_allowed(const struct mr_queue *queue, const struct maru_lock_node *oldest) {
  uint64_t arrival = oldest->arrival != 0 ? oldest->arrival : queue->arrivals + 1;
  return queue->grants + 1 - (arrival - 1) <= queue->max_bypass;
}

/* May the lock stay in the socket?  `next`: the main queue's first. */
static bool keep_local(struct mr_queue *queue, const struct maru_lock_node *next) {
  const struct maru_lock_node *oldest = queue->aside_first != NULL ? queue->aside_first : next;
  if (queue->aside_first == NULL && mr_probably(&queue->random, queue->shuffle_reduction))
    return false;
  return mr_probably(&queue->random, queue->handoff_range) && !overdue(queue, oldest);
}

/* May a waiter of our socket that is not the oldest go before it? */
static bool may_pass(const struct mr_queue *queue, const struct maru_lock_node *next) {
  return bypass_allowed(queue, queue->aside_first != NULL ? queue->aside_first : next);
}

/* False: its owner has given up.  May be done again. */
static bool offer(struct maru_lock_node *node) {
  uint32_t claim = WAITING;
  /* Acquire: an owner that gave up is done with the node, which we shall free. */
  return !node->may_give_up ||
         atomic_compare_exchange_strong_explicit(&node->claim, &claim, OFFERED,
                                                 memory_order_acquire, memory_order_acquire) ||
         claim == OFFERED;
}

/* The first of our socket from *next on to whom the lock could be offered, which it now is;
 * *last: the one before it.  On the way, nodes without a number that were left are freed. */
static struct maru_lock_node *find_local(struct mr_queue *queue, struct maru_lock_node **next,
                                         int32_t socket, struct maru_lock_node **last) {
  struct maru_lock_node *node = *next, *after;
  for (*last = NULL; node != NULL; node = after) {
    after = linked(node);
    if (node->arrival == 0 && after != NULL && was_left(node)) {
      if (*last != NULL)
        chain(*last, after);
      else
        *next = after;
      free(node);
      queue_forget(queue);
      continue;
    }
    if (node->socket == socket && offer(node))
      return node;
    *last = node;
  }
  return NULL;
}

static void number(struct mr_queue *queue, struct maru_lock_node *node) {
  if (node->arrival == 0)
    node->arrival = ++queue->arrivals;
}

/* Moves the main queue's front, `first` to `last`, behind those set aside. */
static void set_aside(struct mr_queue *queue, struct maru_lock_node *first,
                      struct maru_lock_node *last) {
  int64_t now = queue->deadline_ns > 0 ? maru_now_ns() : 0;
  for (struct maru_lock_node *node = first;; node = linked(node)) {
    number(queue, node);
    if (node->aside_since == 0)
      node->aside_since = now;
    queue->aside_length++;
    queue->counts.set_aside++;
    if (node == last)
      break;
  }
  chain(last, NULL);
  if (queue->aside_first == NULL)
    queue->aside_first = first;
  else
    chain(queue->aside_last, first);
  queue->aside_last = last;
}

/* Those set aside become the main queue's front; their first. */
static struct maru_lock_node *take_back(struct mr_queue *queue) {
  struct maru_lock_node *first = queue->aside_first;
  queue->aside_first = queue->aside_last = NULL;
  queue->aside_length = 0;
  return first;
}

/* Whether `node` is the last one.  Relaxed: `linked` brings what came with a newcomer. */
static bool is_last(struct mr_queue *queue, const struct maru_lock_node *node) {
  return atomic_load_explicit(queue->tail, memory_order_relaxed) == node;
}

/* The queue from `node`, its last, on becomes `first` to `last`; false: somebody has come. */
static bool replace_last(struct mr_queue *queue, struct maru_lock_node *node,
                         struct maru_lock_node *last) {
  /* Release: the nodes are as we left them for whoever queues behind them. */
  return atomic_compare_exchange_strong_explicit(queue->tail, &node, last, memory_order_release,
                                                 memory_order_relaxed);
}

/* The successor of `node`, which is not the last one. */
static struct maru_lock_node *await_link(struct mr_queue *queue, struct maru_lock_node *node) {
  mr_waiting_for(queue->waiting, &node->linked, MR_SET, MR_SET, &mr_forever);
  return linked(node);
}

/* NULL: `node` is the last one, and nobody is set aside. */
static struct maru_lock_node *next_in_main(struct mr_queue *queue, struct maru_lock_node *node) {
  struct maru_lock_node *next = linked(node);
  if (next != NULL)
    return next;
  if (queue->aside_first == NULL)
    return is_last(queue, node) ? NULL : await_link(queue, node);
  if (replace_last(queue, node, queue->aside_last))
    return take_back(queue);
  return await_link(queue, node);
}

/* Leaves the socket where `to` says so, or nobody of it waits. */
static struct maru_lock_node *near_successor(struct mr_queue *queue, struct maru_lock_node *node,
                                             struct direction *to) {
  struct maru_lock_node *next = next_in_main(queue, node);
  if (next == NULL)
    return NULL;
  if (!to->leaves && keep_local(queue, next) && may_pass(queue, next)) {
    struct maru_lock_node *last, *local = find_local(queue, &next, to->socket, &last);
    if (local != NULL) {
      if (last != NULL)
        set_aside(queue, next, last);
      return local;
    }
  }
  to->leaves = true;
  if (queue->aside_first == NULL)
    return next;
  chain(queue->aside_last, next);
  return take_back(queue);
}

/* ---- few ---------------------------------------------------------------- */

/* Those set aside are a stack; `prev` leads from its bottom, the oldest, upwards. */
static void push_aside(struct mr_queue *queue, struct maru_lock_node *node) {
  node->prev = NULL;
  chain(node, queue->aside_first);
  if (queue->aside_first != NULL)
    queue->aside_first->prev = node;
  else
    queue->aside_last = node;
  queue->aside_first = node;
}

static struct maru_lock_node *pop_youngest(struct mr_queue *queue) {
  struct maru_lock_node *node = queue->aside_first;
  queue->aside_first = linked(node);
  if (queue->aside_first != NULL)
    queue->aside_first->prev = NULL;
  else
    queue->aside_last = NULL;
  chain(node, NULL);
  return node;
}

static struct maru_lock_node *pop_oldest(struct mr_queue *queue) {
  struct maru_lock_node *node = queue->aside_last;
  queue->aside_last = node->prev;
  if (queue->aside_last != NULL)
    chain(queue->aside_last, NULL);
  else
    queue->aside_first = NULL;
  return node;
}

/* NULL: `node` is the last one, and nobody is set aside. */
static struct maru_lock_node *next_or_youngest(struct mr_queue *queue,
                                               struct maru_lock_node *node) {
  struct maru_lock_node *next = linked(node);
  if (next != NULL)
    return next;
  if (queue->aside_first == NULL)
    return is_last(queue, node) ? NULL : await_link(queue, node);
  struct maru_lock_node *youngest = pop_youngest(queue);
  if (replace_last(queue, node, youngest))
    return youngest;
  push_aside(queue, youngest);
  return await_link(queue, node);
}

static struct maru_lock_node *few_successor(struct mr_queue *queue, struct maru_lock_node *node) {
  struct maru_lock_node *next = next_or_youngest(queue, node);
  if (next == NULL)
    return NULL;
  if (queue->aside_first != NULL && !mr_probably(&queue->random, queue->handoff_range)) {
    struct maru_lock_node *oldest = pop_oldest(queue);
    chain(oldest, next);
    return oldest;
  }
  /* One that may give up is not set aside: its node would stay there for long. */
  struct maru_lock_node *second = linked(next);
  if (second == NULL || next->may_give_up)
    return next;
  push_aside(queue, next);
  return second;
}

/* ---- shuffling ---------------------------------------------------------- */

static bool shuffle(struct mr_queue *queue, struct maru_hold *hold, uint32_t most) {
  struct maru_lock_node *group = hold->used, *before = group, *node;
  int32_t socket = (int32_t)mr_place_here(queue->place);
  bool moved = false;
  /* The last one is not moved: a newcomer may be linking itself to it. */
  for (; most > 0 && (node = linked(before)) != NULL && linked(node) != NULL; most--) {
    if (node->socket != socket) {
      before = node;
      continue;
    }
    if (before != group) {
      chain(before, linked(node));
      chain(node, linked(group));
      chain(group, node);
      moved = true;
    } else {
      before = node;
    }
    group = node;
  }
  return moved;
}

void mr_queue_shuffle(struct mr_queue *queue, struct maru_hold *hold, uint32_t passes) {
  bool may = queue->in_a_row < passes;
  if (may && shuffle(queue, hold, passes))
    queue->in_a_row++;
  else if (!may)
    queue->in_a_row = 0;
}

/* ---- handing over ------------------------------------------------------- */

/* The one after `node`, taken out of the queues; NULL: `node` is the last one. */
static struct maru_lock_node *successor(struct mr_queue *queue, struct maru_lock_node *node,
                                        struct direction *to) {
  switch (queue->order) {
  case MR_NEAR:
    return near_successor(queue, node, to);
  case MR_FEW:
    return few_successor(queue, node);
  default:
    return next_in_main(queue, node);
  }
}

/* `node` is granted, or was left and is passed over. */
static void count(struct mr_queue *queue, struct maru_lock_node *node, int32_t socket,
                  bool granted) {
  if (queue->order != MR_NEAR)
    return;
  number(queue, node);
  node->bypassed = queue->grants++ - (node->arrival - 1 - queue->aside_length);
  if (!granted)
    return;
  queue->counts.handoffs++;
  queue->counts.left_socket += node->socket != socket;
  if (node->bypassed > queue->counts.longest_bypass)
    queue->counts.longest_bypass = node->bypassed;
}

static int32_t socket_of_holder(const struct mr_queue *queue, const struct maru_lock_node *node) {
  if (queue->order != MR_NEAR || node->socket >= 0)
    return node->socket;
  return (int32_t)mr_place_here(queue->place); /* it did not wait */
}

/* What is the holder's goes with the queue.  `next` reads it after the grant, which orders. */
static void carry(const struct mr_queue *from, struct maru_lock_node *next) {
  struct mr_queue *to = &((struct mr_traveller *)next)->queue;
  to->aside_first = from->aside_first;
  to->aside_last = from->aside_last;
  to->aside_length = from->aside_length;
  to->random = from->random;
  to->in_a_row = from->in_a_row;
  to->arrivals = from->arrivals;
  to->grants = from->grants;
  to->counts = from->counts;
}

/* False: nobody waits; hold->used is the last node, the holder's or one that was left. */
static bool hand_on(struct mr_queue *queue, struct maru_hold *hold, struct direction *to) {
  for (;;) {
    struct maru_lock_node *next = successor(queue, hold->used, to);
    if (next == NULL)
      return false;
    retire(hold, hold->used);
    hold->used = next;
    bool granted = offer(next);
    count(queue, next, to->socket, granted);
    if (granted) {
      if (queue->travels)
        carry(queue, next);
      mr_waiting_grant(queue->waiting, queue->turns, &next->state, MR_SET);
      return true;
    }
    queue_forget(queue);
  }
}

bool mr_queue_hand_on(struct mr_queue *queue, struct maru_hold *hold) {
  struct direction to = {socket_of_holder(queue, hold->used), false};
  if (!hand_on(queue, hold, &to))
    return false;
  mr_queue_end(queue, hold);
  return true;
}

bool mr_queue_pass(struct mr_queue *queue, struct maru_hold *hold) {
  struct direction to = {socket_of_holder(queue, hold->used), false};
  while (!hand_on(queue, hold, &to)) {
    struct maru_lock_node *last = hold->used;
    /* Release: what the holder did is visible to the next one. */
    if (atomic_compare_exchange_strong_explicit(queue->tail, &last, NULL, memory_order_release,
                                                memory_order_relaxed)) {
      retire(hold, hold->used);
      return false;
    }
  }
  return true;
}

void mr_queue_end(struct mr_queue *queue, struct maru_hold *hold) {
  mr_waiting_end(queue->waiting, queue->turns, &hold->turn);
}

bool mr_queue_release(struct mr_queue *queue, struct maru_hold *hold) {
  bool passed = mr_queue_pass(queue, hold);
  mr_queue_end(queue, hold);
  return passed;
}
