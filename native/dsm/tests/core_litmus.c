/* Description: the classic small programs have no outcome that sequential
 * consistency forbids; conditions, semaphores and counters do what they are for.
 *
 * Each runs with its variables in one block, in one page and in two pages,
 * accesses ordered by one lock per variable and by barriers.
 */
#include "world.h"

#include "check.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ITERATIONS 200u
#else
#define ITERATIONS 10000u
#endif

#define X_LOCK 0
#define Y_LOCK 1
#define MEETING 2
#define FULL 3
#define EMPTY 4
#define OBJECTS 8

static struct world world;
static uint32_t x, y;
static const uint32_t places[3][2] = {{100, 101}, {100, 3000}, {100, MR_PAGE + 7}};

enum order { BY_LOCKS, BY_BARRIERS, BY_NOTHING, ORDERS };

static struct program *code(int node) { return &world.nodes[node].program; }
static int64_t reg(int node, int number) { return world.nodes[node].registers[number]; }

/* One access, guarded by its variable's lock where locks order. */
static void touch(int node, enum order order, struct instruction instruction) {
  uint32_t lock = instruction.address == x ? X_LOCK : Y_LOCK;
  if (order == BY_NOTHING && instruction.code == READ)
    instruction.code = READ_RACY;
  if (order == BY_LOCKS)
    emit(code(node), lock_of(lock));
  emit(code(node), instruction);
  if (order == BY_LOCKS)
    emit(code(node), unlock_of(lock));
}

static void put(int node, enum order order, uint32_t address) {
  emit(code(node), set_of(5, 1));
  touch(node, order, write_of(5, address, 1));
}

static void get(int node, enum order order, uint8_t to, uint32_t address) {
  touch(node, order, read_of(to, address, 1));
}

static void meet(enum order order) {
  if (order == BY_BARRIERS)
    for (int node = 0; node < world.shape.nodes; node++)
      emit(code(node), sync_of(MR_BARRIER, MEETING, world.shape.nodes));
}

/* Each emits its program; true of its registers: forbidden. */
static void write_mp(enum order order) {
  put(0, order, x);
  meet(order);
  put(0, order, y);
  if (order == BY_BARRIERS)
    meet(order);
  get(1, order, 0, y);
  get(1, order, 1, x);
}
static bool bad_mp(enum order order) {
  return reg(1, 1) == 0 && (order == BY_BARRIERS || reg(1, 0) == 1);
}

static void write_sb(enum order order) {
  put(0, order, x);
  put(1, order, y);
  meet(order);
  get(0, order, 0, y);
  get(1, order, 0, x);
}
static bool bad_sb(enum order order) {
  return order == BY_BARRIERS ? reg(0, 0) == 0 || reg(1, 0) == 0 : reg(0, 0) == 0 && reg(1, 0) == 0;
}

static void write_lb(enum order order) {
  get(0, order, 0, x);
  get(1, order, 0, y);
  meet(order);
  put(0, order, y);
  put(1, order, x);
}
static bool bad_lb(enum order order) {
  return order == BY_BARRIERS ? reg(0, 0) == 1 || reg(1, 0) == 1 : reg(0, 0) == 1 && reg(1, 0) == 1;
}

static void write_wrc(enum order order) {
  put(0, order, x);
  meet(order);
  get(1, order, 0, x);
  put(1, order, y);
  meet(order);
  get(2, order, 0, y);
  get(2, order, 1, x);
}
static bool bad_wrc(enum order order) {
  return order == BY_BARRIERS ? reg(1, 0) == 0 || reg(2, 0) == 0 || reg(2, 1) == 0
                              : reg(1, 0) == 1 && reg(2, 0) == 1 && reg(2, 1) == 0;
}

static void write_iriw(enum order order) {
  put(0, order, x);
  put(1, order, y);
  meet(order);
  get(2, order, 0, x);
  get(2, order, 1, y);
  get(3, order, 0, y);
  get(3, order, 1, x);
}
static bool bad_iriw(enum order order) {
  bool all = reg(2, 0) == 1 && reg(2, 1) == 1 && reg(3, 0) == 1 && reg(3, 1) == 1;
  return order == BY_BARRIERS
             ? !all
             : reg(2, 0) == 1 && reg(2, 1) == 0 && reg(3, 0) == 1 && reg(3, 1) == 0;
}

