/* Description: a barrier of nodes that have one memory is of one size at a time, and an arrival is
 * of one turn.  A lock is given by its holder alone, and waited for by others alone. */
#include "../commons.h"

#include "check.h"

/* A node that is there waits for another number. */
static void sizes(void) {
  struct mr_gathering barrier = {0};
  uint32_t turn;
  CHECK_EQUAL(mr_gathering_come(&barrier, 3, &turn), 0);
  CHECK_EQUAL(mr_gathering_come(&barrier, 2, &turn), -EINVAL);
  CHECK_EQUAL(mr_gathering_come(&barrier, 3, &turn), 0);
  CHECK_EQUAL(mr_gathering_come(&barrier, 3, &turn), 1);
  CHECK_EQUAL(mr_gathering_come(&barrier, 1, &turn), 1);
}

/* Two of three meet, again and again; each turn is over for those of it, and for no other. */
static void turns(void) {
  struct mr_gathering barrier = {0};
  struct maru_wait_policy policy;
  uint32_t before = 0, turn;
  maru_wait_policy_init(&policy, MARU_WAIT_BLOCK);
  for (int i = 0; i < 3; i++) {
    CHECK_EQUAL(mr_gathering_come(&barrier, 2, &turn), 0);
    CHECK(i == 0 || turn == before + MARU_WAIT_STEP);
    CHECK_EQUAL(turn, barrier.told);
    before = turn;
    CHECK_EQUAL(mr_gathering_come(&barrier, 2, &turn), 1);
    mr_gathering_await(&barrier, before, &policy);
  }
}

/* The last of a turn has come, and has not told that yet. An arrival is of the next turn then. */
static void between(void) {
  struct mr_gathering barrier = {.come = (uint64_t)MARU_WAIT_STEP << 32};
  uint32_t turn;
  CHECK_EQUAL(mr_gathering_come(&barrier, 2, &turn), 0);
  CHECK_EQUAL(turn, MARU_WAIT_STEP);
}

/* After as many turns as a word can count. */
static void wraps(void) {
  struct mr_gathering barrier = {.told = -MARU_WAIT_STEP, .come = (uint64_t)-MARU_WAIT_STEP << 32};
  struct maru_wait_policy policy;
  uint32_t turn, next;
  maru_wait_policy_init(&policy, MARU_WAIT_BLOCK);
  CHECK_EQUAL(mr_gathering_come(&barrier, 2, &turn), 0);
  CHECK_EQUAL(mr_gathering_come(&barrier, 2, &next), 1);
  mr_gathering_await(&barrier, turn, &policy);
  CHECK_EQUAL(mr_gathering_come(&barrier, 2, &next), 0);
  CHECK_EQUAL(next, 0);
}

static void holders(void) {
  struct mr_latch latch = {0};
  CHECK_EQUAL(mr_latch_holder(&latch), MR_LATCH_NOBODY);
  CHECK_EQUAL(mr_latch_give(&latch, 0), -EPERM);
  CHECK(mr_latch_try(&latch, 255));
  CHECK(!mr_latch_try(&latch, 255) && !mr_latch_try(&latch, 0));
  CHECK_EQUAL(mr_latch_holder(&latch), 255);
  CHECK(mr_latch_waits(&latch, 0));
  CHECK(!mr_latch_waits(&latch, 255));
  CHECK_EQUAL(mr_latch_give(&latch, 0), -EPERM);
  CHECK_EQUAL(mr_latch_give(&latch, 255), 0);
  CHECK(!mr_latch_waits(&latch, 0));
  CHECK(mr_latch_try(&latch, 0));
}

int main(void) {
  sizes();
  turns();
  between();
  wraps();
  holders();
  return 0;
}
