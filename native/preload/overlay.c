/* overlay.c: the way of those who find the mutex taken.
 *
 * Lifetime.  A mutex may be freed as soon as its last user has released it.  Everything here
 * that touches the mutex's memory is done by a thread that is inside of its own lock call. The
 * last, giving head-ship up, while it holds the mutex.
 *
 * Why nobody is lost.  Head-ship is a lock of native/lock, always handed on; the head waits
 * within glibc, whose word knows that somebody sleeps there (value 2) as with any other
 * thread.  models/overlay.pml checks the word's protocol. */
#define _GNU_SOURCE
#include "overlay.h"
#include "../lock/kinds.h"
#include "waits.h"

#include <limits.h>

/* Half of what 32 bits of microseconds hold. */
#define PATIENCE_MAX_NS (INT32_MAX * INT64_C(1000))

/* ---- knobs and counters ---------------------------------------------------- */

#define KNOB(knobs, name) atomic_load_explicit(&(knobs)->name, memory_order_relaxed)

/* Relaxed: each knob stands for itself. */
static void read_knobs(const struct mr_overlay *overlay, struct maru_lock_options *options) {
  struct maru_overlay_knobs *knobs = &overlay->board->knobs;
  struct maru_lock_options asked = overlay->options;
  asked.handoff_range = KNOB(knobs, handoff_range);
  asked.shuffle_reduction = KNOB(knobs, shuffle_reduction);
  asked.passes = KNOB(knobs, passes);
  asked.deadline_ns = KNOB(knobs, deadline_ns);
  asked.max_bypass = KNOB(knobs, max_bypass);
  *options = mr_options_check(&asked) == 0 ? asked : overlay->options;
}

struct maru_overlay_counts *mr_overlay_counts(const struct mr_overlay *overlay) {
  return &overlay->board->counts[mr_waits_own_number() % MARU_OVERLAY_LINES];
}

