/* habits.c: which pages a node will use with one that it asks for, as it did the last time.
 *
 * A *stretch* lies between two operations that acquire. The node notes the order in which it begins
 * to use pages that were not here. Where it asks for a page, those follow that came after it in the
 * stretch of the last time, if they are not here now.
 *
 * A page is expected first, which costs nothing. Only where the node asked for it in that stretch
 * the next one is it brought, unasked, and shown to the program at once. Every eighth time it is
 * not shown: so the node sees whether it is used, at the price of a fault without a message. A page
 * that became old unused is not brought until it was expected and asked for again.
 *
 * A *row* is faults of one stretch at equal distances, as along a column of a matrix. From the
 * fourth on the next ones come with each, more and more of them, and are shown at once. Only those
 * come that were never asked for. Pages that follow each other are no row here: wanted.c brings
 * them.
 *
 * What is brought is what a fetch would have brought at that moment: nothing here is about what a
 * copy holds.  Costs: 12 bytes for a page that was asked for, 512 KiB for the order at most; about
 * as much in an image.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>

/* The last uses that are remembered. */
#define ORDER (1u << 16)
/* So often a page that comes is not shown, to see whether it is used. */
#define LOOKED_AFTER 8u
/* So many equal distances are a row. */
#define ROW_AFTER 3u

/* All zero: never asked for. */
struct habit {
  uint32_t at;       /* 1 more than the number of its last use */
  uint32_t expected; /* the last stretch in which it was */
  uint16_t proofs;   /* so many times in a row it was used as expected */
  bool brought;      /* here unasked, and not used yet */
};

struct use {
  uint32_t page, stretch;
};

struct row {
  uint32_t stretch, last; /* of its last fault */
  int64_t step;           /* 0: not known */
  uint32_t equal;         /* so many distances in a row were */
};

struct mr_habits {
  uint32_t stretch; /* from 1 on */
  struct row row;
  uint32_t uses;
  struct use order[ORDER];
  struct habit of[];
};

int mr_habits_create(struct mr_habits **habits, uint32_t pages) {
  *habits = calloc(1, sizeof **habits + pages * sizeof *(*habits)->of);
  if (*habits == NULL)
    return -ENOMEM;
  (*habits)->stretch = 1;
  return 0;
}

void mr_habits_part(struct mr_habits *habits) {
  if (habits != NULL)
    habits->stretch++;
}

static void note(struct mr_habits *habits, uint32_t page) {
  habits->order[habits->uses % ORDER] = (struct use){page, habits->stretch};
  habits->of[page].at = ++habits->uses;
}

void mr_habits_used(struct mr_habits *habits, uint32_t page) {
  struct habit *habit = &habits->of[page];
  bool foreseen = habit->brought || habit->expected == habits->stretch;
  habit->proofs = foreseen ? (uint16_t)(habit->proofs + (habit->proofs < UINT16_MAX)) : 0;
  habit->brought = false;
  note(habits, page);
}

bool mr_habits_brought(const struct mr_habits *habits, uint32_t page) {
  return habits != NULL && habits->of[page].brought;
}

void mr_habits_unused(struct mr_habits *habits, uint32_t page) {
  struct habit *habit = &habits->of[page];
  habit->brought = false;
  habit->proofs = 0;
}

void mr_habits_bring(struct mr_habits *habits, uint32_t page) {
  struct habit *habit = &habits->of[page];
  if (habit->proofs % LOOKED_AFTER != 0) {
    habit->expected = habits->stretch;
    mr_habits_used(habits, page);
  } else {
    habit->brought = true;
  }
}

/* Whether the page follows the one that is asked for; else it may be expected now. */
static bool follows(struct mr_core *core, uint32_t page) {
  struct habit *habit = &core->habits->of[page];
  if (access_of(core, page) != MR_NONE)
    return false;
  if (habit->proofs > 0)
    return true;
  habit->expected = core->habits->stretch;
  return false;
}

uint32_t mr_habits_follow(struct mr_core *core, uint32_t page, uint32_t *pages, uint32_t most) {
  struct mr_habits *habits = core->habits;
  uint32_t count = 0, at = habits->of[page].at;
  /* Numbers of uses run round; what is older than the order holds is forgotten. */
  if (at == 0 || habits->uses - at >= ORDER)
    return 0;
  uint32_t stretch = habits->order[(at - 1) % ORDER].stretch;
  for (; stretch != habits->stretch && at != habits->uses && count < most; at++) {
    const struct use *use = &habits->order[at % ORDER];
    if (use->stretch != stretch)
      break;
    if (use->page != page && follows(core, use->page))
      pages[count++] = use->page;
  }
  return count;
}

