/* Description: each kind of object grants whom it must, in the order in which they
 * came, and a refused request changes nothing. */
#include "../manager.h"

#include "check.h"

#define NODES 6

/* What was granted, in order. */
static struct {
  uint16_t to;
  enum mr_op op;
  int64_t result;
} granted[64];
static int grants;
static int64_t expected;
static struct mr_manager *manager;

static void on_granted(void *context, uint16_t to, enum mr_op op, uint32_t slot, int64_t result) {
  (void)context;
  (void)slot;
  granted[grants].to = to;
  granted[grants].op = op;
  granted[grants++].result = result;
}

/* Makes the step; how many it granted, or why not. */
static int step(uint16_t from, enum mr_op op, uint32_t slot, int64_t argument) {
  struct mr_request request = {from, (uint8_t)op, slot, argument, expected};
  grants = 0;
  int rc = mr_manager_step(manager, &request, on_granted, NULL);
  CHECK(rc == 0 || grants == 0);
  return rc < 0 ? rc : grants;
}

static bool granted_to(int place, uint16_t node, enum mr_op op) {
  return place < grants && granted[place].to == node && granted[place].op == op;
}

/* The only grant: a turn of a lock, or the next one's name. */
static bool turn_to(uint16_t node, enum mr_op op, int64_t turn, int64_t also) {
  return grants == 1 && granted_to(0, node, op) && granted[0].result == turn * MR_TURN + also;
}
static bool named_to(uint16_t node, int64_t turn, uint16_t next) {
  return grants == 1 && granted_to(0, node, MR_NEXT) && granted[0].result == turn * 65536 + next;
}
static bool refused_to(int place, uint16_t node) {
  return granted_to(place, node, MR_TRY) && granted[place].result == 0;
}

static void locks(void) {
  step(3, MR_LOCK, 0, 0);
  CHECK(turn_to(3, MR_LOCK, 1, 0));
  /* Each hears of the next, who gets it from there; a release that crosses that changes nothing. */
  for (uint16_t node = 0; node < 3; node++) {
    step(node, MR_LOCK, 0, 0);
    CHECK(named_to(node == 0 ? 3 : node - 1, node + 1, node));
    CHECK_EQUAL(step(3, MR_UNLOCK, 0, 0), 0);
  }
  /* A trial of a held one fails, and leaves no trace. */
  CHECK_EQUAL(step(5, MR_TRY, 0, 0), 1);
  CHECK(refused_to(0, 5));
  /* The last gives it back: it is free. The node that had it last may keep it. */
  CHECK_EQUAL(step(2, MR_UNLOCK, 0, 0), 0);
  step(5, MR_TRY, 0, 0);
  CHECK(turn_to(5, MR_TRY, 5, 0));
  CHECK_EQUAL(step(5, MR_UNLOCK, 0, 0), 0);
  step(5, MR_LOCK, 0, 0);
  CHECK(turn_to(5, MR_LOCK, 6, MR_KEEPS));
}

