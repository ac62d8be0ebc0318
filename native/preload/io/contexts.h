/* contexts.h: slots and contexts, as contexts.c (who asks, who starts and ends) and serve.c (who
 * makes calls) share them (internal).
 *
 * States of a slot's word:
 *
 *   IDLE -> QUEUED -> RUNNING -> DONE -> IDLE      the context took it
 *           QUEUED -> BACK -> IDLE                 its owner took it back
 */
#ifndef MARU_PRELOAD_IO_CONTEXTS_H
#define MARU_PRELOAD_IO_CONTEXTS_H

#include "io.h"

#include <pthread.h>
#include <stdalign.h>

#define IO_SLOTS 256u
#define IO_SLOT_WORDS (IO_SLOTS / 64)
#define IO_NODES 8u

enum { IDLE = 0, QUEUED = 2, RUNNING = 4, DONE = 6, BACK = 8, STATE = ~MARU_WAIT_ARMED };

struct slot {
  alignas(64) _Atomic uint32_t word;
  _Atomic uint32_t taken;
  _Atomic int fd; /* the request's, for who closes */
  bool stale;     /* the descriptor was closed before the call was made */
  int signal;     /* that the call sent to the context */
  long result;
  /* Where the call reads or writes, for who looks for neighbours; equal: it does not say. */
  _Atomic uint64_t from, to;
  struct io_request request;
  struct maru_wait_policy policy; /* of the owner */
};

/* ENDED: by itself, and nobody has joined its thread yet. */
enum { NONE = 0, ENDED, READY };

struct context {
  alignas(64) _Atomic uint32_t bell;
  alignas(64) _Atomic uint64_t queued[IO_SLOT_WORDS];
  _Atomic uint32_t state;
  _Atomic uint32_t stop;
  unsigned node;
  enum io_context_class class;
  pthread_t thread;
  _Atomic pid_t tid; /* the thread's, as it says when it begins */
};

extern struct slot io_slots[IO_SLOTS];
extern _Atomic uint32_t io_contexts_running;
extern _Atomic bool io_first_thread_left; /* by pthread_exit; for those that idle */

static inline uint32_t state_of(struct slot *slot, memory_order order) {
  return atomic_load_explicit(&slot->word, order) & (uint32_t)STATE;
}

/* From one state to another, whoever sleeps there.  False: it was in a third one. */
static inline bool move(struct slot *slot, uint32_t from, uint32_t to) {
  uint32_t now = atomic_load_explicit(&slot->word, memory_order_relaxed);
  while ((now & (uint32_t)STATE) == from)
    /* Sequentially consistent: see files.c. */
    if (atomic_compare_exchange_weak_explicit(&slot->word, &now, to | (now & MARU_WAIT_ARMED),
                                              memory_order_seq_cst, memory_order_relaxed))
      return true;
  return false;
}

/* A context's thread. */
void *io_serve(void *context);
/* By that thread, before it returns; false: it is to go on. */
bool io_context_ends(struct context *context);

#endif
