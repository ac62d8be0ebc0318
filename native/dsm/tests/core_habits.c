/* Description: pages that a node used after another come with it the next time, unasked; and no
 * longer once they are not used.  Pages that it wrote beside another, or writes in order, it may
 * write with that one.
 */
#include "world.h"

#include "../message.h"
#include "check.h"

#define NODES 2
#define PAGES 40
#define BARRIER 1

/* In no order, and far from each other: all have their home at node 0. */
static const uint32_t used[] = {30, 4, 18, 8};
#define USED (sizeof used / sizeof *used)

static struct world world;

static struct program *code(int node) { return &world.nodes[node].program; }

static void meet(void) {
  for (int node = 0; node < NODES; node++)
    emit(code(node), sync_of(MR_BARRIER, BARRIER, NODES));
}

/* Node 0 writes all pages, then node 1 reads the first `count`, the first of them again, or, with
 * `others`, one more each time, that it has not read before. */
static void turn(int64_t number, size_t count, bool others) {
  emit(code(0), set_of(0, number));
  for (size_t i = 0; i < USED; i++)
    emit(code(0), write_of(0, used[i] * MR_PAGE, 8));
  meet();
  for (size_t i = 0; i < count; i++)
    emit(code(1), read_of(0, used[i] * MR_PAGE, 8));
  if (others)
    emit(code(1), read_of(0, used[number % 2 + 1] * MR_PAGE, 8));
  meet();
}

static void open_with(bool prefetch) {
  struct shape shape = {
      .nodes = NODES, .pages = PAGES, .home_run = PAGES, .objects = 16, .prefetch = prefetch};
  world_create(&world, &shape, 1);
}

static void open_to_be_cut(void) {
  const struct shape shape = {.nodes = NODES,
                              .pages = PAGES,
                              .home_run = PAGES,
                              .objects = 16,
                              .prefetch = true,
                              .survives = true,
                              .replays = true};
  world_create(&world, &shape, 1);
}

/* When node 1 has done so many of its instructions a history begins anew. */
static void cut_at(uint32_t next) {
  struct cut cut = {.reference = NULL};
  while (world.nodes[1].next < next)
    CHECK(world_step(&world));
  world_cut(&world, &cut);
  world_cut_free(&cut);
}

static struct mr_core_counters end(void) {
  world_run(&world);
  struct mr_core_counters counters = *mr_core_counters(world.nodes[1].core);
  world_destroy(&world);
  return counters;
}

static struct mr_core_counters same_pages(int turns, bool prefetch) {
  open_with(prefetch);
  for (int n = 1; n <= turns; n++)
    turn(n, USED, false);
  return end();
}

/* The third time one message brings all. */
static void come_along(void) {
  enum { TURNS = 40 };
  struct mr_core_counters off = same_pages(TURNS, false), on = same_pages(TURNS, true);
  CHECK_EQUAL(off.kinds[MR_FETCH].messages, TURNS * USED);
  CHECK_EQUAL(off.foreseen, 0);
  CHECK_EQUAL(on.kinds[MR_FETCH].messages, 2 * USED + (TURNS - 2));
  CHECK_EQUAL(on.fetches, off.fetches);
  CHECK_EQUAL(on.foreseen, (TURNS - 2) * (USED - 1));
  CHECK_EQUAL(on.unused, 0);
  /* The first time it is not known what follows. */
  CHECK_EQUAL(same_pages(2, true).kinds[MR_FETCH].messages, 2 * USED);
}

/* A history begins anew half way, and what was learnt stays. */
static void come_along_behind_a_cut(void) {
  enum { TURNS = 40 };
  uint32_t half = 0;
  open_to_be_cut();
  for (int n = 1; n <= TURNS; n++) {
    turn(n, USED, false);
    half = n == TURNS / 2 ? code(1)->length : half;
  }
  cut_at(half);
  struct mr_core_counters c = end();
  CHECK_EQUAL(c.kinds[MR_FETCH].messages, 2 * USED + (TURNS - 2));
  CHECK_EQUAL(c.foreseen, (TURNS - 2) * (USED - 1));
  CHECK_EQUAL(c.unused, 0);
}

