/* clock.h: nanoseconds, as cheap as can be (internal).
 *
 * From the CPU's own counter where Linux itself takes the time from it: then it runs steadily
 * and alike on all CPUs. Else from the system. Only differences mean anything; they are off by
 * at most 1 in 10 000. */
#ifndef MARU_PRELOAD_CLOCK_H
#define MARU_PRELOAD_CLOCK_H

#include <maru/wait.h>

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

struct mr_clock {
  uint64_t ns_per_tick; /* times 2^32; 0: the system's */
};

/* The CPU's counter, if it may be used. */
bool mr_clock_may_count(void);
/* Between two calls, some 1 ms apart, the rate is measured. */
struct mr_clock_mark {
  uint64_t ticks;
  int64_t ns;
};
struct mr_clock_mark mr_clock_mark(void);
struct mr_clock mr_clock_between(struct mr_clock_mark from, struct mr_clock_mark to);

static inline uint64_t mr_clock_ns(const struct mr_clock *clock) {
#if defined(__x86_64__)
  if (clock->ns_per_tick != 0)
    return (uint64_t)((unsigned __int128)__rdtsc() * clock->ns_per_tick >> 32);
#endif
  (void)clock;
  return (uint64_t)maru_now_ns();
}

#endif
