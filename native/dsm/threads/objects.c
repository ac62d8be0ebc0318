/* objects.c: what threads of a program synchronise by (maru/threads.h): its mutexes, condition
 * variables and so on, each an object of the job.
 *
 * The library's part lies in the program's own object, whose first word is the id; 0, as static
 * initialisers have it, is none yet.  It gets one when it is first used, under a lock.  Whoever
 * reads the word without the lock reads 0, and asks again, or the id, which stays.
 */
#define _GNU_SOURCE
#include "threads.h"

#include <errno.h>
#include <maru/dsm.h>
#include <maru/parmacs.h>
#include <maru/threads.h>
#include <poll.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 1 /* so often it is looked whether the time has passed */
#define SPARE 256u

/* `kind` is where glibc's static initialisers have it. */
struct mutex {
  uint32_t id, count;
  uint64_t owner; /* of the kinds that know it */
  int32_t kind;
};
struct condition {
  uint32_t id;
  clockid_t clock;
};
struct barrier {
  uint32_t id, parties;
};
struct rwlock {
  uint32_t id, readers, writer, writers_waiting;
};
struct semaphore {
  uint32_t id, value;
};

_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t) &&
                   sizeof(struct condition) <= sizeof(pthread_cond_t) &&
                   sizeof(struct barrier) <= sizeof(pthread_barrier_t) &&
                   sizeof(struct rwlock) <= sizeof(pthread_rwlock_t) &&
                   sizeof(struct semaphore) <= sizeof(sem_t) &&
                   sizeof(uint32_t) <= sizeof(pthread_spinlock_t),
               "in the program's objects");
_Static_assert(PTHREAD_MUTEX_TIMED_NP == 0 && offsetof(struct mutex, kind) == 16,
               "as glibc has it");

/* ---- ids --------------------------------------------------------------------------- */

/* Of what was destroyed here. */
static struct { uint32_t ids[SPARE], count; } spare;

static uint32_t new_id(void) {
  return spare.count > 0 ? spare.ids[--spare.count] : maru_parmacs_id();
}

/* Before main there is one thread, and nobody to wait for. */
static bool alone(void) { return !mr_node_started(); }

static uint32_t id_of(uint32_t *word) {
  uint32_t id = *(volatile uint32_t *)word;
  if (id != 0)
    return id;
  mr_node_request(MR_LOCK, MR_FIRST_USE, 0);
  if (*(volatile uint32_t *)word == 0)
    *word = new_id();
  id = *word;
  mr_node_request(MR_UNLOCK, MR_FIRST_USE, 0);
  return id;
}

static uint32_t first_id(void) { return alone() ? 0 : new_id(); }

static void forget(uint32_t *id) {
  if (*id != 0 && spare.count < SPARE)
    spare.ids[spare.count++] = *id;
  *id = 0;
}

/* ---- mutexes --------------------------------------------------------------------------- */

static struct mutex *mutex_of(pthread_mutex_t *mutex) { return (struct mutex *)mutex; }
static uint64_t self(void) { return (uint64_t)maru_pthread_self(); }

static int kind_of(const struct mutex *m) { return m->kind & 3; }
static bool knows_owner(const struct mutex *m) {
  return kind_of(m) == PTHREAD_MUTEX_RECURSIVE_NP || kind_of(m) == PTHREAD_MUTEX_ERRORCHECK_NP;
}

static void own(struct mutex *m) {
  if (!knows_owner(m))
    return;
  m->owner = self();
  m->count = 1;
}

/* Whether this thread has it already, and what then to answer.  Its own writes alone make it the
 * owner, so it sees them. */
static bool has(struct mutex *m, int otherwise, int *answer) {
  if (!knows_owner(m) || m->owner != self())
    return false;
  bool again = kind_of(m) == PTHREAD_MUTEX_RECURSIVE_NP;
  m->count += again;
  *answer = again ? 0 : otherwise;
  return true;
}

int maru_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
  int kind = PTHREAD_MUTEX_TIMED_NP, robust = PTHREAD_MUTEX_STALLED, protocol = PTHREAD_PRIO_NONE;
  if (attributes != NULL) {
    pthread_mutexattr_gettype(attributes, &kind);
    pthread_mutexattr_getrobust(attributes, &robust);
    pthread_mutexattr_getprotocol(attributes, &protocol);
  }
  if (robust != PTHREAD_MUTEX_STALLED || protocol != PTHREAD_PRIO_NONE)
    return ENOTSUP;
  *mutex_of(mutex) = (struct mutex){.id = first_id(), .kind = kind};
  return 0;
}

int maru_pthread_mutex_destroy(pthread_mutex_t *mutex) {
  forget(&mutex_of(mutex)->id);
  return 0;
}

int maru_pthread_mutex_lock(pthread_mutex_t *mutex) {
  struct mutex *m = mutex_of(mutex);
  int answer = 0;
  if (alone() || has(m, EDEADLK, &answer))
    return answer;
  maru_dsm_lock(id_of(&m->id));
  own(m);
  return 0;
}

