/* overlay.h: an admission queue laid over a mutex of glibc (internal).
 *
 * glibc's word stays the truth, and only glibc's own code changes it.  A thread that finds the
 * mutex taken joins a queue whose tail lies in the 16 bytes that the mutex does not use. The
 * queue's nodes are on the waiters' stacks.  Only the queue's head asks glibc for the mutex, and
 * once it has it, it hands head-ship on, by the policies of native/lock.  So threads that this code
 * never sees (in a condition variable, with a deadline, by trylock) are safe beside it.
 *
 * A running thread may take a free mutex before those who queue, until the head has waited for
 * patience_ns: then newcomers queue.  The newcomers look at the clock, not the head: a timed
 * sleep sets a timer, which costs some microseconds in a virtual machine.
 *
 * A fork leaves the tail of a queue behind whose waiters do not exist in the child. So each process
 * has a number, and a queue of another number is empty.
 *
 * Until it is turned on, every mutex is glibc's alone. */
#ifndef MARU_PRELOAD_OVERLAY_H
#define MARU_PRELOAD_OVERLAY_H

#include "glibc.h"

#include "../lock/queue.h"
#include <maru/overlay.h>

#include <errno.h>
#include <stddef.h>

/* The spare 16 bytes of a mutex; all zero: never contended. */
struct mr_overlay_cell {
  struct maru_lock_node *_Atomic tail;
  /* Twice the number of the process whose queue it is; odd while that empties another's. */
  _Atomic uint32_t process;
  /* 0: no head waits; else from when on newcomers queue, in microseconds, modulo 2^32. */
  _Atomic uint32_t until;
};

#define MR_OVERLAY_PATIENCE_NS 1000000
/* Mutexes share the counts of turns, by their addresses. */
#define MR_OVERLAY_TURNS 64

struct mr_overlay {
  _Atomic int off; /* MR_GLIBC_OWN: every mutex counts as glibc's own; 0: turned on */
  enum mr_queue_order order;
  bool shuffles;
  struct maru_lock_options options; /* the knobs' defaults */
  struct mr_waiting waiting;
  struct mr_turns *turns;           /* MR_OVERLAY_TURNS of them; a fork wipes them */
  const struct mr_place *place;     /* NULL: the order does not ask */
  struct maru_overlay *board;       /* on a board or not; never NULL */
  struct maru_overlay_waits *waits; /* NULL: the queue does not count its waits */
  /* The process's number: 0 after a fork, which wipes the page, until somebody asks. */
  _Atomic uint32_t *process;
  _Atomic uint32_t last_process;
};

static inline struct mr_overlay_cell *mr_overlay_cell(pthread_mutex_t *mutex) {
  return (struct mr_overlay_cell *)&mutex->__data.__list;
}

/* 0: the overlay is on, and the mutex is not of a kind that is glibc's own. */
static inline int mr_overlay_leaves(const struct mr_overlay *overlay,
                                    const pthread_mutex_t *mutex) {
  /* Acquire: the rest of the overlay was ready before it was turned on. */
  int off = atomic_load_explicit(&overlay->off, memory_order_acquire);
  return (mr_glibc_kind(mutex) | off) & MR_GLIBC_OWN;
}

/* The calling thread's line of counters; several threads may share it. */
struct maru_overlay_counts *mr_overlay_counts(const struct mr_overlay *overlay);

/* Beside a head that waits: may a newcomer try to take the mutex before it? */
bool mr_overlay_barges(const struct mr_overlay *overlay, pthread_mutex_t *mutex);

/* By whoever did not get it at once, or should not try. */
int mr_overlay_wait(struct mr_overlay *overlay, pthread_mutex_t *mutex);

/* The same by whoever has not looked whether it may try: a head waits, or the mutex is glibc's. */
int mr_overlay_lock_beside(struct mr_overlay *overlay, pthread_mutex_t *mutex);

static inline int mr_overlay_lock(struct mr_overlay *overlay, pthread_mutex_t *mutex) {
  /* Relaxed: advice. */
  uint32_t until = atomic_load_explicit(&mr_overlay_cell(mutex)->until, memory_order_relaxed);
  if (__builtin_expect(((uint32_t)mr_overlay_leaves(overlay, mutex) | until) != 0, 0))
    return mr_overlay_lock_beside(overlay, mutex);
  int rc = mr_glibc_trylock(mutex);
  return __builtin_expect(rc != EBUSY, 1) ? rc : mr_overlay_wait(overlay, mutex);
}

#endif
