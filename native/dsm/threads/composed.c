/* composed.c: a program's reader-writer locks and semaphores (maru/threads.h): each consists of a
 * lock and a condition of the job (objects.h).
 */
#define _GNU_SOURCE
#include "objects.h"
#include "threads.h"

#include <errno.h>
#include <limits.h>
#include <maru/dsm.h>
#include <maru/threads.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>

struct rwlock {
  uint32_t id, readers;
  uint64_t writer; /* 1 more than the thread; 0: none */
  uint32_t writers_waiting;
};
struct semaphore {
  uint32_t id, value;
};

/* glibc's static initialisers say in __flags which of readers and writers goes first. */
_Static_assert(sizeof(struct rwlock) <= offsetof(pthread_rwlock_t, __data.__flags) &&
                   sizeof(struct semaphore) <= sizeof(sem_t),
               "in the program's objects");

static void enter(uint32_t *id) {
  if (!mr_object_alone())
    maru_dsm_lock(mr_object_id(id));
}
static void leave(uint32_t *id) {
  if (!mr_object_alone())
    maru_dsm_unlock(*id);
}
static void await_change(uint32_t *id, const char *what) {
  mr_object_needs_main(what);
  mr_threads_say();
  if (mr_threads_may_lend()) {
    leave(id);
    mr_threads_lend();
    enter(id);
  } else {
    maru_dsm_condition_wait(*id, *id);
  }
}
static void leave_changed(uint32_t *id) {
  if (!mr_object_alone())
    maru_dsm_condition_broadcast(*id);
  leave(id);
}

int maru_pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attributes) {
  int kind = PTHREAD_RWLOCK_DEFAULT_NP;
  if (attributes != NULL)
    pthread_rwlockattr_getkind_np(attributes, &kind);
  *(struct rwlock *)lock = (struct rwlock){.id = mr_object_first()};
  lock->__data.__flags = (unsigned)kind;
  return 0;
}

int maru_pthread_rwlock_destroy(pthread_rwlock_t *lock) {
  mr_object_forget(&((struct rwlock *)lock)->id);
  return 0;
}

static uint64_t me(void) { return (uint64_t)maru_pthread_self() + 1; }

/* Its own writes alone make a thread the writer, so it sees them. */
static bool is_mine(const pthread_rwlock_t *lock) {
  return ((const struct rwlock *)lock)->writer == me();
}

/* As glibc: readers go first, so that one may lock again; unless the program asked otherwise. */
static bool keeps_readers_out(const pthread_rwlock_t *lock) {
  const struct rwlock *l = (const struct rwlock *)lock;
  bool writers_first = lock->__data.__flags == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
  return l->writer != 0 || (writers_first && l->writers_waiting > 0);
}

static int read_lock(pthread_rwlock_t *lock, bool waits) {
  struct rwlock *l = (struct rwlock *)lock;
  int rc = 0;
  enter(&l->id);
  while (waits && keeps_readers_out(lock))
    await_change(&l->id, "pthread_rwlock_rdlock");
  if (keeps_readers_out(lock))
    rc = EBUSY;
  else
    l->readers++;
  leave(&l->id);
  return rc;
}

static int write_lock(pthread_rwlock_t *lock, bool waits) {
  struct rwlock *l = (struct rwlock *)lock;
  int rc = 0;
  enter(&l->id);
  l->writers_waiting += waits;
  while (waits && (l->writer != 0 || l->readers > 0))
    await_change(&l->id, "pthread_rwlock_wrlock");
  l->writers_waiting -= waits;
  if (l->writer != 0 || l->readers > 0)
    rc = EBUSY;
  else
    l->writer = me();
  leave(&l->id);
  return rc;
}

int maru_pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
  return is_mine(lock) ? EDEADLK : read_lock(lock, true);
}
int maru_pthread_rwlock_tryrdlock(pthread_rwlock_t *lock) { return read_lock(lock, false); }
int maru_pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
  return is_mine(lock) ? EDEADLK : write_lock(lock, true);
}
int maru_pthread_rwlock_trywrlock(pthread_rwlock_t *lock) { return write_lock(lock, false); }

/* By looking: no node can give up a wait. */
static int lock_until(int (*take)(pthread_rwlock_t *lock, bool waits), pthread_rwlock_t *lock,
                      clockid_t clock, const struct timespec *until) {
  int rc;
  if (!mr_object_is_time(until))
    return EINVAL;
  if (is_mine(lock))
    return EDEADLK;
  while ((rc = take(lock, false)) == EBUSY && !mr_object_passes(clock, until))
    ;
  return rc == EBUSY ? ETIMEDOUT : rc;
}

int maru_pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock,
                                    const struct timespec *until) {
  return lock_until(read_lock, lock, clock, until);
}
int maru_pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock,
                                    const struct timespec *until) {
  return lock_until(write_lock, lock, clock, until);
}
int maru_pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *until) {
  return lock_until(read_lock, lock, CLOCK_REALTIME, until);
}
int maru_pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *until) {
  return lock_until(write_lock, lock, CLOCK_REALTIME, until);
}

int maru_pthread_rwlock_unlock(pthread_rwlock_t *lock) {
  struct rwlock *l = (struct rwlock *)lock;
  enter(&l->id);
  if (l->writer != 0)
    l->writer = 0;
  else if (l->readers > 0)
    l->readers--;
  leave_changed(&l->id);
  return 0;
}

int maru_sem_init(sem_t *semaphore, int shared, unsigned value) {
  (void)shared;
  if (value > SEM_VALUE_MAX) {
    errno = EINVAL;
    return -1;
  }
  *(struct semaphore *)semaphore = (struct semaphore){mr_object_first(), value};
  return 0;
}

int maru_sem_destroy(sem_t *semaphore) {
  mr_object_forget(&((struct semaphore *)semaphore)->id);
  return 0;
}

static int take_one(struct semaphore *s, bool waits) {
  enter(&s->id);
  while (waits && s->value == 0)
    await_change(&s->id, "sem_wait");
  bool some = s->value > 0;
  s->value -= some;
  leave(&s->id);
  if (!some)
    errno = EAGAIN;
  return some ? 0 : -1;
}

int maru_sem_wait(sem_t *semaphore) { return take_one((struct semaphore *)semaphore, true); }
int maru_sem_trywait(sem_t *semaphore) { return take_one((struct semaphore *)semaphore, false); }

int maru_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until) {
  if (!mr_object_is_time(until)) {
    errno = EINVAL;
    return -1;
  }
  while (maru_sem_trywait(semaphore) < 0)
    if (mr_object_passes(clock, until)) {
      errno = ETIMEDOUT;
      return -1;
    }
  return 0;
}

int maru_sem_timedwait(sem_t *semaphore, const struct timespec *until) {
  return maru_sem_clockwait(semaphore, CLOCK_REALTIME, until);
}

int maru_sem_post(sem_t *semaphore) {
  struct semaphore *s = (struct semaphore *)semaphore;
  enter(&s->id);
  s->value++;
  leave_changed(&s->id);
  return 0;
}

int maru_sem_getvalue(sem_t *semaphore, int *value) {
  struct semaphore *s = (struct semaphore *)semaphore;
  enter(&s->id);
  *value = (int)s->value;
  leave(&s->id);
  return 0;
}
