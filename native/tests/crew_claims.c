/* Description: a crew hands out each chunk once, says whose it is, and frees what is done. */
#include <maru/channel.h>
#include <sys/resource.h>

#include "check.h"

static struct maru_wait_policy policy;

static int claim(struct maru_crew *crew, uint32_t worker, struct maru_chunk *chunk) {
  return maru_crew_claim(crew, worker, chunk, &policy, 0);
}

static void in_order(struct maru_crew *crew) {
  struct maru_chunk chunk, seen;
  CHECK_EQUAL(maru_crew_backlog(crew), 0);
  CHECK_EQUAL(claim(crew, 0, &chunk), -ETIMEDOUT);
  for (uint64_t i = 0; i < 4; i++)
    CHECK_EQUAL(maru_crew_publish(crew, 100 * i, 10), 0);
  CHECK_EQUAL(maru_crew_publish(crew, 400, 10), -EAGAIN);
  CHECK_EQUAL(maru_crew_backlog(crew), 4);

  CHECK_EQUAL(claim(crew, 0, &chunk), 1);
  CHECK_EQUAL(chunk.ticket, 0);
  CHECK_EQUAL(chunk.first, 0);
  CHECK_EQUAL(chunk.count, 10);
  CHECK_EQUAL(claim(crew, 0, &seen), -EBUSY);
  CHECK_EQUAL(claim(crew, 3, &seen), -EINVAL);
  CHECK_EQUAL(claim(crew, 2, &chunk), 1);
  CHECK_EQUAL(chunk.first, 100);
  CHECK_EQUAL(maru_crew_backlog(crew), 2);

  CHECK_EQUAL(maru_crew_claim_of(crew, 1, &seen), 0);
  CHECK_EQUAL(maru_crew_claim_of(crew, 2, &seen), 1);
  CHECK_EQUAL(seen.ticket, 1);
  CHECK_EQUAL(seen.first, 100);
  CHECK_EQUAL(seen.count, 10);
}

static void freed_by_done_and_forfeit(struct maru_crew *crew) {
  struct maru_chunk chunk;
  maru_crew_done(crew, 2);
  CHECK_EQUAL(maru_crew_claim_of(crew, 2, &chunk), 0);
  CHECK_EQUAL(maru_crew_publish(crew, 400, 10), -EAGAIN); /* chunk 0 holds its slot */
  maru_crew_forfeit(crew, 0);
  CHECK_EQUAL(maru_crew_claim_of(crew, 0, &chunk), 0);
  maru_crew_forfeit(crew, 0); /* nothing left to forfeit */
  CHECK_EQUAL(maru_crew_publish(crew, 0, 10), 0);
  CHECK_EQUAL(maru_crew_publish(crew, 400, 10), 0);
  CHECK_EQUAL(maru_crew_publish(crew, 500, 10), -EAGAIN);
}

static void leaves_when_closed(struct maru_crew *crew) {
  static const uint64_t left[] = {200, 300, 0, 400};
  struct maru_chunk chunk;
  maru_crew_close(crew);
  CHECK_EQUAL(maru_crew_publish(crew, 500, 10), -EPIPE);
  for (unsigned i = 0; i < 4; i++) {
    CHECK_EQUAL(claim(crew, i % 3, &chunk), 1);
    CHECK_EQUAL(chunk.ticket, i + 2);
    CHECK_EQUAL(chunk.first, left[i]);
    maru_crew_done(crew, i % 3);
    maru_crew_done(crew, i % 3); /* holds nothing: no effect */
  }
  CHECK_EQUAL(maru_crew_backlog(crew), 0);
  CHECK_EQUAL(claim(crew, 1, &chunk), 0);
}

/* The smallest ring goes round many times. */
static void one_slot(void) {
  struct maru_crew *crew;
  struct maru_chunk chunk;
  CHECK_EQUAL(maru_crew_create(&crew, 1, 1), 0);
  for (uint64_t i = 0; i < 1000; i++) {
    CHECK_EQUAL(maru_crew_publish(crew, i, 1), 0);
    CHECK_EQUAL(maru_crew_publish(crew, i, 1), -EAGAIN);
    CHECK_EQUAL(claim(crew, 0, &chunk), 1);
    CHECK_EQUAL(chunk.ticket, i);
    CHECK_EQUAL(chunk.first, i);
    maru_crew_done(crew, 0);
  }
  maru_crew_destroy(crew);
}

static void bell(struct maru_crew *crew) {
  uint32_t seen = maru_crew_bell(crew);
  CHECK_EQUAL(maru_crew_await(crew, seen, &policy, maru_now_ns() + 1000000), -ETIMEDOUT);
  CHECK_EQUAL(maru_crew_bell(crew), seen); /* the armed bit does not show */
  maru_crew_ring(crew);
  CHECK_EQUAL(maru_crew_await(crew, seen, &policy, 0), 0);
}

/* A chunk's end wakes the coordinator where two chunks a worker or fewer are unclaimed, not while
 * there are more. */
static void rings_when_little_is_left(void) {
  struct maru_crew *crew;
  struct maru_chunk chunk;
  CHECK_EQUAL(maru_crew_create(&crew, 2, 16), 0);
  for (uint64_t i = 0; i < 10; i++)
    CHECK_EQUAL(maru_crew_publish(crew, i, 1), 0);
  for (unsigned unclaimed = 9; unclaimed < 10; unclaimed--) {
    uint32_t seen = maru_crew_bell(crew);
    CHECK_EQUAL(claim(crew, unclaimed % 2, &chunk), 1);
    CHECK_EQUAL(maru_crew_backlog(crew), unclaimed);
    maru_crew_done(crew, unclaimed % 2);
    CHECK_EQUAL(maru_crew_bell(crew) != seen, unclaimed <= 4);
  }
  maru_crew_destroy(crew);
}

/* A ring that is far too large for the chunks of a short run costs a few pages. */
static void large_ring(void) {
  struct maru_crew *crew;
  struct maru_chunk chunk;
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  CHECK_EQUAL(maru_crew_create(&crew, 2, 1 << 20), 0);
  CHECK_EQUAL(maru_crew_publish(crew, 7, 1), 0);
  CHECK_EQUAL(claim(crew, 1, &chunk), 1);
  CHECK_EQUAL(maru_crew_claim_of(crew, 0, &chunk), 0);
  CHECK_EQUAL(maru_crew_claim_of(crew, 1, &chunk), 1);
  CHECK_EQUAL(chunk.first, 7);
  maru_crew_forfeit(crew, 1);
  maru_crew_destroy(crew);
  getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_minflt - before.ru_minflt < 200);
}

int main(void) {
  struct maru_crew *crew;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_ADAPTIVE), 0);
  CHECK_EQUAL(maru_crew_create(&crew, 0, 4), -EINVAL);
  CHECK_EQUAL(maru_crew_create(&crew, 65536, 4), -EINVAL);
  CHECK_EQUAL(maru_crew_create(&crew, 1, 0), -EINVAL);
  CHECK_EQUAL(maru_crew_create(&crew, 3, 3), 0); /* rounded up to 4 slots */
  in_order(crew);
  freed_by_done_and_forfeit(crew);
  bell(crew);
  leaves_when_closed(crew);
  CHECK(maru_crew_counters(crew, 2) != maru_crew_counters(crew, 1));
  CHECK(maru_crew_counters(crew, 3) == NULL);
  maru_crew_destroy(crew);
  one_slot();
  rings_when_little_is_left();
  large_ring();
  return 0;
}
