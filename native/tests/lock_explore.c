/* Description: the shipped lock code under a scheduler of our own: one at a time, nobody lost,
 * nobody bypassed more often than promised, bypasses counted as they are, no memory lost. */
#include <maru/lock.h>

#include "../explore/explore.h"
#include "../lock/place.h"
#include "check.h"

#define TASKS_MAX 5
#define NO_PROMISE UINT64_MAX

/* What one kind of scene is. */
struct play {
  const char *options;
  unsigned tasks, rounds;
  uint64_t bypass_most;  /* promised of acquisitions that wait without a deadline */
  bool counts;           /* the lock counts bypasses */
  unsigned patient_only; /* tasks from this number on give up or only try */
  bool exhaustive;
};

struct world {
  const struct play *play;
  struct maru_lock *lock;
  struct maru_hold holds[TASKS_MAX];
  bool inside, waits[TASKS_MAX];
  uint64_t bypassed[TASKS_MAX];
  uint64_t value, expected;
};

/* ---- two sockets, in place of place.c ----------------------------------- */

int mr_place_read(struct mr_place *place) {
  *place = (struct mr_place){.sockets = 2};
  return 0;
}

void mr_place_free(struct mr_place *place) { (void)place; }

uint32_t mr_place_here(const struct mr_place *place) {
  (void)place;
  return explore_task() % 2;
}

/* ---- the scene ---------------------------------------------------------- */

static void begin(void *argument, uint64_t schedule) {
  struct world *world = argument;
  const struct play *play = world->play;
  struct maru_lock_options options;
  CHECK_EQUAL(maru_lock_options_parse(&options, play->options, NULL), 0);
  if (!play->exhaustive)
    options.seed = schedule * 2654435761u + 1; /* the lock's chances differ, too */
  *world = (struct world){.play = play};
  CHECK_EQUAL(maru_lock_create(&world->lock, &options), 0);
}

static void end(void *argument) {
  struct world *world = argument;
  struct maru_hold hold;
  explore_check(world->value == world->expected, "an update was lost");
  explore_check(maru_lock_try(world->lock, &hold) == 0, "a free lock is not free");
  maru_lock_release(world->lock, &hold);
  maru_lock_destroy(world->lock);
}

/* Everybody who arrived before `task` and still waits has been bypassed once more. */
static void count_bypasses(struct world *world, unsigned task) {
  uint64_t arrival = explore_marked(task);
  for (unsigned i = 0; i < world->play->tasks; i++)
    if (world->waits[i] && explore_marked(i) != 0 && explore_marked(i) < arrival) {
      world->bypassed[i]++;
      explore_check(world->bypassed[i] <= world->play->bypass_most, "bypassed too often");
    }
}

static void hold_it(struct world *world, unsigned task) {
  uint64_t value = world->value;
  explore_check(!world->inside, "two hold the lock");
  world->inside = true;
  world->waits[task] = false;
  if (world->play->bypass_most != NO_PROMISE)
    count_bypasses(world, task);
  if (world->play->counts)
    explore_check(world->holds[task].own.bypassed == world->bypassed[task],
                  "bypasses are counted wrong");
  explore_point();
  world->inside = false;
  world->value = value + 1;
}

/* The lock is done with a hold when it is released, and with one that gave up. */
static void spoil(struct maru_hold *hold) { memset(hold, 0x5a, sizeof *hold); }

static void check_spoilt(const struct maru_hold *hold) {
  for (size_t i = 0; i < sizeof *hold; i++)
    explore_check(((const uint8_t *)hold)[i] == 0x5a, "a hold is written after its release");
}

static int ask(struct world *world, unsigned task, unsigned round) {
  struct maru_hold *hold = &world->holds[task];
  struct timespec soon = {.tv_sec = 1, .tv_nsec = 100000 + 40000 * (long)task};
  if (task < world->play->patient_only) {
    world->waits[task] = true;
    world->bypassed[task] = 0;
    explore_mark();
    return maru_lock_acquire(world->lock, hold);
  }
  if ((task + round) % 3 == 0)
    return maru_lock_try(world->lock, hold);
  return maru_lock_acquire_until(world->lock, hold, CLOCK_MONOTONIC, &soon);
}

static void run(void *argument, unsigned task) {
  struct world *world = argument;
  for (unsigned round = 0; round < world->play->rounds; round++) {
    if (ask(world, task, round) == 0) {
      world->expected++;
      hold_it(world, task);
      maru_lock_release(world->lock, &world->holds[task]);
    }
    spoil(&world->holds[task]);
    explore_point();
    check_spoilt(&world->holds[task]);
  }
}

/* ---- all ---------------------------------------------------------------- */

