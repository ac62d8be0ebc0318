/* Description: the shipped lock code under a scheduler of our own: one at a time, nobody lost,
 * nobody bypassed more often than promised, bypasses counted as they are, no memory lost, and
 * each kind's own rule of order kept.  A play must also reach what it is about. */
#include <maru/lock.h>

#include "../explore/explore.h"
#include "../lock/kinds.h"
#include "check.h"
#include "two_sockets.h"

#define TASKS_MAX 7
#define NO_PROMISE UINT64_MAX
#define MANY 1000 /* bypasses: no bound that a play could reach */

/* What one kind of scene is. */
struct play {
  const char *options;
  unsigned tasks, rounds;
  uint64_t bypass_most;  /* promised of acquisitions that wait without a deadline */
  bool counts;           /* the lock counts bypasses */
  unsigned patient_only; /* tasks from this number on give up or only try */
  bool exhaustive;
  const struct rule *rule; /* NULL: none but the above */
  bool memory_fails;
};

struct world;

struct rule {
  void (*before)(struct world *world, unsigned task); /* a release, by the holder */
  void (*held)(struct world *world, unsigned task);   /* by a new holder */
  const char *never;                                  /* said unless `reached` */
};

/* What all schedules of one play have come to. */
static struct { uint64_t timeouts, failures, longest_bypass, reached, calls; } seen;

struct world {
  const struct play *play;
  struct maru_lock *lock;
  struct maru_hold holds[TASKS_MAX];
  bool inside, waits[TASKS_MAX];
  uint64_t bypassed[TASKS_MAX];
  uint64_t value, expected;
  uint64_t handoffs, left_socket; /* to somebody who waited */
  unsigned last;                  /* holder */
  /* The rules'. */
  unsigned asks[TASKS_MAX];
  int64_t aside_since[TASKS_MAX], released_ns;
  int before[TASKS_MAX]; /* who was last in the queue when it asked; -1: nobody */
  unsigned before_asks[TASKS_MAX];
  const struct maru_lock_node *oldest;
};

/* ---- the scene ---------------------------------------------------------- */

static void begin(void *argument, uint64_t schedule) {
  struct world *world = argument;
  const struct play *play = world->play;
  struct maru_lock_options options;
  CHECK_EQUAL(maru_lock_options_parse(&options, play->options, NULL), 0);
  if (!play->exhaustive && strstr(play->options, "seed=") == NULL)
    options.seed = schedule * 2654435761u + 1; /* the lock's chances differ, too */
  *world = (struct world){.play = play};
  CHECK_EQUAL(maru_lock_create(&world->lock, &options), 0);
}

static bool is_one_queue(const struct maru_lock *lock) {
  const char *name = lock->kind->name;
  return strcmp(name, "mcs") == 0 || strcmp(name, "cna") == 0 || strcmp(name, "malthusian") == 0;
}

static bool is_cohort(const struct maru_lock *lock) {
  return lock->kind == &mr_c_bo_mcs || lock->kind == &mr_hmcs;
}

/* A node knows its socket when its owner has waited. */
static void count_handoff(struct world *world, unsigned task) {
  if (world->holds[task].used->socket >= 0) {
    world->handoffs++;
    world->left_socket += task % 2 != world->last % 2;
  }
  world->last = task;
}

static void check_counts(const struct world *world) {
  struct maru_lock_counts counts;
  maru_lock_counts(world->lock, &counts);
  explore_check(counts.handoffs == world->handoffs, "hand-offs are counted wrong");
  explore_check(counts.left_socket == world->left_socket, "who left the socket is counted wrong");
}

/* Each turn that was begun has ended, or was given up. No thread sleeps. */
static void check_turns(const struct mr_turns *turns) {
  explore_check(*(const uint32_t *)&turns->arrived == *(const uint32_t *)&turns->over,
                "turns are counted wrong");
  for (unsigned slot = 0; slot < MR_TURN_SLOTS; slot++)
    seen.calls += ((const uint32_t *)turns->slots)[slot] / MARU_WAIT_STEP;
}

