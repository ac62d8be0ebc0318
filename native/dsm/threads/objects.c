/* objects.c: a program's mutexes, condition variables, barriers and spin locks (maru/threads.h),
 * each an object of the job (objects.h).
 */
#define _GNU_SOURCE
#include "objects.h"
#include "threads.h"

#include <errno.h>
#include <maru/dsm.h>
#include <maru/threads.h>
#include <stdbool.h>
#include <stdlib.h>

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

_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t) &&
                   sizeof(struct condition) <= sizeof(pthread_cond_t) &&
                   sizeof(struct barrier) <= sizeof(pthread_barrier_t) &&
                   sizeof(uint32_t) <= sizeof(pthread_spinlock_t),
               "in the program's objects");
_Static_assert(PTHREAD_MUTEX_TIMED_NP == 0 && offsetof(struct mutex, kind) == 16,
               "as glibc has it");

/* ---- mutexes --------------------------------------------------------------------------- */

static struct mutex *mutex_of(pthread_mutex_t *mutex) { return (struct mutex *)mutex; }
static uint64_t self(void) { return (uint64_t)maru_pthread_self(); }

static int kind_of(const struct mutex *m) { return m->kind & 3; }
static bool knows_owner(const struct mutex *m) {
  return kind_of(m) == PTHREAD_MUTEX_RECURSIVE_NP || kind_of(m) == PTHREAD_MUTEX_ERRORCHECK_NP;
}

/* A bit an id: this node has that mutex.  It is no part of the mutex, as that would be written, and
 * sent, at each lock. */
static uint8_t held[MARU_DSM_IDS / 8];

struct mr_range mr_objects_held(void) {
  return (struct mr_range){.from = held, .to = held + sizeof held, .anonymous = true};
}

static bool is_held(uint32_t id) { return (held[id / 8] >> id % 8 & 1) != 0; }

static uint32_t take(uint32_t id) {
  held[id / 8] |= (uint8_t)(1u << id % 8);
  return id;
}

static uint32_t give(uint32_t id) {
  held[id / 8] &= (uint8_t) ~(1u << id % 8);
  return id;
}

static void own(struct mutex *m) {
  take(m->id);
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
  *mutex_of(mutex) = (struct mutex){.id = mr_object_first(), .kind = kind};
  return 0;
}

/* One that this node has keeps its id: the next mutex with that id would wait for this node. */
int maru_pthread_mutex_destroy(pthread_mutex_t *mutex) {
  uint32_t *id = &mutex_of(mutex)->id;
  if (is_held(*id))
    return EBUSY;
  mr_object_forget(id);
  return 0;
}

int maru_pthread_mutex_lock(pthread_mutex_t *mutex) {
  struct mutex *m = mutex_of(mutex);
  int answer = 0;
  if (mr_object_alone() || has(m, EDEADLK, &answer))
    return answer;
  maru_dsm_lock(mr_object_id(&m->id));
  own(m);
  return 0;
}

int maru_pthread_mutex_trylock(pthread_mutex_t *mutex) {
  struct mutex *m = mutex_of(mutex);
  int answer = 0;
  if (mr_object_alone() || has(m, EBUSY, &answer))
    return answer;
  if (!maru_dsm_trylock(mr_object_id(&m->id)))
    return EBUSY;
  own(m);
  return 0;
}

int maru_pthread_mutex_unlock(pthread_mutex_t *mutex) {
  struct mutex *m = mutex_of(mutex);
  if (mr_object_alone())
    return 0;
  if (knows_owner(m)) {
    if (m->owner != self())
      return EPERM;
    if (--m->count > 0)
      return 0;
    m->owner = 0;
  }
  maru_dsm_unlock(give(mr_object_id(&m->id)));
  return 0;
}

int maru_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
                                 const struct timespec *until) {
  int rc = maru_pthread_mutex_trylock(mutex);
  if (rc == EBUSY && !mr_object_is_time(until))
    return EINVAL;
  while (rc == EBUSY && !mr_object_passes(clock, until))
    rc = maru_pthread_mutex_trylock(mutex);
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
  *condition_of(condition) = (struct condition){.id = mr_object_first(), .clock = clock};
  return 0;
}

