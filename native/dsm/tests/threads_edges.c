/* threads_edges.c: what programs of threads seldom do, beside threads.c: objects that are used
 * before main, locks that are locked again, waits with an end, many objects, signals, faults. Built
 * by the system's compiler and by maru-cc, it prints the same.
 *
 *     threads_edges early|objects|readers|waits|keys|signals|blocked|left|faults|killed|forgotten
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OBJECTS 1000
#define ROUNDS 300 /* with OBJECTS more than there are ids: MARU_DSM_IDS */
#define PATIENCE_SECONDS 30

static void require(int holds, const char *what) {
  if (!holds) {
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
  }
}

static struct timespec after(clockid_t clock, long seconds, long milliseconds) {
  struct timespec at;
  clock_gettime(clock, &at);
  at.tv_nsec += milliseconds * 1000000;
  at.tv_sec += seconds + at.tv_nsec / 1000000000;
  at.tv_nsec %= 1000000000;
  return at;
}

/* ---- before main ------------------------------------------------------------------------ */

static sem_t posted;
static pthread_barrier_t alone;
static pthread_rwlock_t held;

__attribute__((constructor)) static void before_main(void) {
  sem_init(&posted, 0, 1);
  sem_post(&posted);
  sem_post(&posted);
  require(sem_trywait(&posted) == 0 && sem_wait(&posted) == 0, "a semaphore before main");
  require(pthread_barrier_init(&alone, NULL, 1) == 0, "a barrier before main");
  pthread_rwlock_init(&held, NULL);
  pthread_rwlock_rdlock(&held);
}

static void early(void) {
  int value;
  sem_getvalue(&posted, &value);
  require(pthread_barrier_wait(&alone) == PTHREAD_BARRIER_SERIAL_THREAD, "that barrier");
  require(pthread_rwlock_trywrlock(&held) == EBUSY, "that lock is held");
  printf("early %d\n", value);
}

/* ---- many objects ----------------------------------------------------------------------- */

static pthread_mutex_t many[OBJECTS];

static void *destroy(void *unused) {
  for (int i = 0; i < OBJECTS; i++)
    pthread_mutex_destroy(&many[i]);
  return unused;
}

/* Where one thread makes them and another destroys them. */
static void objects(void) {
  pthread_t id;
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < OBJECTS; i++)
      pthread_mutex_init(&many[i], NULL);
    require(pthread_create(&id, NULL, destroy, NULL) == 0, "pthread_create");
    pthread_join(id, NULL);
  }
  printf("objects %d\n", OBJECTS * ROUNDS);
}

/* ---- readers ------------------------------------------------------------------------------ */

static pthread_rwlock_t plain = PTHREAD_RWLOCK_INITIALIZER,
                        strict = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static void *write_to(void *lock) {
  pthread_rwlock_wrlock(lock);
  pthread_rwlock_unlock(lock);
  return NULL;
}

/* While a writer waits for the reader. */
static void readers(void) {
  pthread_t id;
  struct timespec end = after(CLOCK_REALTIME, PATIENCE_SECONDS, 0), now;
  pthread_rwlock_rdlock(&plain);
  pthread_create(&id, NULL, write_to, &plain);
  usleep(100000);
  require(pthread_rwlock_timedrdlock(&plain, &end) == 0, "a reader locks again");
  pthread_rwlock_unlock(&plain);
  pthread_rwlock_unlock(&plain);
  pthread_join(id, NULL);
  pthread_rwlock_rdlock(&strict);
  pthread_create(&id, NULL, write_to, &strict);
  for (int rc = 0; rc == 0;) {
    rc = pthread_rwlock_tryrdlock(&strict);
    if (rc == 0)
      pthread_rwlock_unlock(&strict);
    clock_gettime(CLOCK_REALTIME, &now);
    require(now.tv_sec < end.tv_sec, "the writer goes first");
  }
  pthread_rwlock_unlock(&strict);
  pthread_join(id, NULL);
  printf("readers\n");
}

/* ---- waits with an end ---------------------------------------------------------------------- */

static void *read_in_time(void *unused) {
  struct timespec at = after(CLOCK_REALTIME, 0, 20), steady = after(CLOCK_MONOTONIC, 0, 20);
  require(pthread_rwlock_timedrdlock(&plain, &at) == ETIMEDOUT &&
              pthread_rwlock_clockrdlock(&plain, CLOCK_MONOTONIC, &steady) == ETIMEDOUT,
          "a reader waits for a writer");
  return unused;
}

