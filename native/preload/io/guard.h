/* guard.h: whether to go on doing something, by what it costs (internal, pure).
 *
 * Work comes in slices.  A trial is PROBE slices without and PROBE slices with, alternating so
 * that a machine that becomes busy meanwhile slows both; each side's cost is an exponentially
 * weighted mean of ns per byte; one that costs half as much again loses at once, within its first
 * slice as soon as that is sure.  It stays on for STAY slices when it costs at most 95 % of off,
 * and is tried again then, or when a slice costs half as much again as off did.  Otherwise it is
 * off for a pause that doubles with each failed trial.  Pauses are times: a program that calls
 * often is not tried more often.  The caller has the clock.  No allocation, not thread-safe. */
#ifndef MARU_PRELOAD_IO_GUARD_H
#define MARU_PRELOAD_IO_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#define IO_GUARD_PROBE 4u
#define IO_GUARD_STAY 256u
#define IO_GUARD_PAUSE_LEAST_NS UINT64_C(1000000000)
#define IO_GUARD_PAUSE_MOST_NS (UINT64_C(1000) * IO_GUARD_PAUSE_LEAST_NS)

struct io_guard {
  double cost[2];     /* ns per byte, of off and on; 0: not measured in this trial */
  uint64_t bytes, ns; /* of the slice that has begun */
  uint32_t calls;
  uint32_t slice_calls; /* how many make a slice */
  uint32_t left;        /* slices until the state ends */
  uint32_t skip;        /* calls whose cost is not counted: the first after a switch */
  uint64_t pause_ns;    /* the last one; 0: none since a trial that was won */
  bool trying, on;
};

/* Calls in a slice, at least 1. */
void io_guard_begin(struct io_guard *guard, uint32_t slice_calls);
/* What the next call has to do. */
static inline bool io_guard_on(const struct io_guard *guard) { return guard->on; }
/* What a call cost that was made as io_guard_on said.  Above 0: a trial has just been lost, and
 * nothing is to be added for so many ns; then another trial begins. */
uint64_t io_guard_add(struct io_guard *guard, uint64_t bytes, uint64_t ns);

#endif
