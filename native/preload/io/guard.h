/* guard.h: whether to go on doing something, by what it costs (internal, pure).
 *
 * Work comes in slices.  A trial is PROBE slices without and PROBE slices with, alternating so
 * that a machine that becomes busy meanwhile slows both; each side's cost is an exponentially
 * weighted mean of ns per byte; one that costs half as much again loses at once, within its first
 * slice as soon as that is sure.  It stays on for STAY slices when it costs at most 95 % of off,
 * and is tried again then, or when a slice costs half as much again as off did.  Otherwise it is
 * off for a pause that doubles with each failed trial. No clock, no allocation, not thread-safe. */
#ifndef MARU_PRELOAD_IO_GUARD_H
#define MARU_PRELOAD_IO_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#define IO_GUARD_PROBE 4u
#define IO_GUARD_STAY 256u
#define IO_GUARD_PAUSE_MOST (1u << 20)

struct io_guard {
  double cost[2];     /* ns per byte, of off and on; 0: not measured in this trial */
  uint64_t bytes, ns; /* of the slice that has begun */
  uint32_t calls;
  uint32_t slice_calls; /* how many make a slice */
  uint32_t left;        /* slices until the state ends */
  uint32_t pause;       /* the last one, in slices; 0: none since a trial that was won */
  uint32_t pause_least;
  uint32_t skip; /* calls whose cost is not counted: the first after a switch */
  bool trying, on;
};

/* Calls in a slice, slices in the shortest pause; each at least 1. */
void io_guard_begin(struct io_guard *guard, uint32_t slice_calls, uint32_t pause_least);
/* What the next call has to do. */
static inline bool io_guard_on(const struct io_guard *guard) { return guard->on; }
/* What a call cost that was made as io_guard_on said; `ns` matters in a trial and while it is
 * on.  True: a trial has just ended. */
bool io_guard_add(struct io_guard *guard, uint64_t bytes, uint64_t ns);
/* While it is off for a pause: ends the pause, and returns how many calls it still had, for a
 * caller who counts them itself.  Else 0. */
uint64_t io_guard_rest(struct io_guard *guard);

#endif
