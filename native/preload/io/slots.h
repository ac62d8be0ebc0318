/* slots.h: a thread's request on its way to a context and back (internal).
 *
 * States of a slot's word:
 *
 *   IDLE -> QUEUED -> RUNNING -> DONE -> IDLE      a context made the call
 *           QUEUED -> BACK -> IDLE                 its owner took it back
 *
 * The owner makes the steps from DONE and BACK, and so does a handler that interrupts it. Each is
 * one compare-and-swap, so that either makes it. No handler comes between while a request is put
 * into the slot. The word has the request's number, too: a call whose frame was taken to another
 * thread by a handler steps for its own request alone.
 */
#ifndef MARU_PRELOAD_IO_SLOTS_H
#define MARU_PRELOAD_IO_SLOTS_H

#include "contexts.h"

enum { IDLE = 0, QUEUED = 2, RUNNING = 4, DONE = 6, BACK = 8 };

/* Of the word; the rest, but MARU_WAIT_ARMED, is the request's number. */
#define STATE UINT32_C(0xe)
#define ONE_REQUEST UINT32_C(0x10)

static inline uint32_t request_of(uint32_t word) { return word & ~(STATE | MARU_WAIT_ARMED); }

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

extern struct slot io_slots[IO_SLOTS];

static inline uint32_t state_of(struct slot *slot, memory_order order) {
  return atomic_load_explicit(&slot->word, order) & STATE;
}

/* From one state to another, whether or not a thread sleeps there.  False: it was in a third one.
 */
static inline bool move(struct slot *slot, uint32_t from, uint32_t to) {
  uint32_t now = atomic_load_explicit(&slot->word, memory_order_relaxed);
  while ((now & STATE) == from)
    /* Sequentially consistent: see files.c. */
    if (atomic_compare_exchange_weak_explicit(&slot->word, &now, to | (now & ~STATE),
                                              memory_order_seq_cst, memory_order_relaxed))
      return true;
  return false;
}

/* By who alone may change the state now. */
static inline void set_state(struct slot *slot, uint32_t to) {
  uint32_t now = atomic_load_explicit(&slot->word, memory_order_relaxed);
  maru_notify_store(&slot->word, to | request_of(now));
}

#endif
