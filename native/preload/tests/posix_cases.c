/* Description: what POSIX's functions answer for every kind of mutex, a line a case.
 *
 * An ordinary program that knows nothing of ours: its output under the overlay must be what it
 * is without.  No case depends on who wins a race. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct kind {
  const char *name;
  int type, robust, protocol, shared;
  const pthread_mutex_t *fixed; /* a static initialiser */
};

static const pthread_mutex_t fixed_normal = PTHREAD_MUTEX_INITIALIZER,
                             fixed_recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
                             fixed_checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
                             fixed_adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;

static const struct kind kinds[] = {
    {.name = "static", .type = PTHREAD_MUTEX_NORMAL, .fixed = &fixed_normal},
    {.name = "static-recursive", .type = PTHREAD_MUTEX_RECURSIVE, .fixed = &fixed_recursive},
    {.name = "static-errorcheck", .type = PTHREAD_MUTEX_ERRORCHECK, .fixed = &fixed_checking},
    {.name = "static-adaptive", .type = PTHREAD_MUTEX_NORMAL, .fixed = &fixed_adaptive},
    {.name = "normal", .type = PTHREAD_MUTEX_NORMAL},
    {.name = "recursive", .type = PTHREAD_MUTEX_RECURSIVE},
    {.name = "errorcheck", .type = PTHREAD_MUTEX_ERRORCHECK},
    {.name = "robust", .type = PTHREAD_MUTEX_NORMAL, .robust = 1},
    {.name = "robust-errorcheck", .type = PTHREAD_MUTEX_ERRORCHECK, .robust = 1},
    {.name = "inherit", .type = PTHREAD_MUTEX_NORMAL, .protocol = PTHREAD_PRIO_INHERIT},
    {.name = "shared", .type = PTHREAD_MUTEX_NORMAL, .shared = 1},
    {.name = "robust-shared", .type = PTHREAD_MUTEX_RECURSIVE, .robust = 1, .shared = 1},
};

static const struct kind *kind;
static pthread_mutex_t mutex;
static pthread_cond_t condition;
static int held; /* a thread of ours has taken it */

static void says(const char *what, int rc) {
  printf("%s: %s: %s\n", kind->name, what, rc == 0 ? "0" : strerrorname_np(rc));
}

static void make(void) {
  pthread_mutexattr_t attributes;
  pthread_cond_init(&condition, NULL);
  if (kind->fixed != NULL) {
    memcpy(&mutex, kind->fixed, sizeof mutex);
    return;
  }
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, kind->type);
  pthread_mutexattr_setprotocol(&attributes, kind->protocol);
  if (kind->robust)
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  if (kind->shared)
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  says("init", pthread_mutex_init(&mutex, &attributes));
}

static struct timespec in(clockid_t clock, long ms) {
  struct timespec at;
  clock_gettime(clock, &at);
  at.tv_nsec += ms % 1000 * 1000000;
  at.tv_sec += ms / 1000 + at.tv_nsec / 1000000000;
  at.tv_nsec %= 1000000000;
  return at;
}

static void pause_ms(long ms) {
  struct timespec time = {.tv_nsec = ms * 1000000};
  nanosleep(&time, NULL);
}

/* ---- one thread ---------------------------------------------------------- */

static void alone(void) {
  struct timespec later = in(CLOCK_REALTIME, 1000), steady = in(CLOCK_MONOTONIC, 1000);
  says("lock", pthread_mutex_lock(&mutex));
  says("unlock", pthread_mutex_unlock(&mutex));
  says("trylock", pthread_mutex_trylock(&mutex));
  says("unlock", pthread_mutex_unlock(&mutex));
  says("timedlock", pthread_mutex_timedlock(&mutex, &later));
  says("unlock", pthread_mutex_unlock(&mutex));
  if (kind->protocol == 0) {
    says("clocklock", pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &steady));
    says("unlock", pthread_mutex_unlock(&mutex));
  }
  /* Glibc refuses that clock before it looks at the mutex, which is free. */
  says("clocklock by a clock of the process",
       pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &later));
  says("lock", pthread_mutex_lock(&mutex));
  says("trylock by its owner", pthread_mutex_trylock(&mutex));
  if (kind->type == PTHREAD_MUTEX_RECURSIVE)
    says("unlock", pthread_mutex_unlock(&mutex));
  if (kind->type != PTHREAD_MUTEX_NORMAL) {
    says("lock by its owner", pthread_mutex_lock(&mutex));
    if (kind->type == PTHREAD_MUTEX_RECURSIVE)
      says("unlock", pthread_mutex_unlock(&mutex));
  }
  if (!kind->robust) /* glibc does not look, then */
    says("destroy while held", pthread_mutex_destroy(&mutex));
  says("unlock", pthread_mutex_unlock(&mutex));
  if (kind->type != PTHREAD_MUTEX_NORMAL)
    says("unlock of a free one", pthread_mutex_unlock(&mutex));
}

