/* gate.h: one guard for all threads and all forked processes that share its memory (internal).
 *
 * Who comes while another one looks is sent away; nobody waits.  A process that was killed in
 * there and is gone (a zombie is not) is found out by one of those, and the guard begins anew.
 *
 * From another pid namespace one that is alive but stopped in there looks gone, too.  Two may be
 * inside then: what the trial finds is worth nothing, and no more is lost than that. */
#ifndef MARU_PRELOAD_IO_GATE_H
#define MARU_PRELOAD_IO_GATE_H

#include "guard.h"

#include <stdatomic.h>
#include <sys/types.h>

/* Of so many that are sent away in a row one looks whether the holder lives. */
#define IO_GATE_REFUSALS 1024u

/* All zero: open, never entered. */
struct io_gate {
  _Atomic uint64_t rests_until; /* ns of the coarse monotonic clock; after a lost trial */
  _Atomic uint32_t holder;      /* pid, 0: open */
  _Atomic uint32_t refused;     /* in a row */
  bool begun;
  struct io_guard guard; /* the holder's */
};

enum io_gate_answer { IO_GATE_SHUT = 0, IO_GATE_ENTERED, IO_GATE_TAKEN_OVER };

/* `self`: the caller's pid.  Async-signal-safe; leaves errno alone. */
enum io_gate_answer io_gate_enter(struct io_gate *gate, pid_t self);
void io_gate_leave(struct io_gate *gate);

#endif
