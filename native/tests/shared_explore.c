/* Description: the shipped lock between processes under a scheduler of our own, with one process
 * killed at any point: one holder at a time, nobody lost, whoever comes after a dead holder is
 * told, and nobody else is.  Where nobody dies, no waiter needs to look by itself: it never would.
 */
#include <maru/lock.h>

#include "../explore/explore.h"
#include "../explore/robust.h"
#include "check.h"
#include "two_sockets.h"

#include <errno.h>
#include <stdalign.h>
#include <time.h>

#define TASKS_MAX 5

struct play {
  const char *options;
  unsigned tasks, rounds;
  unsigned patient; /* tasks from this number on give up */
  bool kills, exhaustive;
  unsigned more; /* than two preemptions, in an exhaustive one */
};

static struct { uint64_t died_inside, died_outside, told, timeouts; } seen;

static struct world {
  const struct play *play;
  alignas(64) char memory[32768];
  struct maru_shared_lock *locks[TASKS_MAX + 1]; /* a process each, and one for the end */
  int inside;                                    /* -1: nobody */
  uint64_t value, expected;
} world;

/* ---- the scene ---------------------------------------------------------- */

static void begin(void *argument, uint64_t schedule) {
  const struct play *play = world.play;
  struct maru_lock_options options;
  (void)argument;
  CHECK_EQUAL(maru_lock_options_parse(&options, play->options, NULL), 0);
  options.seed = schedule + 1;
  CHECK(maru_shared_lock_size() <= sizeof world.memory);
  CHECK_EQUAL(maru_shared_lock_init(world.memory, &options), 0);
  for (unsigned i = 0; i <= play->tasks; i++)
    CHECK_EQUAL(maru_shared_lock_attach(&world.locks[i], world.memory), 0);
  world.inside = -1;
  world.value = world.expected = 0;
}

/* What the caller of maru_shared_lock does: mends, and says so. */
static void mend(struct maru_shared_lock *lock) {
  seen.told++;
  explore_check(world.inside < 0 || explore_is_dead((unsigned)world.inside), "two are inside");
  seen.died_inside += world.inside >= 0;
  world.value = world.expected;
  explore_check(maru_shared_lock_consistent(lock) == 0, "it cannot be mended");
}

static void enter_with(struct maru_shared_lock *lock, int rc) {
  if (rc == -EOWNERDEAD)
    mend(lock);
  else
    explore_check(world.inside < 0, "two are inside, or a death was not told");
}

static void end(void *argument) {
  struct maru_shared_lock *lock = world.locks[world.play->tasks];
  (void)argument;
  int rc = maru_shared_lock_try(lock);
  explore_check(rc == 0 || rc == -EOWNERDEAD, "a free lock is not free");
  enter_with(lock, rc);
  explore_check(world.value == world.expected, "an update was lost");
  explore_check(maru_shared_lock_release(lock) == 0, "it is not released");
  for (unsigned i = 0; i <= world.play->tasks; i++)
    maru_shared_lock_detach(world.locks[i]);
}

static int acquire(struct maru_shared_lock *lock, unsigned task) {
  if (task < world.play->patient)
    return maru_shared_lock_acquire(lock);
  int64_t until = explore_time_ns() + 30000;
  struct timespec then = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
  return maru_shared_lock_acquire_until(lock, CLOCK_MONOTONIC, &then);
}

static void run(void *argument, unsigned task) {
  struct maru_shared_lock *lock = world.locks[task];
  (void)argument;
  for (unsigned i = 0; i < world.play->rounds; i++) {
    int rc = acquire(lock, task);
    if (rc == -ETIMEDOUT && task >= world.play->patient) {
      seen.timeouts++;
      continue;
    }
    explore_check(rc == 0 || rc == -EOWNERDEAD, "it was not taken");
    enter_with(lock, rc);
    world.inside = (int)task;
    world.expected++;
    uint64_t value = world.value;
    explore_point();
    world.value = value + 1;
    world.inside = -1;
    explore_check(maru_shared_lock_release(lock) == 0, "it is not released");
  }
}

static void died(void *argument, unsigned task) {
  (void)argument;
  seen.died_outside += world.inside != (int)task;
  explore_mutex_died(task);
}

static const struct play plays[] = {
    {"mcs:wait=block", .tasks = 4, .rounds = 3, .patient = 4},
    {"mcs:wait=block", .tasks = 4, .rounds = 3, .patient = 2},
    {"cna:wait=block,handoff_range=4", .tasks = 5, .rounds = 2, .patient = 5},
    {"cna:wait=adaptive,deadline=5us", .tasks = 4, .rounds = 3, .patient = 3},
    {"pthread", .tasks = 4, .rounds = 3, .patient = 3},
    {"mcs:wait=block", .tasks = 4, .rounds = 3, .patient = 4, .kills = true},
    {"mcs:wait=block", .tasks = 5, .rounds = 2, .patient = 3, .kills = true},
    {"cna:wait=block,handoff_range=4", .tasks = 4, .rounds = 3, .patient = 4, .kills = true},
    {"pthread", .tasks = 3, .rounds = 3, .patient = 3, .kills = true},
    {"mcs:wait=block", .tasks = 3, .rounds = 1, .patient = 3, .exhaustive = true},
    {"cna:wait=block", .tasks = 3, .rounds = 1, .patient = 3, .exhaustive = true},
    {"mcs:wait=block", .tasks = 3, .rounds = 1, .patient = 2, .exhaustive = true, .more = 1},
};

#define EXHAUSTIVE_MAX 200000

static const char *what_is_missing(const struct play *play, const struct explore_report *report) {
  if (play->exhaustive)
    return report->complete ? NULL : "the search is not complete";
  if (play->kills && (seen.died_inside == 0 || seen.died_outside == 0 || seen.told == 0))
    return "nobody dies inside, or outside, or nobody is told";
  return play->patient < play->tasks && seen.timeouts == 0 ? "nobody gives up" : NULL;
}

int main(void) {
  uint64_t schedules = setting("MARU_TEST_SCHEDULES", 2000) * setting("MARU_TEST_SCALE", 1);
  for (unsigned i = 0; i < sizeof plays / sizeof *plays; i++) {
    const struct play *play = &plays[i];
    world.play = play;
    explore_look_ns = play->kills ? 100000000 : 4 * SHORTEST_FOREVER_NS;
    struct explore_scene scene = {play->tasks, &world, begin, end, run, died};
    struct explore_plan plan = {.schedules = play->exhaustive ? EXHAUSTIVE_MAX : schedules,
                                .seed = setting("MARU_TEST_SEED", 1) + i,
                                .exhaustive = play->exhaustive,
                                .preemptions = 2 + play->more,
                                .kills = play->kills};
    struct explore_report report;
    memset(&seen, 0, sizeof seen);
    explore(&scene, &plan, &report);
    printf("%-40s %u tasks %7llu schedules %7llu distinct%s", play->options, play->tasks,
           (unsigned long long)report.schedules, (unsigned long long)report.distinct,
           play->kills ? ", one killed" : "");
    if (report.complete)
      printf(", all with %u preemptions", plan.preemptions);
    putchar('\n');
    if (explore_failed(&plan, &report, what_is_missing(play, &report)))
      return 1;
  }
  return 0;
}
