/* Description: the shipped locks and barriers of nodes that have one memory, under a scheduler of
 * our own.  One at a time has a lock, nobody is lost, and each other node comes at most once past
 * an impatient first.  Nobody leaves a barrier before all of its turn have come. A play must also
 * reach what it is about. */
#include "../dsm/commons.h"

#include "../explore/explore.h"
#include "check.h"

#define TASKS_MAX 6
#define QUEUE_FREE 0u
#define QUEUE_TAKEN MARU_WAIT_STEP

struct play {
  unsigned tasks, rounds, parties; /* parties: to a turn of the barrier, of all tasks or of fewer */
  enum maru_wait_kind kind;        /* how a first waits */
  bool exhaustive, looks;          /* looks: a task looks for a while before it asks */
};

struct world {
  const struct play *play;
  struct mr_gathering barrier;
  unsigned came, last, left; /* to the barrier; that were the last there; from it */
  struct mr_latch latch;
  _Atomic uint32_t queue; /* the protocol's lock */
  struct maru_wait_policy policies[TASKS_MAX];
  bool inside;
  unsigned value, past;
};

/* What all schedules of one play have come to. */
static struct { uint64_t queued, impatient; } seen;

static void begin(void *argument, uint64_t schedule) {
  struct world *world = argument;
  (void)schedule;
  *world = (struct world){.play = world->play};
  for (unsigned i = 0; i < world->play->tasks; i++)
    maru_wait_policy_init(&world->policies[i], world->play->kind);
}

/* Plain reads: no task runs any more. */
static void end(void *argument) {
  const struct world *world = argument;
  explore_check(world->value == world->play->tasks * world->play->rounds, "an update was lost");
  explore_check(mr_latch_holder(&world->latch) == MR_LATCH_NOBODY, "a latch that is free is held");
  explore_check(*(const uint32_t *)&world->latch.impatient == 0, "the latch stays impatient");
}

static bool is_impatient(const struct world *world) {
  return *(const uint32_t *)&world->latch.impatient != 0;
}

static void pass(struct world *world) {
  world->past = is_impatient(world) ? world->past + 1 : 0;
  explore_check(world->past < world->play->tasks, "an impatient first is passed too often");
}

static bool takes_at_once(struct world *world, unsigned task) {
  struct maru_wait_policy awake;
  if (mr_latch_try(&world->latch, (uint16_t)task))
    return true;
  maru_wait_policy_init(&awake, MARU_WAIT_SPIN);
  return world->play->looks &&
         mr_latch_try_until(&world->latch, (uint16_t)task, &awake, maru_now_ns() + 5000);
}

/* The doorbell of another that waits stays set. */
static bool enters(struct world *world) {
  uint32_t was = atomic_fetch_or_explicit(&world->queue, QUEUE_TAKEN, memory_order_acquire);
  return (was & QUEUE_TAKEN) == 0;
}

static void take(struct world *world, unsigned task) {
  struct maru_wait_policy asleep;
  if (takes_at_once(world, task)) {
    pass(world);
    return;
  }
  maru_wait_policy_init(&asleep, MARU_WAIT_BLOCK);
  while (!enters(world))
    maru_wait(&world->queue, QUEUE_FREE, ~MARU_WAIT_ARMED, &asleep, MARU_WAIT_FOREVER);
  seen.queued++;
  world->past = 0;
  mr_latch_take(&world->latch, (uint16_t)task, &world->policies[task]);
  maru_notify_store(&world->queue, QUEUE_FREE);
}

static void run(void *argument, unsigned task) {
  struct world *world = argument;
  for (unsigned round = 0; round < world->play->rounds; round++) {
    take(world, task);
    explore_check(!world->inside, "two have the latch");
    explore_check(mr_latch_holder(&world->latch) == task, "another is said to have it");
    world->inside = true;
    explore_point();
    world->value++;
    seen.impatient += is_impatient(world);
    world->inside = false;
    explore_check(mr_latch_give(&world->latch, (uint16_t)task) == 0, "its holder cannot give it");
  }
  explore_check(mr_latch_give(&world->latch, (uint16_t)task) == -EPERM, "anybody can give it");
}