/* ---- two threads ----------------------------------------------------------- */

/* Holds it for 5 ms. */
static void *holder(void *unused) {
  pthread_mutex_lock(&mutex);
  __atomic_store_n(&held, 1, __ATOMIC_SEQ_CST);
  pause_ms(5);
  pthread_mutex_unlock(&mutex);
  return unused;
}

static sem_t enough;

/* Holds it until release(). */
static void *keeper(void *unused) {
  pthread_mutex_lock(&mutex);
  __atomic_store_n(&held, 1, __ATOMIC_SEQ_CST);
  sem_wait(&enough);
  pthread_mutex_unlock(&mutex);
  return unused;
}

static void release(pthread_t thread) {
  sem_post(&enough);
  pthread_join(thread, NULL);
}

/* A thread that has or had it. */
static pthread_t begin(void *(*run)(void *)) {
  pthread_t thread;
  held = 0;
  pthread_create(&thread, NULL, run, NULL);
  while (!__atomic_load_n(&held, __ATOMIC_SEQ_CST))
    sched_yield();
  return thread;
}

static void taken(void) {
  struct timespec past = {.tv_sec = 1}, broken = {.tv_nsec = 1000000000};
  struct timespec later = in(CLOCK_REALTIME, 60000), steady = in(CLOCK_MONOTONIC, 60000);
  bool by_priority = kind->protocol != 0; /* knows one clock */
  pthread_t thread = begin(holder);
  says("lock while taken", pthread_mutex_lock(&mutex));
  says("unlock", pthread_mutex_unlock(&mutex));
  pthread_join(thread, NULL);
  thread = begin(holder);
  says("timedlock while taken", pthread_mutex_timedlock(&mutex, &later));
  says("unlock", pthread_mutex_unlock(&mutex));
  pthread_join(thread, NULL);
  thread = begin(holder);
  says("clocklock while taken",
       pthread_mutex_clocklock(&mutex, by_priority ? CLOCK_REALTIME : CLOCK_MONOTONIC,
                               by_priority ? &later : &steady));
  says("unlock", pthread_mutex_unlock(&mutex));
  pthread_join(thread, NULL);
  thread = begin(keeper);
  says("timedlock in the past", pthread_mutex_timedlock(&mutex, &past));
  says("trylock while taken", pthread_mutex_trylock(&mutex));
  if (!by_priority)
    says("timedlock without a time", pthread_mutex_timedlock(&mutex, &broken));
  says("clocklock by no clock", pthread_mutex_clocklock(&mutex, 99, &later));
  if (kind->type != PTHREAD_MUTEX_NORMAL)
    says("unlock of another's", pthread_mutex_unlock(&mutex));
  release(thread);
}

/* ---- conditions -------------------------------------------------------------- */

static int turn;

static void *other_player(void *unused) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < 100; i++) {
    while (turn != 1)
      pthread_cond_wait(&condition, &mutex);
    turn = 0;
    pthread_cond_signal(&condition);
  }
  pthread_mutex_unlock(&mutex);
  return unused;
}

static void conditions(void) {
  struct timespec soon = in(CLOCK_REALTIME, 2), steady = in(CLOCK_MONOTONIC, 2);
  pthread_t thread;
  int rc = 0;
  turn = 0;
  pthread_create(&thread, NULL, other_player, NULL);
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < 100; i++) {
    turn = 1;
    pthread_cond_signal(&condition);
    while (turn != 0)
      rc |= pthread_cond_wait(&condition, &mutex);
  }
  says("wait", rc);
  says("timedwait", pthread_cond_timedwait(&condition, &mutex, &soon));
  says("clockwait", pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &steady));
  says("unlock", pthread_mutex_unlock(&mutex));
  pthread_join(thread, NULL);
  if (kind->type == PTHREAD_MUTEX_ERRORCHECK)
    says("wait without the mutex", pthread_cond_wait(&condition, &mutex));
}

