/* fairness.h: how a mutex's acquisitions are shared among threads, in windows of time (internal).
 *
 * Jain's index of a window: with x acquisitions of each of n threads that wanted the mutex in it,
 * (sum x)^2 / (n * sum x^2); 1: equal shares, 1/n: one had all.  A thread that waited all through
 * a window counts in n.  A window is closed when one that is 64 windows younger is begun. */
#ifndef MARU_PRELOAD_FAIRNESS_H
#define MARU_PRELOAD_FAIRNESS_H

#include "figures.h"
#include <maru/lockprof.h>

/* Of the smallest windows. */
#define MR_FAIRNESS_WINDOW_NS 1000000u

/* Its thread hands in what it had in windows that are over. */
void mr_fairness_turn(struct maru_lockprof_fairness *fairness, struct maru_lockprof_pace *pace,
                      uint64_t now_ns, uint64_t since_ns);

/* By the pace's thread: it has acquired the mutex now, after it waited from since_ns on (0: it did
 * not wait). */
static inline void mr_fairness_acquired(struct maru_lockprof_fairness *fairness,
                                        struct maru_lockprof_pace *pace, uint64_t now_ns,
                                        uint64_t since_ns) {
  /* A clock may be behind on another CPU by less than a window. */
  if (MR_LOAD(pace->window[0]) < now_ns / MR_FAIRNESS_WINDOW_NS + 1)
    mr_fairness_turn(fairness, pace, now_ns, since_ns);
  MR_ADD(pace->acquisitions, 1);
}

#endif
