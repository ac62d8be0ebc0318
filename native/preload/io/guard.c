/* guard.c: see guard.h. */
#include "guard.h"

#define GAIN 0.95
#define WEIGHT 0.4 /* of the newest slice */
#define HOPELESS 1.5

static void begin_trial(struct io_guard *guard) {
  guard->trying = true;
  guard->on = false;
  guard->cost[0] = guard->cost[1] = 0;
  guard->left = 2 * IO_GUARD_PROBE;
}

void io_guard_begin(struct io_guard *guard, uint32_t slice_calls) {
  *guard = (struct io_guard){.slice_calls = slice_calls};
  begin_trial(guard);
}

static void weigh(double *mean, double sample) {
  *mean = *mean == 0 ? sample : *mean + WEIGHT * (sample - *mean);
}

/* The pause that a lost trial begins; 0: it was won. */
static uint64_t judge(struct io_guard *guard) {
  guard->trying = false;
  guard->on = guard->cost[1] <= GAIN * guard->cost[0];
  if (guard->on) {
    guard->left = IO_GUARD_STAY;
    guard->pause_ns = 0;
    return 0;
  }
  uint64_t doubled = 2 * guard->pause_ns;
  guard->pause_ns = doubled == 0                       ? IO_GUARD_PAUSE_LEAST_NS
                    : doubled < IO_GUARD_PAUSE_MOST_NS ? doubled
                                                       : IO_GUARD_PAUSE_MOST_NS;
  begin_trial(guard);
  return guard->pause_ns;
}

/* After a slice of each: what costs so much more will not win. */
static bool hopeless(const struct io_guard *guard) {
  return guard->trying && guard->on && guard->cost[1] > HOPELESS * guard->cost[0];
}

/* Within a trial's first slice, or while it is on: its calls have cost already what a hopeless
 * slice costs in all.  Where no core is free a single call may take milliseconds. */
static bool lost_already(const struct io_guard *guard) {
  double slice = (double)guard->bytes / guard->calls * guard->slice_calls;
  return guard->on && (!guard->trying || guard->cost[1] == 0) && guard->cost[0] > 0 &&
         (double)guard->ns > HOPELESS * guard->cost[0] * slice;
}

uint64_t io_guard_add(struct io_guard *guard, uint64_t bytes, uint64_t ns) {
  if (guard->skip > 0) {
    guard->skip--;
    return 0;
  }
  guard->bytes += bytes;
  guard->ns += ns;
  guard->calls++;
  bool lost = lost_already(guard);
  if (guard->calls < guard->slice_calls && !lost)
    return 0;
  if (guard->trying && guard->bytes > 0)
    weigh(&guard->cost[guard->on], (double)guard->ns / (double)guard->bytes);
  guard->bytes = guard->ns = 0;
  guard->calls = 0;
  if (--guard->left > 0 && !lost && !hopeless(guard)) {
    if (guard->trying) {
      guard->on = !guard->on;
      guard->skip = 1;
    }
    return 0;
  }
  if (guard->trying)
    return judge(guard);
  begin_trial(guard);
  return 0;
}