int maru_pthread_mutex_trylock(pthread_mutex_t *mutex) {
  struct mutex *m = mutex_of(mutex);
  int answer = 0;
  if (alone() || has(m, EBUSY, &answer))
    return answer;
  if (!maru_dsm_trylock(id_of(&m->id)))
    return EBUSY;
  own(m);
  return 0;
}

int maru_pthread_mutex_unlock(pthread_mutex_t *mutex) {
  struct mutex *m = mutex_of(mutex);
  if (alone())
    return 0;
  if (knows_owner(m)) {
    if (m->owner != self())
      return EPERM;
    if (--m->count > 0)
      return 0;
    m->owner = 0;
  }
  maru_dsm_unlock(id_of(&m->id));
  return 0;
}

/* ---- time ----------------------------------------------------------------------------- */

/* Waits a little; whether that time had passed before. */
static bool passes(clockid_t clock, const struct timespec *until) {
  struct timespec now;
  clock_gettime(clock, &now);
  if (now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec))
    return true;
  poll(NULL, 0, LOOK_MS);
  return false;
}

int maru_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
                                 const struct timespec *until) {
  int rc;
  while ((rc = maru_pthread_mutex_trylock(mutex)) == EBUSY && !passes(clock, until))
    ;
  return rc == EBUSY ? ETIMEDOUT : rc;
}

int maru_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
  return maru_pthread_mutex_clocklock(mutex, CLOCK_REALTIME, until);
}

/* ---- condition variables ---------------------------------------------------------------- */

static struct condition *condition_of(pthread_cond_t *condition) {
  return (struct condition *)condition;
}

int maru_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes) {
  clockid_t clock = CLOCK_REALTIME;
  if (attributes != NULL)
    pthread_condattr_getclock(attributes, &clock);
  *condition_of(condition) = (struct condition){.id = first_id(), .clock = clock};
  return 0;
}

int maru_pthread_cond_destroy(pthread_cond_t *condition) {
  forget(&condition_of(condition)->id);
  return 0;
}

/* What was signalled while the mutex was free had nobody to wake: so the waiter looks again
 * whatever came of it. */
static bool lent(pthread_mutex_t *mutex) {
  if (!mr_threads_may_lend())
    return false;
  maru_pthread_mutex_unlock(mutex);
  mr_threads_lend();
  maru_pthread_mutex_lock(mutex);
  return true;
}

int maru_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  struct mutex *m = mutex_of(mutex);
  mr_threads_say();
  if (lent(mutex))
    return 0;
  uint64_t owner = m->owner;
  uint32_t count = m->count;
  if (knows_owner(m))
    m->owner = 0;
  maru_dsm_condition_wait(id_of(&condition_of(condition)->id), id_of(&m->id));
  if (knows_owner(m)) {
    m->owner = owner;
    m->count = count;
  }
  return 0;
}

/* No node can give up a wait: it looks now and then, and wakes up without cause. */
int maru_pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                const struct timespec *until) {
  (void)condition;
  mr_threads_say();
  maru_pthread_mutex_unlock(mutex);
  bool late = !mr_threads_lend() && passes(clock, until);
  maru_pthread_mutex_lock(mutex);
  return late ? ETIMEDOUT : 0;
}

int maru_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                const struct timespec *until) {
  return maru_pthread_cond_clockwait(condition, mutex, condition_of(condition)->clock, until);
}

int maru_pthread_cond_signal(pthread_cond_t *condition) {
  if (!alone())
    maru_dsm_condition_signal(id_of(&condition_of(condition)->id));
  return 0;
}

int maru_pthread_cond_broadcast(pthread_cond_t *condition) {
  if (!alone())
    maru_dsm_condition_broadcast(id_of(&condition_of(condition)->id));
  return 0;
}

/* ---- barriers ------------------------------------------------------------------------------ */

int maru_pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes,
                              unsigned parties) {
  (void)attributes;
  if (parties == 0)
    return EINVAL;
  if (parties > maru_dsm_nodes())
    mr_node_die(STATUS_USAGE,
                "pthread_barrier_init for %u threads in a job of %u nodes; start it with -n %u",
                parties, maru_dsm_nodes(), parties);
  *(struct barrier *)barrier = (struct barrier){new_id(), parties};
  return 0;
}

int maru_pthread_barrier_destroy(pthread_barrier_t *barrier) {
  forget(&((struct barrier *)barrier)->id);
  return 0;
}

int maru_pthread_barrier_wait(pthread_barrier_t *barrier) {
  const struct barrier *b = (struct barrier *)barrier;
  mr_threads_say();
  bool last = mr_node_request(MR_BARRIER, MR_BARRIERS + b->id, b->parties) != 0;
  return last ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

/* ---- what consists of a lock and a condition --------------------------------------------------
 */

static void enter(uint32_t *id) { maru_dsm_lock(id_of(id)); }
static void leave(uint32_t *id) { maru_dsm_unlock(*id); }
static void await_change(uint32_t *id) {
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
  maru_dsm_condition_broadcast(*id);
  leave(id);
}

int maru_pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attributes) {
  (void)attributes;
  *(struct rwlock *)lock = (struct rwlock){.id = first_id()};
  return 0;
}

