/* Description: threads that wait for each other on channels, under every policy, are ordered.
 *
 * The payload is plain memory: under the thread sanitizer a missing release or acquire
 * is a race. */
#define _GNU_SOURCE
#include <maru/board.h>
#include <maru/wait.h>

#include "check.h"

#include <pthread.h>

#define LONG_ENOUGH INT64_C(60000000000)
#define ROUNDS 200u

struct side {
  struct maru_channel *own, *other;
  uint64_t *payload;
  unsigned first; /* 1: begins */
  enum maru_wait_kind kind;
};

static void *play(void *argument) {
  struct side *side = argument;
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, side->kind), 0);
  CHECK_EQUAL(maru_channel_attach(side->own, &policy), 0);
  if (side->first)
    maru_notify(&side->other->word);
  for (uint32_t i = 1; i <= ROUNDS; i++) {
    CHECK_EQUAL(maru_wait(&side->own->word, i * MARU_WAIT_STEP, ~MARU_WAIT_ARMED, &policy,
                          maru_now_ns() + LONG_ENOUGH),
                0);
    ++*side->payload;
    if (!side->first || i < ROUNDS)
      maru_notify(&side->other->word);
  }
  CHECK_EQUAL(maru_channel_attach(NULL, &policy), 0);
  return NULL;
}

static void pair(struct maru_board *board, enum maru_wait_kind kind) {
  struct maru_channel *channels[2];
  uint64_t payload = 0;
  pthread_t thread;
  for (int i = 0; i < 2; i++)
    CHECK_EQUAL(maru_channel_register(board, 0, 0, &channels[i]), 0);
  struct side here = {channels[0], channels[1], &payload, 1, kind};
  struct side there = {channels[1], channels[0], &payload, 0, kind};
  CHECK_EQUAL(pthread_create(&thread, NULL, play, &there), 0);
  play(&here);
  CHECK_EQUAL(pthread_join(thread, NULL), 0);
  CHECK_EQUAL(payload, 2 * ROUNDS);
  for (int i = 0; i < 2; i++)
    maru_channel_release(channels[i]);
}

int main(void) {
  struct maru_board board;
  CHECK_EQUAL(maru_board_create(&board, 1 << 20), 0);
  for (int kind = 0; kind < MARU_WAIT_KINDS; kind++)
    pair(&board, (enum maru_wait_kind)kind);
  maru_board_close(&board);
  return 0;
}
