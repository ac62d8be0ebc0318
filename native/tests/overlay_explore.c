/* Description: the overlay's shipped code under a scheduler of our own, over a model of glibc's
 * mutex: one at a time, nobody lost, nothing left behind; with threads beside it that glibc
 * alone serves, and with a queue that a fork has left. */
#define _GNU_SOURCE
#include "../preload/overlay.h"

#include "../explore/explore.h"
#include "check.h"
#include "futex.h"
#include "two_sockets.h"

#define TASKS_MAX 6

struct play {
  const char *name, *options;
  enum mr_queue_order order;
  bool shuffles, forked, exhaustive;
  unsigned tasks, hidden, rounds; /* the first `hidden` tasks never come to the overlay */
};

struct world {
  const struct play *play;
  struct mr_overlay overlay;
  struct maru_overlay board;
  struct mr_place place;
  _Atomic uint32_t process;
  struct mr_turns turns[MR_OVERLAY_TURNS];
  pthread_mutex_t mutex;
  bool inside;
  uint64_t value, expected;
};

static struct { uint64_t queued, handed_on, impatient, set_aside; } seen;

/* ---- glibc -------------------------------------------------------------------- */

static _Atomic uint32_t *word_of(pthread_mutex_t *mutex) {
  return (_Atomic uint32_t *)&mutex->__data.__lock;
}

int mr_glibc_trylock(pthread_mutex_t *mutex) {
  uint32_t nobody = 0;
  return atomic_compare_exchange_strong_explicit(word_of(mutex), &nobody, 1, memory_order_acquire,
                                                 memory_order_relaxed)
             ? 0
             : EBUSY;
}

int mr_glibc_lock(pthread_mutex_t *mutex) {
  if (mr_glibc_trylock(mutex) == 0)
    return 0;
  while (atomic_exchange_explicit(word_of(mutex), 2, memory_order_acquire) != 0)
    mr_futex_wait(word_of(mutex), 2, MARU_WAIT_FOREVER);
  return 0;
}

static void unlock(pthread_mutex_t *mutex) {
  if (atomic_exchange_explicit(word_of(mutex), 0, memory_order_release) == 2)
    mr_futex_wake_all(word_of(mutex));
}

bool mr_glibc_holds(const pthread_mutex_t *mutex) {
  (void)mutex;
  return false;
}

/* ---- the scene ------------------------------------------------------------------ */

static void begin(void *argument, uint64_t schedule) {
  struct world *world = argument;
  const struct play *play = world->play;
  *world = (struct world){.play = play, .mutex = PTHREAD_MUTEX_INITIALIZER};
  struct mr_overlay *overlay = &world->overlay;
  CHECK_EQUAL(maru_lock_options_parse(&overlay->options, play->options, NULL), 0);
  overlay->options.seed = schedule + 1;
  CHECK_EQUAL(mr_waiting_init(&overlay->waiting, overlay->options.wait, 0), 0);
  overlay->order = play->order;
  overlay->shuffles = play->shuffles;
  overlay->place = &world->place;
  overlay->board = &world->board;
  overlay->process = &world->process;
  overlay->turns = world->turns;
  *(uint64_t *)&world->board.knobs.patience_ns = 20000;
  if (play->forked) {
    struct mr_overlay_cell *cell = mr_overlay_cell(&world->mutex);
    *(uint32_t *)&overlay->last_process = 3;
    *(uint32_t *)&cell->process = 6 + schedule % 2; /* its queue; or just being emptied */
    *(uint32_t *)&cell->until = 1;
    *(void **)&cell->tail = (void *)64; /* nothing is there */
  }
}

static void end(void *argument) {
  struct world *world = argument;
  struct mr_overlay_cell *cell = mr_overlay_cell(&world->mutex);
  explore_check(world->value == world->expected, "an update was lost");
  explore_check(world->mutex.__data.__lock == 0, "a free mutex is not free");
  explore_check(*(void **)&cell->tail == NULL, "a queue stays");
  explore_check(*(uint32_t *)&cell->until == 0, "a head that is gone still waits");
  for (unsigned i = 0; i < MARU_OVERLAY_LINES; i++) {
    const struct maru_overlay_counts *counts = &world->board.counts[i];
    seen.queued += *(const uint64_t *)&counts->queued;
    seen.handed_on += *(const uint64_t *)&counts->handed_on;
    seen.impatient += *(const uint64_t *)&counts->impatient;
    seen.set_aside += *(const uint64_t *)&counts->set_aside;
  }
}