int maru_pthread_rwlock_destroy(pthread_rwlock_t *lock) {
  forget(&((struct rwlock *)lock)->id);
  return 0;
}

static int read_lock(struct rwlock *l, bool waits) {
  int rc = 0;
  enter(&l->id);
  while (waits && (l->writer != 0 || l->writers_waiting > 0))
    await_change(&l->id);
  if (l->writer != 0 || l->writers_waiting > 0)
    rc = EBUSY;
  else
    l->readers++;
  leave(&l->id);
  return rc;
}

static int write_lock(struct rwlock *l, bool waits) {
  int rc = 0;
  enter(&l->id);
  l->writers_waiting += waits;
  while (waits && (l->writer != 0 || l->readers > 0))
    await_change(&l->id);
  l->writers_waiting -= waits;
  if (l->writer != 0 || l->readers > 0)
    rc = EBUSY;
  else
    l->writer = 1;
  leave(&l->id);
  return rc;
}

int maru_pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
  return alone() ? 0 : read_lock((struct rwlock *)lock, true);
}
int maru_pthread_rwlock_tryrdlock(pthread_rwlock_t *lock) {
  return alone() ? 0 : read_lock((struct rwlock *)lock, false);
}
int maru_pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
  return alone() ? 0 : write_lock((struct rwlock *)lock, true);
}
int maru_pthread_rwlock_trywrlock(pthread_rwlock_t *lock) {
  return alone() ? 0 : write_lock((struct rwlock *)lock, false);
}

int maru_pthread_rwlock_unlock(pthread_rwlock_t *lock) {
  struct rwlock *l = (struct rwlock *)lock;
  if (alone())
    return 0;
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
  *(struct semaphore *)semaphore = (struct semaphore){first_id(), value};
  return 0;
}

int maru_sem_destroy(sem_t *semaphore) {
  forget(&((struct semaphore *)semaphore)->id);
  return 0;
}

static int take_one(struct semaphore *s, bool waits) {
  enter(&s->id);
  while (waits && s->value == 0)
    await_change(&s->id);
  bool some = s->value > 0;
  s->value -= some;
  leave(&s->id);
  if (!some)
    errno = EAGAIN;
  return some ? 0 : -1;
}

int maru_sem_wait(sem_t *semaphore) { return take_one((struct semaphore *)semaphore, true); }
int maru_sem_trywait(sem_t *semaphore) { return take_one((struct semaphore *)semaphore, false); }

int maru_sem_timedwait(sem_t *semaphore, const struct timespec *until) {
  while (maru_sem_trywait(semaphore) < 0)
    if (passes(CLOCK_REALTIME, until)) {
      errno = ETIMEDOUT;
      return -1;
    }
  return 0;
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

/* ---- words --------------------------------------------------------------------------------------
 */

static uint32_t *word_of(pthread_spinlock_t *lock) { return (uint32_t *)(uintptr_t)lock; }

int maru_pthread_spin_init(pthread_spinlock_t *lock, int shared) {
  (void)shared;
  *word_of(lock) = first_id();
  return 0;
}

int maru_pthread_spin_destroy(pthread_spinlock_t *lock) {
  forget(word_of(lock));
  return 0;
}

int maru_pthread_spin_lock(pthread_spinlock_t *lock) {
  if (!alone())
    maru_dsm_lock(id_of(word_of(lock)));
  return 0;
}

int maru_pthread_spin_trylock(pthread_spinlock_t *lock) {
  return alone() || maru_dsm_trylock(id_of(word_of(lock))) ? 0 : EBUSY;
}

int maru_pthread_spin_unlock(pthread_spinlock_t *lock) {
  if (!alone())
    maru_dsm_unlock(*word_of(lock));
  return 0;
}

/* In a pthread_once_t: twice the id, and whether it is done. */
#define DONE 1u

int maru_pthread_once(pthread_once_t *control, void (*routine)(void)) {
  /* A bit an id: this node has acquired what was done. */
  static uint8_t seen[MARU_DSM_IDS / 8];
  uint32_t *word = (uint32_t *)control, id = *(volatile uint32_t *)word / 2;
  if (alone()) {
    if (*word == 0)
      routine();
    *word = DONE;
    return 0;
  }
  if (id != 0 && (seen[id / 8] >> id % 8 & 1) != 0)
    return 0;
  mr_node_request(MR_LOCK, MR_FIRST_USE, 0);
  if (*(volatile uint32_t *)word / 2 == 0)
    *word |= new_id() * 2;
  id = *word / 2;
  mr_node_request(MR_UNLOCK, MR_FIRST_USE, 0);
  maru_dsm_lock(id);
  bool done = (*(volatile uint32_t *)word & DONE) != 0;
  if (!done) {
    routine();
    *word |= DONE;
  }
  maru_dsm_unlock(id);
  seen[id / 8] |= (uint8_t)(1u << id % 8);
  return 0;
}
