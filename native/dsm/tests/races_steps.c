/* Description: a home names the bytes that two nodes wrote without order, all of them, each once,
 * and none that was ordered. It is compared with every diff that there was.
 */
#include "../races.h"

#include "check.h"

#define NODES 3u
#define DIFFS 48u /* fewer than are kept */
#define BYTES 64u /* of the page, from its beginning */
#define ROUNDS 400u

static uint64_t seed = 1;

static uint32_t below(uint32_t bound) { return (uint32_t)((next_random(&seed) >> 32) % bound); }

struct written {
  uint16_t writer;
  uint64_t interval;
  bool byte[BYTES];
};

static unsigned told[BYTES]; /* how often */

static void on_race(void *context, uint32_t page, uint32_t first, uint32_t last, uint16_t one,
                    uint16_t other) {
  (void)context;
  CHECK_EQUAL(page, 1);
  CHECK(first <= last && last < BYTES && one != other);
  for (uint32_t at = first; at <= last; at++)
    told[at]++;
}

/* A run of bytes, and its diff with masks. */
static void write_some(bool *byte, struct mr_diff *diff) {
  uint32_t first = below(BYTES), count = 1 + below(12), kept = 0;
  memset(diff, 0, sizeof *diff);
  diff->masked = true;
  for (uint32_t at = 0; at < BYTES; at++)
    byte[at] = at >= first && at < first + count;
  for (uint32_t block = 0; block < BYTES / MR_BLOCK; block++) {
    uint8_t mask = 0;
    for (uint32_t k = 0; k < MR_BLOCK; k++)
      mask |= (uint8_t)(byte[block * MR_BLOCK + k] << k);
    if (mask == 0)
      continue;
    diff->bitmap[0] |= UINT64_C(1) << block;
    diff->masks[kept++] = mask;
  }
  diff->blocks = kept;
}

/* What `time` says the writer has acquired orders; what both wrote else is a race. */
static void expect(const struct written *past, uint32_t count, const struct written *now,
                   const uint64_t *time, bool *racy) {
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t at = 0; at < BYTES && past[i].interval > time[past[i].writer]; at++)
      racy[at] |= past[i].byte[at] && now->byte[at];
}

static void compare(const bool *racy) {
  for (uint32_t at = 0; at < BYTES; at++)
    CHECK_EQUAL(told[at], racy[at]);
}

static void one_page(void) {
  static struct mr_diff diff;
  struct mr_races *races;
  struct written past[DIFFS];
  uint64_t acquired[NODES][NODES] = {{0}}, floor[NODES];
  bool racy[BYTES] = {false};
  memset(told, 0, sizeof told);
  CHECK_EQUAL(mr_races_create(&races, 2, NODES, on_race, NULL), 0);
  for (uint32_t i = 0; i < DIFFS; i++) {
    uint16_t writer = (uint16_t)below(NODES), from = (uint16_t)below(NODES);
    uint64_t *time = acquired[writer];
    for (uint16_t q = 0; q < NODES && below(2) == 0; q++)
      time[q] = acquired[from][q] > time[q] ? acquired[from][q] : time[q];
    for (uint16_t q = 0; q < NODES; q++) {
      floor[q] = UINT64_MAX;
      for (uint16_t node = 0; node < NODES; node++)
        floor[q] = acquired[node][q] < floor[q] ? acquired[node][q] : floor[q];
    }
    past[i] = (struct written){.writer = writer, .interval = time[writer] + 1};
    write_some(past[i].byte, &diff);
    expect(past, i, &past[i], time, racy);
    mr_races_diff(races, 1, writer, past[i].interval, time, floor, &diff);
    time[writer]++;
    compare(racy);
  }
  mr_races_destroy(races);
}

/* What the home is writing itself is ordered with nothing that comes. */
static void home_writes(void) {
  static struct mr_diff own, diff;
  struct mr_races *races;
  bool mine[BYTES], theirs[BYTES], racy[BYTES];
  memset(told, 0, sizeof told);
  CHECK_EQUAL(mr_races_create(&races, 2, NODES, on_race, NULL), 0);
  write_some(mine, &own);
  write_some(theirs, &diff);
  for (uint32_t at = 0; at < BYTES; at++)
    racy[at] = mine[at] && theirs[at];
  for (int twice = 0; twice < 2; twice++)
    mr_races_own(races, 1, 0, 1, &own, &diff);
  compare(racy);
  mr_races_destroy(races);
}

int main(void) {
  for (uint32_t round = 0; round < ROUNDS; round++) {
    one_page();
    home_writes();
  }
  return 0;
}