static const struct litmus {
  const char *name;
  uint16_t nodes;
  void (*write)(enum order);
  bool (*bad)(enum order);
} litmus[] = {{"MP", 2, write_mp, bad_mp},
              {"SB", 2, write_sb, bad_sb},
              {"LB", 2, write_lb, bad_lb},
              {"WRC", 3, write_wrc, bad_wrc},
              {"IRIW", 4, write_iriw, bad_iriw}};
#define LITMUS (sizeof litmus / sizeof *litmus)

static void open_world(uint16_t nodes, uint32_t pages, uint64_t seed) {
  struct shape shape = {
      .nodes = nodes, .pages = pages, .home_run = 1, .objects = OBJECTS, .stale = true};
  /* Homes stay or move, diffs ride on grants or not. */
  shape.migrate_after = 1;
  shape.copies = seed / 6 % 2 * 4;
  shape.grant_bytes = seed % 2 != 0 ? 1 : MR_GRANT_BYTES;
  for (uint16_t node = 0; node < nodes; node++)
    shape.homes[node] = (enum mr_homes)((seed / 2 + node) % 3);
  world_create(&world, &shape, seed);
}

/* How often it happened in `iterations` schedules. */
static uint64_t count_bad(const struct litmus *l, enum order order, uint64_t seed,
                          uint64_t iterations) {
  uint64_t bad = 0;
  for (uint64_t i = 0; i < iterations; i++) {
    const uint32_t *place = places[i % 3];
    /* Whose home is the page at address 0 changes with the variables' page. */
    uint32_t shift = (uint32_t)(i / 3 % l->nodes) * MR_PAGE;
    x = place[0] + shift;
    y = place[1] + shift;
    open_world(l->nodes, l->nodes + 2u, seed + i);
    l->write(order);
    world_run(&world);
    bad += l->bad(order);
    world_destroy(&world);
  }
  return bad;
}

static void all_litmus(uint64_t seed, uint64_t iterations) {
  for (unsigned n = 0; n < LITMUS; n++) {
    CHECK_EQUAL(count_bad(&litmus[n], BY_LOCKS, seed, iterations), 0);
    CHECK_EQUAL(count_bad(&litmus[n], BY_BARRIERS, seed, iterations), 0);
  }
  /* Without order the weak outcome does come: the schedules would show it. */
  CHECK(count_bad(&litmus[1], BY_NOTHING, seed, 300) > 0);
}

/* Every byte of a page belongs to one node in turn; all write, meet, and read all. */
static void interleaved_bytes(uint64_t seed) {
  uint16_t nodes = 4;
  open_world(nodes, 2, seed);
  for (int round = 0; round < 3; round++) {
    for (int node = 0; node < nodes; node++)
      for (uint32_t at = (uint32_t)(node + round) % nodes; at < 40; at += nodes) {
        emit(code(node), set_of(0, (int64_t)(world_random(&world, 200))));
        emit(code(node), write_of(0, at, 1));
      }
    for (int node = 0; node < nodes; node++) {
      emit(code(node), sync_of(MR_BARRIER, MEETING, nodes));
      for (uint32_t at = 0; at < 40; at++)
        emit(code(node), read_of(1, at, 1));
      emit(code(node), sync_of(MR_BARRIER, MEETING, nodes));
    }
  }
  world_run(&world);
  world_destroy(&world);
}

/* A variable under a lock and a counter at its manager count the same. */
static void counting(uint64_t seed) {
  enum { NODES = 4, TIMES = 6, COUNTER = 5 };
  open_world(NODES, 2, seed);
  for (int node = 0; node < NODES; node++) {
    for (int n = 0; n < TIMES; n++) {
      emit(code(node), lock_of(X_LOCK));
      emit(code(node), read_of(0, 64, 8));
      emit(code(node), add_of(0, 1));
      emit(code(node), write_of(0, 64, 8));
      emit(code(node), unlock_of(X_LOCK));
      emit(code(node), sync_of(MR_FETCH_ADD, COUNTER, 1));
    }
    emit(code(node), sync_of(MR_BARRIER, MEETING, NODES));
    emit(code(node), read_of(0, 64, 8));
    struct instruction last = sync_of(MR_FETCH_ADD, COUNTER, 0);
    last.reg = 1;
    emit(code(node), last);
  }
  world_run(&world);
  for (int node = 0; node < NODES; node++) {
    CHECK_EQUAL(reg(node, 0), NODES * TIMES);
    CHECK_EQUAL(reg(node, 1), NODES * TIMES);
  }
  world_destroy(&world);
}