/* What may be kept is asked back before a trial fails. */
static void trials(void) {
  for (int64_t turn = 1; turn <= 2; turn++) {
    step(1, MR_LOCK, 6, 0);
    CHECK(turn_to(1, MR_LOCK, turn, turn == 2 ? MR_KEEPS : 0));
    if (turn == 1)
      CHECK_EQUAL(step(1, MR_UNLOCK, 6, 0), 0);
  }
  step(2, MR_TRY, 6, 0);
  CHECK(named_to(1, 2, MR_NOBODY));
  CHECK_EQUAL(step(3, MR_TRY, 6, 0), 0); /* waits, too, and nobody asks twice */
  CHECK_EQUAL(step(3, MR_WAIT, 3, 0), -EBUSY);
  CHECK_EQUAL(step(4, MR_HELD, 6, 2), -EPERM);
  CHECK_EQUAL(step(1, MR_HELD, 6, 2), 2);
  CHECK(refused_to(0, 2) && refused_to(1, 3));
  /* It is not kept any more: the next trial fails at once. */
  CHECK_EQUAL(step(2, MR_TRY, 6, 0), 1);
  CHECK(refused_to(0, 2));
  CHECK_EQUAL(step(1, MR_UNLOCK, 6, 0), 0);
  step(1, MR_TRY, 6, 0);
  CHECK(turn_to(1, MR_TRY, 3, MR_KEEPS));
  /* Its keeper had given it back: the first that tries has it. */
  step(2, MR_TRY, 6, 0);
  CHECK(named_to(1, 3, MR_NOBODY));
  CHECK_EQUAL(step(3, MR_TRY, 6, 0), 0);
  CHECK_EQUAL(step(1, MR_UNLOCK, 6, 0), 2);
  CHECK(granted_to(0, 2, MR_TRY) && granted[0].result == 4 * MR_TURN && refused_to(1, 3));
  /* Another was queued while the keeper was asked: trials fail, whatever it answers, and an answer
   * about an old turn says nothing of a new one. */
  CHECK_EQUAL(step(2, MR_UNLOCK, 6, 0), 0);
  step(2, MR_LOCK, 6, 0);
  CHECK(turn_to(2, MR_LOCK, 5, MR_KEEPS));
  CHECK_EQUAL(step(4, MR_TRY, 6, 0), 1);
  step(3, MR_LOCK, 6, 0);
  CHECK(named_to(2, 5, 3));
  CHECK_EQUAL(step(3, MR_UNLOCK, 6, 0), 0);
  step(3, MR_LOCK, 6, 0);
  CHECK(turn_to(3, MR_LOCK, 7, MR_KEEPS));
  CHECK_EQUAL(step(2, MR_HELD, 6, 5), 1);
  CHECK(refused_to(0, 4));
  step(4, MR_TRY, 6, 0);
  CHECK(named_to(3, 7, MR_NOBODY));
  CHECK_EQUAL(step(3, MR_UNLOCK, 6, 0), 1);
  CHECK(turn_to(4, MR_TRY, 8, 0));
}

/* As many as say so meet, not all nodes; then the next that come. */
static void barriers(void) {
  for (uint16_t first = 0; first < NODES; first += 3) {
    CHECK_EQUAL(step((uint16_t)(first + 2), MR_BARRIER, 1, 3), 0);
    CHECK_EQUAL(step(first, MR_BARRIER, 1, 3), 0);
    CHECK_EQUAL(step((uint16_t)(first + 1), MR_BARRIER, 1, 2), -EINVAL);
    CHECK_EQUAL(step((uint16_t)(first + 1), MR_BARRIER, 1, 3), 3);
    for (int i = 0; i < 3; i++)
      CHECK_EQUAL(granted[i].result, granted[i].to == first + 1);
  }
}

/* A node that waits for the value goes on, the others stay, in their order; the flag may have
 * any value again. */
static void flags(void) {
  static const int64_t awaited[] = {1, 2, 1, 2, 1};
  CHECK_EQUAL(step(5, MR_FLAG_SET, 2, 7), 0);
  CHECK_EQUAL(step(5, MR_FLAG_AWAIT, 2, 7), 1);
  for (uint16_t node = 0; node < 5; node++)
    CHECK_EQUAL(step(node, MR_FLAG_AWAIT, 2, awaited[node]), 0);
  CHECK_EQUAL(step(5, MR_FLAG_SET, 2, 1), 3);
  CHECK(granted_to(0, 0, MR_FLAG_AWAIT) && granted_to(1, 2, MR_FLAG_AWAIT) &&
        granted_to(2, 4, MR_FLAG_AWAIT));
  /* Behind those that stayed. */
  CHECK_EQUAL(step(0, MR_FLAG_AWAIT, 2, 2), 0);
  CHECK_EQUAL(step(2, MR_FLAG_AWAIT, 2, 1), 1);
  CHECK_EQUAL(step(5, MR_FLAG_SET, 2, 0), 0);
  CHECK_EQUAL(step(2, MR_FLAG_AWAIT, 2, 1), 0);
  CHECK_EQUAL(step(5, MR_FLAG_SET, 2, 2), 3);
  CHECK(granted_to(0, 1, MR_FLAG_AWAIT) && granted_to(1, 3, MR_FLAG_AWAIT) &&
        granted_to(2, 0, MR_FLAG_AWAIT));
  CHECK_EQUAL(step(5, MR_FLAG_SET, 2, 1), 1);
  CHECK(granted_to(0, 2, MR_FLAG_AWAIT));
}

