/* priority.h: a thread's place in the kernel's scheduler (internal).
 *
 * A thread is named by its tid; 0 is the calling one.  Errors are negative errno.
 * All are async-signal-safe but mr_sched_can_restore, which starts a thread.
 */
#ifndef MARU_WAIT_PRIORITY_H
#define MARU_WAIT_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mr_sched {
  uint32_t policy;   /* SCHED_OTHER, SCHED_RR, ... */
  uint32_t on_fork;  /* 1: children start as SCHED_OTHER, nice 0 */
  int32_t nice;      /* of SCHED_OTHER and SCHED_BATCH */
  uint32_t priority; /* of SCHED_FIFO and SCHED_RR */
};

int mr_sched_get(pid_t tid, struct mr_sched *sched);
int mr_sched_set(pid_t tid, const struct mr_sched *sched);
bool mr_sched_equal(const struct mr_sched *left, const struct mr_sched *right);

/* The same in one word, for the board; what does not fit is cut. */
uint32_t mr_sched_pack(const struct mr_sched *sched);
struct mr_sched mr_sched_unpack(uint32_t packed);

/* Below every ordinary thread of the same control group: SCHED_OTHER, nice 19. */
struct mr_sched mr_sched_lowered(const struct mr_sched *normal);

/* 0 when a thread like this one that lowered itself could come back, tried with
 * a thread that then ends (50 us or so); -EPERM, or why it could not be tried. */
int mr_sched_can_restore(const struct mr_sched *normal);

/* Asks for time slices of `ns` for the calling thread, if it is SCHED_OTHER:
 * when it wakes it is due sooner (Linux 6.12; older kernels ignore it). */
int mr_sched_short_slice(uint64_t ns);

#endif
