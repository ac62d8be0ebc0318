/* Description: a stray write of a worker into shared pages ends nobody else; it is an error, or
 * shown as it was offered.
 *
 * The worker overwrites all that it shares with the coordinator (of a log its header alone, whose
 * records then are still good), with each of several bytes, and ends.  The coordinator goes on with
 * what it does for a dead worker. */
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
  maru_board_close(&board);
  return 0;
}
