/* waits.h: the section "lockwaits" (maru/overlay.h), as threads add to it (internal).  Any thread,
 * at any time. */
#ifndef MARU_PRELOAD_WAITS_H
#define MARU_PRELOAD_WAITS_H

#include <maru/overlay.h>

/* What differs between threads chooses a line of counters; equal lines are no error. */
uintptr_t mr_waits_own_number(void);
void mr_waits_add(struct maru_overlay_waits *waits, uint64_t ns);
void mr_waits_acquired(struct maru_overlay_waits *waits, uint64_t acquisitions);

#endif
