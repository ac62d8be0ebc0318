/* Description: one thread of many always runs, each sleeps nearly always: that is no end. A turn
 * takes from no time to longer than a look. */
#include "check.h"
#include "waits.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#define THREADS 6
#define LOOKS 20000

static sem_t turn[THREADS];
static atomic_bool kept; /* whoever has the turn keeps it: all sleep */

static void spend(uint64_t ns) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint64_t end = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + ns;
  while ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec < end)
    clock_gettime(CLOCK_MONOTONIC, &now);
}

/* The turn goes from one to the next for ever. */
static void *take_turns(void *argument) {
  uintptr_t number = (uintptr_t)argument;
  uint64_t seed = number + 1;
  for (;;) {
    while (sem_wait(&turn[number]) != 0)
      CHECK_EQUAL(errno, EINTR);
    spend(next_random(&seed) % 200000);
    if (!atomic_load(&kept))
      sem_post(&turn[next_random(&seed) % THREADS]);
  }
  return NULL;
}

static void start_threads(void) {
  pthread_t thread;
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK_EQUAL(sem_init(&turn[i], 0, 0), 0);
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK_EQUAL(pthread_create(&thread, NULL, take_turns, (void *)i), 0);
  sem_post(&turn[0]);
}

int main(void) {
  struct maru_own own;
  if (maru_waits_visible() < 0)
    skip("the kernel does not tell what threads wait for");
  CHECK_EQUAL(maru_own_note(&own), 0);
  start_threads();
  for (int i = 0; i < LOOKS; i++) {
    snprintf(check_note, sizeof check_note, "(look %d)", i);
    CHECK(!maru_waits_are_endless(&own, 0));
  }
  atomic_store(&kept, true);
  /* The limit of the test is that of the wait. */
  while (!maru_waits_are_endless(&own, 0))
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return 0;
}
