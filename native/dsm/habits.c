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
 * What is brought is what a fetch would have brought at that moment: nothing here is about what a
 * copy holds.  Costs: 12 bytes for a page that was asked for, 512 KiB for the order at most.
 */
#include "state.h"

#include <stdlib.h>

/* The last uses that are remembered. */
#define ORDER (1u << 16)
/* So often a page that comes is not shown, to see whether it is used. */
#define LOOKED_AFTER 8u

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

struct mr_habits {
  uint32_t stretch; /* from 1 on */
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
