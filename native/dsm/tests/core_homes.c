/* Description: homes move to writers and no further, diffs that ride on grants spare fetches, and
 * memory grows with what is used.
 */
#include "world.h"

#include "check.h"

static struct world world;

static struct program *code(int node) { return &world.nodes[node].program; }

/* ---- homes that move ----------------------------------------------------------------- */

static void open_moving(uint16_t nodes, enum mr_homes homes) {
  struct shape shape = {.nodes = nodes, .pages = nodes, .home_run = 1, .objects = 16};
  for (uint16_t node = 0; node < nodes; node++)
    shape.homes[node] = homes;
  world_create(&world, &shape, 1);
}

/* It writes these numbers, each in an interval. */
static void emit_turns(int node, int first, int last, uint32_t address) {
  for (int n = first; n <= last; n++) {
    emit(code(node), set_of(0, n));
    emit(code(node), write_of(0, address, 8));
    emit(code(node), sync_of(MR_POST, 5, 1));
  }
}

/* Node 1 alone writes node 0's page: after so many diffs it is the home, and sends none. */
static void diffs_until_moved(enum mr_homes homes, uint64_t diffs) {
  enum { TURNS = 40 };
  open_moving(3, homes);
  emit_turns(1, 1, TURNS, 0);
  emit(code(1), sync_of(MR_BARRIER, 3, 3));
  emit(code(0), sync_of(MR_BARRIER, 3, 3));
  emit(code(2), sync_of(MR_BARRIER, 3, 3));
  /* Node 2 asks where the page was; node 0 passes it on once, then node 2 knows. */
  emit(code(0), read_of(0, 0, 8));
  emit(code(2), read_of(0, 0, 8));
  world_run(&world);
  CHECK_EQUAL(mr_core_counters(world.nodes[1].core)->diffs, diffs);
  CHECK_EQUAL(world_home(&world, 0), homes == MR_HOMES_STAY ? 0 : 1);
  CHECK_EQUAL(mr_core_counters(world.nodes[0].core)->passed_on, homes == MR_HOMES_STAY ? 0 : 1);
  CHECK_EQUAL(mr_core_home(world.nodes[2].core, 0), homes == MR_HOMES_STAY ? 0 : 1);
  CHECK_EQUAL(world.nodes[2].registers[0], TURNS);
  world_destroy(&world);
}

/* Two nodes write a page in turns for long: each move takes twice as many diffs as the last. */
static void moves_are_bounded(void) {
  enum { TURNS = 400 };
  uint64_t moved = 0;
  open_moving(2, MR_HOMES_MIGRATE);
  for (int n = 0; n < TURNS; n++) {
    int node = n / 20 % 2;
    emit_turns(node, n + 1, n + 1, 0);
    if (n % 20 == 19)
      for (int each = 0; each < 2; each++)
        emit(code(each), sync_of(MR_BARRIER, 3, 2));
  }
  world_run(&world);
  for (int node = 0; node < 2; node++)
    moved += mr_core_counters(world.nodes[node].core)->moved;
  /* At 3, 6 and 12; nobody writes 24 times in a row. */
  CHECK_EQUAL(moved, 3);
  world_destroy(&world);
}

/* Node 1 alone writes node 0's page, and so many others read it after each diff: where all of them
 * read a writer's pages at once, they would wait for one home. */
static void readers_hold(int readers, bool moves) {
  enum { TURNS = 40, NODES = 5 };
  open_moving(NODES, MR_HOMES_MIGRATE);
  for (int n = 1; n <= TURNS; n++) {
    emit(code(1), set_of(0, n));
    emit(code(1), write_of(0, 0, 8));
    for (int node = 0; node < NODES; node++)
      emit(code(node), sync_of(MR_BARRIER, 3, NODES));
    for (int reader = 0; reader < readers; reader++)
      emit(code(2 + reader), read_of(0, 0, 8));
    for (int node = 0; node < NODES; node++)
      emit(code(node), sync_of(MR_BARRIER, 3, NODES));
  }
  world_run(&world);
  CHECK_EQUAL(world_home(&world, 0), moves ? 1 : 0);
  CHECK_EQUAL(mr_core_counters(world.nodes[0].core)->moved, moves);
  world_destroy(&world);
}

/* Two nodes write node 0's page in turns; then as many diffs of one of them as would do for a page
 * with one writer do not. */
static void writers_hold(void) {
  enum { TURNS = 4 };
  open_moving(3, MR_HOMES_MIGRATE);
  for (int n = 0; n < TURNS; n++) {
    emit_turns(1 + n % 2, n + 1, n + 1, 0);
    for (int node = 0; node < 3; node++)
      emit(code(node), sync_of(MR_BARRIER, 3, 3));
  }
  emit_turns(1, TURNS + 1, TURNS + MR_MIGRATE_AFTER, 0);
  world_run(&world);
  CHECK_EQUAL(mr_core_counters(world.nodes[0].core)->moved, 0);
  world_destroy(&world);
}

/* A counter under a lock: the node that has it next needs no page, as what changed comes with
 * the grant. */
