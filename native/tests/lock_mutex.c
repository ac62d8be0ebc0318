/* Description: a mutex that was only declared: one thread at a time, nobody lost, whatever its
 * kind; made once; free again. */
#include <maru/lock.h>

#include "check.h"
#include "locks.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS 4
#define ROUNDS 3000

static struct maru_mutex plain = MARU_MUTEX_INITIALIZER;

struct scene {
  struct maru_mutex *mutex;
  pthread_barrier_t start;
  uint64_t value; /* under the mutex, and deliberately not atomic */
};

struct visitor {
  struct scene *scene;
  uint64_t number, taken;
  pthread_t thread;
};

static bool ask(struct maru_mutex *mutex, uint64_t *seed) {
  uint64_t random = next_random(seed) >> 32;
  clockid_t clock = random & 64 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  struct timespec until = in_us(clock, (long)(random >> 8) % 200);
  int rc;
  switch (random % 8) {
  case 0:
    rc = maru_mutex_try(mutex);
    CHECK(rc == 0 || rc == -EBUSY);
    return rc == 0;
  case 1:
    rc = maru_mutex_acquire_until(mutex, clock, &until);
    CHECK(rc == 0 || rc == -ETIMEDOUT);
    return rc == 0;
  default:
    CHECK_EQUAL(maru_mutex_acquire(mutex), 0);
    return true;
  }
}

static void *visit(void *argument) {
  struct visitor *self = argument;
  uint64_t seed = 99 + self->number;
  /* All meet at a mutex that has no lock behind it yet. */
  pthread_barrier_wait(&self->scene->start);
  for (unsigned i = 0; i < ROUNDS; i++) {
    if (!ask(self->scene->mutex, &seed))
      continue;
    self->scene->value++;
    self->taken++;
    maru_mutex_release(self->scene->mutex);
  }
  return NULL;
}

static void play(struct maru_mutex *mutex) {
  struct scene scene = {.mutex = mutex};
  struct visitor visitors[THREADS];
  uint64_t sum = 0;
  CHECK_EQUAL(pthread_barrier_init(&scene.start, NULL, THREADS), 0);
  for (unsigned i = 0; i < THREADS; i++) {
    visitors[i] = (struct visitor){.scene = &scene, .number = i};
    CHECK_EQUAL(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
  }
  for (unsigned i = 0; i < THREADS; i++) {
    CHECK_EQUAL(pthread_join(visitors[i].thread, NULL), 0);
    sum += visitors[i].taken;
  }
  CHECK_EQUAL(scene.value, sum);
  CHECK(sum >= (uint64_t)THREADS * ROUNDS / 2); /* two of eight ways may fail */
  pthread_barrier_destroy(&scene.start);
}

static void *release_it(void *mutex) {
  maru_mutex_release(mutex);
  return NULL;
}

/* Another thread than the holder may release, and what was made goes. */
static void hand_over(struct maru_mutex *mutex) {
  pthread_t other;
  CHECK_EQUAL(maru_mutex_acquire(mutex), 0);
  CHECK_EQUAL(pthread_create(&other, NULL, release_it, mutex), 0);
  CHECK_EQUAL(pthread_join(other, NULL), 0);
  struct timespec until = in_us(CLOCK_MONOTONIC, 20000000);
  CHECK_EQUAL(maru_mutex_acquire_until(mutex, CLOCK_MONOTONIC, &until), 0);
  CHECK_EQUAL(maru_mutex_try(mutex), -EBUSY);
  until = in_us(CLOCK_MONOTONIC, 1000);
  CHECK_EQUAL(maru_mutex_acquire_until(mutex, CLOCK_MONOTONIC, &until), -ETIMEDOUT);
  maru_mutex_release(mutex);
}

static void refusals(void) {
  struct maru_mutex unknown = MARU_MUTEX_INITIALIZER_OF(MARU_LOCK_KINDS);
  struct maru_mutex made;
  struct maru_lock_options options;
  struct timespec now = {0};
  CHECK_EQUAL(maru_mutex_acquire(&unknown), -EINVAL);
  CHECK_EQUAL(maru_mutex_try(&unknown), -EINVAL);
  CHECK_EQUAL(maru_mutex_acquire_until(&plain, CLOCK_PROCESS_CPUTIME_ID, &now), -EINVAL);
  CHECK_EQUAL(maru_lock_options_init(&options, MARU_LOCK_CNA), 0);
  options.handoff_range = 3;
  CHECK_EQUAL(maru_mutex_init(&made, &options), -EINVAL);
  options.handoff_range = 4;
  CHECK_EQUAL(maru_mutex_init(&made, &options), 0);
  play(&made);
  maru_mutex_destroy(&made);
}

/* Its topology cannot be read: said at the first acquisition, and again, and then it can be. */
static void unreadable_topology(void) {
  struct maru_mutex mutex = MARU_MUTEX_INITIALIZER_OF(MARU_LOCK_CNA);
  CHECK_EQUAL(setenv("MARU_TOPOLOGY", "virtual:nonsense", 1), 0);
  CHECK_EQUAL(maru_mutex_acquire(&mutex), -EINVAL);
  CHECK_EQUAL(maru_mutex_try(&mutex), -EINVAL);
  CHECK_EQUAL(unsetenv("MARU_TOPOLOGY"), 0);
  CHECK_EQUAL(maru_mutex_acquire(&mutex), 0);
  maru_mutex_release(&mutex);
  maru_mutex_destroy(&mutex);
}

int main(void) {
  play(&plain);
  hand_over(&plain);
  for (int kind = FIRST_KIND; kind < MARU_LOCK_KINDS; kind++) {
    struct maru_mutex mutex = MARU_MUTEX_INITIALIZER_OF(kind);
    play(&mutex);
    hand_over(&mutex);
    maru_mutex_destroy(&mutex);
    play(&mutex); /* it is made anew */
    maru_mutex_destroy(&mutex);
  }
  refusals();
  unreadable_topology();
  return 0;
}
