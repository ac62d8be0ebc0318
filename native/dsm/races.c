#include "races.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A bit for each byte of a page. */
struct bytes {
  uint64_t word[MR_PAGE / 64];
};

struct past {
  uint16_t writer;
  uint64_t interval;
  struct bytes bytes;
};

struct page {
  struct bytes *said; /* NULL: none yet */
  struct past *past;  /* oldest first */
  uint32_t count, room;
};

struct mr_races {
  uint32_t pages;
  uint16_t nodes;
  mr_race *race;
  void *context;
  struct page page[];
};

int mr_races_create(struct mr_races **races, uint32_t pages, uint16_t nodes, mr_race *race,
                    void *context) {
  struct mr_races *r = calloc(1, sizeof *r + pages * sizeof *r->page);
  if (r == NULL)
    return -ENOMEM;
  r->pages = pages;
  r->nodes = nodes;
  r->race = race;
  r->context = context;
  *races = r;
  return 0;
}

void mr_races_destroy(struct mr_races *races) {
  for (uint32_t page = 0; page < races->pages; page++) {
    free(races->page[page].past);
    free(races->page[page].said);
  }
  free(races);
}

/* A block's mask of 8 bytes is an eighth of a word. */
static void bytes_of(const struct mr_diff *diff, struct bytes *bytes) {
  uint32_t next = 0;
  memset(bytes, 0, sizeof *bytes);
  for (unsigned block = 0; block < MR_BLOCKS; block++)
    if ((diff->bitmap[block / 64] >> block % 64 & 1) != 0)
      bytes->word[block / 8] |= (uint64_t)diff->masks[next++] << block % 8 * 8;
}

static bool has(const struct bytes *bytes, uint32_t at) {
  return (bytes->word[at / 64] >> at % 64 & 1) != 0;
}

/* What is left to say of a page's bytes. */
static void once(struct page *page, struct bytes *both) {
  if (page->said == NULL)
    page->said = calloc(1, sizeof *page->said);
  for (unsigned w = 0; page->said != NULL && w < MR_PAGE / 64; w++) {
    both->word[w] &= ~page->said->word[w];
    page->said->word[w] |= both->word[w];
  }
}

/* Says each run of bytes that both have, each byte once. */
static void compare(struct mr_races *races, uint32_t page, const struct bytes *one, uint16_t by_one,
                    const struct bytes *other, uint16_t by_other) {
  struct bytes both;
  uint64_t any = 0;
  for (unsigned w = 0; w < MR_PAGE / 64; w++)
    any |= both.word[w] = one->word[w] & other->word[w];
  if (any != 0)
    once(&races->page[page], &both);
  for (uint32_t first = 0, end; any != 0 && first < MR_PAGE; first = end + 1) {
    for (end = first; end < MR_PAGE && has(&both, end);)
      end++;
    if (end > first)
      races->race(races->context, page, first, end - 1, by_one, by_other);
  }
}

/* What all have acquired is ordered before all that comes. */
static void races_forget(struct page *page, const uint64_t *floor) {
  uint32_t kept = 0;
  for (uint32_t i = page->count == MR_RACES_KEPT; i < page->count; i++)
    if (page->past[i].interval > floor[page->past[i].writer])
      page->past[kept++] = page->past[i];
  page->count = kept;
}

static void keep(struct page *page, const struct past *past) {
  if (page->count == page->room) {
    uint32_t room = page->room != 0 ? 2 * page->room : 4;
    struct past *wider = realloc(page->past, room * sizeof *wider);
    if (wider == NULL)
      return;
    page->past = wider;
    page->room = room;
  }
  page->past[page->count++] = *past;
}

void mr_races_diff(struct mr_races *races, uint32_t page, uint16_t writer, uint64_t interval,
                   const uint64_t *time, const uint64_t *floor, const struct mr_diff *diff) {
  struct page *p = &races->page[page];
  struct past now = {.writer = writer, .interval = interval};
  bytes_of(diff, &now.bytes);
  for (uint32_t i = 0; i < p->count; i++) {
    const struct past *past = &p->past[i];
    /* A writer has acquired its own. */
    if (past->interval > time[past->writer])
      compare(races, page, &past->bytes, past->writer, &now.bytes, writer);
  }
  races_forget(p, floor);
  keep(p, &now);
}

void mr_races_own(struct mr_races *races, uint32_t page, uint16_t me, uint16_t writer,
                  const struct mr_diff *own, const struct mr_diff *diff) {
  struct bytes mine, theirs;
  bytes_of(own, &mine);
  bytes_of(diff, &theirs);
  compare(races, page, &mine, me, &theirs, writer);
}
