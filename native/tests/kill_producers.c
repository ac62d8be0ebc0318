/* Description: workers killed at any instant lose no whole record and no chunk's owner.
 *
 * Workers claim chunks and append one checked record per index.  One of them is
 * killed at a random instant, again and again.  Then its log must be valid up to
 * its last whole record, and each index of its unfinished chunk must be known by claim_of. What is
 * re-published completes the work exactly.
 *
 * MARU_TEST_KILLS (default 500) and MARU_TEST_SEED set length and course. */
#define _GNU_SOURCE
#include <maru/board.h>
#include <maru/channel.h>

#include "check.h"

#define WORKERS 3
#define CHUNK 8u
#define SLOTS 256
#define LOG_BYTES (UINT64_C(64) << 20)
#define RESERVE 200
#define SECOND INT64_C(1000000000)

struct team {
  struct maru_crew *crew;
  struct maru_log *logs[WORKERS];
  pid_t pids[WORKERS];
};

struct job {
  struct team *team;
  uint32_t worker;
};

/* The published indices and what became of them. */
static struct {
  uint64_t next;      /* to publish */
  uint8_t *received;  /* 1: the index has arrived */
  uint64_t capacity;  /* of received */
  uint64_t duplicate; /* records received again: re-run after a kill */
} work;

static uint64_t checksum(uint64_t index, uint64_t length) {
  uint64_t seed = (index + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ length;
  return next_random(&seed);
}

/* Lengths from 8 to RESERVE, so that records end at many places of a line. */
static uint64_t length_of(uint64_t index) { return 8 + checksum(index, 0) % (RESERVE - 8); }

static void append(struct maru_log *log, uint64_t index) {
  void *chunk;
  uint64_t length = length_of(index), sum = checksum(index, length);
  CHECK_EQUAL(maru_log_reserve(log, RESERVE, &chunk), 0);
  memset(chunk, 0xff, RESERVE); /* looks committed, were it ever taken for a word */
  for (uint64_t i = 0; i < length; i++)
    ((uint8_t *)chunk)[i] = (uint8_t)(sum >> i % 8 * 8);
  maru_log_commit(log, length, index, (uint32_t)(index & 0x7fff));
}

static void run_worker(void *argument) {
  struct job *job = argument;
  struct maru_crew *crew = job->team->crew;
  struct maru_log *log = job->team->logs[job->worker];
  struct maru_wait_policy policy;
  struct maru_chunk chunk;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_ADAPTIVE), 0);
  for (;;) {
    int rc = maru_crew_claim(crew, job->worker, &chunk, &policy, maru_now_ns() + 60 * SECOND);
    if (rc == 0)
      return;
    CHECK_EQUAL(rc, 1);
    for (uint64_t i = 0; i < chunk.count; i++) {
      append(log, chunk.first + i);
      maru_crew_ring(crew);
    }
    maru_crew_done(crew, job->worker);
  }
}

static void hire(struct team *team, uint32_t worker) {
  struct job job = {.team = team, .worker = worker};
  CHECK_EQUAL(maru_log_create(&team->logs[worker], LOG_BYTES), 0);
  team->pids[worker] = start(run_worker, &job);
}

static void receive(const struct maru_record *record) {
  CHECK(record->index < work.next);
  CHECK_EQUAL(record->length, length_of(record->index));
  CHECK_EQUAL(record->kind, record->index & 0x7fff);
  uint64_t sum = checksum(record->index, record->length);
  for (uint64_t i = 0; i < record->length; i++)
    CHECK_EQUAL(((const uint8_t *)record->chunk)[i], (uint8_t)(sum >> i % 8 * 8));
  if (work.received[record->index] > 0)
    work.duplicate++;
  work.received[record->index] = 1;
}

static void drain(struct team *team, uint32_t worker) {
  struct maru_record record;
  int rc;
  while ((rc = maru_log_next(team->logs[worker], &record)) == 1)
    receive(&record);
  CHECK_EQUAL(rc, 0);
  maru_log_release(team->logs[worker]);
}

static void drain_all(struct team *team) {
  for (uint32_t i = 0; i < WORKERS; i++)
    drain(team, i);
}

static void publish(struct team *team) {
  while (work.next + CHUNK <= work.capacity && maru_crew_publish(team->crew, work.next, CHUNK) == 0)
    work.next += CHUNK;
}

