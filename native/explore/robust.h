/* robust.h: a robust mutex and processes, as the explorer's tests see them: included before all
 * else in the sources under test.  Each task is a process; one that was killed is gone. */
#ifndef MARU_EXPLORE_ROBUST_H
#define MARU_EXPLORE_ROBUST_H

#define pthread_mutex_init explore_mutex_init
#define pthread_mutex_lock explore_mutex_lock
#define pthread_mutex_trylock explore_mutex_trylock
#define pthread_mutex_timedlock explore_mutex_timedlock
#define pthread_mutex_clocklock explore_mutex_clocklock
#define pthread_mutex_consistent explore_mutex_consistent
#define pthread_mutex_unlock explore_mutex_unlock
#define pthread_mutex_destroy explore_mutex_destroy
#define getpid explore_getpid
#define kill explore_kill
#define mr_start_time explore_start_time

/* The kernel's part when a task dies: for the mutex that was made last. */
void explore_mutex_died(unsigned task);

/* How often a waiter at a shared lock asks by itself. */
#define LOOK_NS explore_look_ns
extern __INT64_TYPE__ explore_look_ns; /* no header yet: the sources choose their features */

#endif