int maru_pthread_cond_destroy(pthread_cond_t *condition) {
  mr_object_forget(&condition_of(condition)->id);
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
  mr_object_needs_main("pthread_cond_wait");
  mr_threads_say();
  if (lent(mutex))
    return 0;
  uint64_t owner = m->owner;
  uint32_t count = m->count;
  if (knows_owner(m))
    m->owner = 0;
  uint32_t id = mr_object_id(&m->id);
  maru_dsm_condition_wait(mr_object_id(&condition_of(condition)->id), give(id));
  take(id);
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
  if (!mr_object_is_time(until))
    return EINVAL;
  mr_threads_say();
  maru_pthread_mutex_unlock(mutex);
  bool late = !mr_threads_lend() && mr_object_passes(clock, until);
  maru_pthread_mutex_lock(mutex);
  return late ? ETIMEDOUT : 0;
}

int maru_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                const struct timespec *until) {
  return maru_pthread_cond_clockwait(condition, mutex, condition_of(condition)->clock, until);
}

int maru_pthread_cond_signal(pthread_cond_t *condition) {
  if (!mr_object_alone())
    maru_dsm_condition_signal(mr_object_id(&condition_of(condition)->id));
  return 0;
}

int maru_pthread_cond_broadcast(pthread_cond_t *condition) {
  if (!mr_object_alone())
    maru_dsm_condition_broadcast(mr_object_id(&condition_of(condition)->id));
  return 0;
}

struct notice {
  pthread_cond_t *condition;
  pthread_mutex_t *mutex;
};

static void notify(void *argument) {
  struct notice notice = *(struct notice *)argument;
  free(argument);
  maru_pthread_mutex_unlock(notice.mutex);
  maru_pthread_cond_broadcast(notice.condition);
}

void maru_threads_notify_at_end(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  struct notice *notice = malloc(sizeof *notice);
  if (notice == NULL)
    mr_node_die(STATUS_UNAVAILABLE, "no memory for a thread");
  *notice = (struct notice){condition, mutex};
  mr_own_notice(&mr_threads_now()->own, notify, notice);
}

/* ---- barriers ------------------------------------------------------------------------------ */

static void check_parties(unsigned parties) {
  if (parties > maru_dsm_nodes())
    mr_node_die(STATUS_USAGE,
                "pthread_barrier_init for %u threads in a job of %u nodes; start it with -n %u",
                parties, maru_dsm_nodes(), parties);
}

int maru_pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes,
                              unsigned parties) {
  (void)attributes;
  if (parties == 0)
    return EINVAL;
  /* Before main nobody knows how many nodes there are; the first wait does. */
  if (!mr_object_alone())
    check_parties(parties);
  *(struct barrier *)barrier = (struct barrier){mr_object_first(), parties};
  return 0;
}

int maru_pthread_barrier_destroy(pthread_barrier_t *barrier) {
  mr_object_forget(&((struct barrier *)barrier)->id);
  return 0;
}

int maru_pthread_barrier_wait(pthread_barrier_t *barrier) {
  struct barrier *b = (struct barrier *)barrier;
  mr_object_needs_main("pthread_barrier_wait");
  check_parties(b->parties);
  mr_threads_say();
  bool last = mr_node_request(MR_BARRIER, MR_BARRIERS + mr_object_id(&b->id), b->parties) != 0;
  return last ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

/* ---- words --------------------------------------------------------------------------------------
 */

static uint32_t *word_of(pthread_spinlock_t *lock) { return (uint32_t *)(uintptr_t)lock; }

int maru_pthread_spin_init(pthread_spinlock_t *lock, int shared) {
  (void)shared;
  *word_of(lock) = mr_object_first();
  return 0;
}

int maru_pthread_spin_destroy(pthread_spinlock_t *lock) {
  mr_object_forget(word_of(lock));
  return 0;
}

int maru_pthread_spin_lock(pthread_spinlock_t *lock) {
  if (!mr_object_alone())
    maru_dsm_lock(mr_object_id(word_of(lock)));
  return 0;
}

int maru_pthread_spin_trylock(pthread_spinlock_t *lock) {
  return mr_object_alone() || maru_dsm_trylock(mr_object_id(word_of(lock))) ? 0 : EBUSY;
}

int maru_pthread_spin_unlock(pthread_spinlock_t *lock) {
  if (!mr_object_alone())
    maru_dsm_unlock(mr_object_id(word_of(lock)));
  return 0;
}
