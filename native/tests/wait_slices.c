/* Description: a waiter whose turn is far looks at its own word in the end, also where nobody calls
 * its slot: a notifier may be killed between its store and its call. */
#include "../wait/turns.h"
#include "check.h"

#include <pthread.h>

#define WAITERS 3

/* Far: a turn takes longer than anybody spins. */
static struct mr_turns turns = {.turn_ns = 1000000};
static const struct mr_turn_rule rule = {.spin_ns = 1, .cpus = 2};

struct waiter {
  _Atomic uint32_t word;
  uint32_t mask;
  int64_t deadline_ns;
};

static void *wait_for_it(void *argument) {
  struct waiter *waiter = argument;
  struct maru_wait_policy policy;
  struct maru_wait_turn turn;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_ADAPTIVE), 0);
  mr_turn_begin(&turns, &turn);
  CHECK_EQUAL(mr_turn_wait(&turns, &rule, &turn, &waiter->word, 4, waiter->mask, &policy,
                           waiter->deadline_ns),
              0);
  mr_turn_leave(&turns, &turn);
  return NULL;
}

/* With a mark in the word, without one, and before a deadline. */
static void finds_a_grant_without_a_call(void) {
  struct waiter waiters[WAITERS] = {{.mask = 4, .deadline_ns = MARU_WAIT_FOREVER},
                                    {.mask = ~MARU_WAIT_ARMED, .deadline_ns = MARU_WAIT_FOREVER},
                                    {.mask = 4, .deadline_ns = MARU_WAIT_FOREVER - 1}};
  pthread_t threads[WAITERS];
  uint32_t first = atomic_load(&turns.arrived);
  for (int i = 0; i < WAITERS; i++)
    CHECK_EQUAL(pthread_create(&threads[i], NULL, wait_for_it, &waiters[i]), 0);
  for (uint32_t i = 0; i < WAITERS; i++)
    while (!(atomic_load(&turns.slots[(first + i) % MR_TURN_SLOTS]) & MARU_WAIT_ARMED))
      usleep(100);
  for (int i = 0; i < WAITERS; i++)
    atomic_store(&waiters[i].word, 4);
  for (int i = 0; i < WAITERS; i++)
    CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

/* Slices do not stand for the deadline. */
static void deadlines_pass(void) {
  struct maru_wait_policy policy;
  struct maru_wait_turn turn;
  _Atomic uint32_t word = 0;
  int64_t deadline_ns = maru_now_ns() + 20000000;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_ADAPTIVE), 0);
  mr_turn_begin(&turns, &turn);
  CHECK_EQUAL(mr_turn_wait(&turns, &rule, &turn, &word, 4, 4, &policy, deadline_ns), -ETIMEDOUT);
  CHECK(maru_now_ns() >= deadline_ns);
  mr_turn_leave(&turns, &turn);
}

int main(void) {
  alarm(60);
  for (int i = 0; i < 5; i++)
    finds_a_grant_without_a_call();
  deadlines_pass();
  return 0;
}
