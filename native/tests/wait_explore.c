/* Description: the shipped waits on channels under a scheduler of our own: no message is lost
 * without a doorbell and without the end of a slice, nobody is left lowered, boosted, watching or
 * shown as waiting, also where the daemon stops for good at any step.  A play must also reach what
 * it is about. */
#include <maru/wait.h>
#include <stddef.h>

#include "../explore/explore.h"
#include "../wait/channel.h"
#include "check.h"

#define WAITERS_MAX 5
#define DAEMON_STEPS 40
#define OVER 2u
#define LONG_DEAD_NS (MARU_WAIT_STALE_NS + 10000000)

enum pattern {
  RING,    /* one message goes round */
  EXCHANGE /* everybody sends to the next one, then waits for the one before */
};

struct play {
  const char *about;
  enum maru_wait_kind kind;
  enum pattern pattern;
  unsigned waiters, rounds, cpus;
  bool silent;  /* the sender never rings */
  bool spins;   /* at first */
  bool crowded; /* giving way was slow everywhere */
  bool daemon;  /* one task more: it helps, and stops for good at some step */
  bool exhaustive;
};

struct world {
  const struct play *play;
  struct maru_wait_table table;
  struct maru_wait_policy policies[WAITERS_MAX];
  struct mr_sched places[WAITERS_MAX];
  unsigned turn;         /* RING: ordered by the messages alone */
  uint64_t steps;        /* the daemon's, until it stops */
  _Atomic uint32_t over; /* the daemon has stopped */
};

/* What all schedules of one play have come to. */
static struct { uint64_t unknown, lowered, boosted, restored; } seen;

/* ---- a kernel's places, in place of priority.c --------------------------- */

static struct world *the_world;
static const struct mr_sched normal, low = {.nice = 19}, high = {.policy = 1, .priority = 1};

static struct mr_sched *place_of(pid_t tid) {
  return &the_world->places[tid == 0 ? explore_task() : (unsigned)tid - 1];
}

int mr_sched_get(pid_t tid, struct mr_sched *sched) {
  explore_point();
  *sched = *place_of(tid);
  return 0;
}

int mr_sched_set(pid_t tid, const struct mr_sched *sched) {
  explore_point();
  *place_of(tid) = *sched;
  seen.lowered += mr_sched_equal(sched, &low);
  return 0;
}

bool mr_sched_equal(const struct mr_sched *left, const struct mr_sched *right) {
  return left->policy == right->policy && left->nice == right->nice;
}

/* Only `normal` is ever told. */
uint32_t mr_sched_pack(const struct mr_sched *sched) { return sched->policy; }
struct mr_sched mr_sched_unpack(uint32_t packed) {
  return (struct mr_sched){.policy = packed};
}

struct mr_sched mr_sched_lowered(const struct mr_sched *sched) {
  (void)sched;
  return low;
}

int mr_sched_can_restore(const struct mr_sched *sched) {
  (void)sched;
  return 0;
}

int mr_sched_short_slice(uint64_t ns) {
  (void)ns;
  return 0;
}

/* ---- the daemon ----------------------------------------------------------- */

static bool stops(struct world *world) { return world->steps-- == 0; }

/* The mark before the deed, and after its undoing.  False: it stopped meanwhile. */
static bool boost(struct world *world, unsigned i) {
  struct maru_channel *line = &world->table.channels[i];
  atomic_store_explicit(&line->boosted, 1, memory_order_release);
  if (stops(world))
    return false;
  explore_point();
  world->places[i] = high;
  seen.boosted++;
  if (stops(world))
    return false;
  explore_point();
  if (mr_sched_equal(&world->places[i], &high))
    world->places[i] = normal; /* who has lowered itself since stays so */
  if (stops(world))
    return false;
  atomic_store_explicit(&line->boosted, 0, memory_order_release);
  return true;
}

static bool help(struct world *world, unsigned i) {
  if (!maru_channel_pending(&world->table.channels[i]))
    return true;
  explore_point();
  if (!mr_sched_equal(&world->places[i], &low))
    return boost(world, i);
  world->places[i] = normal;
  seen.restored++;
  return true;
}

static void look_after(struct world *world) {
  for (;;)
    for (unsigned i = 0; i < world->play->waiters; i++) {
      if (stops(world))
        return;
      atomic_store_explicit(&world->table.heartbeat_ns, maru_now_ns(), memory_order_relaxed);
      if (!help(world, i))
        return;
      (void)maru_wait_wake_pending(&world->table, NULL);
    }
}

/* ---- the scene ------------------------------------------------------------ */

