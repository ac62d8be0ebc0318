/* gate.c: see gate.h. */
#define _GNU_SOURCE
#include "gate.h"

#include <errno.h>
#include <signal.h>

#define SLICE_CALLS 32u

static void begin(struct io_gate *gate) {
  io_guard_begin(&gate->guard, SLICE_CALLS);
  gate->begun = true;
}

static bool is_gone(uint32_t pid) {
  int saved = errno;
  bool gone = kill((pid_t)pid, 0) < 0 && errno == ESRCH;
  errno = saved;
  return gone;
}

enum io_gate_answer io_gate_enter(struct io_gate *gate, pid_t self) {
  uint32_t holder = 0;
  /* Acquire, and release in leave: the guard is one thread's at a time. */
  if (atomic_compare_exchange_strong_explicit(&gate->holder, &holder, (uint32_t)self,
                                              memory_order_acquire, memory_order_relaxed)) {
    atomic_store_explicit(&gate->refused, 0, memory_order_relaxed); /* a mere count */
    if (!gate->begun)
      begin(gate);
    return IO_GATE_ENTERED;
  }
  /* Relaxed: the same count. */
  uint32_t refused = atomic_fetch_add_explicit(&gate->refused, 1, memory_order_relaxed) + 1;
  if (refused % IO_GATE_REFUSALS != 0 || !is_gone(holder))
    return IO_GATE_SHUT;
  /* Acquire: what the dead one wrote, for who overwrites it. */
  if (!atomic_compare_exchange_strong_explicit(&gate->holder, &holder, (uint32_t)self,
                                               memory_order_acquire, memory_order_relaxed))
    return IO_GATE_SHUT;
  begin(gate); /* it may be half written */
  return IO_GATE_TAKEN_OVER;
}

void io_gate_leave(struct io_gate *gate) {
  atomic_store_explicit(&gate->holder, 0, memory_order_release);
}
