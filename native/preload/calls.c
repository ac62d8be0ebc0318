/* calls.c: the program's calls under libmaru-lock.so.  pthread_mutex_lock queues; what takes a
 * mutex past the queues is counted; all others (unlock, trylock) are glibc's, untouched. */
#define _GNU_SOURCE
#include "lock.h"

void mr_calls_start(struct mr_preload *preload, bool fit) {
  (void)preload;
  (void)fit;
}

/* Relaxed: figures. */
static void count(_Atomic uint64_t *counter) {
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

MR_EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex) {
  return mr_overlay_lock(&mr_overlay, mutex);
}

MR_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
  count(&mr_overlay_counts(&mr_overlay)->timed);
  return mr_glibc_timedlock(mutex, until);
}

MR_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
                                      const struct timespec *until) {
  count(&mr_overlay_counts(&mr_overlay)->timed);
  return mr_glibc_clocklock(mutex, clock, until);
}

/* Counted before: a wait that is cancelled takes the mutex back, too. */
MR_EXPORT int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  count(&mr_overlay_counts(&mr_overlay)->reacquired);
  return mr_glibc_cond_wait(condition, mutex);
}

MR_EXPORT int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                     const struct timespec *until) {
  count(&mr_overlay_counts(&mr_overlay)->reacquired);
  return mr_glibc_cond_timedwait(condition, mutex, until);
}

MR_EXPORT int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                     clockid_t clock, const struct timespec *until) {
  count(&mr_overlay_counts(&mr_overlay)->reacquired);
  return mr_glibc_cond_clockwait(condition, mutex, clock, until);
}