static const struct play plays[] = {
    {"ttas:wait=block", 3, 3, NO_PROMISE, false, 3, false},
    {"ttas:wait=block", 3, 3, NO_PROMISE, false, 1, false},
    {"ttas:wait=spin", 3, 2, NO_PROMISE, false, 1, false},
    {"ticket:wait=block", 3, 3, 0, false, 3, false},
    {"ticket:wait=block", 3, 3, NO_PROMISE, false, 1, false},
    {"mcs:wait=block", 4, 2, 0, false, 4, false},
    {"mcs:wait=block", 4, 3, NO_PROMISE, false, 1, false},
    {"mcs:wait=spin", 3, 2, 0, false, 3, false},
    {"mcs:wait=spin", 4, 2, NO_PROMISE, false, 1, false},
    {"clh:wait=block", 4, 2, 0, false, 4, false},
    {"clh:wait=block", 4, 3, NO_PROMISE, false, 1, false},
    {"cna:wait=block,handoff_range=1", 4, 2, 0, true, 4, false},
    {"cna:wait=block,handoff_range=2", 4, 3, 1000, true, 4, false},
    {"cna:wait=block,handoff_range=2", 4, 3, NO_PROMISE, false, 1, false},
    {"cna:wait=block,handoff_range=2", 5, 3, NO_PROMISE, false, 2, false},
    {"cna:wait=block,handoff_range=4,shuffle_reduction=2", 5, 2, 1000, true, 5, false},
    {"cna:wait=block", 5, 3, 1000, true, 5, false},
    {"cna:wait=block,max_bypass=0", 4, 2, 0, true, 4, false},
    {"cna:wait=block,max_bypass=1", 5, 3, 1, true, 5, false},
    {"cna:wait=block,max_bypass=2,handoff_range=4", 5, 3, 2, true, 5, false},
    {"cna:wait=block,max_bypass=2", 5, 3, NO_PROMISE, false, 2, false},
    {"cna:wait=block,deadline=5us", 5, 3, 1000, true, 5, false},
    {"cna:wait=spin-block,spin=40us", 4, 2, 1000, true, 4, false},
    {"cna:wait=spin", 4, 2, 1000, true, 4, false},
    {"qspin:wait=block", 4, 3, NO_PROMISE, false, 4, false},
    {"qspin:wait=block", 4, 3, NO_PROMISE, false, 2, false},
    {"malthusian:wait=block,handoff_range=4", 5, 3, NO_PROMISE, false, 5, false},
    {"malthusian:wait=block,handoff_range=4", 5, 3, NO_PROMISE, false, 2, false},
    {"shfl:wait=block,passes=2", 5, 3, NO_PROMISE, false, 5, false},
    {"shfl:wait=block,passes=8", 5, 3, NO_PROMISE, false, 2, false},
    {"fissile:wait=block,handoff_range=2", 4, 3, NO_PROMISE, false, 4, false},
    {"fissile:wait=block,handoff_range=2", 4, 3, NO_PROMISE, false, 2, false},
    {"c-bo-mcs:wait=block,passes=1", 4, 3, NO_PROMISE, false, 4, false},
    {"c-bo-mcs:wait=block,passes=2", 5, 3, NO_PROMISE, false, 2, false},
    {"hmcs:wait=block,passes=1", 4, 3, NO_PROMISE, false, 4, false},
    {"hmcs:wait=block,passes=2", 5, 3, NO_PROMISE, false, 2, false},
    {"mcs:wait=block", 3, 1, 0, false, 3, true},
    {"cna:wait=block", 3, 2, 1000, true, 3, true},
    {"cna:wait=block,handoff_range=2", 3, 1, NO_PROMISE, false, 1, true},
    {"clh:wait=block", 3, 1, NO_PROMISE, false, 1, true},
    {"qspin:wait=block", 3, 1, NO_PROMISE, false, 3, true},
    {"malthusian:wait=block", 3, 2, NO_PROMISE, false, 3, true},
    {"shfl:wait=block", 3, 2, NO_PROMISE, false, 3, true},
    {"fissile:wait=block", 3, 1, NO_PROMISE, false, 3, true},
    {"c-bo-mcs:wait=block,passes=1", 3, 1, NO_PROMISE, false, 3, true},
    {"hmcs:wait=block,passes=1", 3, 1, NO_PROMISE, false, 3, true},
};

int main(void) {
  uint64_t schedules = setting("MARU_TEST_SCHEDULES", 2000) * setting("MARU_TEST_SCALE", 1);
  uint64_t distinct = 0, points = 0;
  for (unsigned i = 0; i < sizeof plays / sizeof *plays; i++) {
    const struct play *play = &plays[i];
    struct world world = {.play = play};
    struct explore_scene scene = {play->tasks, &world, begin, end, run};
    struct explore_plan plan = {.schedules = schedules,
                                .seed = setting("MARU_TEST_SEED", 1) + i,
                                .exhaustive = play->exhaustive,
                                .preemptions = 2};
    struct explore_report report;
    explore(&scene, &plan, &report);
    printf("%-40s %u tasks %7llu schedules %7llu distinct%s\n", play->options, play->tasks,
           (unsigned long long)report.schedules, (unsigned long long)report.distinct,
           report.complete ? ", all with 2 preemptions" : "");
    if (report.failure != NULL) {
      printf("FAILED: %s (schedule %llu, seed %llu)\n", report.failure,
             (unsigned long long)report.failed_schedule, (unsigned long long)plan.seed);
      return 1;
    }
    distinct += report.distinct;
    points += report.points;
  }
  printf("%llu distinct schedules, %llu points\n", (unsigned long long)distinct,
         (unsigned long long)points);
  CHECK(distinct >= 10000);
  return 0;
}
