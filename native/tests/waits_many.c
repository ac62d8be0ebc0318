/* Description: a process of 300 threads that wait for ever is seen to rest, beside a clock that
 * ticks each millisecond and a thread that is spared. */
#define _GNU_SOURCE
#include "check.h"
#include "waits.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>

#define THREADS 300

static sem_t never;
static atomic_int spared;
static int clock_fd;

static void *wait_for_ever(void *unused) {
  for (;;)
    (void)sem_wait(&never);
  return unused;
}

/* As the clock of GHC's run-time system. */
static void *tick(void *unused) {
  uint64_t expirations;
  while (read(clock_fd, &expirations, sizeof expirations) == sizeof expirations)
    ;
  return unused;
}

/* As the thread that watches over a worker. */
static void *look_around(void *unused) {
  atomic_store(&spared, gettid());
  for (;;)
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
  return unused;
}

static void begin(void *(*body)(void *)) {
  pthread_t thread;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  CHECK_EQUAL(pthread_create(&thread, &small, body, NULL), 0);
  pthread_attr_destroy(&small);
}

int main(void) {
  struct maru_own own;
  struct itimerspec each = {{0, 1000000}, {0, 1000000}};
  if (maru_waits_visible() < 0)
    skip("the kernel does not tell what threads wait for");
  clock_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  CHECK(clock_fd >= 0);
  CHECK_EQUAL(timerfd_settime(clock_fd, 0, &each, NULL), 0);
  /* Fewer descriptors than there is room for: the kernel is asked for no more. */
  CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 64}), 0);
  CHECK_EQUAL(maru_own_note(&own), 0);
  CHECK_EQUAL(sem_init(&never, 0, 0), 0);
  for (int i = 0; i < THREADS; i++)
    begin(wait_for_ever);
  begin(tick);
  begin(look_around);
  while (atomic_load(&spared) == 0)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  bool seen = false;
  for (int i = 0; i < 50 && !seen; i++) {
    seen = maru_waits_are_endless(&own, atomic_load(&spared));
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* others may have the cores */
  }
  CHECK(seen);
  return 0;
}