static void end(void *argument) {
  struct world *world = argument;
  struct maru_hold hold;
  explore_check(world->value == world->expected, "an update was lost");
  explore_check(maru_lock_try(world->lock, &hold) == 0, "a free lock is not free");
  maru_lock_release(world->lock, &hold);
  if (strcmp(world->lock->kind->name, "cna") == 0)
    check_counts(world);
  if (is_one_queue(world->lock))
    explore_check(*(const uint32_t *)&world->lock->queue.left == 0, "a node that was left stays");
  if (world->lock->kind == &mr_fissile)
    explore_check(*(const uint32_t *)&world->lock->fissile.impatient == 0,
                  "the lock stays impatient");
  check_turns(&world->lock->turns);
  if (is_cohort(world->lock))
    for (unsigned socket = 0; socket < world->lock->place.sockets; socket++)
      check_turns(&world->lock->cohort.sockets[socket].turns);
  maru_lock_destroy(world->lock);
}

/* ---- rules --------------------------------------------------------------- */

/* Who waits without a deadline and has arrived: its node may be looked at. */
static bool is_queued(const struct world *world, unsigned task) {
  return world->waits[task] && explore_marked(task) != 0;
}

/* cna: when each was set aside for the first time, and until when the holder had the lock. */
static void note_aside(struct world *world, unsigned task) {
  (void)task;
  for (unsigned i = 0; i < world->play->tasks; i++)
    if (is_queued(world, i) && world->aside_since[i] == 0)
      world->aside_since[i] = world->holds[i].own.aside_since;
  world->released_ns = explore_time_ns();
}

static void check_overdue(struct world *world, unsigned task) {
  int64_t deadline = (int64_t)world->lock->queue.deadline_ns;
  for (unsigned i = 0; i < world->play->tasks; i++)
    if (i != task && is_queued(world, i) && world->aside_since[i] != 0 &&
        explore_marked(i) < explore_marked(task) &&
        world->released_ns - world->aside_since[i] >= deadline)
      explore_check(false, "somebody overdue is passed");
  if (world->aside_since[task] != 0 && world->released_ns - world->aside_since[task] >= deadline)
    seen.reached++;
}

/* shfl: a head's sort is counted, and their number bounded. */
static void check_shfl(struct world *world, unsigned task) {
  (void)task;
  explore_check(world->lock->shfl.queue.in_a_row <= world->lock->passes, "too many sort in a row");
  seen.reached += world->lock->shfl.queue.in_a_row > 0;
}

static void check_malthusian(struct world *world, unsigned task) {
  const struct mr_queue *queue = &world->lock->queue;
  if (world->oldest != NULL && world->holds[task].used == world->oldest)
    seen.reached++;
  for (const struct maru_lock_node *node = queue->aside_last; node != NULL; node = node->prev)
    explore_check(!node->may_give_up, "one that may give up is set aside");
}

/* The oldest of several that are aside. */
static void note_oldest(struct world *world, unsigned task) {
  const struct mr_queue *queue = &world->lock->queue;
  (void)task;
  world->oldest = queue->aside_last != queue->aside_first ? queue->aside_last : NULL;
}

static void check_cohort(struct world *world, unsigned task) {
  const struct mr_cohort_socket *socket = &world->lock->cohort.sockets[task % 2];
  explore_check(socket->passed <= world->lock->passes, "too many hand-offs within a socket");
  seen.reached += socket->passed > 0;
}

/* Nobody who asks while another queues gets the lock before that one. */
static void check_qspin(struct world *world, unsigned task) {
  int before = world->before[task];
  if (before < 0)
    return;
  seen.reached++;
  explore_check(!is_queued(world, (unsigned)before) ||
                    world->asks[before] != world->before_asks[task],
                "somebody who came later goes before one who queued");
}

static void check_fissile(struct world *world, unsigned task) {
  (void)task;
  seen.reached += *(const uint32_t *)&world->lock->fissile.impatient != 0;
}

static const struct rule deadline_rule = {note_aside, check_overdue,
                                          "nobody gets it by the deadline"},
                         shfl_rule = {NULL, check_shfl, "nobody sorts the queue"},
                         malthusian_rule = {note_oldest, check_malthusian,
                                            "the oldest of those set aside never returns"},
                         malthusian_free = {NULL, check_malthusian, NULL},
                         cohort_rule = {NULL, check_cohort, "nobody hands on within the socket"},
                         qspin_rule = {NULL, check_qspin, "nobody finds a queue"},
                         fissile_rule = {NULL, check_fissile, "nobody loses patience"},
                         long_hold_rule = {check_fissile, NULL,
                                           "nobody loses patience with a long hold"};