/* Node 1 reads all, then the first alone: each other page comes in vain as often as it takes to
 * look, which is eight times at most. */
static void habits_end(void) {
  open_with(true);
  for (int n = 1; n <= 20; n++)
    turn(n, USED, false);
  for (int n = 21; n <= 120; n++)
    turn(n, 1, false);
  struct mr_core_counters c = end();
  CHECK(c.unused == USED - 1);
  CHECK(c.foreseen > 18 * (USED - 1) && c.foreseen <= 18 * (USED - 1) + 9 * (USED - 1));
}

/* What the program may do with a page that followed in so many turns, when the first page of the
 * next turn is there. */
static enum mr_access shown_after(int turns) {
  open_with(true);
  for (int n = 1; n <= turns; n++)
    turn(n, USED, false);
  turn(turns + 1, 1, false);
  world_run(&world);
  enum mr_access access = world.nodes[1].mapped[used[1]];
  world_destroy(&world);
  return access;
}

/* The first turn tells what follows, the second proves it, the next ones bring. */
static void trust(void) {
  for (int turns = 1; turns <= 1; turns++)
    CHECK_EQUAL(shown_after(turns), MR_NONE);
  CHECK_EQUAL(shown_after(2), MR_READ);
}

/* A page that follows two others, in stretches of their own, and then neither: it comes in vain
 * once. */
static void two_leaders(void) {
  open_with(true);
  for (int n = 1; n <= 60; n++)
    for (size_t leader = 0; leader < 2; leader++) {
      emit(code(0), set_of(0, 2 * n + (int64_t)leader));
      for (size_t i = 0; i < USED; i++)
        emit(code(0), write_of(0, used[i] * MR_PAGE, 8));
      meet();
      emit(code(1), read_of(0, used[leader] * MR_PAGE, 8));
      if (n <= 20)
        emit(code(1), read_of(0, used[2] * MR_PAGE, 8));
      meet();
    }
  CHECK_EQUAL(end().unused, 1);
}

/* Now this page follows, now that: neither is brought. */
static void no_habit(void) {
  enum { TURNS = 60 };
  open_with(true);
  for (int n = 1; n <= TURNS; n++)
    turn(n, 1, true);
  struct mr_core_counters c = end();
  CHECK_EQUAL(c.foreseen, 0);
  CHECK_EQUAL(c.fetches, 2 * TURNS);
}

/* Node 0 writes all pages of a row, and node 1 reads them in their order from that one on. */
static void row_from(int64_t number, uint32_t first) {
  enum { ROW = 16 };
  emit(code(0), set_of(0, number));
  for (uint32_t page = 0; page < ROW; page++)
    emit(code(0), write_of(0, page * MR_PAGE, 8));
  meet();
  for (uint32_t page = first; page < ROW; page++)
    emit(code(1), read_of(0, page * MR_PAGE, 8));
  meet();
}

/* What a reader in order brings as the next pages may follow by habit as well: the second half of
 * the row, once the first one was read before it.  Each page comes once. */
static void once_each(void) {
  open_with(true);
  for (int n = 1; n <= 5; n++)
    row_from(n, 8);
  row_from(6, 0);
  struct mr_core_counters c = end();
  CHECK(c.foreseen > 0);
  CHECK_EQUAL(c.fetches, 5 * 8 + 16);
}