static void renewed(void) {
  enum { TURNS = 60 };
  uint64_t fetches[2] = {0, 0};
  for (int with = 0; with < 2; with++) {
    struct shape shape = {.nodes = 3,
                          .pages = 3,
                          .home_run = 1,
                          .objects = 16,
                          .grant_bytes = with ? MR_GRANT_BYTES : 1};
    world_create(&world, &shape, 1);
    for (int node = 0; node < 3; node++)
      for (int n = 0; n < TURNS; n++) {
        emit(code(node), lock_of(1));
        emit(code(node), read_of(0, 64, 8));
        emit(code(node), add_of(0, 1));
        emit(code(node), write_of(0, 64, 8));
        emit(code(node), unlock_of(1));
      }
    world_run(&world);
    for (int node = 0; node < 3; node++)
      fetches[with] += mr_core_counters(world.nodes[node].core)->fetches;
    world_destroy(&world);
  }
  CHECK(fetches[0] > 20 && fetches[1] < fetches[0] / 4);
}

/* ---- a home alone ---------------------------------------------------------------------- */

/* A home that alone uses its page tells of it once, until somebody asks for it, or changes it. */
static void alone(void) {
  enum { TURNS = 40 };
  struct shape shape = {.nodes = 2, .pages = 2, .home_run = 1, .objects = 16};
  world_create(&world, &shape, 1);
  const struct mr_core_counters *own = mr_core_counters(world.nodes[0].core);
  /* Node 1 asks after many intervals, and again after some more; then it writes, too. */
  for (int round = 0; round < 3; round++) {
    emit_turns(0, round * TURNS + 1, (round + 1) * TURNS, 0);
    emit(code(0), sync_of(MR_BARRIER, 3, 2));
    emit(code(1), sync_of(MR_BARRIER, 3, 2));
    emit(code(1), read_of(1, 0, 8));
    if (round == 1)
      emit(code(1), write_of(1, 8, 8));
    emit(code(0), sync_of(MR_BARRIER, 3, 2));
    emit(code(1), sync_of(MR_BARRIER, 3, 2));
  }
  emit(code(0), read_of(2, 8, 8));
  world_run(&world);
  CHECK_EQUAL(world.nodes[1].registers[1], 3 * TURNS);
  CHECK_EQUAL(world.nodes[0].registers[2], 2 * TURNS);
  /* What changes went with three notices node 1 may have as the home has. */
  CHECK_EQUAL(own->intervals, 3 + 3);
  CHECK_EQUAL(own->pages + own->parts, 3);
  world_destroy(&world);
}

/* What a lone node does costs nobody anything. */
static void single(void) {
  struct shape shape = {.nodes = 1, .pages = 64, .home_run = 1, .objects = 16};
  world_create(&world, &shape, 1);
  for (int n = 1; n <= 20; n++)
    for (uint32_t page = 0; page < 64; page++) {
      emit(code(0), set_of(0, n));
      emit(code(0), write_of(0, page * MR_PAGE, 8));
      emit(code(0), sync_of(MR_POST, 5, 1));
    }
  world_run(&world);
  CHECK_EQUAL(mr_core_counters(world.nodes[0].core)->intervals, 0);
  world_destroy(&world);
}

/* ---- memory ------------------------------------------------------------------------- */

static int64_t resident(void) {
  long size, pages = 0;
  FILE *stream = fopen("/proc/self/statm", "r");
  CHECK(stream != NULL && fscanf(stream, "%ld %ld", &size, &pages) == 2);
  fclose(stream);
  return pages * 4096;
}

/* Pages that nobody uses cost address space alone. */
static void large_reserve(void) {
  static const struct mr_core_sink sink = {.send = NULL};
  static uint32_t incarnations[2];
  struct mr_core *core;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const int64_t most = INT64_MAX; /* they keep books of it */
#else
  const int64_t most = 4 << 20;
#endif
  int64_t before = resident();
  struct mr_core_config config = {.nodes = 2,
                                  .pages = 1u << 22,
                                  .home_run = 16,
                                  .objects = 1,
                                  .incarnations = incarnations,
                                  .sink = &sink};
  CHECK_EQUAL(mr_core_create(&core, &config), 0);
  CHECK_EQUAL(mr_core_access(core, config.pages - 1), MR_READ);
  CHECK(resident() - before <= most);
  mr_core_destroy(core);
  CHECK(resident() - before <= most);
}

/* Intervals of many pages: the log is as short in bytes as one of small ones. */
static void large_intervals(void) {
  enum { TURNS = 300, PAGES = 60, BYTES = 8192 };
  uint64_t most = 0;
  struct shape shape = {
      .nodes = 2, .pages = PAGES, .home_run = 1, .objects = 16, .log_bytes = BYTES};
  world_create(&world, &shape, 1);
  for (int n = 0; n < TURNS; n++) {
    for (uint32_t page = 0; page < PAGES; page++) {
      emit(code(0), set_of(0, n + 1));
      emit(code(0), write_of(0, page * MR_PAGE, 8));
    }
    emit(code(0), sync_of(MR_POST, 5, 1));
  }
  while (world_step(&world)) {
    uint64_t bytes = mr_core_log_bytes(world.nodes[0].core);
    most = bytes > most ? bytes : most;
  }
  CHECK(world.nodes[0].ended);
  /* Two rounds of news, and an interval: 60 notices of 16 bytes. */
  CHECK(most > BYTES && most < 3 * BYTES);
  world_destroy(&world);
}
int main(void) {
  diffs_until_moved(MR_HOMES_STAY, 40);
  diffs_until_moved(MR_HOMES_FIRST_WRITER, 1);
  diffs_until_moved(MR_HOMES_MIGRATE, MR_MIGRATE_AFTER);
  moves_are_bounded();
  readers_hold(0, true);
  readers_hold(1, true);
  readers_hold(2, false);
  writers_hold();
  renewed();
  alone();
  single();
  large_reserve();
  large_intervals();
  return 0;
}