static void attach(struct world *world, unsigned i) {
  struct maru_channel *line = &world->table.channels[i];
  struct maru_wait_policy *policy = &world->policies[i];
  CHECK_EQUAL(maru_wait_policy_init(policy, MARU_WAIT_BLOCK), 0);
  policy->kind = world->play->kind;
  policy->channel = line;
  policy->table = &world->table;
  policy->spare = world->play->spins;
  *line = (struct maru_channel){.taken = i + 1,
                                .flags = world->play->silent ? MARU_CHANNEL_SILENT : 0,
                                .start = 1,
                                .tid = (int32_t)i + 1};
  mr_wait_decide(policy);
}

static void begin(void *argument, uint64_t schedule) {
  struct world *world = argument;
  const struct play *play = world->play;
  memset(&world->table, 0, offsetof(struct maru_wait_table, channels));
  memset(world->places, 0, sizeof world->places);
  world->turn = 0;
  world->over = 0;
  world->steps = schedule % DAEMON_STEPS;
  for (unsigned i = 0; i < play->waiters; i++)
    attach(world, i);
  world->table.used = play->waiters;
  if (play->pattern == RING)
    world->table.channels[0].word = MARU_WAIT_STEP;
  for (unsigned cpu = 0; play->crowded && cpu <= play->cpus; cpu++)
    world->table.crowded_until[cpu] = (uint32_t)(INT64_C(2000000000) >> 20) | 1u << 31;
}

static void end(void *argument) {
  struct world *world = argument;
  for (unsigned i = 0; i < world->play->waiters; i++) {
    const struct maru_channel *line = &world->table.channels[i];
    explore_check(*(const uint32_t *)&line->state == MARU_CHANNEL_IDLE,
                  "who waits no more is shown as waiting");
    explore_check(!mr_sched_equal(&world->places[i], &low), "somebody is left lowered");
    explore_check(!mr_sched_equal(&world->places[i], &high), "somebody is left boosted");
    explore_check(*(const uint32_t *)&line->boosted == 0, "a mark of the daemon's is left");
  }
  for (unsigned cpu = 0; cpu <= world->play->cpus; cpu++)
    explore_check(*(const uint32_t *)&world->table.awake[cpu] == 0, "a watch is left behind");
}

/* At the begin of schedules nobody looks at the word without a point. */
static uint32_t word_of(struct maru_channel *line) {
  return atomic_load_explicit(&line->word, memory_order_acquire) & ~MARU_WAIT_ARMED;
}

static void await(struct world *world, unsigned task, unsigned messages) {
  struct maru_channel *line = &world->table.channels[task];
  for (uint32_t got; (got = word_of(line)) < messages * MARU_WAIT_STEP;) {
    int rc = maru_wait_while(&line->word, got, ~MARU_WAIT_ARMED, &world->policies[task],
                             MARU_WAIT_FOREVER);
    explore_check(rc == 0, "a wait without a deadline fails");
    explore_check(!mr_sched_equal(&world->places[task], &low), "somebody returns lowered");
  }
}

static void give(struct world *world, unsigned to) {
  struct maru_channel *line = &world->table.channels[to];
  seen.unknown += *(const uint32_t *)&line->state == MARU_CHANNEL_ASLEEP &&
                  (*(const uint32_t *)&line->word & MARU_WAIT_ARMED) == 0;
  if (world->play->silent)
    maru_channel_post(line);
  else
    maru_notify(&line->word);
}

static void pass_on(struct world *world, unsigned task, unsigned round) {
  unsigned waiters = world->play->waiters;
  await(world, task, round + 1);
  explore_check(world->turn == round * waiters + task, "a turn comes out of turn");
  world->turn++;
  if (world->turn < waiters * world->play->rounds)
    give(world, (task + 1) % waiters);
}

static void exchange(struct world *world, unsigned task, unsigned round) {
  give(world, (task + 1) % world->play->waiters);
  await(world, task, round + 1);
}

/* A program goes on: it waits once more, in vain, when the daemon has long been dead. */
static void wait_in_vain(struct world *world, unsigned task) {
  struct maru_channel *line = &world->table.channels[task];
  struct maru_wait_policy *policy = &world->policies[task], other;
  CHECK_EQUAL(maru_wait_policy_init(&other, MARU_WAIT_BLOCK), 0);
  CHECK_EQUAL(maru_wait(&world->over, OVER, OVER, &other, MARU_WAIT_FOREVER), 0);
  policy->runs = MARU_WAIT_BLOCK; /* a way to wait whose time passes quickly here */
  int rc = maru_wait_while(&line->word, word_of(line), ~MARU_WAIT_ARMED, policy,
                           maru_now_ns() + LONG_DEAD_NS);
  explore_check(rc == -ETIMEDOUT, "a wait in vain ends otherwise");
}

