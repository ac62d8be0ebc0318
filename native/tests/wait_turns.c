/* Description: which waiters of a queue are awake, and which are woken: the shipped rule against a
 * plain one, over random queues; and a waiter's own way through sleep and call. */
#include "../wait/turns.h"
#include "check.h"

#include <pthread.h>

#define CASES 20000
#define MS INT64_C(1000000)

static uint64_t state = 1;

static uint32_t pick(uint32_t below) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(state >> 33) % below;
}

/* ---- which waiters are woken ------------------------------------------------- */

/* Turn times and CPUs at the edges, too. */
static struct mr_turn_rule random_rule(void) {
  static const uint32_t cpus[] = {1, 2, 3, 16, 100}, spins[] = {0, 1, 20000, 4000000};
  return (struct mr_turn_rule){.spin_ns = spins[pick(4)], .cpus = cpus[pick(5)]};
}

static uint32_t plain_reach(const struct mr_turn_rule *rule, uint32_t turn_ns, uint32_t crowd) {
  bool crowded = crowd > (rule->cpus < 4 ? 3 * rule->cpus : rule->cpus);
  uint32_t reach = 0, most = MR_TURN_SLOTS - 1;
  if (rule->cpus == 1)
    return 0;
  if (crowded)
    most = rule->cpus < MR_CROWD_SHARE ? 1 : rule->cpus / MR_CROWD_SHARE;
  while (reach < most && (uint64_t)(reach + 1) * turn_ns <= 4 * (uint64_t)rule->spin_ns)
    reach++;
  return reach;
}

/* A queue of `waiters`, of which some sleep, and the one before them, whose turn is over. */
static void wakes_as_said(void) {
  struct mr_turns turns = {0};
  struct mr_turn_rule rule = random_rule();
  uint32_t first = pick(2) != 0 ? UINT32_MAX - pick(40) : pick(1000), waiters = pick(60);
  uint32_t turn_ns = 1 + pick(30000), crowd = pick(130), woken = 0;
  bool sleeps[MR_TURN_SLOTS] = {false};
  struct maru_wait_turn turn;
  turns.arrived = turns.over = first;
  mr_turn_begin(&turns, &turn);
  CHECK_EQUAL(turn.number, first);
  CHECK_EQUAL(turn.before, 0);
  turns.arrived += waiters;
  turns.turn_ns = turn_ns;
  turns.crowd = crowd;
  for (uint32_t i = 1; i <= waiters; i++)
    if ((sleeps[i] = pick(3) != 0))
      turns.slots[(first + i) % MR_TURN_SLOTS] |= MARU_WAIT_ARMED;
  mr_turn_end(&turns, &rule, &turn);
  CHECK_EQUAL(turns.over, first + 1);
  uint32_t reach = plain_reach(&rule, turn_ns, crowd);
  for (uint32_t i = 1; i <= waiters; i++) {
    bool near = i <= reach && woken < MR_TURN_WAKES && sleeps[i];
    uint32_t slot = turns.slots[(first + i) % MR_TURN_SLOTS];
    woken += near;
    CHECK_EQUAL((slot & MARU_WAIT_ARMED) != 0, sleeps[i] && !near);
    CHECK_EQUAL(slot / MARU_WAIT_STEP, near);
  }
  CHECK_EQUAL(turns.crowd >= waiters, 1);
}

/* One timed turn that began so long ago, behind so many. */
static void takes(struct mr_turns *turns, uint32_t before, int64_t ns) {
  struct mr_turn_rule rule = {.spin_ns = 20000, .cpus = 16};
  struct maru_wait_turn turn;
  do {
    mr_turn_begin(turns, &turn);
    if (turn.since_ns == 0)
      mr_turn_leave(turns, &turn);
  } while (turn.since_ns == 0);
  turn.before = before;
  turn.since_ns -= ns;
  mr_turn_end(turns, &rule, &turn);
}

static void learns_what_a_turn_takes(void) {
  struct mr_turns turns = {0};
  takes(&turns, 9, 1000 * MS);
  CHECK(turns.turn_ns >= 100 * MS - 1 && turns.turn_ns <= 100 * MS);
  takes(&turns, 0, 20 * MS); /* a quarter of the way from 100 ms to 20 ms, and what we took */
  CHECK(turns.turn_ns >= 80 * MS && turns.turn_ns < 100 * MS);
  CHECK_EQUAL(turns.arrived, turns.over);
}