/* A lock of compare-and-swap: 0 to 1 and back, and what it guards.  Registers: 4 is 0, 5 is 1. */
static void swapping(uint64_t seed) {
  enum { NODES = 3, TIMES = 4, COUNTER = 5 };
  open_world(NODES, 2, seed);
  for (int node = 0; node < NODES; node++) {
    emit(code(node), set_of(4, 0));
    emit(code(node), set_of(5, 1));
    for (int n = 0; n < TIMES; n++) {
      struct instruction take = sync_of(MR_COMPARE_SWAP, COUNTER, 1);
      struct instruction give = sync_of(MR_COMPARE_SWAP, COUNTER, 0);
      take.address = 4, take.reg = 3;
      give.address = 5, give.reg = 3;
      uint32_t again = emit(code(node), take);
      uint32_t taken = emit(code(node), jump_zero(3, 0));
      emit(code(node), jump(again));
      code(node)->code[taken].id = emit(code(node), read_of(0, 64, 8));
      emit(code(node), add_of(0, 1));
      emit(code(node), write_of(0, 64, 8));
      emit(code(node), give);
    }
    emit(code(node), sync_of(MR_BARRIER, MEETING, NODES));
    emit(code(node), read_of(0, 64, 8));
  }
  world_run(&world);
  for (int node = 0; node < NODES; node++)
    CHECK_EQUAL(reg(node, 0), NODES * TIMES);
  world_destroy(&world);
}

/* while (cell is `unless`) wait(condition): the cell's value is in register 0 after it. */
static void await_cell(int node, uint32_t condition, bool until_full) {
  uint32_t again = emit(code(node), read_of(0, 8, 8));
  uint32_t branch = emit(code(node), jump_zero(0, 0));
  if (until_full) {
    uint32_t done = emit(code(node), jump(0));
    code(node)->code[branch].id = code(node)->length;
    emit(code(node), sync_of(MR_CONDITION, condition, X_LOCK));
    emit(code(node), jump(again));
    code(node)->code[done].id = code(node)->length;
  } else {
    emit(code(node), sync_of(MR_CONDITION, condition, X_LOCK));
    emit(code(node), jump(again));
    code(node)->code[branch].id = code(node)->length;
  }
}

/* A buffer of one cell, two producers, one or two consumers. */
static void bounded_buffer(uint64_t seed, enum mr_op wake) {
  enum { NODES = 4, EACH = 4 };
  open_world(NODES, 1, seed);
  for (int node = 0; node < NODES; node++)
    for (int n = 1; n <= EACH; n++) {
      bool produces = node < NODES / 2;
      emit(code(node), lock_of(X_LOCK));
      await_cell(node, produces ? EMPTY : FULL, !produces);
      emit(code(node), set_of(1, produces ? n : 0));
      emit(code(node), write_of(1, 8, 8));
      /* A consumer adds what it found, in its own word. */
      if (!produces) {
        emit(code(node), read_of(2, 16u + 8u * (uint32_t)node, 8));
        emit(code(node), add_of(2, 1));
        emit(code(node), write_of(2, 16u + 8u * (uint32_t)node, 8));
      }
      emit(code(node), sync_of(wake, produces ? FULL : EMPTY, 0));
      emit(code(node), unlock_of(X_LOCK));
    }
  world_run(&world);
  CHECK_EQUAL(reg(2, 2), EACH);
  CHECK_EQUAL(reg(3, 2), EACH);
  world_destroy(&world);
}

/* while (*flag == 0) wait(FULL), with the lock held before and after. */
static void await_flag(int node, uint32_t flag) {
  uint32_t again = emit(code(node), read_of(0, flag, 8));
  uint32_t branch = emit(code(node), jump_zero(0, 0));
  uint32_t done = emit(code(node), jump(0));
  uint32_t wait = emit(code(node), sync_of(MR_CONDITION, FULL, X_LOCK));
  code(node)->code[branch].id = wait;
  emit(code(node), jump(again));
  code(node)->code[done].id = code(node)->length;
}

