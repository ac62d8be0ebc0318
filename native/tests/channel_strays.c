/* Description: a stray write of a worker into shared pages ends nobody else; it is an error, or
 * shown as it was offered.
 *
 * The worker overwrites all that it shares with the coordinator, with each of several bytes, and
 * ends. Of a log that is its header alone: its records are still good then. The coordinator goes
 * on with what it does for a dead worker. */
#define _GNU_SOURCE
#include <maru/board.h>
#include <maru/channel.h>

#include "check.h"

static const int bytes[] = {0x7f, 0xff, 0x01, 0x00};

struct work {
  struct maru_log *log;
  struct maru_crew *crew;
  int byte;
};

static void spoil_header(void *argument) {
  const struct work *work = argument;
  CHECK_EQUAL(maru_log_append(work->log, 7, 1, "seven", 5), 0);
  size_t size;
  memset(mapping_of("memfd:maru-log ", &size), work->byte, (size_t)sysconf(_SC_PAGESIZE));
}

static void spoil_log(void *argument) {
  const struct work *work = argument;
  size_t size;
  void *log = mapping_of("memfd:maru-log ", &size);
  memset(log, work->byte, size);
}

static void log_header(int byte) {
  struct work work = {.byte = byte};
  struct maru_record record;
  CHECK_EQUAL(maru_log_create(&work.log, 1 << 16), 0);
  CHECK_EQUAL(finish(start(spoil_header, &work)), 0);
  CHECK_EQUAL(maru_log_next(work.log, &record), 1);
  CHECK_EQUAL(record.index, 7);
  CHECK_EQUAL(record.length, 5);
  CHECK(memcmp(record.chunk, "seven", 5) == 0);
  maru_log_release(work.log);
  CHECK_EQUAL(maru_log_next(work.log, &record), byte == 0 ? 0 : -EPIPE);
  maru_log_destroy(work.log);
}

/* Of records there may be as many as have room, not one beyond. */
static void whole_log(int byte) {
  struct work work = {.byte = byte};
  struct maru_record record;
  uint64_t seen = 0;
  int rc;
  CHECK_EQUAL(maru_log_create(&work.log, 1 << 16), 0);
  CHECK_EQUAL(finish(start(spoil_log, &work)), 0);
  while ((rc = maru_log_next(work.log, &record)) == 1)
    CHECK(++seen <= (1 << 16) / 16);
  CHECK_EQUAL(rc, byte == 0 ? 0 : -EBADMSG);
  CHECK_EQUAL(maru_log_next(work.log, &record), rc);
  maru_log_destroy(work.log);
}

static void spoil_crew(void *argument) {
  const struct work *work = argument;
  struct maru_wait_policy policy;
  struct maru_chunk chunk;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
  CHECK_EQUAL(maru_crew_claim(work->crew, 1, &chunk, &policy, 0), 1);
  size_t size;
  void *crew = mapping_of("memfd:maru-crew ", &size);
  memset(crew, work->byte, size);
}

static void crew(int byte, struct maru_board *board) {
  struct work work = {.byte = byte};
  struct maru_chunk chunk;
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
  CHECK_EQUAL(maru_crew_create(&work.crew, 3, 4), 0);
  if (board != NULL)
    CHECK_EQUAL(maru_crew_seat(work.crew, board, 1), 0);
  for (uint64_t i = 0; i < 4; i++)
    CHECK_EQUAL(maru_crew_publish(work.crew, 100 * i, 10), 0);
  CHECK_EQUAL(finish(start(spoil_crew, &work)), 0);
  CHECK(maru_crew_backlog(work.crew) <= 4);
  for (uint32_t worker = 0; worker < 3; worker++) {
    if (maru_crew_claim_of(work.crew, worker, &chunk)) /* then one that there is */
      CHECK(chunk.first % 100 == 0 && chunk.first < 400 && chunk.count == 10);
    maru_crew_forfeit(work.crew, worker);
    CHECK_EQUAL(maru_crew_claim_of(work.crew, worker, &chunk), 0);
    CHECK(maru_crew_counters(work.crew, worker) != NULL);
  }
  /* The ring is not what it was: nothing is given out any more, and that is said. */
  int rc = maru_crew_publish(work.crew, 400, 10);
  CHECK_EQUAL(rc, byte == 0 ? -EBADMSG : maru_crew_publish(work.crew, 400, 10));
  CHECK(rc == -EBADMSG || rc == -EPIPE);
  CHECK(maru_crew_await(work.crew, maru_crew_bell(work.crew), &policy, 0) == -ETIMEDOUT);
  maru_crew_ring(work.crew);
  maru_crew_close(work.crew);
  maru_crew_destroy(work.crew);
}

