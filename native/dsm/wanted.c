/* wanted.c: which pages a fault brings, or makes writable, beside its own. The next ones come where
 * a node goes on in order. habits.c has those of a row, and those that follow by habit. */
#include "state.h"

/* Whether nobody had to ask for the pages between the last batch and this one. */
static bool in_order(const struct mr_core *core, uint32_t expected, uint32_t page, bool write) {
  if (page < expected || page - expected > MR_BATCH_MAX)
    return false;
  for (uint32_t p = expected; p < page; p++)
    if (access_of(core, p) < (write ? MR_READ_WRITE : MR_READ))
      return false;
  return true;
}

uint32_t mr_window_from(struct mr_core *core, uint32_t page, bool write) {
  struct order *order = write ? &core->writes : &core->reads;
  uint32_t most = core->config.limits.batch, left = core->config.pages - page;
  order->count = in_order(core, order->expected, page, write) ? order->count + 1 : 0;
  /* Two pages in a row are no order yet: a row of a matrix may end there. */
  uint32_t doublings = order->count > 1 ? order->count - 1 : 0;
  uint32_t window = doublings < 6 ? 1u << doublings : MR_BATCH_MAX;
  window = window < most ? window : most;
  order->expected = page + (window < left ? window : left);
  return order->expected - page;
}

/* What came unasked is not shown before its use. */
static bool may_write(const struct mr_core *core, uint32_t page) {
  return access_of(core, page) == MR_READ && !mr_habits_brought(core->habits, page);
}

/* A home that is alone with its page hides it from others to write it: only where that is known to
 * come. */
static bool is_rewritten(const struct mr_core *core, uint32_t page) {
  const struct page *p = &core->pages[page];
  return p->written && (!p->alone || p->hidden);
}

/* The pages from `*first` on that are beside it; where they end. */
static uint32_t beside(const struct mr_core *core, uint32_t page, uint32_t *first) {
  uint32_t most = core->config.limits.batch;
  *first = page - page % most;
  uint32_t left = core->config.pages - *first;
  return *first + (most < left ? most : left);
}

void mr_show_with(struct mr_core *core, uint32_t page) {
  uint32_t first, end = beside(core, page, &first);
  bool hidden = core->pages[page].hidden;
  for (uint32_t p = first; hidden && p < end; p++)
    if (core->pages[p].hidden && !mr_habits_brought(core->habits, p))
      mr_set_access(core, p, access_of(core, p));
}

void mr_write_with(struct mr_core *core, uint32_t page) {
  uint32_t next = page + mr_window_from(core, page, true), first;
  uint32_t end = beside(core, page, &first);
  for (uint32_t p = first; p < end || p < next; p++) {
    bool follows = p > page && p < next;
    if (p == page || (may_write(core, p) && (follows || is_rewritten(core, p))))
      mr_make_writable(core, p);
  }
  core->pages[page].written = true;
}

/* By homes, so that each is asked once, and in ascending order. */
static bool comes_before(const struct mr_core *core, uint32_t page, uint32_t other) {
  uint16_t home = mr_core_home(core, page), others = mr_core_home(core, other);
  return home != others ? home < others : page < other;
}

/* Unless it is among them. */
static bool want(struct mr_core *core, uint32_t page) {
  uint32_t i = core->wanted_count;
  while (i > 0 && comes_before(core, page, core->wanted[i - 1]))
    i--;
  if (i > 0 && core->wanted[i - 1] == page)
    return false;
  memmove(core->wanted + i + 1, core->wanted + i, (core->wanted_count - i) * sizeof *core->wanted);
  core->wanted[i] = page;
  core->wanted_count++;
  return true;
}

static void want_row(struct mr_core *core, uint32_t page) {
  uint32_t row[MR_BATCH_MAX];
  uint32_t count = mr_habits_row(core, page, row, MR_BATCH_MAX - core->wanted_count);
  for (uint32_t i = 0; i < count; i++)
    core->counters.foreseen += want(core, row[i]);
}

static void want_followers(struct mr_core *core, uint32_t page) {
  uint32_t follow[MR_BATCH_MAX];
  uint32_t count = mr_habits_follow(core, page, follow, MR_BATCH_MAX - core->wanted_count);
  /* The order of uses: first what is asked for. */
  for (uint32_t i = 0; i < core->wanted_count; i++)
    if (access_of(core, core->wanted[i]) == MR_NONE)
      mr_habits_used(core->habits, core->wanted[i]);
  for (uint32_t i = 0; i < count; i++)
    if (want(core, follow[i])) {
      core->counters.foreseen++;
      mr_habits_bring(core->habits, follow[i]);
    }
}

void mr_want_with(struct mr_core *core, uint32_t page) {
  uint32_t count = mr_window_from(core, page, false);
  core->wanted_count = 0;
  for (uint32_t each = page; each < page + count; each++)
    want(core, each);
  if (core->habits == NULL)
    return;
  want_row(core, page);
  want_followers(core, page);
}