static void unlocks(void *unused) {
  (void)unused;
  says("unlock by a cancelled thread", pthread_mutex_unlock(&mutex));
}

static void *to_be_cancelled(void *unused) {
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(unlocks, NULL);
  __atomic_store_n(&held, 1, __ATOMIC_SEQ_CST);
  for (;;)
    pthread_cond_wait(&condition, &mutex);
  pthread_cleanup_pop(0);
  return unused;
}

static void cancelled(void) {
  void *result;
  pthread_t thread = begin(to_be_cancelled);
  pthread_mutex_lock(&mutex);
  pthread_cancel(thread);
  pause_ms(1); /* it wants the mutex back that we hold */
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, &result);
  says("the thread was cancelled", result == PTHREAD_CANCELED ? 0 : ECHILD);
}

/* ---- forks and ends ------------------------------------------------------------ */

static void child_says(const char *what, int rc) {
  says(what, rc);
  fflush(stdout);
}

static void forks(void) {
  fflush(stdout);
  pthread_t thread = begin(keeper);
  pid_t child = fork();
  if (child == 0) { /* whoever holds it is not here */
    child_says("trylock in the child", pthread_mutex_trylock(&mutex));
    _exit(0);
  }
  waitpid(child, NULL, 0);
  release(thread);
  pthread_mutex_lock(&mutex);
  child = fork();
  if (child == 0) {
    /* Others remember who owned them: a thread of the parent's. */
    if (kind->type == PTHREAD_MUTEX_NORMAL && kind->protocol == 0 && !kind->shared) {
      child_says("unlock in the child", pthread_mutex_unlock(&mutex));
      pthread_t own = begin(holder);
      child_says("lock while taken in the child", pthread_mutex_lock(&mutex));
      child_says("unlock in the child", pthread_mutex_unlock(&mutex));
      pthread_join(own, NULL);
    }
    _exit(0);
  }
  waitpid(child, NULL, 0);
  says("unlock after the fork", pthread_mutex_unlock(&mutex));
}

/* In the same memory. */
static void made_again(void) {
  says("destroy", pthread_mutex_destroy(&mutex));
  says("destroy the condition", pthread_cond_destroy(&condition));
  make();
  pthread_t thread = begin(holder);
  says("lock while taken, made again", pthread_mutex_lock(&mutex));
  says("unlock", pthread_mutex_unlock(&mutex));
  pthread_join(thread, NULL);
}

static void *ends_with_it(void *unused) {
  pthread_mutex_lock(&mutex);
  return unused;
}

static void *asks(void *unused) {
  says("lock of a lost one", pthread_mutex_lock(&mutex));
  return unused;
}

/* Its owner ended, and it is released without being made consistent. */
static void lost(void) {
  struct timespec later = in(CLOCK_REALTIME, 60000);
  pthread_t thread;
  pthread_create(&thread, NULL, ends_with_it, NULL);
  pthread_join(thread, NULL);
  says("timedlock after its owner has ended", pthread_mutex_timedlock(&mutex, &later));
  says("unlock", pthread_mutex_unlock(&mutex));
  for (int i = 0; i < 2; i++) {
    pthread_create(&thread, NULL, asks, NULL);
    pthread_join(thread, NULL);
    says("timedlock of a lost one", pthread_mutex_timedlock(&mutex, &later));
  }
}

static void owner_ends(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, ends_with_it, NULL);
  pthread_join(thread, NULL);
  int rc = kind->robust ? pthread_mutex_lock(&mutex) : pthread_mutex_trylock(&mutex);
  says("lock after its owner has ended", rc);
  if (rc == EOWNERDEAD) {
    says("consistent", pthread_mutex_consistent(&mutex));
    says("unlock", pthread_mutex_unlock(&mutex));
    lost();
    says("destroy", pthread_mutex_destroy(&mutex));
  }
}

int main(void) {
  sem_init(&enough, 0, 0);
  for (kind = kinds; kind < kinds + sizeof kinds / sizeof *kinds; kind++) {
    make();
    alone();
    taken();
    conditions();
    cancelled();
    if (!kind->robust)
      forks();
    made_again();
    owner_ends();
  }
  return 0;
}
