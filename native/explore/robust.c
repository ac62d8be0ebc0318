/* robust.c: the model behind robust.h: libc's robust, checking mutex and what the kernel does
 * when its owner dies. */
#define _GNU_SOURCE
#include "robust.h"
#include "explore.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t explore_look_ns = SHORTEST_FOREVER_NS;

/* In the memory of a pthread_mutex_t. */
struct model {
  uint32_t owner; /* number of a task + 2; 0: free */
  uint32_t died;  /* its owner did, and nobody has said that all is well again */
  uint32_t lost;  /* released like that: nobody gets it any more */
};

static struct model *model(pthread_mutex_t *mutex) { return (struct model *)(void *)mutex; }

/* 1: outside of a schedule. */
static uint32_t self(void) { return explore_task() + 2; }

static pthread_mutex_t *robust; /* the scene's */

int explore_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
  (void)attributes;
  memset(mutex, 0, sizeof *mutex);
  robust = mutex;
  return 0;
}

int explore_mutex_destroy(pthread_mutex_t *mutex) {
  (void)mutex;
  return 0;
}

static bool is_free(const struct model *m) { return m->owner == 0; }

static int robust_take(struct model *m) {
  if (m->lost)
    return ENOTRECOVERABLE;
  m->owner = self();
  return m->died ? EOWNERDEAD : 0;
}

int explore_mutex_trylock(pthread_mutex_t *mutex) {
  explore_access(mutex, EXPLORE_MODIFY);
  return is_free(model(mutex)) ? robust_take(model(mutex)) : EBUSY;
}

static int lock_until(pthread_mutex_t *mutex, int64_t until_ns) {
  struct model *m = model(mutex);
  explore_access(mutex, EXPLORE_MODIFY);
  while (!is_free(m)) {
    if (m->owner == self())
      return EDEADLK;
    if (explore_time_ns() >= until_ns ||
        explore_futex_wait(&m->owner, m->owner, until_ns) == -ETIMEDOUT)
      return ETIMEDOUT;
  }
  return robust_take(m);
}

int explore_mutex_lock(pthread_mutex_t *mutex) { return lock_until(mutex, INT64_MAX); }

int explore_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
  (void)clock;
  return lock_until(mutex, (int64_t)until->tv_sec * 1000000000 + until->tv_nsec);
}

int explore_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
  return explore_mutex_clocklock(mutex, CLOCK_REALTIME, until);
}

int explore_mutex_consistent(pthread_mutex_t *mutex) {
  struct model *m = model(mutex);
  if (m->owner != self() || !m->died)
    return EINVAL;
  m->died = 0;
  return 0;
}

int explore_mutex_unlock(pthread_mutex_t *mutex) {
  struct model *m = model(mutex);
  explore_access(mutex, EXPLORE_WRITE);
  if (m->owner != self())
    return EPERM;
  m->lost |= m->died;
  m->owner = 0;
  explore_futex_wake(&m->owner);
  return 0;
}

/* A task that died between its release and the wake has it no more, but the kernel knows of that,
 * too. */
void explore_mutex_died(unsigned task) {
  struct model *m = model(robust);
  if (m->owner == task + 2) {
    m->died = 1;
    m->owner = 0;
  }
  explore_futex_woken(&m->owner);
}

/* ---- processes -------------------------------------------------------------------- */

#define FIRST_PID 100

pid_t explore_getpid(void) { return FIRST_PID + (pid_t)explore_task(); }

int explore_kill(pid_t pid, int signal) {
  (void)signal;
  errno = ESRCH;
  return explore_is_dead((unsigned)(pid - FIRST_PID)) ? -1 : 0;
}

/* In clock ticks; declared as base/task.h does. */
uint64_t explore_start_time(pid_t pid);
uint64_t explore_start_time(pid_t pid) { return (uint64_t)pid; }
