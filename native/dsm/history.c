#include "history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct past {
  uint64_t since;                   /* what changed after this version is known */
  uint64_t newest;                  /* version */
  uint32_t *stamps;                 /* per line: versions after `since`, 0: none */
  uint64_t diffs[][MR_DIFF_BITMAP]; /* version v at v % gap */
};

struct mr_history {
  uint32_t pages, gap;
  uint32_t first, end; /* pages that have a past lie between */
  bool stamps;
  struct past *past[];
};

int mr_history_create(struct mr_history **history, uint32_t pages, uint32_t gap, bool stamps) {
  struct mr_history *h = calloc(1, sizeof *h + (size_t)pages * sizeof(struct past *));
  if (h == NULL)
    return -ENOMEM;
  h->pages = pages;
  h->first = pages;
  h->gap = gap;
  h->stamps = stamps;
  *history = h;
  return 0;
}

void mr_history_destroy(struct mr_history *history) {
  /* The others' entries are not even read: their memory was never there. */
  for (uint32_t page = history->first; page < history->end; page++)
    free(history->past[page]);
  free(history);
}

static struct past *history_begin(struct mr_history *h, uint32_t page, uint64_t since) {
  size_t diffs = (size_t)h->gap * sizeof *h->past[page]->diffs;
  size_t stamps = h->stamps ? MR_LINES * sizeof(uint32_t) : 0;
  struct past *past = h->past[page];
  if (past == NULL)
    past = malloc(sizeof *past + diffs + stamps);
  h->past[page] = past;
  h->first = page < h->first ? page : h->first;
  h->end = page < h->end ? h->end : page + 1;
  if (past == NULL)
    return NULL;
  past->since = past->newest = since;
  past->stamps = (uint32_t *)(void *)((uint8_t *)(past + 1) + diffs);
  memset(past->stamps, 0, stamps);
  return past;
}

void mr_history_add(struct mr_history *history, uint32_t page, uint64_t version,
                    const uint64_t *bitmap) {
  struct past *past = history->past[page];
  if (history->gap == 0 && !history->stamps)
    return;
  /* A stamp has 32 bits; a page that changed more often begins anew, as does one whose changes
   * could not be kept meanwhile. */
  if (past == NULL || version != past->newest + 1 || version - past->since > UINT32_MAX)
    past = history_begin(history, page, version - 1);
  if (past == NULL)
    return;
  past->newest = version;
  if (history->gap > 0)
    memcpy(past->diffs[version % history->gap], bitmap, sizeof *past->diffs);
  if (history->stamps)
    for (unsigned line = 0; line < MR_LINES; line++)
      if ((bitmap[line / 8] >> line % 8 * 8 & 0xff) != 0)
        past->stamps[line] = (uint32_t)(version - past->since);
}

void mr_history_forget(struct mr_history *history, uint32_t page) {
  const struct past *past = history->past[page];
  if (past != NULL)
    history_begin(history, page, past->newest);
}

static int blocks_of(const uint64_t *bitmap) {
  int blocks = 0;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++)
    blocks += __builtin_popcountll(bitmap[w]);
  return blocks;
}

int mr_history_diffs(const struct mr_history *history, uint32_t page, uint64_t have, uint32_t most,
                     uint64_t *bitmap, uint64_t *searched) {
  const struct past *past = history->past[page];
  int blocks = 0;
  memset(bitmap, 0, MR_DIFF_BITMAP * sizeof *bitmap);
  if (past == NULL || have < past->since || have > past->newest ||
      past->newest - have > history->gap)
    return -ENOENT;
  for (uint64_t version = past->newest; version > have; version--) {
    const uint64_t *diff = past->diffs[version % history->gap];
    ++*searched;
    for (unsigned w = 0; w < MR_DIFF_BITMAP; w++)
      bitmap[w] |= diff[w];
    blocks = blocks_of(bitmap);
    if ((uint32_t)blocks > most)
      return -EFBIG;
  }
  return blocks;
}

int mr_history_stamps(const struct mr_history *history, uint32_t page, uint64_t have,
                      uint64_t *bitmap) {
  const struct past *past = history->past[page];
  if (past == NULL || !history->stamps || have < past->since || have > past->newest)
    return -ENOENT;
  memset(bitmap, 0, MR_DIFF_BITMAP * sizeof *bitmap);
  uint64_t after = have - past->since;
  for (unsigned line = 0; line < MR_LINES; line++)
    if (past->stamps[line] > after)
      bitmap[line / 8] |= UINT64_C(0xff) << line % 8 * 8;
  return blocks_of(bitmap);
}
