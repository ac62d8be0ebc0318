/* kinds.h: the algorithms behind maru_lock (internal).
 *
 * Each is a struct of its own in the union of maru_lock and one struct of functions. */
#ifndef MARU_LOCK_KINDS_H
#define MARU_LOCK_KINDS_H

#include "queue.h"
#include "words.h"

#include <pthread.h>

/* One socket's share of a cohort lock; its fields but `local` are the holder's. */
struct mr_cohort_socket {
  struct mr_queue local;
  struct mr_turns turns;   /* in it */
  struct maru_hold global; /* hmcs: of the global queue */
  uint32_t passed;         /* hand-offs within the socket since it got the global lock */
  uint32_t owns_global;
};

struct maru_lock {
  const struct mr_lock_kind *kind;
  struct mr_waiting waiting;
  struct mr_turns turns; /* in the lock's one queue, or its first */
  struct mr_place place;
  uint32_t passes;
  /* A mutex's holder's (mutex.c): of its hold what the release needs, or all of it. */
  alignas(64) struct maru_wait_turn held_turn;
  struct maru_hold *held;
  union {
    pthread_mutex_t mutex;
    _Atomic uint32_t word; /* ttas */
    struct {
      alignas(64) _Atomic uint32_t next;
      alignas(64) _Atomic uint32_t serving;
    } ticket;
    struct mr_queue queue;                               /* mcs, cna */
    alignas(64) struct maru_lock_node *_Atomic clh_tail; /* never NULL */
    struct {
      alignas(64) _Atomic uint32_t word;
      _Atomic uint32_t impatient; /* the queue's head has waited long: do not barge */
      struct mr_queue queue;
    } fissile;
    struct {
      alignas(64) _Atomic uint32_t word;
      _Atomic uint32_t pending; /* MR_SET: somebody is the next one */
      struct mr_queue queue;
    } qspin;
    struct {
      alignas(64) _Atomic uint32_t word;
      struct mr_queue queue;
    } shfl;
    struct {
      alignas(64) _Atomic uint32_t word; /* c-bo-mcs */
      struct mr_queue queue;             /* hmcs */
      struct mr_cohort_socket *sockets;
    } cohort;
  };
};

struct mr_lock_kind {
  const char *name;
  bool needs_place;
  bool
      hold_moves; /* a holder's hold is no more than its turn: the rest may lie elsewhere by then */
  int (*create)(struct maru_lock *lock, const struct maru_lock_options *options);
  void (*destroy)(struct maru_lock *lock); /* NULL: nothing to do */
  int (*acquire)(struct maru_lock *lock, struct maru_hold *hold,
                 const struct mr_deadline *deadline);
  int (*try)(struct maru_lock *lock, struct maru_hold *hold);
  void (*release)(struct maru_lock *lock, struct maru_hold *hold);
};

/* A power of two, up to the largest. */
bool mr_is_lock_range(uint64_t range);
/* -EINVAL: a knob is out of its range. */
int mr_options_check(const struct maru_lock_options *options);

extern const struct mr_lock_kind mr_clh, mr_qspin, mr_shfl, mr_fissile, mr_c_bo_mcs, mr_hmcs;

#endif
