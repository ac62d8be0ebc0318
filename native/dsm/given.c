#include "given.h"

#include "diff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (MR_PAGE / sizeof(uint64_t))

struct mr_given_page {
  const uint8_t *memory;
  uint64_t before[WORDS], gave[WORDS];
};

int mr_given_add(struct mr_given *given, const uint8_t *memory, const uint8_t *gave) {
  if (given->count == given->room) {
    size_t room = given->room != 0 ? 2 * given->room : 4;
    struct mr_given_page *pages = realloc(given->pages, room * sizeof *pages);
    if (pages == NULL)
      return -ENOMEM;
    given->pages = pages;
    given->room = room;
  }
  struct mr_given_page *page = &given->pages[given->count++];
  page->memory = memory;
  memcpy(page->before, memory, MR_PAGE);
  memcpy(page->gave, gave, MR_PAGE);
  return 0;
}

static bool holds(const struct mr_given_page *page) {
  uint64_t now;
  for (size_t i = 0; i < WORDS; i++) {
    memcpy(&now, page->memory + i * sizeof now, sizeof now);
    if (page->gave[i] != page->before[i] && page->before[i] == now)
      return false;
  }
  return true;
}

bool mr_given_hold(struct mr_given *given) {
  bool all = true;
  for (size_t i = 0; i < given->count && all; i++)
    all = holds(&given->pages[i]);
  given->count = 0;
  return all;
}

void mr_given_free(struct mr_given *given) {
  free(given->pages);
  *given = (struct mr_given){.count = 0};
}
