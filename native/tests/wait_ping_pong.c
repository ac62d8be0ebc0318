/* Description: no wake-up is lost between two processes, under every policy.
 *
 * Built with wait.c itself and SLICE_NS of an hour, so that a lost wake-up is not
 * healed by the end of a slice: the wait then fails at its deadline. */
#define _GNU_SOURCE
#include <maru/wait.h>

#include "check.h"

#include <sys/mman.h>

#define SECOND INT64_C(1000000000)

struct table {
  _Alignas(64) _Atomic uint32_t ping;
  _Alignas(64) _Atomic uint32_t pong;
  uint64_t rounds;
  uint64_t payload; /* plain: ordered by the words alone */
  enum maru_wait_kind kind;
};

static void await_turn(_Atomic uint32_t *word, uint64_t round, struct maru_wait_policy *policy) {
  uint32_t want = (uint32_t)(round * MARU_WAIT_STEP);
  CHECK_EQUAL(maru_wait(word, want, ~MARU_WAIT_ARMED, policy, maru_now_ns() + 20 * SECOND), 0);
}

static void child(void *argument) {
  struct table *table = argument;
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, table->kind), 0);
  for (uint64_t i = 1; i <= table->rounds; i++) {
    await_turn(&table->ping, i, &policy);
    CHECK_EQUAL(table->payload, 2 * i - 1);
    table->payload = 2 * i;
    maru_notify(&table->pong);
  }
}

static int64_t play(struct table *table, enum maru_wait_kind kind, uint64_t rounds) {
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, kind), 0);
  *table = (struct table){.kind = kind, .rounds = rounds};
  pid_t pid = start(child, table);
  int64_t begin = maru_now_ns();
  for (uint64_t i = 1; i <= rounds; i++) {
    table->payload = 2 * i - 1;
    maru_notify(&table->ping);
    await_turn(&table->pong, i, &policy);
    CHECK_EQUAL(table->payload, 2 * i);
  }
  int64_t time = maru_now_ns() - begin;
  CHECK_EQUAL(finish(pid), 0);
  return time;
}

int main(void) {
  static const enum maru_wait_kind kinds[] = {MARU_WAIT_ADAPTIVE, MARU_WAIT_BLOCK,
                                              MARU_WAIT_SPIN_BLOCK, MARU_WAIT_SPIN};
  uint64_t rounds = setting("MARU_TEST_ROUNDS", 10000);
  struct table *table =
      mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(table != MAP_FAILED);
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    /* Spinning against each other on a busy machine costs a time slice a turn. */
    uint64_t count = kinds[i] == MARU_WAIT_SPIN ? rounds / 20 : rounds;
    int64_t time = play(table, kinds[i], count);
    printf("%s: %lld ns per round\n", maru_wait_kind_name(kinds[i]),
           (long long)time / (long long)count);
  }
  return 0;
}
