/* threads.c: what a program may do with threads, each checked by what it should do.  Built by the
 * system's compiler and by maru-cc, it prints the same.
 *
 *     threads WHAT [THREADS]     see `parts` at the end; all: each in turn
 *     threads waited|closed|exits|left    how a process ends
 *     threads crowd|forks|deep|handles|endless [THREADS]    what ends the job, or is ended
 *
 * Over 500 lines: one program that a person can run by hand, each part as short as what it checks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MOST 16

static long threads = 3;

static void require(int holds, const char *what) {
  if (!holds) {
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
  }
}

static void start(pthread_t *thread, void *(*body)(void *), void *argument) {
  require(pthread_create(thread, NULL, body, argument) == 0, "pthread_create");
}

static void *joined(pthread_t thread) {
  void *result = NULL;
  require(pthread_join(thread, &result) == 0, "pthread_join");
  return result;
}

/* ---- memory: all of it is one --------------------------------------------------------- */

struct work {
  long from, to, sum;
  long *on_stack;
};

static char text[] = "initialised";
static long numbers[5000], *late;
static const char *argument;

static void *add(void *given) {
  struct work *work = given;
  long mine[64] = {0};
  require(strcmp(text, "changed") == 0 && strcmp(argument, "memory") == 0, "globals, arguments");
  for (long i = work->from; i < work->to; i++)
    work->sum += numbers[i] + late[i];
  mine[5] = work->sum;
  *work->on_stack = mine[5];
  return malloc(32);
}

static void memory(void) {
  struct work works[MOST]; /* on main's stack, for all to write */
  long results[MOST];
  pthread_t ids[MOST];
  late = malloc(5000 * sizeof *late);
  strcpy(text, "changed");
  for (long i = 0; i < 5000; i++) {
    numbers[i] = i;
    late[i] = 2 * i;
  }
  for (long i = 0; i < threads; i++) {
    works[i] = (struct work){5000 * i / threads, 5000 * (i + 1) / threads, 0, &results[i]};
    start(&ids[i], add, &works[i]);
  }
  long sum = 0;
  for (long i = 0; i < threads; i++) {
    char *block = reallocarray(joined(ids[i]), 1000, (size_t)i + 1);
    require(block != NULL, "a thread's block grows");
    strcpy(block, "a thread's");
    free(block);
    require(results[i] == works[i].sum, "what a thread wrote to another's stack");
    sum += works[i].sum;
  }
  printf("memory %ld\n", sum);
}

/* One sequence for all threads: each draws after the one before. */
static void *draw(void *line) {
  int first = rand();
  long second = random();
  double third = drand48();
  long fourth = lrand48(), fifth = mrand48();
  snprintf(line, 200, "%d %ld %.6f %ld %ld", first, second, third, fourth, fifth);
  return NULL;
}

static void draw_in_turns(void) {
  static char by_thread[200], by_main[200];
  pthread_t id;
  for (long i = 0; i < threads; i++) {
    start(&id, draw, by_thread);
    joined(id);
    draw(by_main);
    printf("%s, then %s\n", by_thread, by_main);
  }
}

static void numbers_drawn(void) {
  static char table[64];
  unsigned short seed[3] = {1, 2, 3};
  draw_in_turns();
  srand(7);
  srand48(7);
  draw_in_turns();
  char *before = initstate(9, table, sizeof table);
  seed48(seed);
  draw_in_turns();
  require(setstate(before) == table, "setstate");
  draw_in_turns();
}

/* Large blocks lie side by side, whatever small ones are taken between them. */
static void heap(void) {
  enum { PAIRS = 100, SIZE = 70000 };
  char *large[PAIRS], *small[PAIRS], *first = (char *)UINTPTR_MAX, *last = NULL;
  for (int i = 0; i < PAIRS; i++) {
    large[i] = malloc(SIZE);
    small[i] = malloc(32);
    require(large[i] != NULL && small[i] != NULL, "malloc");
    large[i][SIZE - 1] = small[i][31] = 1;
    first = large[i] < first ? large[i] : first;
    last = large[i] > last ? large[i] : last;
  }
  require(last - first < PAIRS * SIZE * 5 / 4, "blocks waste no memory");
  for (int i = 0; i < PAIRS; i++) {
    free(large[i]);
    free(small[i]);
  }
}

/* ---- mappings ---------------------------------------------------------------------------- */

static unsigned char *mapped, *scratch;
static size_t mapped_size;

