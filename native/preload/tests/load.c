/* Description: an ordinary threaded program that counts, so that a lost update, a lost waiter or a
 * wrong answer shows. It ends with a line and status 1, or its time runs out.
 *
 * usage: load SCENE, one of those at the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(good)                                                                                \
  do                                                                                               \
    if (!(good)) {                                                                                 \
      fprintf(stderr, "load: line %d: %s\n", __LINE__, #good);                                     \
      _exit(1);                                                                                    \
    }                                                                                              \
  while (0)

#define THREADS 8
#define MUTEXES 16

static struct timespec in_us(clockid_t clock, long us) {
  struct timespec at;
  clock_gettime(clock, &at);
  at.tv_nsec += us * 1000;
  at.tv_sec += at.tv_nsec / 1000000000;
  at.tv_nsec %= 1000000000;
  return at;
}

static uint32_t next(uint32_t *random) {
  *random ^= *random << 13;
  *random ^= *random >> 17;
  return *random ^= *random << 5;
}

static void together(unsigned threads, void *(*run)(void *)) {
  pthread_t ids[64];
  for (unsigned i = 0; i < threads; i++)
    CHECK(pthread_create(&ids[i], NULL, run, (void *)(uintptr_t)(i + 1)) == 0);
  for (unsigned i = 0; i < threads; i++)
    pthread_join(ids[i], NULL);
}

/* ---- many mutexes of several kinds, every way to take one ------------------- */

static struct guarded {
  pthread_mutex_t mutex;
  volatile long count;
} many[MUTEXES];
static long added;

static int take(pthread_mutex_t *mutex, unsigned way) {
  struct timespec real = in_us(CLOCK_REALTIME, 50), steady = in_us(CLOCK_MONOTONIC, 50);
  switch (way) {
  case 0:
    return pthread_mutex_trylock(mutex);
  case 1:
    return pthread_mutex_timedlock(mutex, &real);
  case 2:
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &steady);
  default:
    return pthread_mutex_lock(mutex);
  }
}

static void *mixes(void *number) {
  uint32_t random = (uint32_t)(uintptr_t)number * 2654435761u;
  long mine = 0;
  for (int i = 0; i < 30000; i++) {
    struct guarded *one = &many[next(&random) % (i % 2 ? MUTEXES : 1)];
    errno = 77;
    int rc = take(&one->mutex, next(&random) % 8);
    CHECK(errno == 77);
    CHECK(rc == 0 || rc == EBUSY || rc == ETIMEDOUT);
    if (rc != 0)
      continue;
    long before = one->count;
    if (i % 64 == 0)
      sched_yield(); /* so that others find it taken */
    one->count = before + 1;
    mine++;
    CHECK(pthread_mutex_unlock(&one->mutex) == 0);
  }
  __atomic_fetch_add(&added, mine, __ATOMIC_SEQ_CST);
  return NULL;
}

static void make_many(void) {
  static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
                              PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};
  for (int i = 0; i < MUTEXES; i++) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, types[i % 4]);
    CHECK(pthread_mutex_init(&many[i].mutex, &attributes) == 0);
  }
}

static void mixed(void) {
  long sum = 0;
  make_many();
  together(THREADS, mixes);
  for (int i = 0; i < MUTEXES; i++) {
    sum += many[i].count;
    CHECK(pthread_mutex_destroy(&many[i].mutex) == 0);
  }
  CHECK(sum == added);
}

/* ---- a bounded buffer -------------------------------------------------------- */

static pthread_mutex_t buffer_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static int filled;
static long put, got;

static void await(pthread_cond_t *condition, int i) {
  struct timespec real = in_us(CLOCK_REALTIME, 200), steady = in_us(CLOCK_MONOTONIC, 200);
  int rc = i % 3 == 0 ? pthread_cond_wait(condition, &buffer_mutex)
           : i % 3 == 1
               ? pthread_cond_timedwait(condition, &buffer_mutex, &real)
               : pthread_cond_clockwait(condition, &buffer_mutex, CLOCK_MONOTONIC, &steady);
  CHECK(rc == 0 || rc == ETIMEDOUT);
}

static void *passes(void *number) {
  int puts = (uintptr_t)number % 2 == 0;
  for (int i = 0; i < 5000; i++) {
    CHECK(pthread_mutex_lock(&buffer_mutex) == 0);
    while (filled == (puts ? 4 : 0))
      await(puts ? &not_full : &not_empty, i);
    filled += puts ? 1 : -1;
    *(puts ? &put : &got) += i;
    pthread_cond_signal(puts ? &not_empty : &not_full);
    CHECK(pthread_mutex_unlock(&buffer_mutex) == 0);
  }
  return NULL;
}

static void buffer(void) {
  together(THREADS, passes);
  CHECK(filled == 0 && put == got && put == THREADS / 2 * (4999L * 5000 / 2));
}

