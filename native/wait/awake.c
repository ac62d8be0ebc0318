/* awake.c: looking again and again. */
#define _GNU_SOURCE
#include "ways.h"

#include <sched.h>

#define LOOKS_PER_CLOCK 32 /* a look and a pause: 1 to 2 us between clock reads */

int64_t mr_wait_now(struct mr_wait *w) {
  int64_t now = maru_now_ns();
  if (w->policy->channel != NULL)
    mr_channel_end_stale_boosts(w->policy, now, &w->ended_beat_ns);
  return now;
}

void mr_pause_core(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#else
  atomic_signal_fence(memory_order_seq_cst);
#endif
}

bool mr_wait_spinning(struct mr_wait *w, int64_t end_ns) {
  struct mr_condition c = w->c; /* in registers: each look is one load */
  _Atomic uint32_t *word = w->word;
  do {
    for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
      if (mr_look_at(word, &c))
        return true;
      mr_pause_core();
    }
  } while (mr_wait_now(w) < end_ns);
  return mr_look_at(word, &c);
}

bool mr_wait_spinning_first(struct mr_wait *w, uint32_t budget_ns) {
  if (!w->policy->spare || budget_ns == 0)
    return false;
  return mr_wait_spinning(w, mr_earlier(mr_wait_now(w) + budget_ns, w->deadline_ns));
}

/* One turn may take a time slice of somebody else's: the clock is read after each. */
int mr_wait_yielding(struct mr_wait *w) {
  do {
    if (mr_look(w))
      return 0;
    sched_yield();
  } while (mr_wait_now(w) < w->deadline_ns);
  return mr_look(w) ? 0 : -ETIMEDOUT;
}
