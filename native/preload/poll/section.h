/* section.h: the section "poll" of a run's board: what threads that ask without waiting,
 * again and again, have cost.  Counters only; Maru.Cli.Room.Wait.PollSection decodes it and knows
 * this layout.
 *
 * Nanoseconds of CLOCK_MONOTONIC and of the threads' CPU clocks.  Added relaxed, by any
 * process of the run: readers want no order.
 */
#ifndef MARU_PRELOAD_POLL_SECTION_H
#define MARU_PRELOAD_POLL_SECTION_H

#include <stdatomic.h>
#include <stdint.h>

#define MR_POLL_SECTION "poll"
#define MR_POLL_VERSION 1u

struct mr_poll {
  _Atomic uint64_t loads;     /* programs that loaded the library */
  _Atomic uint64_t processes; /* that had a spin: forked ones, too, which load nothing */
  _Atomic uint64_t spins;     /* that have ended */
  _Atomic uint64_t waited_ns; /* in them */
  _Atomic uint64_t cpu_ns;    /* of it on a CPU */
  _Atomic uint64_t sleeps;
  _Atomic uint64_t slept_ns;
  _Atomic uint64_t yields;
};

/* What the decoder knows. */
_Static_assert(sizeof(struct mr_poll) == 64, "eight words");

#endif