static void run(void *argument, unsigned task) {
  struct world *world = argument;
  bool hidden = task < world->play->hidden;
  for (unsigned i = 0; i < world->play->rounds; i++) {
    int rc =
        hidden ? mr_glibc_lock(&world->mutex) : mr_overlay_lock(&world->overlay, &world->mutex);
    explore_check(rc == 0, "it was not taken");
    explore_check(!world->inside, "two are inside");
    world->inside = true;
    world->expected++;
    uint64_t value = world->value;
    explore_point();
    world->value = value + 1;
    world->inside = false;
    unlock(&world->mutex);
  }
}

static const struct play plays[] = {
    {"fifo", "mcs:wait=block", MR_IN_TURN, .tasks = 4, .rounds = 3},
    {"fifo", "mcs:wait=block", MR_IN_TURN, .tasks = 5, .hidden = 2, .rounds = 2},
    {"cna", "cna:wait=block,handoff_range=4", MR_NEAR, .tasks = 5, .rounds = 3},
    {"cna", "cna:wait=block", MR_NEAR, .tasks = 6, .hidden = 1, .rounds = 3},
    {"cna", "cna:wait=adaptive,deadline=5us", MR_NEAR, .tasks = 5, .rounds = 3},
    {"shfl", "shfl:wait=block,passes=2", MR_IN_TURN, true, .tasks = 6, .hidden = 1, .rounds = 2},
    {"malthusian", "malthusian:wait=block,handoff_range=4", MR_FEW, .tasks = 5, .rounds = 3},
    {"forked", "cna:wait=block", MR_NEAR, .forked = true, .tasks = 4, .hidden = 1, .rounds = 2},
    {"fifo", "mcs:wait=block", MR_IN_TURN, .exhaustive = true, .tasks = 3, .rounds = 1},
    {"cna", "cna:wait=block", MR_NEAR, .exhaustive = true, .tasks = 3, .rounds = 1},
    {"forked", "mcs:wait=block", MR_IN_TURN, .forked = true, .exhaustive = true, .tasks = 3,
     .rounds = 1},
};

#define EXHAUSTIVE_MAX 60000

static const char *what_is_missing(const struct play *play, const struct explore_report *report) {
  if (play->exhaustive)
    return report->complete ? NULL : "the search is not complete";
  if (seen.queued == 0 || seen.handed_on == 0)
    return "nobody queues";
  if (seen.impatient == 0)
    return "nobody loses patience";
  return play->order == MR_NEAR && seen.set_aside == 0 ? "nobody is set aside" : NULL;
}

int main(void) {
  static struct world world;
  uint64_t schedules = setting("MARU_TEST_SCHEDULES", 2000) * setting("MARU_TEST_SCALE", 1);
  for (unsigned i = 0; i < sizeof plays / sizeof *plays; i++) {
    const struct play *play = &plays[i];
    world = (struct world){.play = play};
    struct explore_scene scene = {play->tasks, &world, begin, end, run, NULL};
    struct explore_plan plan = {.schedules = play->exhaustive ? EXHAUSTIVE_MAX : schedules,
                                .seed = setting("MARU_TEST_SEED", 1) + i,
                                .exhaustive = play->exhaustive,
                                .preemptions = 2};
    struct explore_report report;
    memset(&seen, 0, sizeof seen);
    explore(&scene, &plan, &report);
    printf("%-40s %u tasks %7llu schedules %7llu distinct%s\n", play->options, play->tasks,
           (unsigned long long)report.schedules, (unsigned long long)report.distinct,
           report.complete ? ", all with 2 preemptions" : "");
    if (explore_failed(&plan, &report, what_is_missing(play, &report)))
      return 1;
  }
  return 0;
}
