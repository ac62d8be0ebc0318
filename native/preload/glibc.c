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

enum { TIMEDLOCK, CLOCKLOCK, COND_WAIT, COND_TIMEDWAIT, COND_CLOCKWAIT, SYMBOLS };

static struct {
  const char *name, *version;
  void *_Atomic address;
} symbols[SYMBOLS] = {
    [TIMEDLOCK] = {"pthread_mutex_timedlock", "GLIBC_2.34", NULL},
    [CLOCKLOCK] = {"pthread_mutex_clocklock", "GLIBC_2.34", NULL},
    [COND_WAIT] = {"pthread_cond_wait", MR_GLIBC_COND, NULL},
    [COND_TIMEDWAIT] = {"pthread_cond_timedwait", MR_GLIBC_COND, NULL},
    [COND_CLOCKWAIT] = {"pthread_cond_clockwait", "GLIBC_2.34", NULL},
};

static void *look_up(int symbol) {
  void *address = dlvsym(RTLD_NEXT, symbols[symbol].name, symbols[symbol].version);
  if (address == NULL)
    address = dlsym(RTLD_NEXT, symbols[symbol].name);
  /* Relaxed, here and below: all find the same. */
  atomic_store_explicit(&symbols[symbol].address, address, memory_order_relaxed);
  return address;
}

/* dlsym waits while another thread loads a library, which may wait for us: not in a call. */
void mr_glibc_start(void) {
  for (int symbol = 0; symbol < SYMBOLS; symbol++)
    look_up(symbol);
}

/* Other libraries' constructors may come here before our own. */
static void *behind(int symbol) {
  void *known = atomic_load_explicit(&symbols[symbol].address, memory_order_relaxed);
  return known != NULL ? known : look_up(symbol);
}

/* ENOSYS: this libc has none. */
#define BEHIND(symbol, type, ...)                                                                  \
  do {                                                                                             \
    type *function = (type *)behind(symbol);                                                       \
    return function != NULL ? function(__VA_ARGS__) : ENOSYS;                                      \
  } while (0)

typedef int timed_lock(pthread_mutex_t *, const struct timespec *);
typedef int clock_lock(pthread_mutex_t *, clockid_t, const struct timespec *);
typedef int cond_wait(pthread_cond_t *, pthread_mutex_t *);
typedef int cond_timed(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
typedef int cond_clock(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);

int mr_glibc_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
  BEHIND(TIMEDLOCK, timed_lock, mutex, until);
}

int mr_glibc_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
  BEHIND(CLOCKLOCK, clock_lock, mutex, clock, until);
}

int mr_glibc_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  BEHIND(COND_WAIT, cond_wait, condition, mutex);
}

int mr_glibc_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                            const struct timespec *until) {
  BEHIND(COND_TIMEDWAIT, cond_timed, condition, mutex, until);
}

int mr_glibc_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                            const struct timespec *until) {
  BEHIND(COND_CLOCKWAIT, cond_clock, condition, mutex, clock, until);
}

bool mr_glibc_holds(const pthread_mutex_t *mutex) {
  int type = mr_glibc_kind(mutex) & 3;
  /* Relaxed: only our own number is of interest, and we wrote it. */
  return (type == PTHREAD_MUTEX_RECURSIVE_NP || type == PTHREAD_MUTEX_ERRORCHECK_NP) &&
         __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == mr_glibc_self();
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

/* A wait that is over at once.  Each is a system call, so two types stand for all: what glibc takes
 * back by way of compare-and-swap, and what it spins for. */
static bool comes_back(int type, pthread_mutex_t *mutex) {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  struct timespec past = {0};
  return (type != PTHREAD_MUTEX_TIMED_NP && type != PTHREAD_MUTEX_ADAPTIVE_NP) ||
         mr_glibc_cond_timedwait(&condition, mutex, &past) == ETIMEDOUT;
}

static bool keeps_spare(int type, pid_t self) {
  pthread_mutexattr_t attributes;
  pthread_mutex_t mutex;
  struct timespec centuries = {.tv_sec = INT64_MAX / 1000000000};
  memset(&mutex, PATTERN, sizeof mutex);
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, type);
  bool good = mr_glibc_init(&mutex, &attributes) == 0 && spare_is(&mutex, 0) &&
              (mr_glibc_kind(&mutex) & MR_GLIBC_OWN) == 0 && (mr_glibc_kind(&mutex) & 3) == type;
  memset(&mutex.__data.__list, PATTERN, 16);
  good = good && mr_glibc_lock(&mutex) == 0 && word_is(&mutex, 1) && mutex.__data.__owner == self &&
         comes_back(type, &mutex) && mr_glibc_unlock(&mutex) == 0 && word_is(&mutex, 0) &&
         mr_glibc_trylock(&mutex) == 0 && mr_glibc_unlock(&mutex) == 0 &&
         mr_glibc_clocklock(&mutex, CLOCK_MONOTONIC, &centuries) == 0 &&
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
  pid_t self = gettid(); /* once: each is a system call */
  for (int type = PTHREAD_MUTEX_TIMED_NP; type <= PTHREAD_MUTEX_ADAPTIVE_NP; type++)
    if (!keeps_spare(type, self))
      return "its mutexes are laid out otherwise";
  if (!is_marked(pthread_mutexattr_setrobust, PTHREAD_MUTEX_ROBUST, MR_GLIBC_ROBUST) ||
      !is_marked(pthread_mutexattr_setprotocol, PTHREAD_PRIO_INHERIT, MR_GLIBC_INHERIT) ||
      !is_marked(pthread_mutexattr_setprotocol, PTHREAD_PRIO_PROTECT, MR_GLIBC_PROTECT) ||
      !is_marked(pthread_mutexattr_setpshared, PTHREAD_PROCESS_SHARED, MR_GLIBC_SHARED))
    return "it marks robust, shared or priority mutexes otherwise";
  return NULL;
}