/* Publishes and receives until `time`. */
static void work_until(struct team *team, int64_t time) {
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
  while (maru_now_ns() < time) {
    uint32_t seen = maru_crew_bell(team->crew);
    publish(team);
    drain_all(team);
    int rc = maru_crew_await(team->crew, seen, &policy, time);
    CHECK(rc == 0 || rc == -ETIMEDOUT);
  }
}

/* Reads what a dead worker left; the first index of its unfinished chunk, or
 * UINT64_MAX.  Were a claim missed, that chunk's slot would never be free again
 * and its indices never arrive: main's last checks would fail. */
static uint64_t bury(struct team *team, uint32_t worker) {
  struct maru_chunk chunk;
  CHECK_EQUAL(finish(team->pids[worker]), SIGKILL);
  drain(team, worker);
  maru_log_destroy(team->logs[worker]);
  if (!maru_crew_claim_of(team->crew, worker, &chunk))
    return UINT64_MAX;
  CHECK_EQUAL(chunk.count, CHUNK);
  CHECK_EQUAL(chunk.first % CHUNK, 0);
  maru_crew_forfeit(team->crew, worker);
  CHECK_EQUAL(maru_crew_claim_of(team->crew, worker, &chunk), 0);
  return chunk.first;
}

static void republish(struct team *team, uint64_t first) {
  /* The ring may be full of living workers' chunks: they finish. */
  int64_t end = maru_now_ns() + 30 * SECOND;
  while (maru_crew_publish(team->crew, first, CHUNK) == -EAGAIN) {
    CHECK(maru_now_ns() < end);
    drain_all(team);
    usleep(100);
  }
}

static bool complete(void) {
  for (uint64_t i = 0; i < work.next; i++)
    if (!work.received[i])
      return false;
  return true;
}

/* With a board the crew waits on channels. */
static void play(uint64_t kills, uint64_t seed, struct maru_board *board) {
  uint64_t with_claim = 0;
  struct team team = {0};
  work.next = work.duplicate = 0;
  work.capacity = kills * 32768 + 65536;
  work.received = calloc(work.capacity, 1);
  CHECK(work.received != NULL);
  CHECK_EQUAL(maru_crew_create(&team.crew, WORKERS, SLOTS), 0);
  CHECK_EQUAL(board != NULL ? maru_crew_seat(team.crew, board, 1) : 0, 0);
  for (uint32_t i = 0; i < WORKERS; i++)
    hire(&team, i);
  for (uint64_t i = 0; i < kills; i++) {
    uint32_t victim = (uint32_t)(next_random(&seed) % WORKERS);
    work_until(&team, maru_now_ns() + (int64_t)(next_random(&seed) % 2000000));
    /* Draining leaves the workers idle; kill while they work. */
    publish(&team);
    int64_t instant = maru_now_ns() + (int64_t)(next_random(&seed) % 300000);
    while (maru_now_ns() < instant)
      continue;
    CHECK_EQUAL(kill(team.pids[victim], SIGKILL), 0);
    uint64_t first = bury(&team, victim);
    hire(&team, victim);
    if (first != UINT64_MAX) {
      republish(&team, first);
      with_claim++;
    }
  }
  maru_crew_close(team.crew);
  for (uint32_t i = 0; i < WORKERS; i++) {
    CHECK_EQUAL(finish(team.pids[i]), 0);
    drain(&team, i);
    maru_log_destroy(team.logs[i]);
  }
  CHECK(complete());
  CHECK(work.duplicate <= with_claim * CHUNK); /* only claimed indices ran twice */
  CHECK(with_claim > 0);
  printf("%llu kills, %llu with a claim, %llu indices, %llu records seen twice\n",
         (unsigned long long)kills, (unsigned long long)with_claim, (unsigned long long)work.next,
         (unsigned long long)work.duplicate);
  maru_crew_destroy(team.crew);
  free(work.received);
}

int main(void) {
  uint64_t kills = setting("MARU_TEST_KILLS", 500);
  uint64_t seed = setting("MARU_TEST_SEED", 88172645463325252);
  struct maru_board board;
  play(kills - kills / 3, seed, NULL);
  CHECK_EQUAL(maru_board_create(&board, 1 << 20), 0);
  play(kills / 3, seed, &board);
  return 0;
}