static void run(void *argument, unsigned task) {
  struct world *world = argument;
  const struct play *play = world->play;
  if (task == play->waiters) {
    look_after(world);
    maru_notify_store(&world->over, OVER);
    return;
  }
  for (unsigned round = 0; round < play->rounds; round++)
    (play->pattern == RING ? pass_on : exchange)(world, task, round);
  /* Who waits no more finds nobody: otherwise the end of a slice would have to. */
  (void)maru_wait_wake_pending(&world->table, NULL);
  if (play->daemon)
    wait_in_vain(world, task);
}

/* ---- all ------------------------------------------------------------------- */

static const struct play plays[] = {
    {"coop, silent", MARU_WAIT_COOP, RING, 4, 3, 1, .silent = true},
    {"coop, silent", MARU_WAIT_COOP, RING, 4, 3, 2, .silent = true},
    {"coop, silent, exchange", MARU_WAIT_COOP, EXCHANGE, 3, 3, 1, .silent = true},
    {"coop, silent, exchange", MARU_WAIT_COOP, EXCHANGE, 4, 2, 2, .silent = true},
    {"coop", MARU_WAIT_COOP, RING, 4, 3, 2, .silent = false},
    {"coop, exchange", MARU_WAIT_COOP, EXCHANGE, 4, 2, 1, .silent = false},
    {"coop, spins first", MARU_WAIT_COOP, RING, 3, 2, 2, .silent = true, .spins = true},
    {"adaptive, silent", MARU_WAIT_ADAPTIVE, RING, 4, 2, 2, .silent = true, .spins = true},
    {"adaptive, crowded", MARU_WAIT_ADAPTIVE, EXCHANGE, 3, 3, 1, .crowded = true},
    {"adaptive, crowded, silent", MARU_WAIT_ADAPTIVE, EXCHANGE, 3, 3, 1, .silent = true,
     .crowded = true},
    {"coop and a daemon", MARU_WAIT_COOP, RING, 3, 3, 1, .silent = true, .daemon = true},
    {"spin-lower", MARU_WAIT_SPIN_LOWER, RING, 3, 3, 1, .silent = false},
    {"spin-lower and a daemon", MARU_WAIT_SPIN_LOWER, RING, 3, 3, 1, .daemon = true},
    {"lower-yield and a daemon", MARU_WAIT_LOWER_YIELD, RING, 3, 3, 1, .daemon = true},
    {"coop, silent", MARU_WAIT_COOP, RING, 2, 2, 1, .silent = true, .exhaustive = true},
    {"coop, silent, exchange", MARU_WAIT_COOP, EXCHANGE, 2, 1, 1, .silent = true,
     .exhaustive = true},
    {"coop, exchange", MARU_WAIT_COOP, EXCHANGE, 2, 1, 1, .exhaustive = true},
};

#define EXHAUSTIVE_MAX 60000

/* A play that does not reach what it is about shows nothing; NULL: it does. */
static const char *what_is_missing(const struct play *play, const struct explore_report *report) {
  bool lowers = play->kind == MARU_WAIT_SPIN_LOWER || play->kind == MARU_WAIT_LOWER_YIELD;
  if (play->exhaustive)
    return report->complete ? NULL : "the search is not complete";
  if (!lowers && (play->silent || !play->crowded) && seen.unknown == 0)
    return "nobody sleeps unknown to the sender";
  if (lowers && seen.lowered == 0)
    return "nobody is lowered";
  if (play->daemon && seen.boosted == 0)
    return "nobody is boosted";
  return lowers && play->daemon && seen.restored == 0 ? "nobody is restored" : NULL;
}

int main(void) {
  uint64_t schedules = setting("MARU_TEST_SCHEDULES", 2000) * setting("MARU_TEST_SCALE", 1);
  static struct world world;
  the_world = &world;
  for (unsigned i = 0; i < sizeof plays / sizeof *plays; i++) {
    const struct play *play = &plays[i];
    world.play = play;
    struct explore_scene scene = {play->waiters + play->daemon, &world, begin, end, run, NULL};
    struct explore_plan plan = {.schedules = play->exhaustive ? EXHAUSTIVE_MAX : schedules,
                                .seed = setting("MARU_TEST_SEED", 1) + i,
                                .exhaustive = play->exhaustive,
                                .preemptions = 2,
                                .cpus = play->cpus};
    struct explore_report report;
    memset(&seen, 0, sizeof seen);
    explore(&scene, &plan, &report);
    printf("%-28s %u waiters %u CPUs %7llu schedules %7llu distinct%s\n", play->about,
           play->waiters, play->cpus, (unsigned long long)report.schedules,
           (unsigned long long)report.distinct, report.complete ? ", all with 2 preemptions" : "");
    if (explore_failed(&plan, &report, what_is_missing(play, &report)))
      return 1;
  }
  return 0;
}