/* Turns of a lone thread, until the crowd is no longer than that. */
static int turns_to_forget(uint32_t crowd, uint32_t most) {
  struct mr_turns turns = {.crowd = crowd};
  struct mr_turn_rule rule = {.spin_ns = 20000, .cpus = 2};
  struct maru_wait_turn turn;
  int taken = 0;
  for (; taken < 1000000 && turns.crowd > most; taken++) {
    mr_turn_begin(&turns, &turn);
    mr_turn_end(&turns, &rule, &turn);
  }
  CHECK(turns.crowd >= 1 && turns.crowd <= most);
  return taken;
}

static void crowds_are_forgotten(void) {
  CHECK(turns_to_forget(3, 1) <= 3 * 1024);
  CHECK(turns_to_forget(200, 16) < 20000);
  CHECK(turns_to_forget(1000, 1) < 50000);
}

/* ---- one waiter -------------------------------------------------------------- */

struct waiter {
  struct mr_turns turns;
  struct mr_turn_rule rule;
  _Atomic uint32_t word;
  uint32_t want, mask;
};

static void *wait_for_it(void *argument) {
  struct waiter *waiter = argument;
  struct maru_wait_policy policy;
  struct maru_wait_turn turn;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_ADAPTIVE), 0);
  mr_turn_begin(&waiter->turns, &turn);
  CHECK_EQUAL(mr_turn_wait(&waiter->turns, &waiter->rule, &turn, &waiter->word, waiter->want,
                           waiter->mask, &policy, MARU_WAIT_FOREVER),
              0);
  mr_turn_end(&waiter->turns, &waiter->rule, &turn);
  return NULL;
}

static void await_sleep(struct waiter *waiter) {
  while (!(atomic_load(&waiter->turns.slots[0]) & MARU_WAIT_ARMED))
    usleep(100);
}

/* A far one sleeps, marks its word, looks again when it is called for nothing, and is granted. */
static void sleeps_and_is_granted(void) {
  struct waiter waiter = {.rule = {.spin_ns = 1, .cpus = 2}, .want = 2, .mask = 2};
  pthread_t thread;
  waiter.turns.turn_ns = 1000;
  CHECK_EQUAL(pthread_create(&thread, NULL, wait_for_it, &waiter), 0);
  await_sleep(&waiter);
  CHECK(atomic_load(&waiter.word) & MARU_WAIT_ARMED);
  mr_turn_call(&waiter.turns, 0);
  await_sleep(&waiter);
  mr_turn_grant(&waiter.turns, &waiter.word, 2);
  pthread_join(thread, NULL);
  CHECK_EQUAL(atomic_load(&waiter.word), 2);
}

/* In a word that has no room for a mark, which stays as it is. */
static void is_called_without_a_mark(void) {
  struct waiter waiter = {.rule = {.spin_ns = 1, .cpus = 2}, .want = 4, .mask = ~MARU_WAIT_ARMED};
  pthread_t thread;
  waiter.turns.turn_ns = 1000;
  CHECK_EQUAL(pthread_create(&thread, NULL, wait_for_it, &waiter), 0);
  await_sleep(&waiter);
  CHECK_EQUAL(atomic_load(&waiter.word), 0);
  atomic_store(&waiter.word, 4);
  mr_turn_call(&waiter.turns, 0);
  pthread_join(thread, NULL);
}

static void deadlines_pass(void) {
  struct mr_turns turns = {.turn_ns = 1000};
  struct mr_turn_rule rules[] = {{.spin_ns = 1, .cpus = 2}, {.spin_ns = 20000, .cpus = 2}};
  struct maru_wait_policy policy;
  struct maru_wait_turn turn;
  _Atomic uint32_t word = 0;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_ADAPTIVE), 0);
  for (int i = 0; i < 2; i++) {
    mr_turn_begin(&turns, &turn);
    CHECK_EQUAL(mr_turn_wait(&turns, &rules[i], &turn, &word, 2, 2, &policy, maru_now_ns() + MS),
                -ETIMEDOUT);
    mr_turn_leave(&turns, &turn);
  }
}

int main(void) {
  alarm(60);
  for (int i = 0; i < CASES; i++)
    wakes_as_said();
  learns_what_a_turn_takes();
  crowds_are_forgotten();
  for (int i = 0; i < 20; i++) {
    sleeps_and_is_granted();
    is_called_without_a_mark();
  }
  deadlines_pass();
  return 0;
}
