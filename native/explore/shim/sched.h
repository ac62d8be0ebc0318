/* sched.h as the explorer's tests see it: the scene's CPUs. */
#ifndef MARU_EXPLORE_SCHED_H
#define MARU_EXPLORE_SCHED_H

#include_next <sched.h>

#include "../explore.h"

#define sched_getcpu() explore_cpu()

#endif