static void waits(void) {
  struct timespec at = after(CLOCK_REALTIME, 0, 20), steady = after(CLOCK_MONOTONIC, 0, 20);
  pthread_t id;
  sem_t none;
  pthread_rwlock_rdlock(&plain);
  require(pthread_rwlock_timedwrlock(&plain, &at) == ETIMEDOUT &&
              pthread_rwlock_clockwrlock(&plain, CLOCK_MONOTONIC, &steady) == ETIMEDOUT,
          "a writer waits for a reader");
  pthread_rwlock_unlock(&plain);
  require(pthread_rwlock_timedwrlock(&plain, &at) == 0, "a writer");
  pthread_create(&id, NULL, read_in_time, NULL);
  pthread_join(id, NULL);
  pthread_rwlock_unlock(&plain);
  sem_init(&none, 0, 0);
  require(sem_clockwait(&none, CLOCK_MONOTONIC, &steady) == -1 && errno == ETIMEDOUT,
          "sem_clockwait");
  printf("waits\n");
}

/* ---- keys that are made again and again --------------------------------------------------------
 */

#define KEYS_AT_ONCE 100

static pthread_key_t keys[KEYS_AT_ONCE], last_key;
static int destroyed;

static void destroy_number(void *number) { destroyed += *(int *)number; }

static void *use_keys(void *number) {
  for (int i = 0; i < KEYS_AT_ONCE; i++) {
    require(pthread_getspecific(keys[i]) == NULL, "a new key has no value");
    require(pthread_setspecific(keys[i], number) == 0, "pthread_setspecific");
    require(pthread_getspecific(keys[i]) == number, "pthread_getspecific");
  }
  return NULL;
}

static void make_keys(void (*destructor)(void *)) {
  for (int i = 0; i < KEYS_AT_ONCE; i++)
    require(pthread_key_create(&keys[i], destructor) == 0, "pthread_key_create");
}

static void delete_keys(void) {
  for (int i = 0; i < KEYS_AT_ONCE; i++)
    require(pthread_key_delete(keys[i]) == 0, "pthread_key_delete");
  require(pthread_setspecific(keys[0], &destroyed) == EINVAL, "a deleted key");
  require(pthread_key_delete(keys[0]) == EINVAL, "a deleted key");
}

/* What it leaves for the last keys alone is destroyed. */
static void *use_two_sets(void *number) {
  static int lost = 1000000;
  make_keys(destroy_number);
  use_keys(&lost);
  delete_keys();
  make_keys(destroy_number);
  use_keys(number);
  return NULL;
}

static void make_many_keys(void) {
  static int three = 3, none;
  pthread_t id;
  for (int round = 0; round < 30; round++) {
    make_keys(NULL);
    use_keys(&none);
    pthread_create(&id, NULL, use_keys, &none);
    pthread_join(id, NULL);
    delete_keys();
  }
  pthread_create(&id, NULL, use_two_sets, &three);
  pthread_join(id, NULL);
  require(pthread_key_create(&last_key, NULL) == 0 && pthread_getspecific(last_key) == NULL,
          "the last");
  printf("keys %d\n", destroyed);
}

/* ---- signals -------------------------------------------------------------------------------- */

static volatile sig_atomic_t taken;

static void take(int number) {
  (void)number;
  taken++;
}

/* A little deeper each time: some handler's frame would be the first to reach the next page. */
__attribute__((noinline)) static void descend(int levels) {
  volatile char some[600];
  some[0] = 1;
  raise(levels % 2 == 0 ? SIGUSR1 : SIGUSR2);
  if (levels > 1)
    descend(levels - 1);
  require(some[0] == 1, "the stack");
}

/* Far below what of the stack was used. */
__attribute__((noinline)) static void deep(void) {
  volatile char far_below[1 << 20];
  far_below[sizeof far_below - 1] = 1;
  descend(24);
  require(far_below[sizeof far_below - 1] == 1, "the stack");
}

/* A handler is one node's. */
static void handle(void) {
  struct sigaction action = {.sa_handler = take};
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR1, &action, NULL);
  require(signal(SIGUSR2, take) != SIG_ERR, "signal");
}

static void *in_thread(void *unused) {
  handle();
  deep();
  return unused;
}

