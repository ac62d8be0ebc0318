/* Description: the explorer finds what it promises to find, and nothing in the wait room. */
#include <maru/wait.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../explore/explore.h"
#include "check.h"

#include "futex.h"

struct world {
  _Atomic uint32_t word, other;
  uint64_t seen;
  uint64_t *memory;
};

static void begin(void *argument, uint64_t schedule) {
  (void)schedule;
  *(struct world *)argument = (struct world){.word = 0};
}

static void end(void *argument) { (void)argument; }

/* ---- faults ------------------------------------------------------------- */

/* An increment in two steps. */
static void race(void *argument, unsigned task) {
  struct world *world = argument;
  (void)task;
  uint32_t value = atomic_load_explicit(&world->word, memory_order_relaxed);
  atomic_store_explicit(&world->word, value + 1, memory_order_relaxed);
}

static void race_end(void *argument) {
  struct world *world = argument;
  explore_check(world->word == 2, "an update was lost");
}

/* The waker looks for a sleeper before it changes the word. */
static void lost_wake(void *argument, unsigned task) {
  struct world *world = argument;
  if (task == 0) {
    atomic_store_explicit(&world->other, 1, memory_order_relaxed);
    while (atomic_load_explicit(&world->word, memory_order_relaxed) == 0)
      mr_futex_wait(&world->word, 0, INT64_MAX);
  } else {
    bool sleeper = atomic_load_explicit(&world->other, memory_order_relaxed);
    atomic_store_explicit(&world->word, 1, memory_order_relaxed);
    if (sleeper)
      mr_futex_wake_all(&world->word);
  }
}

/* Both wait for the other's turn. */
static void spin_for_ever(void *argument, unsigned task) {
  struct world *world = argument;
  atomic_fetch_add_explicit(&world->word, 1, memory_order_relaxed);
  while (atomic_load_explicit(&world->word, memory_order_relaxed) != 2 + task)
    ;
}

/* The second may come before the first has something for it to free. */
static void leak(void *argument, unsigned task) {
  struct world *world = argument;
  (void)task;
  bool first = atomic_fetch_add_explicit(&world->word, 1, memory_order_relaxed) == 0;
  explore_point();
  if (first)
    world->memory = aligned_alloc(64, 64);
  else
    free(world->memory);
}

static void use_after_free(void *argument, unsigned task) {
  struct world *world = argument;
  if (task == 0) {
    world->memory = aligned_alloc(64, 64);
    atomic_store_explicit(&world->word, 1, memory_order_relaxed);
    explore_point();
    *world->memory = 1;
    atomic_store_explicit(&world->word, 2, memory_order_relaxed);
  } else {
    while (atomic_load_explicit(&world->word, memory_order_relaxed) == 0)
      ;
    free(world->memory);
  }
}

static void free_twice(void *argument, unsigned task) {
  struct world *world = argument;
  if (task == 0)
    world->memory = aligned_alloc(64, 64);
  explore_point();
  free(world->memory);
}

/* 0 sleeps, then 2 runs before 1: no preemption, though 0 might time out. */
static void free_switch(void *argument, unsigned task) {
  struct world *world = argument;
  if (task == 0) {
    atomic_store_explicit(&world->other, 1, memory_order_relaxed);
    mr_futex_wait(&world->word, 0, explore_time_ns() + 1000);
  } else if (task == 1) {
    world->seen = 1;
    explore_point();
  } else {
    bool sleeps = atomic_load_explicit(&world->other, memory_order_relaxed);
    explore_check(!sleeps || world->seen == 1, "2 ran before 1");
  }
}

/* A spinner's deadline passes. */
static void late_spinner(void *argument, unsigned task) {
  struct world *world = argument;
  struct maru_wait_policy policy = {.kind = MARU_WAIT_SPIN};
  int64_t deadline = explore_time_ns() + 50000;
  if (task == 0)
    explore_check(maru_wait(&world->word, 2, 2, &policy, deadline) == 0, "it was late");
  else
    maru_notify_store(&world->word, 2);
}

/* ---- the wait room ------------------------------------------------------ */