static void raise_flag(int node, uint32_t flag) {
  emit(code(node), lock_of(X_LOCK));
  emit(code(node), set_of(1, 1));
  emit(code(node), write_of(1, flag, 8));
  emit(code(node), unlock_of(X_LOCK));
}

/* One broadcast wakes all that wait. */
static void starting_gun(uint64_t seed) {
  open_world(4, 2, seed);
  for (int node = 1; node < 4; node++) {
    emit(code(node), lock_of(X_LOCK));
    await_flag(node, 8);
    emit(code(node), unlock_of(X_LOCK));
  }
  raise_flag(0, 8);
  emit(code(0), sync_of(MR_BROADCAST, FULL, 0));
  world_run(&world);
  world_destroy(&world);
}

/* A signal without reason, while the waiter still gives its lock away, wakes it to look and wait
 * again. That takes long: its changes have to go home first. */
static void early_signal(uint64_t seed) {
  open_world(3, 3, seed);
  emit(code(1), lock_of(X_LOCK));
  emit(code(1), set_of(2, 7));
  for (uint32_t page = 0; page < 3; page++)
    emit(code(1), write_of(2, page * MR_PAGE + 64, 4));
  await_flag(1, 8);
  emit(code(1), unlock_of(X_LOCK));
  for (int n = 0; n < 3; n++)
    emit(code(2), sync_of(MR_SIGNAL, FULL, 0));
  emit(code(2), sync_of(MR_POST, EMPTY, 1));
  emit(code(0), sync_of(MR_WAIT, EMPTY, 0));
  raise_flag(0, 8);
  emit(code(0), sync_of(MR_SIGNAL, FULL, 0));
  world_run(&world);
  world_destroy(&world);
}

/* A node that counts and finds that the other has counted sees what it wrote before. */
static void counted_message(uint64_t seed) {
  open_world(2, 3, seed);
  emit(code(0), set_of(0, 1));
  emit(code(0), write_of(0, MR_PAGE + 8, 8));
  emit(code(0), sync_of(MR_FETCH_ADD, 5, 1));
  struct instruction count = sync_of(MR_FETCH_ADD, 5, 0);
  count.reg = 2;
  uint32_t again = emit(code(1), count);
  emit(code(1), jump_zero(2, again));
  emit(code(1), read_of(0, MR_PAGE + 8, 8));
  world_run(&world);
  CHECK_EQUAL(reg(1, 0), 1);
  world_destroy(&world);
}

/* A semaphore lets as many through as were given. */
static void rendezvous(uint64_t seed) {
  enum { THERE = 6, BACK = 7 };
  open_world(3, 3, seed);
  for (int n = 0; n < 4; n++) {
    emit(code(0), set_of(0, n + 1));
    emit(code(0), write_of(0, 2 * MR_PAGE, 4));
    emit(code(0), sync_of(MR_POST, THERE, 2));
    for (int node = 1; node < 3; node++) {
      emit(code(0), sync_of(MR_WAIT, BACK, 0));
      emit(code(node), sync_of(MR_WAIT, THERE, 0));
      emit(code(node), read_of(0, 2 * MR_PAGE, 4));
      emit(code(node), sync_of(MR_POST, BACK, 1));
    }
    /* Nobody takes two of one round. */
    for (int node = 0; node < 3; node++)
      emit(code(node), sync_of(MR_BARRIER, MEETING, 3));
  }
  world_run(&world);
  CHECK_EQUAL(reg(1, 0), 4);
  CHECK_EQUAL(reg(2, 0), 4);
  world_destroy(&world);
}

int main(void) {
  uint64_t seed = setting("MARU_DSM_SEED", 1);
  uint64_t iterations = setting("MARU_DSM_SCHEDULES", ITERATIONS * setting("MARU_TEST_SCALE", 1));
  all_litmus(seed, iterations);
  for (uint64_t i = 0; i < iterations / 10 + 1; i++) {
    interleaved_bytes(seed + i);
    counting(seed + i);
    swapping(seed + i);
    bounded_buffer(seed + i, MR_SIGNAL);
    bounded_buffer(seed + i, MR_BROADCAST);
    rendezvous(seed + i);
    starting_gun(seed + i);
    early_signal(seed + i);
    counted_message(seed + i);
  }
  return 0;
}