/* A page that came unasked is written: that is its first use. */
static void written(void) {
  enum { TURNS = 20 };
  open_with(true);
  for (int n = 1; n <= TURNS; n++) {
    emit(code(0), set_of(0, n));
    for (size_t i = 0; i < USED; i++)
      emit(code(0), write_of(0, used[i] * MR_PAGE, 8));
    meet();
    emit(code(1), read_of(0, used[0] * MR_PAGE, 8));
    emit(code(1), set_of(1, 100 + n));
    emit(code(1), write_of(1, used[1] * MR_PAGE + 8, 8));
    meet();
  }
  emit(code(0), read_of(2, used[1] * MR_PAGE + 8, 8));
  struct mr_core_counters c = end();
  CHECK_EQUAL(world.nodes[0].registers[2], 100 + TURNS);
  CHECK_EQUAL(c.foreseen, TURNS - 2);
  CHECK_EQUAL(c.unused, 0);
}

/* The messages by which node 1 reads every `step`th page from `first` on, with a barrier before the
 * `part`th; in one stretch as node 0 wrote them. */
static struct mr_core_counters row_of(uint32_t first, int step, uint32_t count, uint32_t part) {
  open_with(true);
  emit(code(0), set_of(0, 7));
  for (uint32_t page = 0; page < PAGES; page++)
    emit(code(0), write_of(0, page * MR_PAGE, 8));
  meet();
  for (uint32_t i = 0; i < count; i++) {
    if (i == part)
      meet();
    emit(code(1), read_of(0, (first + (uint32_t)((int)i * step)) * MR_PAGE, 8));
  }
  return end();
}

/* The fourth page brings one more, the next fault three, then seven: to the end of the memory, and
 * not beyond. */
static void rows(void) {
  struct mr_core_counters c = row_of(0, 3, 13, PAGES);
  CHECK_EQUAL(c.kinds[MR_FETCH].messages, 4 + 1 + 1);
  CHECK_EQUAL(c.fetches, 14);
  CHECK_EQUAL(c.foreseen, 1 + 3 + 4);
  /* Three are no row. */
  CHECK_EQUAL(row_of(0, 3, 3, PAGES).fetches, 3);
  /* Downwards as well: 39, 38, 37, 36 with 35, 34 with three, 30 with seven. */
  c = row_of(39, -1, 13, PAGES);
  CHECK_EQUAL(c.kinds[MR_FETCH].messages, 4 + 1 + 1);
  /* A stretch begins its rows anew. */
  c = row_of(0, 3, 6, 3);
  CHECK_EQUAL(c.fetches, 6);
  /* At the last page a row ends, and at the first. */
  CHECK_EQUAL(row_of(0, 4, 10, PAGES).fetches, 10);
  CHECK_EQUAL(row_of(9, -3, 4, PAGES).fetches, 4);
}

/* 0, 3, 6, 9 with 12, and 15 with 18, 21, 24. Then, behind a barrier, 0, 4, 8, 12 with 16, and 20
 * with 28 and 32, as 24 was used; then 24 with 36. */
static void row_of_known_pages(void) {
  open_with(true);
  for (int64_t n = 0; n < 2; n++) {
    emit(code(0), set_of(0, n + 1));
    for (uint32_t page = 0; page < PAGES; page++)
      emit(code(0), write_of(0, page * MR_PAGE, 8));
    meet();
    for (uint32_t i = 0; i < 7; i++)
      emit(code(1), read_of(0, (n == 0 ? 3 : 4) * i * MR_PAGE, 8));
    meet();
  }
  CHECK_EQUAL(end().fetches, 9 + 5 + 3 + 2);
}

/* A page that was skipped ends the row: 0, 3, 6, 9 with 12, then 21. */
static void row_with_a_gap(void) {
  static const uint32_t read[] = {0, 3, 6, 9, 21, 24, 27};
  open_with(true);
  emit(code(0), set_of(0, 7));
  for (uint32_t page = 0; page < PAGES; page++)
    emit(code(0), write_of(0, page * MR_PAGE, 8));
  meet();
  for (size_t i = 0; i < sizeof read / sizeof *read; i++)
    emit(code(1), read_of(0, read[i] * MR_PAGE, 8));
  CHECK_EQUAL(end().fetches, 4 + 1 + 3);
}

