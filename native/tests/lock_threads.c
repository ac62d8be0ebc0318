/* Description: one thread at a time, nobody lost, for every kind of lock and way to wait. */
#include <maru/lock.h>

#include "check.h"
#include "locks.h"

#include <pthread.h>

#define THREADS 4

struct scene {
  struct maru_lock *lock;
  uint64_t rounds;
  uint64_t value; /* under the lock, and deliberately not atomic */
  uint64_t taken[THREADS];
};

struct visitor {
  struct scene *scene;
  unsigned number;
  pthread_t thread;
};

/* Every way to ask for the lock; true when it is ours. */
static bool ask(struct maru_lock *lock, struct maru_hold *hold, uint64_t *seed) {
  uint64_t random = next_random(seed) >> 32;
  clockid_t clock = random & 64 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  struct timespec until = in_us(clock, (long)(random >> 8) % 200);
  int rc;
  switch (random % 8) {
  case 0:
    rc = maru_lock_try(lock, hold);
    CHECK(rc == 0 || rc == -EBUSY);
    return rc == 0;
  case 1:
    rc = maru_lock_acquire_until(lock, hold, clock, &until);
    CHECK(rc == 0 || rc == -ETIMEDOUT);
    return rc == 0;
  default:
    CHECK_EQUAL(maru_lock_acquire(lock, hold), 0);
    return true;
  }
}

static void *visit(void *argument) {
  struct visitor *self = argument;
  struct scene *scene = self->scene;
  uint64_t seed = 77 + self->number;
  struct maru_hold hold;
  for (uint64_t i = 0; i < scene->rounds; i++) {
    if (!ask(scene->lock, &hold, &seed))
      continue;
    scene->value++;
    scene->taken[self->number]++;
    maru_lock_release(scene->lock, &hold);
  }
  return NULL;
}

static void play(const char *text, uint64_t rounds) {
  struct maru_lock_options options;
  struct scene scene = {.rounds = rounds};
  struct visitor visitors[THREADS];
  uint64_t sum = 0;
  CHECK_EQUAL(maru_lock_options_parse(&options, text, NULL), 0);
  CHECK_EQUAL(maru_lock_create(&scene.lock, &options), 0);
  for (unsigned i = 0; i < THREADS; i++) {
    visitors[i] = (struct visitor){.scene = &scene, .number = i};
    CHECK_EQUAL(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
  }
  for (unsigned i = 0; i < THREADS; i++) {
    CHECK_EQUAL(pthread_join(visitors[i].thread, NULL), 0);
    sum += scene.taken[i];
    CHECK(scene.taken[i] >= rounds / 2); /* six of eight wait without a bound */
  }
  CHECK_EQUAL(scene.value, sum);
  maru_lock_destroy(scene.lock);
}

static const char *const waits[] = {"block", "spin-block,spin=2us", "adaptive", "spin"};
static const char *const knobs[] = {"handoff_range=4", "handoff_range=4,shuffle_reduction=4",
                                    "handoff_range=0x10000,deadline=20us", "max_bypass=0",
                                    "max_bypass=3"};

int main(void) {
  uint64_t rounds = setting("MARU_TEST_ROUNDS", 4000) * setting("MARU_TEST_SCALE", 1);
  char text[128];
  CHECK_EQUAL(setenv("MARU_TOPOLOGY", "virtual:2x1", 1), 0);
  for (int kind = FIRST_KIND; kind < MARU_LOCK_KINDS; kind++)
    for (unsigned i = 0; i < sizeof waits / sizeof *waits; i++) {
      /* Each hand-over to a thread that does not run costs a time slice. */
      uint64_t some = strcmp(waits[i], "spin") == 0 ? 40 : rounds;
      snprintf(text, sizeof text, "%s:wait=%s,passes=3",
               maru_lock_kind_name((enum maru_lock_kind)kind), waits[i]);
      play(text, some);
    }
  for (unsigned i = 0; i < sizeof knobs / sizeof *knobs; i++) {
    snprintf(text, sizeof text, "cna:wait=block,%s", knobs[i]);
    play(text, rounds);
  }
  return 0;
}