/* Whether that fault is the row's next: what lies between is here, or a batch would have ended. */
static bool goes_on(const struct mr_core *core, const struct row *row, uint32_t page) {
  int64_t way = (int64_t)page - row->last;
  if (row->stretch != core->habits->stretch || row->step == 0 || way % row->step != 0 ||
      way / row->step < 1 || way / row->step > MR_BATCH_MAX)
    return false;
  for (int64_t p = row->last + row->step; p != page; p += row->step)
    if (access_of(core, (uint32_t)p) == MR_NONE)
      return false;
  return true;
}

/* A page that was used before comes by habit alone: not every row that begins again ends alike. */
static bool may_come(const struct mr_core *core, uint32_t page) {
  return access_of(core, page) == MR_NONE && core->habits->of[page].at == 0;
}

static void note_fault(struct mr_core *core, uint32_t page) {
  struct row *row = &core->habits->row;
  bool known = row->stretch == core->habits->stretch;
  if (goes_on(core, row, page)) {
    row->equal++;
  } else {
    row->step = known ? (int64_t)page - row->last : 0;
    row->equal = known;
  }
  row->stretch = core->habits->stretch;
  row->last = page;
}

uint32_t mr_habits_row(struct mr_core *core, uint32_t page, uint32_t *pages, uint32_t most) {
  const struct row *row = &core->habits->row;
  note_fault(core, page);
  if (row->step == 1 || row->equal < ROW_AFTER)
    return 0;
  uint32_t doublings = row->equal - ROW_AFTER, batch = core->config.limits.batch, count = 0;
  uint32_t ahead = doublings < 5 ? (2u << doublings) - 1 : MR_BATCH_MAX;
  int64_t p = page + row->step;
  for (ahead = ahead < batch ? ahead : batch - 1;
       ahead > 0 && count < most && p >= 0 && p < core->config.pages; p += row->step, ahead--)
    if (may_come(core, (uint32_t)p))
      pages[count++] = (uint32_t)p;
  return count;
}

/* ---- as bytes ---------------------------------------------------------------------- */

/* What comes first; then habits, then the order of uses. */
struct saved {
  uint32_t stretch, uses, habits, order;
  struct row row;
};

struct saved_habit {
  uint32_t page, at, expected;
  uint16_t proofs, brought;
};

static bool is_new(const struct habit *habit) {
  return habit->at == 0 && habit->expected == 0 && habit->proofs == 0 && !habit->brought;
}

void mr_habits_save(const struct mr_habits *habits, uint32_t pages, struct mr_writer *out) {
  if (habits == NULL)
    return;
  struct saved saved = {.stretch = habits->stretch, .uses = habits->uses, .row = habits->row};
  saved.order = habits->uses < ORDER ? habits->uses : ORDER;
  for (uint32_t page = 0; page < pages; page++)
    saved.habits += !is_new(&habits->of[page]);
  mr_put(out, &saved, sizeof saved);
  for (uint32_t page = 0; page < pages; page++) {
    const struct habit *habit = &habits->of[page];
    if (is_new(habit))
      continue;
    const struct saved_habit one = {page, habit->at, habit->expected, habit->proofs,
                                    habit->brought};
    mr_put(out, &one, sizeof one);
  }
  mr_put(out, habits->order, saved.order * sizeof *habits->order);
}

static bool row_can_be(const struct row *row, uint32_t pages) {
  return row->last < pages && row->step > -(int64_t)pages && row->step < (int64_t)pages;
}

bool mr_habits_load(struct mr_habits *habits, uint32_t pages, struct mr_reader *in) {
  struct saved saved;
  struct saved_habit one;
  /* The settings may have changed since. */
  if (habits == NULL || in->left == 0)
    return true;
  mr_take(in, &saved, sizeof saved);
  if (in->bad || !row_can_be(&saved.row, pages) || saved.order > ORDER || saved.habits > pages ||
      in->left != saved.habits * sizeof one + saved.order * sizeof *habits->order)
    return false;
  habits->stretch = saved.stretch;
  habits->uses = saved.uses;
  habits->row = saved.row;
  for (; saved.habits > 0; saved.habits--) {
    mr_take(in, &one, sizeof one);
    if (one.page >= pages || one.brought > 1)
      return false;
    habits->of[one.page] = (struct habit){one.at, one.expected, one.proofs, one.brought == 1};
  }
  mr_take(in, habits->order, saved.order * sizeof *habits->order);
  for (uint32_t i = 0; i < saved.order; i++)
    if (habits->order[i].page >= pages)
      return false;
  return true;
}