/* As programs do around pthread_create, so that one thread alone hears of signals. */
static char masked[4096 * 8];

static void *all_blocked(void *unused) {
  sigset_t all, old;
  sigfillset(&all);
  require(pthread_sigmask(SIG_BLOCK, &all, &old) == 0, "pthread_sigmask");
  for (size_t i = 0; i < sizeof masked; i += 4096)
    masked[i]++;
  require(sigprocmask(SIG_SETMASK, NULL, &all) == 0 && sigismember(&all, SIGUSR1) == 1, "the mask");
  require(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0, "pthread_sigmask");
  require(pthread_sigmask(99, &old, NULL) == EINVAL, "pthread_sigmask refuses");
  return unused;
}

static void block_signals(void) {
  pthread_t id;
  sigset_t all, old;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &old);
  pthread_create(&id, NULL, all_blocked, NULL);
  pthread_join(id, NULL);
  all_blocked(NULL);
  pthread_create(&id, NULL, all_blocked, NULL);
  pthread_join(id, NULL);
  sigprocmask(SIG_SETMASK, &old, NULL);
  printf("blocked %d\n", masked[0]);
}

static void signals(void) {
  pthread_t id;
  handle();
  deep();
  pthread_create(&id, NULL, in_thread, NULL);
  pthread_join(id, NULL);
  printf("signals %d\n", (int)taken);
}

/* ---- faults of the program's own ------------------------------------------------------------ */

#define WORDS 20000
static long words[WORDS]; /* of many pages: each is seen by a fault, after another node wrote it */
static long told, blows;
static sigjmp_buf back;
static char *volatile nowhere = (char *)8;

/* It uses shared memory that another node wrote. */
static void struck(int number, siginfo_t *info, void *context) {
  (void)context;
  require(number == SIGSEGV && info->si_addr == nowhere, "who struck where");
  require(words[WORDS - 1] == told, "what a handler sees");
  blows++;
  siglongjmp(back, 1);
}

static void plainly(int number) {
  require(number == SIGSEGV, "the number");
  blows++;
  siglongjmp(back, 1);
}

static void strike(void) {
  if (sigsetjmp(back, 1) == 0)
    *nowhere = 1;
}

static void strike_in_turn(int number) {
  (void)number;
  strike();
}

/* What was set is told as it was said. */
static bool is_as_said(int number, int flags) {
  struct sigaction old;
  return sigaction(number, NULL, &old) == 0 &&
         (old.sa_flags & (SA_ONSTACK | SA_SIGINFO | SA_RESTART)) == flags &&
         sigismember(&old.sa_mask, SIGBUS) == 1 && sigismember(&old.sa_mask, SIGSEGV) == 1 &&
         sigismember(&old.sa_mask, SIGUSR2) == 1;
}

/* On pages of the stack that nobody has used yet. */
static __attribute__((noinline)) void ask_below(size_t depth) {
  struct sigaction old;
  volatile char room[depth];
  room[0] = 0;
  require(sigaction(SIGUSR2, NULL, &old) == 0 && room[0] == 0, "what a handler is, far down");
}

static void *use_words(void *from) {
  for (long i = 0; i < WORDS; i++)
    words[i]++;
  told++;
  return from;
}

static void by_turns(void) {
  pthread_t id;
  pthread_create(&id, NULL, use_words, NULL);
  pthread_join(id, NULL);
  use_words(NULL);
}