/* Relaxed: figures. */
static void add(_Atomic uint64_t *counter, uint64_t more) {
  if (more > 0)
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* Counted by whoever was the head before; now, for a queue may never be empty again. */
static void show(struct maru_overlay_counts *counts, struct maru_lock_counts *counted) {
  add(&counts->left_socket, counted->left_socket);
  add(&counts->set_aside, counted->set_aside);
  *counted = (struct maru_lock_counts){0};
}

/* ---- whose queue -------------------------------------------------------- */

/* A number that no ancestor used since it forked us: each is counted before it is used, and
 * what a fork copies is the count. */
static uint32_t own_process(struct mr_overlay *overlay) {
  /* Relaxed: within a process it changes once, from 0. */
  uint32_t number = atomic_load_explicit(overlay->process, memory_order_relaxed);
  if (number != 0)
    return number;
  uint32_t mine =
      atomic_fetch_add_explicit(&overlay->last_process, 1, memory_order_relaxed) % INT_MAX + 1;
  if (atomic_compare_exchange_strong_explicit(overlay->process, &number, mine, memory_order_relaxed,
                                              memory_order_relaxed))
    return mine;
  return number;
}

/* False: another thread is just emptying it. */
static bool own_queue(struct mr_overlay *overlay, struct mr_overlay_cell *cell) {
  uint32_t mine = 2 * own_process(overlay);
  /* Acquire: it was emptied before. */
  uint32_t whose = atomic_load_explicit(&cell->process, memory_order_acquire);
  if (whose == mine)
    return true;
  if (whose == mine + 1)
    return false;
  /* Relaxed: the store below publishes. */
  if (!atomic_compare_exchange_strong_explicit(&cell->process, &whose, mine + 1,
                                               memory_order_relaxed, memory_order_relaxed))
    return whose == mine;
  if (atomic_load_explicit(&cell->tail, memory_order_relaxed) != NULL)
    atomic_fetch_add_explicit(&overlay->board->resets, 1, memory_order_relaxed);
  atomic_store_explicit(&cell->tail, NULL, memory_order_relaxed);
  atomic_store_explicit(&cell->until, 0, memory_order_relaxed);
  /* Release: a thread that finds it ours finds it empty. */
  atomic_store_explicit(&cell->process, mine, memory_order_release);
  return true;
}

/* ---- queueing ----------------------------------------------------------- */

static uint32_t microseconds(int64_t ns) { return (uint32_t)(ns / 1000); }

static int64_t patience_of(const struct mr_overlay *overlay) {
  uint64_t ns = KNOB(&overlay->board->knobs, patience_ns);
  return ns == 0 || ns > PATIENCE_MAX_NS ? MR_OVERLAY_PATIENCE_NS : (int64_t)ns;
}

bool mr_overlay_barges(const struct mr_overlay *overlay, pthread_mutex_t *mutex) {
  if (mr_overlay_leaves(overlay, mutex) != 0)
    return false;
  /* Relaxed: advice. */
  uint32_t until = atomic_load_explicit(&mr_overlay_cell(mutex)->until, memory_order_relaxed);
  return until == 0 || (int32_t)(until - microseconds(maru_now_ns())) > 0;
}

/* By the head.  What it sees of the mutex is glibc's answer. */
static int compete(struct mr_overlay *overlay, pthread_mutex_t *mutex,
                   struct maru_overlay_counts *counts) {
  int rc = mr_glibc_trylock(mutex);
  if (rc != EBUSY)
    return rc;
  int64_t until_ns = maru_now_ns() + patience_of(overlay);
  _Atomic uint32_t *until = &mr_overlay_cell(mutex)->until;
  /* Relaxed, both: advice.  Odd, for 0 says that nobody waits. */
  atomic_store_explicit(until, microseconds(until_ns) | 1, memory_order_relaxed);
  rc = mr_glibc_lock(mutex);
  atomic_store_explicit(until, 0, memory_order_relaxed);
  add(&counts->impatient, maru_now_ns() >= until_ns);
  return rc;
}

/* The high bits of a product depend on all bits of the address. */
static struct mr_turns *turns_of(const struct mr_overlay *overlay,
                                 const struct mr_overlay_cell *cell) {
  uint64_t mixed = (uintptr_t)cell * UINT64_C(0x9e3779b97f4a7c15);
  return &overlay->turns[(mixed >> 32) % MR_OVERLAY_TURNS];
}

/* The chances of a queue begin with those of the thread that found it empty. */
static _Thread_local uint64_t chances;

static void overlay_begin(struct mr_overlay *overlay, struct mr_overlay_cell *cell,
                          struct mr_traveller *traveller, struct maru_lock_options *options) {
  read_knobs(overlay, options);
  if (chances == 0)
    chances = ((uintptr_t)&chances ^ (uint64_t)maru_now_ns()) | 1;
  options->seed = chances;
  mr_queue_init(&traveller->queue, overlay->order, &overlay->waiting, turns_of(overlay, cell),
                overlay->place, options);
  mr_queue_travel(traveller, &cell->tail);
}

static int queue_up(struct mr_overlay *overlay, pthread_mutex_t *mutex) {
  struct mr_traveller traveller;
  struct maru_lock_options options;
  struct maru_overlay_counts *counts = mr_overlay_counts(overlay);
  int64_t since = overlay->waits != NULL ? maru_now_ns() : 0;
  overlay_begin(overlay, mr_overlay_cell(mutex), &traveller, &options);
  mr_queue_acquire(&traveller.queue, &traveller.hold, &mr_forever);
  /* A head has time: another thread holds the mutex.  Later this one does. */
  mr_queue_end(&traveller.queue, &traveller.hold);
  show(counts, &traveller.queue.counts);
  if (overlay->shuffles)
    mr_queue_shuffle(&traveller.queue, &traveller.hold, options.passes);
  int rc = compete(overlay, mutex, counts);
  bool handed_on = mr_queue_release(&traveller.queue, &traveller.hold);
  if (overlay->waits != NULL)
    mr_waits_add(overlay->waits, (uint64_t)(maru_now_ns() - since));
  chances = traveller.queue.random;
  add(&counts->queued, 1);
  add(&counts->handed_on, handed_on);
  if (!handed_on) /* there is no next head to do it */
    show(counts, &traveller.queue.counts);
  return rc;
}

int mr_overlay_wait(struct mr_overlay *overlay, pthread_mutex_t *mutex) {
  if (mr_overlay_leaves(overlay, mutex) != 0 || mr_glibc_holds(mutex) ||
      !own_queue(overlay, mr_overlay_cell(mutex)))
    return mr_glibc_lock(mutex);
  int saved = errno;
  int rc = queue_up(overlay, mutex);
  errno = saved;
  return rc;
}

int mr_overlay_lock_beside(struct mr_overlay *overlay, pthread_mutex_t *mutex) {
  if (mr_overlay_barges(overlay, mutex)) {
    int rc = mr_glibc_trylock(mutex);
    if (rc != EBUSY)
      return rc;
  }
  return mr_overlay_wait(overlay, mutex);
}
