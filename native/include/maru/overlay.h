/* maru/overlay.h: the section "lock" on a board: what `maru run --lock` lays over the mutexes
 * of unmodified programs.  Knobs go down, counters come up; all processes of a run share it.
 *
 * Any process that may write the board may write the knobs at any time.  The next thread that
 * queues reads them.  While one is out of its range (maru/lock.h), all but patience_ns count as
 * their defaults. Counters only grow; a thread adds to one of the lines, so a reader adds up the
 * lines.
 */
#ifndef MARU_OVERLAY_H
#define MARU_OVERLAY_H

#include <maru/histogram.h>
#include <maru/wait.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MARU_OVERLAY_SECTION "lock"
#define MARU_OVERLAY_VERSION 1u
#define MARU_OVERLAY_LINES 32u
#define MARU_OVERLAY_ENV "MARU_LOCK"

/* What a mutex that is left to glibc is; the first of these that holds. */
enum maru_overlay_left {
  MARU_LEFT_ROBUST = 0,
  MARU_LEFT_INHERIT, /* of priorities */
  MARU_LEFT_PROTECT, /* by a priority */
  MARU_LEFT_SHARED,  /* between processes */
  MARU_LEFT_KINDS
};

struct maru_overlay_knobs {
  MARU_ATOMIC(uint32_t) handoff_range; /* 0: no knob has been set yet */
  MARU_ATOMIC(uint32_t) shuffle_reduction;
  MARU_ATOMIC(uint32_t) passes;
  MARU_ATOMIC(uint64_t) deadline_ns;
  MARU_ATOMIC(uint64_t) max_bypass; /* among those who queue */
  /* Once the queue's head has been so long at the mutex newcomers queue; 0 or above half an
   * hour: the default. */
  MARU_ATOMIC(uint64_t) patience_ns;
};

/* One cache line. */
struct maru_overlay_counts {
  MARU_ATOMIC(uint64_t) queued;      /* acquisitions that went through the queue */
  MARU_ATOMIC(uint64_t) handed_on;   /* of these, that found somebody behind them */
  MARU_ATOMIC(uint64_t) impatient;   /* heads that waited longer than patience_ns */
  MARU_ATOMIC(uint64_t) left_socket; /* cna: hand-ons to another socket */
  MARU_ATOMIC(uint64_t) set_aside;   /* cna */
  MARU_ATOMIC(uint64_t) reacquired;  /* by condition variables: waits that were begun */
  MARU_ATOMIC(uint64_t) timed;       /* timed locks that were tried */
  uint64_t apart[1];
};

struct maru_overlay {
  struct maru_overlay_knobs knobs;
  char apart[64 - sizeof(struct maru_overlay_knobs) % 64];
  char name[16];                     /* of the algorithm; before handoff_range */
  MARU_ATOMIC(uint32_t) processes;   /* that came with the overlay */
  MARU_ATOMIC(uint32_t) passing;     /* of these, that only pass through */
  MARU_ATOMIC(uint32_t) warned;      /* somebody has said on stderr why */
  MARU_ATOMIC(uint32_t) resets;      /* queues that a fork had left behind */
  MARU_ATOMIC(uint64_t) initialised; /* mutexes, by pthread_mutex_init */
  MARU_ATOMIC(uint64_t) left[MARU_LEFT_KINDS];
  char apart_too[120];
  struct maru_overlay_counts counts[MARU_OVERLAY_LINES];
};

/* The section "lockwaits": how long the run's threads waited for mutexes, live, over all of its
 * mutexes and processes.  Waits are in nanoseconds, in the classes of maru/histogram.h.
 *
 * Plain counters that only grow; a thread adds (relaxed) to one of the lines.  A reader adds up
 * the lines.  For a window of its own it takes off what it read before.  Within one look, counters
 * may be apart by what happened meanwhile.
 *
 * `classes` has an acquisition that found its mutex taken, once it has it.  In a run with the
 * profile those are all; without it, those through the queue.
 * `acquisitions` are all, also the free ones, which waited for 0 ns: a quantile over all of
 * them takes acquisitions - (sum of classes) more zeros.  A thread adds its own here at its
 * next wait and when it ends.  Else it does so at the first acquisition that reads the clock, a
 * millisecond after the last time.  Of free mutexes one in 64 at least reads it, by chance.
 * Counted in a run with the profile alone (`counted` is 1); else they are 0, and nothing is known
 * but of those that waited. */
#define MARU_OVERLAY_WAITS_SECTION "lockwaits"
#define MARU_OVERLAY_WAITS_VERSION 1u
#define MARU_OVERLAY_WAITS_LINES 8u

struct maru_overlay_waits_line {
  MARU_ATOMIC(uint64_t) acquisitions;
  uint64_t apart[7];
  MARU_ATOMIC(uint64_t) classes[MARU_HISTOGRAM_CLASSES];
};

struct maru_overlay_waits {
  MARU_ATOMIC(uint32_t) counted;
  char apart[60];
  struct maru_overlay_waits_line lines[MARU_OVERLAY_WAITS_LINES];
};

#ifdef __cplusplus
}
#endif
#endif