/* ---- forks while others queue --------------------------------------------------- */

static int stop;

static void lock_all(void) {
  for (int i = 0; i < 4; i++)
    pthread_mutex_lock(&many[i].mutex);
}

static void unlock_all(void) {
  for (int i = 3; i >= 0; i--)
    pthread_mutex_unlock(&many[i].mutex);
}

static void *contends(void *number) {
  for (uint32_t random = (uint32_t)(uintptr_t)number; !__atomic_load_n(&stop, __ATOMIC_SEQ_CST);) {
    struct guarded *one = &many[next(&random) % 4];
    pthread_mutex_lock(&one->mutex);
    one->count++;
    sched_yield();
    pthread_mutex_unlock(&one->mutex);
  }
  return NULL;
}

static void *counts_on(void *unused) {
  for (int i = 0; i < 400; i++) {
    pthread_mutex_lock(&many[i % 4].mutex);
    many[i % 4].count++;
    if (i % 16 == 0)
      sched_yield();
    pthread_mutex_unlock(&many[i % 4].mutex);
  }
  return unused;
}

static void child_goes_on(void) {
  long before = 0, after = 0;
  alarm(20); /* a lost waiter ends it */
  for (int i = 0; i < 4; i++)
    before += many[i].count;
  together(4, counts_on);
  for (int i = 0; i < 4; i++)
    after += many[i].count;
  CHECK(after == before + 4 * 400);
}

static void forks(void) {
  pthread_t ids[THREADS];
  /* Ordinary ones: only such may be released in the child. */
  for (int i = 0; i < 4; i++)
    many[i].mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  CHECK(pthread_atfork(lock_all, unlock_all, unlock_all) == 0);
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&ids[i], NULL, contends, (void *)(i + 1)) == 0);
  for (int i = 0; i < 40; i++) {
    int status;
    pid_t child = fork();
    if (child == 0) {
      child_goes_on();
      pid_t grandchild = fork();
      if (grandchild == 0) {
        child_goes_on();
        _exit(0);
      }
      CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
      _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < THREADS; i++)
    pthread_join(ids[i], NULL);
}

/* ---- ten thousand threads --------------------------------------------------------- */

static void *lives_shortly(void *unused) {
  pthread_mutex_lock(&many[0].mutex);
  many[0].count++;
  pthread_mutex_unlock(&many[0].mutex);
  return unused;
}

static void threads(void) {
  for (int i = 0; i < 10000 / 50; i++)
    together(50, lives_shortly);
  CHECK(many[0].count == 10000);
}

/* ---- a process is killed, its mutexes outlive it ------------------------------------ */

static void killed(void) {
  struct guarded *shared =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  CHECK(pthread_mutex_init(&shared->mutex, &attributes) == 0);
  pid_t child = fork();
  if (child == 0) {
    pthread_t ids[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
      pthread_create(&ids[i], NULL, contends, (void *)(i + 1));
    pthread_mutex_lock(&shared->mutex);
    __atomic_store_n(&shared->count, 1, __ATOMIC_SEQ_CST);
    for (;;)
      pause();
  }
  while (__atomic_load_n(&shared->count, __ATOMIC_SEQ_CST) == 0)
    sched_yield();
  usleep(20000);
  kill(child, SIGKILL);
  CHECK(pthread_mutex_lock(&shared->mutex) == EOWNERDEAD);
  CHECK(pthread_mutex_consistent(&shared->mutex) == 0);
  CHECK(pthread_mutex_unlock(&shared->mutex) == 0);
  CHECK(waitpid(child, NULL, 0) == child);
  together(4, counts_on);
}

/* ---- one mutex, for as long as it is told ----------------------------------------------- */

static void hot(void) {
  pthread_t ids[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&ids[i], NULL, contends, (void *)(i + 1)) == 0);
  getchar();
  __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < THREADS; i++)
    pthread_join(ids[i], NULL);
}

/* ---- it ends while others queue ----------------------------------------------------------- */

static void *contends_for_one(void *unused) {
  for (;;) {
    pthread_mutex_lock(&many[0].mutex);
    sched_yield();
    pthread_mutex_unlock(&many[0].mutex);
  }
  return unused;
}

static void busy(void) {
  pthread_t id;
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&id, NULL, contends_for_one, NULL) == 0);
  usleep(300000);
  _exit(0);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*play)(void);
  } scenes[] = {{"mixed", mixed},   {"buffer", buffer}, {"forks", forks}, {"threads", threads},
                {"killed", killed}, {"hot", hot},       {"busy", busy}};
  for (size_t i = 0; argc == 2 && i < sizeof scenes / sizeof *scenes; i++)
    if (strcmp(argv[1], scenes[i].name) == 0) {
      scenes[i].play();
      return 0;
    }
  fprintf(stderr, "load: a scene is needed\n");
  return 64;
}
