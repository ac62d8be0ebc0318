/* Description: what a home knows of a page's past is what happened, by both indexes, from any
 * version. And what it does not know it says. */
#include "../history.h"

#include "check.h"

#include <errno.h>

#define PAGES 3u
#define VERSIONS 40u
#define ROUNDS 30u

static uint64_t seed = 1;

static uint32_t below(uint32_t bound) { return (uint32_t)((next_random(&seed) >> 32) % bound); }

static void draw(uint64_t *bitmap) {
  memset(bitmap, 0, MR_DIFF_BITMAP * sizeof *bitmap);
  for (uint32_t n = below(6); n > 0; n--) {
    uint32_t block = below(MR_BLOCKS);
    bitmap[block / 64] |= UINT64_C(1) << block % 64;
  }
}

struct truth {
  uint64_t bitmap[VERSIONS + 1][MR_DIFF_BITMAP];
  uint64_t first, newest; /* versions that were added */
};

static int united(const struct truth *truth, uint64_t have, bool lines, uint64_t *bitmap) {
  int blocks = 0;
  memset(bitmap, 0, MR_DIFF_BITMAP * sizeof *bitmap);
  for (uint64_t version = have + 1; version <= truth->newest; version++)
    for (unsigned b = 0; b < MR_BLOCKS; b++)
      if (truth->bitmap[version][b / 64] >> b % 64 & 1)
        bitmap[b / 64] |= lines ? UINT64_C(0xff) << b % 64 / 8 * 8 : UINT64_C(1) << b % 64;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++)
    blocks += __builtin_popcountll(bitmap[w]);
  return blocks;
}

static void check_diffs(const struct mr_history *history, uint32_t page, const struct truth *truth,
                        uint64_t have, uint32_t gap, bool kept) {
  uint64_t found[MR_DIFF_BITMAP], expected[MR_DIFF_BITMAP], searched = 0;
  int blocks = united(truth, have, false, expected);
  bool known = kept && truth->newest > 0 && have + 1 >= truth->first && truth->newest - have <= gap;
  int rc = mr_history_diffs(history, page, have, MR_BLOCKS, found, &searched);
  CHECK_EQUAL(rc, known ? blocks : -ENOENT);
  CHECK_EQUAL(searched, known ? truth->newest - have : 0);
  CHECK(!known || memcmp(found, expected, sizeof found) == 0);
  if (known && blocks > 0)
    CHECK_EQUAL(mr_history_diffs(history, page, have, (uint32_t)blocks - 1, found, &searched),
                -EFBIG);
}

static void check_stamps(const struct mr_history *history, uint32_t page, const struct truth *truth,
                         uint64_t have, bool stamps) {
  uint64_t found[MR_DIFF_BITMAP], expected[MR_DIFF_BITMAP];
  int blocks = united(truth, have, true, expected);
  bool known = stamps && truth->newest > 0 && have + 1 >= truth->first;
  CHECK_EQUAL(mr_history_stamps(history, page, have, found), known ? blocks : -ENOENT);
  CHECK(!known || memcmp(found, expected, sizeof found) == 0);
}

static void one(void) {
  static struct truth truths[PAGES];
  struct mr_history *history;
  uint32_t gap = below(6);
  bool stamps = below(2) != 0;
  memset(truths, 0, sizeof truths);
  CHECK_EQUAL(mr_history_create(&history, PAGES, gap, stamps), 0);
  for (uint32_t n = 0; n < 2 * VERSIONS; n++) {
    uint32_t page = below(PAGES);
    struct truth *truth = &truths[page];
    /* Now and then some versions went by unseen. */
    bool unseen = truth->newest == 0 || below(16) == 0;
    uint64_t version = truth->newest + 1 + (unseen ? below(3) : 0);
    if (version > VERSIONS)
      continue;
    if (truth->newest == 0 || version != truth->newest + 1)
      truth->first = version;
    truth->newest = version;
    draw(truth->bitmap[version]);
    mr_history_add(history, page, version, truth->bitmap[version]);
    for (uint64_t have = 0; have <= version; have++) {
      check_diffs(history, page, truth, have, gap, gap > 0 || stamps);
      check_stamps(history, page, truth, have, stamps);
    }
  }
  mr_history_destroy(history);
}

int main(void) {
  for (uint32_t round = 0; round < ROUNDS; round++)
    one();
  return 0;
}