static void semaphores(void) {
  CHECK_EQUAL(step(0, MR_WAIT, 3, 0), 0);
  CHECK_EQUAL(step(1, MR_WAIT, 3, 0), 0);
  CHECK_EQUAL(step(2, MR_POST, 3, 3), 2);
  CHECK(granted_to(0, 0, MR_WAIT) && granted_to(1, 1, MR_WAIT));
  CHECK_EQUAL(step(0, MR_WAIT, 3, 0), 1);
  CHECK_EQUAL(step(0, MR_WAIT, 3, 0), 0);
  CHECK_EQUAL(step(2, MR_POST, 3, 0), -EINVAL);
  CHECK_EQUAL(step(2, MR_POST, 3, 1), 1);
}

static void counters(void) {
  CHECK_EQUAL(step(0, MR_FETCH_ADD, 4, INT64_MAX), 1);
  CHECK_EQUAL(step(1, MR_FETCH_ADD, 4, 1), 1);
  CHECK(granted[0].result == INT64_MAX);
  CHECK_EQUAL(step(1, MR_FETCH_ADD, 4, 0), 1);
  CHECK(granted[0].result == INT64_MIN);
  expected = 5;
  CHECK_EQUAL(step(2, MR_COMPARE_SWAP, 4, 9), 1);
  CHECK(granted[0].result == INT64_MIN);
  expected = INT64_MIN;
  CHECK_EQUAL(step(2, MR_COMPARE_SWAP, 4, 9), 1);
  CHECK(granted_to(0, 2, MR_COMPARE_SWAP) && granted[0].result == INT64_MIN);
  CHECK_EQUAL(step(1, MR_FETCH_ADD, 4, 0), 1);
  CHECK(granted[0].result == 9);
}

static void conditions(void) {
  for (uint16_t node = 0; node < 4; node++) {
    CHECK_EQUAL(step(node, MR_CONDITION, 5, 0), 1);
    CHECK(granted_to(0, node, MR_CONDITION));
  }
  CHECK_EQUAL(step(5, MR_SIGNAL, 5, 0), 1);
  CHECK(granted_to(0, 0, MR_SIGNAL));
  CHECK_EQUAL(step(5, MR_BROADCAST, 5, 0), 3);
  CHECK(granted_to(0, 1, MR_SIGNAL) && granted_to(1, 2, MR_SIGNAL) && granted_to(2, 3, MR_SIGNAL));
  CHECK_EQUAL(step(5, MR_SIGNAL, 5, 0), 0);
}

static void refusals(void) {
  CHECK_EQUAL(step(0, MR_OPS, 7, 0), -EINVAL);
  CHECK_EQUAL(step(0, MR_NEXT, 7, 0), -EINVAL);
  CHECK_EQUAL(step(0, MR_LOCK, 8, 0), -EINVAL);
  CHECK_EQUAL(step(0, MR_POST, 7, -1), -EINVAL);
  CHECK_EQUAL(step(0, MR_UNLOCK, 7, 0), -EPERM); /* nobody ever had it */
  /* It made no semaphore of the object. */
  CHECK_EQUAL(step(0, MR_LOCK, 7, 0), 1);
  CHECK_EQUAL(step(0, MR_POST, 7, 1), -EINVAL);
  CHECK_EQUAL(step(0, MR_LOCK, 7, 0), -EBUSY);
  CHECK_EQUAL(step(1, MR_HELD, 7, 1), -EPERM);
  CHECK_EQUAL(step(0, MR_UNLOCK, 7, 0), 0);
  CHECK_EQUAL(step(0, MR_UNLOCK, 7, 0), -EPERM); /* it is free */
  CHECK_EQUAL(step(1, MR_WAIT, 3, 0), 0);
  CHECK_EQUAL(step(1, MR_WAIT, 3, 0), -EBUSY); /* it waits already */
}

int main(void) {
  CHECK_EQUAL(mr_manager_create(&manager, NODES, 8), 0);
  locks();
  trials();
  barriers();
  flags();
  semaphores();
  counters();
  conditions();
  refusals();
  mr_manager_destroy(manager);
  return 0;
}