static void write_pages(int node, int64_t number, uint32_t first, uint32_t count) {
  emit(code(node), set_of(0, number));
  for (uint32_t page = first; page < first + count; page++)
    emit(code(node), write_of(0, page * MR_PAGE, 8));
}

/* What that node may do with the page when all is done. */
static enum mr_access mapped_in_the_end(int node, uint32_t page) {
  world_run(&world);
  enum mr_access access = world.nodes[node].mapped[page];
  world_destroy(&world);
  return access;
}

/* The node wrote four pages, `turns` times the first of them, and now the first. */
static enum mr_access beside(int node, int turns, uint32_t page) {
  open_with(false);
  write_pages(node, 1, 17, 4);
  meet();
  for (int n = 0; n < turns; n++) {
    write_pages(node, n + 2, 17, 1);
    meet();
  }
  write_pages(node, turns + 2, 17, 1);
  return mapped_in_the_end(node, page);
}

/* What was written the last time is written with the page beside it, until it was not. */
static void written_again(void) {
  CHECK_EQUAL(beside(1, 0, 20), MR_READ_WRITE);
  CHECK_EQUAL(beside(1, 0, 21), MR_NONE); /* was never used: the world shows nothing at first */
  CHECK_EQUAL(beside(1, 1, 20), MR_READ);
  /* A home alone with its pages hides none that nobody writes. */
  CHECK_EQUAL(beside(0, 0, 20), MR_READ);
}

/* The tenth time a page that follows comes to be looked at. A history begins anew before it is
 * used: it is not shown with the one beside it. */
static void looked_at_behind_a_cut(void) {
  uint32_t came = 0;
  open_to_be_cut();
  for (int n = 1; n <= 10; n++) {
    write_pages(0, n, 4, 1);
    write_pages(0, n, 8, 1);
    meet();
    emit(code(1), read_of(0, 4 * MR_PAGE, 8));
    came = code(1)->length;
    if (n < 10)
      emit(code(1), read_of(0, 8 * MR_PAGE, 8));
    meet();
  }
  emit(code(1), read_of(0, 4 * MR_PAGE, 8));
  cut_at(came);
  CHECK_EQUAL(mapped_in_the_end(1, 8), MR_NONE);
}

/* Nor does a history that begins anew change that. */
static void written_behind_a_cut(void) {
  open_to_be_cut();
  write_pages(1, 1, 17, 4);
  meet();
  uint32_t written = code(1)->length;
  meet(); /* where it stands still */
  write_pages(1, 2, 17, 1);
  cut_at(written);
  CHECK_EQUAL(mapped_in_the_end(1, 20), MR_READ_WRITE);
}

static enum mr_access after_in_order(uint32_t count, uint32_t page) {
  open_with(false);
  write_pages(1, 1, 17, count);
  return mapped_in_the_end(1, page);
}

/* As readers do: with the third page comes the next one, then three, seven. */
static void written_in_order(void) {
  CHECK_EQUAL(after_in_order(2, 19), MR_NONE);
  CHECK_EQUAL(after_in_order(3, 20), MR_READ_WRITE);
  CHECK_EQUAL(after_in_order(3, 21), MR_NONE);
  CHECK_EQUAL(after_in_order(5, 24), MR_READ_WRITE);
  CHECK_EQUAL(after_in_order(5, 25), MR_NONE);
  CHECK_EQUAL(after_in_order(PAGES - 17, PAGES - 1), MR_READ_WRITE);
  /* A page that was not written ends it. */
  open_with(false);
  write_pages(1, 1, 17, 2);
  write_pages(1, 1, 20, 1);
  CHECK_EQUAL(mapped_in_the_end(1, 21), MR_NONE);
}

int main(void) {
  rows();
  row_with_a_gap();
  row_of_known_pages();
  come_along();
  come_along_behind_a_cut();
  habits_end();
  trust();
  two_leaders();
  no_habit();
  once_each();
  written();
  written_again();
  written_behind_a_cut();
  looked_at_behind_a_cut();
  written_in_order();
  return 0;
}