/* ---- the scene, held ------------------------------------------------------ */

/* Everybody who arrived before `task` and still waits has been bypassed once more. */
static void count_bypasses(struct world *world, unsigned task) {
  uint64_t arrival = explore_marked(task);
  for (unsigned i = 0; i < world->play->tasks; i++)
    if (world->waits[i] && explore_marked(i) != 0 && explore_marked(i) < arrival) {
      world->bypassed[i]++;
      if (world->bypassed[i] > seen.longest_bypass)
        seen.longest_bypass = world->bypassed[i];
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
  if (strcmp(world->lock->kind->name, "cna") == 0)
    count_handoff(world, task);
  const struct rule *rule = world->play->rule;
  if (rule != NULL && rule->held != NULL)
    rule->held(world, task);
  explore_point();
  if (rule != NULL && rule->before != NULL)
    rule->before(world, task);
  world->inside = false;
  world->value = value + 1;
}

/* The lock is done with a hold when it is released, and with one that gave up. */
static void spoil(struct maru_hold *hold) { memset(hold, 0x5a, sizeof *hold); }

static void check_spoilt(const struct maru_hold *hold) {
  for (size_t i = 0; i < sizeof *hold; i++)
    explore_check(((const uint8_t *)hold)[i] == 0x5a, "a hold is written after its release");
}

static void note_asking(struct world *world, unsigned task) {
  const struct maru_lock *lock = world->lock;
  world->asks[task]++;
  world->before[task] = -1;
  world->aside_since[task] = 0;
  if (world->play->rule == NULL || world->play->rule->held != check_qspin)
    return;
  for (unsigned i = 0; i < world->play->tasks; i++)
    if (*(struct maru_lock_node *const *)&lock->qspin.queue.own_tail == &world->holds[i].own) {
      world->before[task] = (int)i;
      world->before_asks[task] = world->asks[i];
    }
}

static int ask(struct world *world, unsigned task, unsigned round) {
  struct maru_hold *hold = &world->holds[task];
  struct timespec soon = {.tv_sec = 1, .tv_nsec = 100000 + 40000 * (long)task};
  note_asking(world, task);
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
    int rc = ask(world, task, round);
    seen.timeouts += rc == -ETIMEDOUT;
    seen.failures += rc == -ENOMEM;
    if (rc == 0) {
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
    {"ttas:wait=block", 3, 3, NO_PROMISE, false, .patient_only = 3},
    {"ttas:wait=block", 3, 3, NO_PROMISE, false, .patient_only = 1},
    {"ttas:wait=spin", 3, 2, NO_PROMISE, false, .patient_only = 1},
    {"ticket:wait=block", 3, 3, 0, false, .patient_only = 3},
    {"ticket:wait=block", 3, 3, NO_PROMISE, false, .patient_only = 1},
    {"mcs:wait=block", 4, 2, 0, false, .patient_only = 4},
    {"mcs:wait=block", 4, 3, NO_PROMISE, false, .patient_only = 1},
    {"mcs:wait=spin", 3, 2, 0, false, .patient_only = 3},
    {"mcs:wait=spin", 4, 2, NO_PROMISE, false, .patient_only = 1},
    {"clh:wait=block", 4, 2, 0, false, .patient_only = 4},
    {"clh:wait=block", 4, 3, NO_PROMISE, false, .patient_only = 1},
    {"cna:wait=block,handoff_range=1", 4, 2, 0, true, .patient_only = 4},
    {"cna:wait=block,handoff_range=2", 4, 3, MANY, true, .patient_only = 4},
    {"cna:wait=block,handoff_range=2", 4, 3, NO_PROMISE, false, .patient_only = 1},
    {"cna:wait=block,handoff_range=2", 5, 3, NO_PROMISE, false, .patient_only = 2},
    {"cna:wait=block,handoff_range=4,shuffle_reduction=2", 5, 2, MANY, true, .patient_only = 5},
    {"cna:wait=block", 5, 3, MANY, true, .patient_only = 5},
    {"cna:wait=block,max_bypass=0", 4, 2, 0, true, .patient_only = 4},
    {"cna:wait=block,max_bypass=1", 5, 3, 1, true, .patient_only = 5},
    {"cna:wait=block,max_bypass=2,handoff_range=4", 5, 3, 2, true, .patient_only = 5},
    {"cna:wait=block,max_bypass=2", 5, 3, NO_PROMISE, false, .patient_only = 2},
    {"cna:wait=block,deadline=5us", 5, 3, MANY, true, .patient_only = 5, .rule = &deadline_rule},
    {"cna:wait=block,deadline=2us", 5, 3, MANY, true, .patient_only = 5, .rule = &deadline_rule},
    {"cna:wait=block,shuffle_reduction=0x10000,seed=1", 5, 3, 0, true, .patient_only = 5},
    {"mcs:wait=block", 4, 3, NO_PROMISE, false, .patient_only = 1, .memory_fails = true},
    {"hmcs:wait=block", 4, 3, NO_PROMISE, false, .patient_only = 1, .memory_fails = true},
    {"cna:wait=spin-block,spin=40us", 4, 2, MANY, true, .patient_only = 4},
    {"cna:wait=spin", 4, 2, MANY, true, .patient_only = 4},
    {"qspin:wait=block", 4, 3, NO_PROMISE, false, .patient_only = 4, .rule = &qspin_rule},
    {"qspin:wait=block", 4, 3, NO_PROMISE, false, .patient_only = 2},
    {"malthusian:wait=block,handoff_range=4", 5, 3, NO_PROMISE, false, .patient_only = 5,
     .rule = &malthusian_rule},
    {"malthusian:wait=block,handoff_range=4", 5, 3, NO_PROMISE, false, .patient_only = 3,
     .rule = &malthusian_free},
    {"shfl:wait=block,passes=2", 7, 4, NO_PROMISE, false, .patient_only = 5, .rule = &shfl_rule},
    {"shfl:wait=block,passes=8", 5, 3, NO_PROMISE, false, .patient_only = 2},
    {"fissile:wait=block,handoff_range=2", 4, 3, NO_PROMISE, false, .patient_only = 4,
     .rule = &fissile_rule},
    {"fissile:wait=block,handoff_range=2", 4, 3, NO_PROMISE, false, .patient_only = 2},
    {"c-bo-mcs:wait=block,passes=1", 4, 3, NO_PROMISE, false, .patient_only = 4,
     .rule = &cohort_rule},
    {"c-bo-mcs:wait=block,passes=2", 5, 3, NO_PROMISE, false, .patient_only = 2},
    {"hmcs:wait=block,passes=1", 4, 3, NO_PROMISE, false, .patient_only = 4, .rule = &cohort_rule},
    {"hmcs:wait=block,passes=2", 5, 3, NO_PROMISE, false, .patient_only = 2},
    /* By turns: with a spin of 1 ns every turn is far, but the first. */
    {"ticket:spin=1ns", 4, 3, 0, false, .patient_only = 4},
    {"ticket:spin=4us", 4, 3, NO_PROMISE, false, .patient_only = 2},
    {"mcs:spin=1ns", 4, 3, 0, false, .patient_only = 4},
    {"mcs:spin=4us", 5, 3, NO_PROMISE, false, .patient_only = 3},
    {"clh:spin=1ns", 4, 3, 0, false, .patient_only = 4},
    {"clh:spin=4us", 5, 3, NO_PROMISE, false, .patient_only = 2},
    {"cna:spin=1ns,handoff_range=2", 5, 3, MANY, true, .patient_only = 5},
    {"cna:spin=4us,handoff_range=2", 5, 3, NO_PROMISE, false, .patient_only = 2},
    {"qspin:spin=4us", 4, 3, NO_PROMISE, false, .patient_only = 4, .rule = &qspin_rule},
    {"shfl:spin=4us,passes=2", 5, 3, NO_PROMISE, false, .patient_only = 4},
    {"fissile:spin=4us", 4, 3, NO_PROMISE, false, .patient_only = 2},
    {"c-bo-mcs:spin=1ns,passes=2", 5, 3, NO_PROMISE, false, .patient_only = 2},
    {"hmcs:spin=4us,passes=1", 4, 3, NO_PROMISE, false, .patient_only = 4, .rule = &cohort_rule},
    {"mcs:spin=1ns", 3, 1, 0, false, .patient_only = 3, .exhaustive = true},
    {"ticket:spin=1ns", 3, 1, 0, false, .patient_only = 3, .exhaustive = true},
    {"mcs:wait=block", 3, 1, 0, false, .patient_only = 3, .exhaustive = true},
    {"cna:wait=block", 3, 2, MANY, true, .patient_only = 3, .exhaustive = true},
    {"cna:wait=block,handoff_range=2", 3, 1, NO_PROMISE, false, .patient_only = 1,
     .exhaustive = true},
    {"clh:wait=block", 3, 1, NO_PROMISE, false, .patient_only = 1, .exhaustive = true},
    {"qspin:wait=block", 3, 1, NO_PROMISE, false, .patient_only = 3, .exhaustive = true},
    {"malthusian:wait=block", 3, 2, NO_PROMISE, false, .patient_only = 3, .exhaustive = true},
    {"shfl:wait=block", 3, 2, NO_PROMISE, false, .patient_only = 3, .exhaustive = true},
    {"fissile:wait=block", 3, 1, NO_PROMISE, false, .patient_only = 3, .exhaustive = true},
    /* With one hold each, the waiter never finds the word free while the other one has it. */
    {"fissile:wait=block", 2, 1, NO_PROMISE, false, .patient_only = 2, .exhaustive = true,
     .rule = &long_hold_rule},
    {"c-bo-mcs:wait=block,passes=1", 3, 1, NO_PROMISE, false, .patient_only = 3,
     .exhaustive = true},
    {"hmcs:wait=block,passes=1", 3, 1, NO_PROMISE, false, .patient_only = 3, .exhaustive = true},
};

#define EXHAUSTIVE_MAX 15000

/* A play that does not reach what it is about shows nothing; NULL: it does. */
static const char *what_is_missing(const struct play *play, const struct explore_report *report) {
  uint64_t most = play->bypass_most;
  if (play->exhaustive && !report->complete)
    return "the search is not complete";
  if (play->rule != NULL && play->rule->never != NULL && seen.reached == 0)
    return play->rule->never;
  if (play->exhaustive)
    return NULL;
  if (play->patient_only < play->tasks && seen.timeouts == 0)
    return "nobody gives up";
  if (play->memory_fails && seen.failures == 0)
    return "memory never lacks";
  if (most > 0 && most != NO_PROMISE && seen.longest_bypass == 0)
    return "nobody is ever bypassed";
  if (most < MANY && seen.longest_bypass < most)
    return "the bound on bypasses is not reached";
  return NULL;
}

int main(void) {
  uint64_t schedules = setting("MARU_TEST_SCHEDULES", 2000) * setting("MARU_TEST_SCALE", 1);
  uint64_t distinct = 0, points = 0;
  for (unsigned i = 0; i < sizeof plays / sizeof *plays; i++) {
    const struct play *play = &plays[i];
    struct world world = {.play = play};
    struct explore_scene scene = {play->tasks, &world, begin, end, run, NULL};
    struct explore_plan plan = {.schedules = play->exhaustive ? EXHAUSTIVE_MAX : schedules,
                                .seed = setting("MARU_TEST_SEED", 1) + i,
                                .exhaustive = play->exhaustive,
                                .memory_fails = play->memory_fails,
                                .preemptions = 2};
    struct explore_report report;
    memset(&seen, 0, sizeof seen);
    explore(&scene, &plan, &report);
    printf("%-40s %u tasks %7llu schedules %7llu distinct%s\n", play->options, play->tasks,
           (unsigned long long)report.schedules, (unsigned long long)report.distinct,
           report.complete ? ", all with 2 preemptions" : "");
    if (explore_failed(&plan, &report, what_is_missing(play, &report)))
      return 1;
    distinct += report.distinct;
    points += report.points;
  }
  printf("%llu distinct schedules, %llu points\n", (unsigned long long)distinct,
         (unsigned long long)points);
  CHECK(distinct >= setting("MARU_TEST_DISTINCT", 10000));
  return 0;
}