static void *strike_here(void *unused) {
  static char stack[1 << 16];
  struct sigaction action = {.sa_sigaction = struck, .sa_flags = SA_SIGINFO}, old;
  stack_t mine = {.ss_sp = stack, .ss_size = sizeof stack}, was;
  sigfillset(&action.sa_mask);
  require(sigaltstack(&mine, NULL) == 0 && sigaltstack(NULL, &was) == 0 && was.ss_sp == stack,
          "a stack for handlers");
  require(sigaction(SIGSEGV, &action, &old) == 0 && old.sa_handler == SIG_DFL, "the first handler");
  require(sigaction(SIGBUS, &action, NULL) == 0, "a handler of SIGBUS");
  for (size_t depth = 1; depth < 1 << 16; depth += 512)
    ask_below(depth);
  require(is_as_said(SIGSEGV, SA_SIGINFO) && is_as_said(SIGBUS, SA_SIGINFO), "flags of both");
  by_turns();
  strike();
  by_turns();
  strike();
  /* The handler that jumped away is over, wherever the next access is. */
  struct sigaction in_turn = {.sa_handler = strike_in_turn, .sa_flags = SA_RESTART};
  sigfillset(&in_turn.sa_mask);
  sigdelset(&in_turn.sa_mask, SIGSEGV);
  require(sigaction(SIGUSR1, &in_turn, NULL) == 0, "a handler that strikes");
  raise(SIGUSR1);
  sigaddset(&in_turn.sa_mask, SIGSEGV);
  require(sigaction(SIGUSR1, &in_turn, NULL) == 0 && is_as_said(SIGUSR1, SA_RESTART), "its flags");
  in_turn.sa_handler = SIG_DFL;
  require(sigaction(SIGUSR1, &in_turn, NULL) == 0, "no handler that strikes");
  action = (struct sigaction){.sa_handler = plainly, .sa_flags = (int)(SA_RESETHAND | SA_ONSTACK)};
  require(sigaction(SIGSEGV, &action, &old) == 0 && old.sa_sigaction == struck, "the one before");
  strike();
  require(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == SIG_DFL, "used up");
  require(signal(SIGSEGV, SIG_IGN) == SIG_DFL && signal(SIGBUS, SIG_IGN) != SIG_ERR, "ignored");
  raise(SIGSEGV);
  raise(SIGBUS);
  by_turns();
  signal(SIGSEGV, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
  mine.ss_flags = SS_DISABLE;
  require(sigaltstack(&mine, NULL) == 0, "no stack for handlers");
  by_turns();
  return unused;
}

static void faults(void) {
  pthread_t id;
  strike_here(NULL);
  pthread_create(&id, NULL, strike_here, NULL);
  pthread_join(id, NULL);
  printf("struck %ld, %ld\n", blows, words[WORDS / 2]);
}

/* A handler that faults itself, and a fault without one, end the process. */
static void fault_again(int number) {
  (void)number;
  *nowhere = 2;
}

static void killed(void) {
  signal(SIGSEGV, fault_again);
  by_turns();
  *nowhere = 1;
}

/* ---- objects that nobody destroys ------------------------------------------------------------ */

static void use_forgotten(pthread_mutex_t *mutex, pthread_cond_t *condition) {
  *mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  *condition = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  require(pthread_mutex_lock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0, "a lock");
  pthread_cond_signal(condition);
}

/* More than there are ids, on the stack and on the heap; others at the same places are destroyed.
 */
static void *forget_many(void *unused) {
  enum { TURNS = 1500, EACH = 100 };
  struct {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
  } * some, here;
  for (int turn = 0; turn < TURNS; turn++) {
    some = malloc(EACH * sizeof *some);
    for (int i = 0; i < EACH; i++)
      use_forgotten(&some[i].mutex, &some[i].condition);
    if (turn % 8 == 0)
      pthread_mutex_destroy(&some[turn % EACH].mutex);
    free(some);
    use_forgotten(&here.mutex, &here.condition);
  }
  return unused;
}

static void forgotten(void) {
  pthread_t id;
  pthread_create(&id, NULL, forget_many, NULL);
  pthread_join(id, NULL);
  puts("forgotten");
}

/* ---- main leaves, and is joined ---------------------------------------------------------------
 */

static pthread_t first;

static void *join_main(void *unused) {
  void *result = NULL;
  require(pthread_join(first, &result) == 0, "main is joined");
  printf("left with %ld\n", (long)(intptr_t)result);
  return unused;
}

static void leave(void) {
  pthread_t id;
  first = pthread_self();
  pthread_create(&id, NULL, join_main, NULL);
  pthread_exit((void *)(intptr_t)7);
}

int main(int number, char **arguments) {
  static const struct {
    const char *name;
    void (*run)(void);
  } parts[] = {{"early", early},         {"objects", objects},    {"readers", readers},
               {"waits", waits},         {"signals", signals},    {"blocked", block_signals},
               {"keys", make_many_keys}, {"left", leave},         {"faults", faults},
               {"killed", killed},       {"forgotten", forgotten}};
  for (size_t i = 0; number > 1 && i < sizeof parts / sizeof *parts; i++)
    if (strcmp(arguments[1], parts[i].name) == 0) {
      parts[i].run();
      return 0;
    }
  require(0, "usage: threads_edges WHAT");
}
