/* fairness.h: how a mutex's acquisitions are shared among threads, in windows of time (internal).
 *
 * Jain's index of a window: with x acquisitions of each of n threads that wanted the mutex in it,
 * (sum x)^2 / (n * sum x^2); 1: equal shares, 1/n: one had all.  A thread that waited all through
 * a window counts in n.  A window is closed when one that is 64 windows younger is begun. */
#ifndef MARU_PRELOAD_FAIRNESS_H
#define MARU_PRELOAD_FAIRNESS_H

#include <maru/lockprof.h>

#include <stdatomic.h>

/* By the pace's thread: it has acquired the mutex now, after it waited from since_ns on (0: it did
 * not wait). */
void mr_fairness_acquired(struct maru_lockprof_fairness *fairness, struct maru_lockprof_pace *pace,
                          uint64_t now_ns, uint64_t since_ns);

#endif
