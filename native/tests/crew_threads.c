/* Description: each index arrives once from workers in threads; the thread sanitizer can watch. */
#include <maru/board.h>
#include <maru/channel.h>

#include "check.h"

#include <pthread.h>

#define WORKERS 3
#define CHUNK 5u
#define SECOND INT64_C(1000000000)

struct team {
  struct maru_crew *crew;
  struct maru_log *logs[WORKERS];
  enum maru_wait_kind kind;
};

struct worker {
  struct team *team;
  uint32_t number;
  uint64_t items;
  pthread_t thread;
};

static struct maru_wait_policy policy_of(enum maru_wait_kind kind) {
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, kind), 0);
  return policy;
}

static void *run_worker(void *argument) {
  struct worker *self = argument;
  struct maru_crew *crew = self->team->crew;
  struct maru_log *log = self->team->logs[self->number];
  struct maru_wait_policy policy = policy_of(self->team->kind);
  struct maru_chunk chunk;
  int rc;
  while ((rc = maru_crew_claim(crew, self->number, &chunk, &policy, maru_now_ns() + 30 * SECOND)) ==
         1) {
    for (uint64_t i = chunk.first; i < chunk.first + chunk.count; i++) {
      uint64_t value = 3 * i;
      CHECK_EQUAL(maru_log_append(log, i, 0, &value, sizeof value), 0);
      self->items++;
    }
    maru_crew_done(crew, self->number);
  }
  CHECK_EQUAL(rc, 0);
  maru_log_close(log);
  maru_crew_ring(crew);
  return NULL;
}

/* Reads what is there; true when the log is closed and empty. */
static bool drain(struct maru_log *log, uint8_t *received, uint64_t items) {
  struct maru_record record;
  int rc;
  while ((rc = maru_log_next(log, &record)) == 1) {
    CHECK(record.index < items);
    CHECK_EQUAL(*(const uint64_t *)record.chunk, 3 * record.index);
    CHECK_EQUAL(received[record.index]++, 0);
    maru_log_release(log);
  }
  CHECK(rc == 0 || rc == -EPIPE);
  return rc == -EPIPE;
}

static void coordinate(struct team *team, uint64_t items) {
  struct maru_wait_policy policy = policy_of(team->kind);
  uint8_t *received = calloc(items, 1);
  uint64_t next = 0;
  for (bool over = false; !over;) {
    uint32_t seen = maru_crew_bell(team->crew);
    while (next < items && maru_crew_publish(team->crew, next, CHUNK) == 0)
      next += CHUNK;
    if (next >= items)
      maru_crew_close(team->crew);
    over = true;
    for (int i = 0; i < WORKERS; i++)
      over = drain(team->logs[i], received, items) && over;
    if (!over)
      CHECK_EQUAL(maru_crew_await(team->crew, seen, &policy, maru_now_ns() + 30 * SECOND), 0);
  }
  for (uint64_t i = 0; i < items; i++)
    CHECK_EQUAL(received[i], 1);
  free(received);
}

/* With a board the crew waits on channels. */
static void play(enum maru_wait_kind kind, uint64_t items, struct maru_board *board) {
  struct team team = {.kind = kind};
  struct worker workers[WORKERS];
  uint64_t sum = 0;
  CHECK_EQUAL(maru_crew_create(&team.crew, WORKERS, 8), 0);
  CHECK_EQUAL(board != NULL ? maru_crew_seat(team.crew, board, 1) : 0, 0);
  for (uint32_t i = 0; i < WORKERS; i++) {
    CHECK_EQUAL(maru_log_create(&team.logs[i], items * 32), 0);
    workers[i] = (struct worker){.team = &team, .number = i};
    CHECK_EQUAL(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
  }
  coordinate(&team, items);
  for (uint32_t i = 0; i < WORKERS; i++) {
    CHECK_EQUAL(pthread_join(workers[i].thread, NULL), 0);
    sum += workers[i].items;
    maru_log_destroy(team.logs[i]);
  }
  CHECK_EQUAL(sum, items);
  maru_crew_destroy(team.crew);
}

int main(void) {
  uint64_t items = setting("MARU_TEST_ITEMS", 50000) / CHUNK * CHUNK;
  struct maru_board board;
  CHECK_EQUAL(maru_board_create(&board, 1 << 20), 0);
  play(MARU_WAIT_BLOCK, items, NULL);
  play(MARU_WAIT_ADAPTIVE, items, NULL);
  play(MARU_WAIT_SPIN_BLOCK, items, NULL);
  play(MARU_WAIT_BLOCK, items, &board);
  play(MARU_WAIT_ADAPTIVE, items, &board);
  play(MARU_WAIT_COOP, items, &board);
  play(MARU_WAIT_GANG, items, &board);
  maru_board_close(&board);
  return 0;
}