static void *sum_mapped(void *given) {
  long i = (long)(intptr_t)given;
  uintptr_t sum = 0;
  for (size_t at = mapped_size * (size_t)i / (size_t)threads;
       at < mapped_size * (size_t)(i + 1) / (size_t)threads; at++)
    sum += mapped[at];
  scratch[i] = (unsigned char)(i + 1);
  return (void *)sum;
}

/* Reserved memory may be read and written once the program asks for that. */
static void reserves(void) {
  unsigned char *first = mmap(NULL, 2 << 12, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(first != MAP_FAILED && mprotect(first, 2 << 12, PROT_READ | PROT_WRITE) == 0, "mprotect");
  memset(first, 3, 2 << 12);
  printf("reserved %lu\n", (unsigned long)(first[0] + first[(2 << 12) - 1]));
}

static void maps(void) {
  char name[] = "/tmp/maru-threads-XXXXXX", block[1000];
  int fd = mkstemp(name);
  pthread_t ids[MOST];
  uintptr_t sum = 0;
  require(fd >= 0, "mkstemp");
  for (int i = 0; i < 50; i++) {
    memset(block, i, sizeof block);
    require(write(fd, block, sizeof block) == sizeof block, "write");
  }
  mapped_size = 50 * sizeof block;
  mapped = mmap(NULL, mapped_size, PROT_READ, MAP_PRIVATE, fd, 0);
  scratch = mmap(NULL, 100, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(mapped != MAP_FAILED && scratch != MAP_FAILED, "mmap");
  unlink(name);
  close(fd);
  for (long i = 0; i < threads; i++)
    start(&ids[i], sum_mapped, (void *)(intptr_t)i);
  for (long i = 0; i < threads; i++) {
    sum += (uintptr_t)joined(ids[i]);
    require(scratch[i] == i + 1, "anonymous memory");
  }
  require(munmap(mapped, mapped_size) == 0, "munmap");
  printf("maps %lu\n", (unsigned long)sum);
  reserves();
}

/* ---- mutexes -------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t again = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t careful = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_spinlock_t spin;
static long count, deep, spun;

static void *locks(void *unused) {
  for (int i = 0; i < 50; i++) {
    pthread_mutex_lock(&mutex);
    count++;
    pthread_mutex_unlock(&mutex);
    pthread_mutex_lock(&again);
    pthread_mutex_lock(&again);
    deep++;
    pthread_mutex_unlock(&again);
    deep++;
    pthread_mutex_unlock(&again);
    while (pthread_mutex_trylock(&mutex) == EBUSY)
      ;
    count++;
    pthread_mutex_unlock(&mutex);
    pthread_spin_lock(&spin);
    spun++;
    pthread_spin_unlock(&spin);
  }
  require(pthread_mutex_trylock(&held) == EBUSY, "a mutex that main has");
  struct timespec soon;
  clock_gettime(CLOCK_REALTIME, &soon);
  require(pthread_mutex_timedlock(&held, &soon) == ETIMEDOUT, "a wait with an end");
  require(pthread_mutex_lock(&careful) == 0 && pthread_mutex_lock(&careful) == EDEADLK &&
              pthread_mutex_unlock(&careful) == 0 && pthread_mutex_unlock(&careful) == EPERM,
          "one that checks");
  return unused;
}

static void mutexes(void) {
  pthread_t ids[MOST];
  pthread_mutex_t made;
  pthread_mutexattr_t attributes;
  pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  for (int i = 0; i < 2; i++) {
    require(pthread_mutex_init(&made, &attributes) == 0 && pthread_mutex_lock(&made) == 0 &&
                pthread_mutex_lock(&made) == 0 && pthread_mutex_unlock(&made) == 0 &&
                pthread_mutex_unlock(&made) == 0 && pthread_mutex_destroy(&made) == 0,
            "one that is made");
  }
  for (long i = 0; i < threads; i++) {
    pthread_mutex_lock(&held);
    start(&ids[i], locks, NULL);
    void *none = joined(ids[i]);
    require(none == NULL, "the result");
    pthread_mutex_unlock(&held);
  }
  pthread_mutex_lock(&held);
  for (long i = 0; i < threads; i++)
    start(&ids[i], locks, NULL);
  for (long i = 0; i < threads; i++)
    joined(ids[i]);
  pthread_mutex_unlock(&held);
  printf("mutexes %ld %ld %ld\n", count, deep, spun);
}

/* ---- condition variables: a queue between two kinds of threads ----------------------------------
 */

static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static long queue[4], queued, taken_sum;

static void *produce(void *unused) {
  for (long i = 1; i <= 40; i++) {
    pthread_mutex_lock(&mutex);
    while (queued == 4)
      pthread_cond_wait(&emptied, &mutex);
    queue[queued++] = i;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}

static void *consume(void *unused) {
  for (int i = 0; i < 40; i++) {
    pthread_mutex_lock(&mutex);
    while (queued == 0)
      pthread_cond_wait(&filled, &mutex);
    taken_sum += queue[--queued];
    pthread_cond_broadcast(&emptied);
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}

static void conditions(void) {
  pthread_t producer, consumer;
  struct timespec soon;
  start(&producer, produce, NULL);
  start(&consumer, consume, NULL);
  joined(producer);
  joined(consumer);
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_nsec += 5000000;
  soon.tv_sec += soon.tv_nsec / 1000000000;
  soon.tv_nsec %= 1000000000;
  pthread_mutex_lock(&mutex);
  int rc = 0;
  while (rc == 0)
    rc = pthread_cond_timedwait(&filled, &mutex, &soon);
  pthread_mutex_unlock(&mutex);
  printf("conditions %ld %d\n", taken_sum, rc == ETIMEDOUT);
}

/* ---- barriers, with main among those that meet
 * --------------------------------------------------- */

static pthread_barrier_t barrier;
static long steps[MOST], serial;

static void *step(void *given) {
  long me = (long)(intptr_t)given;
  for (int round = 0; round < 20; round++) {
    steps[me]++;
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
      pthread_mutex_lock(&mutex);
      serial++;
      pthread_mutex_unlock(&mutex);
    }
    for (long i = 0; i < threads; i++)
      require(steps[i] == round + 1, "all have come to the barrier");
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

static void barriers(void) {
  pthread_t ids[MOST];
  require(pthread_barrier_init(&barrier, NULL, (unsigned)threads) == 0, "pthread_barrier_init");
  for (long i = 1; i < threads; i++)
    start(&ids[i], step, (void *)(intptr_t)i);
  step(NULL);
  for (long i = 1; i < threads; i++)
    joined(ids[i]);
  pthread_barrier_destroy(&barrier);
  printf("barriers %ld\n", serial);
}

/* ---- what a thread has of its own
 * ------------------------------------------------------------------ */

static __thread long own = 7;
static _Thread_local char own_text[100];
static pthread_key_t key;
static long destroyed;

static void destroy(void *value) {
  pthread_mutex_lock(&mutex);
  destroyed += *(long *)value;
  pthread_mutex_unlock(&mutex);
  free(value);
}

static void *use_own(void *given) {
  long *value = malloc(sizeof *value);
  require(own == 7 && own_text[0] == 0 && pthread_getspecific(key) == NULL, "fresh at the start");
  *value = own = 100 + (long)(intptr_t)given;
  sprintf(own_text, "of %ld", own);
  pthread_setspecific(key, value);
  pthread_mutex_lock(&mutex); /* a thread of this node may run meanwhile */
  pthread_mutex_unlock(&mutex);
  require(own == *value && pthread_getspecific(key) == value, "as this thread left it");
  return NULL;
}

static void specific(void) {
  pthread_t ids[MOST];
  own = 3;
  strcpy(own_text, "main's");
  require(pthread_key_create(&key, destroy) == 0, "pthread_key_create");
  pthread_setspecific(key, &own);
  for (int round = 0; round < 2; round++) {
    for (long i = 0; i < threads; i++)
      start(&ids[i], use_own, (void *)(intptr_t)i);
    for (long i = 0; i < threads; i++)
      joined(ids[i]);
  }
  require(own == 3 && strcmp(own_text, "main's") == 0 && pthread_getspecific(key) == &own,
          "main's are as they were");
  pthread_setspecific(key, NULL);
  printf("specific %ld\n", destroyed);
}

/* ---- once, exit with a value, cleanup, detach
 * -------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static long initialised, cleaned, detached_done;
static sem_t done;

static void initialise(void) { initialised++; }

static void clean(void *value) { cleaned += (long)(intptr_t)value; }

static void unlock(void *held_mutex) { pthread_mutex_unlock(held_mutex); }

static void leave_by(long value) { pthread_exit((void *)(intptr_t)value); }

static void *leave(void *given) {
  pthread_once(&once, initialise);
  pthread_once(&once, initialise);
  require(initialised == 1, "what was done once is seen");
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(unlock, &mutex);
  pthread_cleanup_push(clean, (void *)1);
  pthread_cleanup_push(clean, (void *)10);
  pthread_cleanup_pop(1);
  leave_by(1000 + (long)(intptr_t)given);
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return NULL;
}

static void *detached(void *unused) {
  pthread_mutex_lock(&mutex);
  detached_done++;
  pthread_mutex_unlock(&mutex);
  sem_post(&done);
  return unused;
}

static void ends(void) {
  pthread_t ids[MOST];
  pthread_attr_t attributes;
  long sum = 0;
  int value;
  sem_init(&done, 0, 0);
  for (long i = 0; i < threads; i++)
    start(&ids[i], leave, (void *)(intptr_t)i);
  for (long i = 0; i < threads; i++)
    sum += (long)(intptr_t)joined(ids[i]);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 1 << 20);
  require(pthread_create(&ids[0], &attributes, detached, NULL) == 0, "pthread_create");
  start(&ids[1], detached, NULL);
  require(pthread_detach(ids[1]) == 0, "pthread_detach");
  sem_wait(&done);
  sem_wait(&done);
  require(sem_trywait(&done) == -1 && errno == EAGAIN, "sem_trywait");
  sem_getvalue(&done, &value);
  pthread_mutex_lock(&mutex);
  printf("ends %ld %ld %ld %ld %d\n", sum, initialised, cleaned, detached_done, value);
  pthread_mutex_unlock(&mutex);
}

/* ---- readers and writers
 * --------------------------------------------------------------------------- */

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static long one, two;

static void *read_or_write(void *given) {
  long me = (long)(intptr_t)given;
  for (int i = 0; i < 30; i++)
    if (i % 5 == me % 5) {
      pthread_rwlock_wrlock(&rwlock);
      one++;
      two++;
      pthread_rwlock_unlock(&rwlock);
    } else {
      pthread_rwlock_rdlock(&rwlock);
      require(one == two, "readers see no half of a change");
      pthread_rwlock_unlock(&rwlock);
    }
  return NULL;
}

static void rwlocks(void) {
  pthread_t ids[MOST];
  pthread_rwlock_rdlock(&rwlock);
  require(pthread_rwlock_trywrlock(&rwlock) == EBUSY && pthread_rwlock_tryrdlock(&rwlock) == 0,
          "a reader is there");
  pthread_rwlock_unlock(&rwlock);
  pthread_rwlock_unlock(&rwlock);
  for (long i = 0; i < threads; i++)
    start(&ids[i], read_or_write, (void *)(intptr_t)i);
  for (long i = 0; i < threads; i++)
    joined(ids[i]);
  printf("rwlocks %ld %ld\n", one, two);
}

/* ---- threads that create threads
 * ------------------------------------------------------------------- */

struct range {
  int *from;
  long size;
};

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void *sort(void *given) {
  struct range *range = given;
  if (range->size < 300) {
    qsort(range->from, (size_t)range->size, sizeof(int), compare);
    return NULL;
  }
  struct range half = {range->from, range->size / 2},
               rest = {range->from + half.size, range->size - half.size};
  int merged[range->size];
  pthread_t other;
  start(&other, sort, &half);
  sort(&rest);
  joined(other);
  for (long i = 0, a = 0, b = 0; i < range->size; i++) {
    bool first = b == rest.size || (a < half.size && half.from[a] <= rest.from[b]);
    merged[i] = first ? half.from[a++] : rest.from[b++];
  }
  memcpy(range->from, merged, sizeof merged);
  return NULL;
}

/* Its end, and that it creates another, come at once to the node that waits for it. */
static void *last_words(void *given) {
  pthread_t other;
  if (given != NULL) {
    start(&other, last_words, NULL);
    pthread_detach(other);
  }
  sem_post(&done);
  return NULL;
}

static void handed_on(void) {
  sem_init(&done, 0, 0);
  for (int i = 0; i < 50; i++) {
    pthread_t ids[MOST];
    for (long k = 0; k < threads; k++)
      start(&ids[k], last_words, &done);
    for (long k = 0; k < threads; k++)
      joined(ids[k]);
    for (long k = 0; k < 2 * threads; k++)
      sem_wait(&done);
  }
  printf("handed on\n");
}

static void nested(void) {
  struct range range = {malloc(2000 * sizeof(int)), 2000};
  unsigned value = 1;
  for (long i = 0; i < range.size; i++)
    range.from[i] = (int)((value = value * 1103515245 + 12345) >> 8 & 0xffff);
  sort(&range);
  long wrong = 0;
  for (long i = 1; i < range.size; i++)
    wrong += range.from[i - 1] > range.from[i];
  printf("nested %ld %d %d\n", wrong, range.from[0], range.from[1999]);
}

/* ---- the end of the process
 * --------------------------------------------------------------------------- */

static void *forever(void *unused) {
  pthread_mutex_lock(&mutex);
  count = -1;
  pthread_cond_signal(&filled);
  for (;;)
    pthread_cond_wait(&emptied, &mutex);
  return unused;
}

static void *count_for_ever(void *unused) {
  for (;;) {
    pthread_mutex_lock(&mutex);
    free(late);
    late = malloc(100 * sizeof *late);
    late[count % 100] = count;
    count++;
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}

static void *leaves(void *unused) {
  (void)unused;
  printf("a thread ends the process\n");
  exit(3);
}

static void *says(void *unused) {
  printf("a thread goes on when main has left\n");
  return unused;
}

static void post(int number) {
  (void)number;
  sem_post(&done);
}

static sigjmp_buf back;

static void jump(int number) {
  (void)number;
  siglongjmp(back, 1);
}

/* It is let in where the library works for the thread; no request is under way there. A handler may
 * leave by a jump. */
static void unblocked(void) {
  sigset_t set;
  sem_init(&done, 0, 0);
  signal(SIGUSR1, post);
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  for (int i = 0; i < 3; i++) {
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    sem_wait(&done);
  }
  signal(SIGUSR1, jump);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  raise(SIGUSR1);
  if (sigsetjmp(back, 0) == 0) {
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    printf("not reached\n");
  }
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  sem_post(&done);
  sem_wait(&done);
  printf("a handler posts, or jumps, where its signal is let in\n");
}

/* Its handler posts what it waits for, sooner or later while it waits. */
static void wait_for_handler(void) {
  const struct itimerval often = {{.tv_usec = 300000}, {.tv_usec = 300000}};
  sem_init(&done, 0, 0);
  signal(SIGALRM, post);
  setitimer(ITIMER_REAL, &often, NULL);
  for (;;)
    sem_wait(&done);
}

static void misuse(const char *how) {
  pthread_t id;
  bool closes = strcmp(how, "closed") == 0;
  if (closes || strcmp(how, "waited") == 0) { /* main ends while a thread waits for ever */
    count = 0;
    start(&id, forever, NULL);
    pthread_mutex_lock(&mutex);
    while (count == 0)
      pthread_cond_wait(&filled, &mutex);
    pthread_mutex_unlock(&mutex);
    printf("waited\n");
    if (closes) { /* no whole line, and no more can be said there */
      fprintf(stderr, "done.");
      close(STDERR_FILENO);
    }
    exit(0);
  } else if (strcmp(how, "exits") == 0) {
    start(&id, leaves, NULL);
    joined(id);
  } else if (strcmp(how, "left") == 0) {
    start(&id, says, NULL);
    pthread_exit(NULL);
  } else if (strcmp(how, "crowd") == 0) {
    pthread_barrier_init(&barrier, NULL, 1000);
  } else if (strcmp(how, "endless") == 0) { /* until somebody ends it */
    for (long k = 1; k < threads; k++)
      start(&id, count_for_ever, NULL);
    count_for_ever(NULL);
  } else if (strcmp(how, "forks") == 0) {
    if (fork() == 0)
      _exit(0);
  } else if (strcmp(how, "handles") == 0) {
    wait_for_handler();
  } else if (strcmp(how, "deep") == 0) {
    volatile char *at = alloca(64 << 20);
    for (long i = 64 << 20; i > 0; i -= 4096)
      at[i - 1] = 1;
  }
}

static const struct {
  const char *name;
  void (*run)(void);
} parts[] = {{"memory", memory},      {"heap", heap},         {"random", numbers_drawn},
             {"maps", maps},          {"mutexes", mutexes},   {"conditions", conditions},
             {"barriers", barriers},  {"specific", specific}, {"ends", ends},
             {"rwlocks", rwlocks},    {"nested", nested},     {"handed", handed_on},
             {"unblocked", unblocked}};

int main(int number, char **arguments) {
  argument = "memory";
  if (number > 2)
    threads = atol(arguments[2]);
  require(threads > 0 && threads <= MOST && number > 1, "usage: threads WHAT [THREADS]");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strcmp(arguments[1], parts[i].name) == 0 || strcmp(arguments[1], "all") == 0)
      parts[i].run();
  misuse(arguments[1]);
  return 0;
}
