#include "waits.h"

uintptr_t mr_waits_own_number(void) {
  static _Thread_local char here;
  return (uintptr_t)&here >> 12;
}

static struct maru_overlay_waits_line *own_line(struct maru_overlay_waits *waits) {
  return &waits->lines[mr_waits_own_number() % MARU_OVERLAY_WAITS_LINES];
}

/* Relaxed, both: figures. */
void mr_waits_add(struct maru_overlay_waits *waits, uint64_t ns) {
  atomic_fetch_add_explicit(&own_line(waits)->classes[maru_histogram_class(ns)], 1,
                            memory_order_relaxed);
}

void mr_waits_acquired(struct maru_overlay_waits *waits, uint64_t acquisitions) {
  atomic_fetch_add_explicit(&own_line(waits)->acquisitions, acquisitions, memory_order_relaxed);
}