/* A worker whose own pages are spoiled finds no chunk, and does not look for ever. */
static void lost_worker(int byte) {
  struct work work = {.byte = byte};
  struct maru_chunk chunk;
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
  CHECK_EQUAL(maru_crew_create(&work.crew, 3, 4), 0);
  CHECK_EQUAL(maru_crew_publish(work.crew, 0, 10), 0);
  CHECK_EQUAL(finish(start(spoil_crew, &work)), 0);
  int rc = maru_crew_claim(work.crew, 2, &chunk, &policy, 0);
  CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -EBUSY);
  maru_crew_destroy(work.crew);
}

#define FIRST UINT64_C(0x1234567800)

/* One word: each that had `before` has `after` now. */
struct word {
  struct maru_crew *crew;
  uint64_t before, after;
};

static void spoil_word(void *argument) {
  const struct word *word = argument;
  struct maru_wait_policy policy;
  struct maru_chunk chunk;
  size_t size;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
  CHECK_EQUAL(maru_crew_claim(word->crew, 1, &chunk, &policy, 0), 1);
  uint64_t *pages = mapping_of("memfd:maru-crew ", &size);
  for (size_t i = 0; i < size / 8; i++)
    if (pages[i] == word->before)
      pages[i] = word->after;
}

static uint64_t taken(uint64_t ticket, uint64_t worker) { return ticket << 18 | worker << 2 | 2; }

/* Returns whether the worker's claim is still there; then it is as it was offered. */
static int claim_after(uint64_t before, uint64_t after) {
  struct word word = {NULL, before, after};
  struct maru_chunk chunk;
  CHECK_EQUAL(maru_crew_create(&word.crew, 3, 4), 0);
  CHECK_EQUAL(maru_crew_publish(word.crew, FIRST, 77), 0);
  CHECK_EQUAL(maru_crew_publish(word.crew, FIRST + 1, 77), 0);
  CHECK_EQUAL(finish(start(spoil_word, &word)), 0);
  int found = maru_crew_claim_of(word.crew, 1, &chunk);
  CHECK(!found || (chunk.first == FIRST && chunk.count == 77));
  maru_crew_forfeit(word.crew, 1);
  maru_crew_destroy(word.crew);
  return found;
}

static void words(void) {
  CHECK_EQUAL(claim_after(1, 1), 1);
  CHECK_EQUAL(claim_after(FIRST, 5), 1);                 /* its indices */
  CHECK_EQUAL(claim_after(77, UINT64_MAX), 1);           /* how many */
  CHECK_EQUAL(claim_after(taken(0, 1), taken(1, 1)), 0); /* a ticket of another slot */
  CHECK_EQUAL(claim_after(taken(0, 1), taken(4, 1)), 0); /* one that was never given */
  CHECK_EQUAL(claim_after(taken(0, 1), taken(UINT64_C(1) << 45, 1)), 0);
}

/* A number of chunks that nobody published: a worker that looks for one comes to an end. */
static void endless_ring(void) {
  struct maru_crew *crew;
  struct maru_chunk chunk;
  struct maru_wait_policy policy;
  size_t size;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
  CHECK_EQUAL(maru_crew_create(&crew, 3, 4), 0);
  CHECK_EQUAL(maru_crew_publish(crew, 0, 10), 0);
  CHECK_EQUAL(maru_crew_claim(crew, 1, &chunk, &policy, 0), 1);
  uint64_t *published = mapping_of("memfd:maru-crew ", &size); /* its first word */
  CHECK_EQUAL(*published, 1);
  *published = UINT64_MAX;
  alarm(20);
  CHECK_EQUAL(maru_crew_claim(crew, 2, &chunk, &policy, 0), -ETIMEDOUT);
  alarm(0);
  maru_crew_destroy(crew);
}

static unsigned lines_taken(const struct maru_wait_table *table) {
  unsigned count = 0;
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS; i++)
    count += table->owners[i] != 0;
  return count;
}

static void destroy(void *crew) { maru_crew_destroy(crew); }

/* A child's end of the crew is not the crew's: the seats stay. */
static void childs_end(struct maru_board *board) {
  struct maru_crew *crew;
  struct maru_wait_table *table;
  CHECK_EQUAL(maru_crew_create(&crew, 3, 4), 0);
  CHECK_EQUAL(maru_crew_seat(crew, board, 1), 0);
  CHECK_EQUAL(maru_wait_table_of(board, &table), 0);
  CHECK_EQUAL(lines_taken(table), 4);
  CHECK_EQUAL(finish(start(destroy, crew)), 0);
  CHECK_EQUAL(lines_taken(table), 4);
  maru_crew_destroy(crew);
  CHECK_EQUAL(lines_taken(table), 0);
}

int main(void) {
  struct maru_board board;
  CHECK_EQUAL(maru_board_create(&board, 1 << 20), 0);
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
    log_header(bytes[i]);
    whole_log(bytes[i]);
    crew(bytes[i], NULL);
    crew(bytes[i], &board);
    lost_worker(bytes[i]);
  }
  words();
  endless_ring();
  childs_end(&board);
  maru_board_close(&board);
  return 0;
}