/* ---- barriers ------------------------------------------------------------------------ */

static void all_met(void *argument) {
  const struct world *world = argument;
  const struct play *play = world->play;
  explore_check(world->last == play->tasks * play->rounds / play->parties,
                "not one of each turn is the last");
  explore_check((uint16_t) * (const uint64_t *)&world->barrier.come == 0,
                "somebody is left at the barrier");
}

static void meet(void *argument, unsigned task) {
  struct world *world = argument;
  unsigned parties = world->play->parties;
  for (unsigned round = 0; round < world->play->rounds; round++) {
    uint32_t turn;
    world->came++;
    int rc = mr_gathering_come(&world->barrier, parties, &turn);
    world->last += rc == 1;
    /* Here others may come to the next turn, or be asleep at this one. */
    if (rc == 0)
      mr_gathering_await(&world->barrier, turn, &world->policies[task]);
    world->left++;
    explore_check(rc >= 0 && world->left <= world->came / parties * parties,
                  "somebody left before all of its turn had come");
  }
}

/* ---- plays ------------------------------------------------------------------------------ */

static void play(const struct play *play, unsigned number, bool barrier) {
  struct world world = {.play = play};
  struct explore_scene scene = {play->tasks,          &world, begin, barrier ? all_met : end,
                                barrier ? meet : run, NULL};
  struct explore_plan plan = {.schedules = play->exhaustive ? 1000000
                                                            : setting("MARU_TEST_SCHEDULES", 4000) *
                                                                  setting("MARU_TEST_SCALE", 1),
                              .seed = setting("MARU_TEST_SEED", 1) + number,
                              .exhaustive = play->exhaustive,
                              .preemptions = 2};
  struct explore_report report;
  const char *missing = NULL;
  memset(&seen, 0, sizeof seen);
  explore(&scene, &plan, &report);
  if (play->exhaustive && !report.complete)
    missing = "not all schedules";
  else if (!barrier && seen.queued == 0)
    missing = "nobody queued";
  else if (!barrier && !play->exhaustive && seen.impatient == 0)
    missing = "nobody became impatient";
  if (explore_failed(&plan, &report, missing))
    exit(1);
  printf("%u tasks, %s: %llu schedules, %llu queued, %llu with an impatient first\n", play->tasks,
         barrier ? "barrier" : "lock", (unsigned long long)report.schedules,
         (unsigned long long)seen.queued, (unsigned long long)seen.impatient);
}

int main(void) {
  static const struct play locks[] = {
      {2, 1, 0, MARU_WAIT_BLOCK, true, false},
      {2, 2, 0, MARU_WAIT_SPIN_BLOCK, false, true},
      {3, 3, 0, MARU_WAIT_BLOCK, false, false},
      {4, 3, 0, MARU_WAIT_ADAPTIVE, false, true},
  };
  /* Where fewer than all meet, each comes once: else the last that comes might have no other. */
  static const struct play barriers[] = {
      {2, 2, 2, MARU_WAIT_BLOCK, true, false},     {3, 3, 3, MARU_WAIT_BLOCK, false, false},
      {4, 3, 4, MARU_WAIT_ADAPTIVE, false, false}, {4, 1, 2, MARU_WAIT_BLOCK, true, false},
      {6, 1, 2, MARU_WAIT_BLOCK, false, false},    {6, 1, 3, MARU_WAIT_ADAPTIVE, false, false},
  };
  for (unsigned i = 0; i < sizeof locks / sizeof *locks; i++)
    play(&locks[i], i, false);
  for (unsigned i = 0; i < sizeof barriers / sizeof *barriers; i++)
    play(&barriers[i], i, true);
  return 0;
}
