#define _GNU_SOURCE
#include "glibc.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- behind us -------------------------------------------------------------- */

/* The version of condition variables that every program of today is linked to. */
#if defined(__x86_64__)
#define MR_GLIBC_COND "GLIBC_2.3.2"
#else
#define MR_GLIBC_COND MR_GLIBC_FIRST
#endif

static void *behind(void *_Atomic *known, const char *name, const char *version) {
  /* Relaxed: all find the same. */
  void *function = atomic_load_explicit(known, memory_order_relaxed);
  if (function == NULL && (function = dlvsym(RTLD_NEXT, name, version)) == NULL)
    function = dlsym(RTLD_NEXT, name);
  atomic_store_explicit(known, function, memory_order_relaxed);
  return function;
}

/* ENOSYS: this libc has none. */
#define BEHIND(name, version, type, ...)                                                           \
  do {                                                                                             \
    static void *_Atomic known;                                                                    \
    type *function = (type *)behind(&known, name, version);                                        \
    return function != NULL ? function(__VA_ARGS__) : ENOSYS;                                      \
  } while (0)

typedef int timed_lock(pthread_mutex_t *, const struct timespec *);
typedef int clock_lock(pthread_mutex_t *, clockid_t, const struct timespec *);
typedef int cond_wait(pthread_cond_t *, pthread_mutex_t *);
typedef int cond_timed(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
typedef int cond_clock(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);

int mr_glibc_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
  BEHIND("pthread_mutex_timedlock", "GLIBC_2.34", timed_lock, mutex, until);
}

int mr_glibc_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
  BEHIND("pthread_mutex_clocklock", "GLIBC_2.34", clock_lock, mutex, clock, until);
}

int mr_glibc_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  BEHIND("pthread_cond_wait", MR_GLIBC_COND, cond_wait, condition, mutex);
}

int mr_glibc_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                            const struct timespec *until) {
  BEHIND("pthread_cond_timedwait", MR_GLIBC_COND, cond_timed, condition, mutex, until);
}

int mr_glibc_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                            const struct timespec *until) {
  BEHIND("pthread_cond_clockwait", "GLIBC_2.34", cond_clock, condition, mutex, clock, until);
}

int mr_glibc_lock_until(pthread_mutex_t *mutex, int64_t until_ns) {
  struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
  return mr_glibc_clocklock(mutex, CLOCK_MONOTONIC, &until);
}

bool mr_glibc_holds(const pthread_mutex_t *mutex) {
  int type = mr_glibc_kind(mutex) & 3;
  /* Relaxed: only our own number is of interest, and we wrote it. */
  return (type == PTHREAD_MUTEX_RECURSIVE_NP || type == PTHREAD_MUTEX_ERRORCHECK_NP) &&
         __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == gettid();
}

/* ---- the check ----------------------------------------------------------- */

/* The whole is longer on some machines. */
_Static_assert(sizeof(((pthread_mutex_t *)NULL)->__data.__list) == 16 &&
                   offsetof(struct __pthread_mutex_s, __list) + 16 <= sizeof(pthread_mutex_t),
               "another glibc");

#define PATTERN 0x5a

static bool spare_is(const pthread_mutex_t *mutex, unsigned char expected) {
  const unsigned char *bytes = (const unsigned char *)&mutex->__data.__list;
  for (int i = 0; i < 16; i++)
    if (bytes[i] != expected)
      return false;
  return true;
}

static bool word_is(const pthread_mutex_t *mutex, int held) {
  return (mutex->__data.__lock != 0) == held;
}

static bool keeps_spare(int type) {
  pthread_mutexattr_t attributes;
  pthread_mutex_t mutex;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  struct timespec past = {0};
  memset(&mutex, PATTERN, sizeof mutex);
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, type);
  bool good = mr_glibc_init(&mutex, &attributes) == 0 && spare_is(&mutex, 0) &&
              (mr_glibc_kind(&mutex) & MR_GLIBC_OWN) == 0 && (mr_glibc_kind(&mutex) & 3) == type;
  memset(&mutex.__data.__list, PATTERN, 16);
  good = good && mr_glibc_lock(&mutex) == 0 && word_is(&mutex, 1) &&
         mutex.__data.__owner == gettid() &&
         mr_glibc_cond_timedwait(&condition, &mutex, &past) == ETIMEDOUT &&
         mr_glibc_unlock(&mutex) == 0 && word_is(&mutex, 0) && mr_glibc_trylock(&mutex) == 0 &&
         mr_glibc_unlock(&mutex) == 0 && mr_glibc_lock_until(&mutex, INT64_MAX) == 0 &&
         mr_glibc_unlock(&mutex) == 0 && spare_is(&mutex, PATTERN);
  return good && pthread_mutex_destroy(&mutex) == 0;
}

typedef int set_attribute(pthread_mutexattr_t *attributes, int value);

static bool is_marked(set_attribute *set, int value, int bit) {
  pthread_mutexattr_t attributes;
  pthread_mutex_t mutex;
  pthread_mutexattr_init(&attributes);
  if (set(&attributes, value) != 0)
    return true; /* there are none, then */
  bool good = mr_glibc_init(&mutex, &attributes) == 0 && (mr_glibc_kind(&mutex) & bit) != 0;
  return good && pthread_mutex_destroy(&mutex) == 0;
}

const char *mr_glibc_check(void) {
  for (int type = PTHREAD_MUTEX_TIMED_NP; type <= PTHREAD_MUTEX_ADAPTIVE_NP; type++)
    if (!keeps_spare(type))
      return "its mutexes are laid out otherwise";
  if (!is_marked(pthread_mutexattr_setrobust, PTHREAD_MUTEX_ROBUST, MR_GLIBC_ROBUST) ||
      !is_marked(pthread_mutexattr_setprotocol, PTHREAD_PRIO_INHERIT, MR_GLIBC_INHERIT) ||
      !is_marked(pthread_mutexattr_setprotocol, PTHREAD_PRIO_PROTECT, MR_GLIBC_PROTECT) ||
      !is_marked(pthread_mutexattr_setpshared, PTHREAD_PROCESS_SHARED, MR_GLIBC_SHARED))
    return "it marks robust, shared or priority mutexes otherwise";
  return NULL;
}
