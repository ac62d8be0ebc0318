/* wanted.c: which pages a fault brings, beside its own. The next ones come where a node reads in
 * order. habits.c has those of a row, and those that follow by habit. */
#include "state.h"

/* Whether nobody had to ask for the pages between the last batch and this one. */
static bool in_order(const struct mr_core *core, uint32_t page) {
  if (page < core->expected || page - core->expected > MR_BATCH_MAX)
    return false;
  for (uint32_t p = core->expected; p < page; p++)
    if (access_of(core, p) == MR_NONE)
      return false;
  return true;
}

uint32_t mr_window_from(struct mr_core *core, uint32_t page) {
  uint32_t most = core->config.limits.batch, left = core->config.pages - page;
  core->ordered = in_order(core, page) ? core->ordered + 1 : 0;
  /* Two pages in a row are no order yet: a row of a matrix may end there. */
  uint32_t doublings = core->ordered > 1 ? core->ordered - 1 : 0;
  uint32_t window = doublings < 6 ? 1u << doublings : MR_BATCH_MAX;
  window = window < most ? window : most;
  core->expected = page + (window < left ? window : left);
  return core->expected - page;
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
  uint32_t count = mr_window_from(core, page);
  core->wanted_count = 0;
  for (uint32_t each = page; each < page + count; each++)
    want(core, each);
  if (core->habits == NULL)
    return;
  want_row(core, page);
  want_followers(core, page);
}