/* A bell rung by two, heard by one; its timed look must not lose a ring either. */
static void bell(void *argument, unsigned task) {
  struct world *world = argument;
  if (task > 0) {
    maru_notify(&world->word);
    return;
  }
  struct maru_wait_policy policy = {.kind = MARU_WAIT_BLOCK};
  uint32_t heard = 0;
  for (unsigned turn = 0; heard != 2 * MARU_WAIT_STEP; turn++) {
    int64_t deadline = turn == 0 ? explore_now_ns() + 1000 : MARU_WAIT_FOREVER;
    int rc = maru_wait_while(&world->word, heard, ~MARU_WAIT_ARMED, &policy, deadline);
    explore_check(rc == 0 || rc == -ETIMEDOUT, "a wait that is neither met nor late");
    heard = atomic_load_explicit(&world->word, memory_order_acquire) & ~MARU_WAIT_ARMED;
  }
}

/* Both wait until a third has stored; one store wakes both. */
static void door(void *argument, unsigned task) {
  struct world *world = argument;
  struct maru_wait_policy policy = {.kind = MARU_WAIT_SPIN_BLOCK, .spin_ns = 2000, .spare = 1};
  if (task == 0) {
    world->seen = 7;
    maru_notify_store(&world->word, 4);
    return;
  }
  explore_check(maru_wait(&world->word, 4, ~MARU_WAIT_ARMED, &policy, MARU_WAIT_FOREVER) == 0,
                "a wait without a deadline fails");
  explore_check(world->seen == 7, "what came before the store is missing");
}

/* ---- all ---------------------------------------------------------------- */

static struct explore_report play_bounded(unsigned tasks, void (*run)(void *, unsigned),
                                          unsigned preemptions) {
  struct world world;
  struct explore_scene scene = {tasks, &world, begin, end, run, NULL};
  struct explore_plan plan = {.schedules = 3000, .exhaustive = true, .preemptions = preemptions};
  struct explore_report report;
  explore(&scene, &plan, &report);
  return report;
}

static struct explore_report play(unsigned tasks, void (*run)(void *, unsigned),
                                  void (*finish)(void *), bool exhaustive) {
  struct world world;
  struct explore_scene scene = {tasks, &world, begin, finish, run, NULL};
  struct explore_plan plan = {.schedules = 3000 * setting("MARU_TEST_SCALE", 1),
                              .seed = 5,
                              .exhaustive = exhaustive,
                              .preemptions = 2};
  struct explore_report report;
  explore(&scene, &plan, &report);
  return report;
}

static void must_find(void (*run)(void *, unsigned), void (*finish)(void *), const char *what) {
  for (int exhaustive = 0; exhaustive < 2; exhaustive++) {
    struct explore_report report = play(2, run, finish, exhaustive);
    CHECK(report.failure != NULL);
    if (strcmp(report.failure, what) != 0) {
      fprintf(stderr, "found \"%s\", not \"%s\"\n", report.failure, what);
      exit(1);
    }
  }
}

static void must_find_at_random(void (*run)(void *, unsigned), const char *what) {
  struct explore_report report = play(2, run, end, false);
  CHECK(report.failure != NULL && strcmp(report.failure, what) == 0);
}

static void must_pass(unsigned tasks, void (*run)(void *, unsigned)) {
  struct explore_report report = play(tasks, run, end, false);
  CHECK(report.failure == NULL);
  CHECK(report.distinct > 10);
  report = play(tasks, run, end, true);
  CHECK(report.failure == NULL);
}

int main(void) {
  must_find(race, race_end, "an update was lost");
  must_find(lost_wake, end, "nobody can go on");
  must_find(spin_for_ever, end, "somebody spins without end");
  must_find(use_after_free, end, "freed memory is written");
  must_find(free_twice, end, "memory is freed twice");
  must_find(leak, end, "memory is never freed");
  must_find_at_random(late_spinner, "it was late");
  CHECK(play_bounded(3, free_switch, 0).failure != NULL);
  must_pass(3, bell);
  must_pass(3, door);
  /* The same plan gives the same schedules. */
  CHECK_EQUAL(play(3, bell, end, false).points, play(3, bell, end, false).points);
  return 0;
}
