/* Description: a node that waits sends home what it wrote when it is asked to, and waits on. What
 * it waits for may come meanwhile: it goes on when all is home, and reads what it is to read.
 *
 * Node 0 waits, and what it sends to node 2, the home of page 2, is held back. */
#include "world.h"

#include "../save.h"
#include "check.h"

#define PAGE (2 * MR_PAGE)

static struct world world;

static struct program *code(int node) { return &world.nodes[node].program; }
static struct mr_core *core(void) { return world.nodes[0].core; }

static void open_world(bool latches, bool stumble) {
  struct shape shape = {
      .nodes = 3, .pages = 3, .home_run = 1, .objects = 12, .latches = latches, .stumble = stumble};
  world_create(&world, &shape, setting("MARU_DSM_SEED", 1));
}

static void hold_back(int from, int to) { world.channels[from][to].weight = 0; }
static void let_go(int from, int to) { world.channels[from][to].weight = 1; }

static void run_what_can(void) {
  for (uint16_t node = 0; node < 3; node++)
    world.nodes[node].ended = false;
  while (world_step(&world))
    ;
}

static void run_all(void) {
  for (uint16_t node = 0; node < 3; node++)
    world.nodes[node].ended = false;
  world_run(&world);
  world_destroy(&world);
}

static void change(int node, uint32_t at) {
  emit(code(node), set_of(0, 1000 + at));
  emit(code(node), write_of(0, PAGE + at, 8));
}

static void look_at(int node, uint32_t at) { emit(code(node), read_of(1, PAGE + at, 8)); }

static uint64_t cleaned(void) { return mr_core_counters(core())->cleaned; }

/* It waits, and has something of its own. */
static void begins(void) {
  CHECK(world.nodes[0].waits && mr_core_waits(core()) && !mr_core_rests(core()));
  hold_back(0, 2);
  for (int time = 0; time < 2; time++) {
    CHECK_EQUAL(mr_core_clean(core()), 0);
    CHECK(world.nodes[0].waits && !mr_core_waits(core()) && !mr_core_rests(core()));
    CHECK_EQUAL(cleaned(), 1);
  }
  CHECK_EQUAL(mr_core_access(core(), 2), MR_READ);
}

static void still_waits(uint64_t kept) {
  run_what_can();
  CHECK(world.nodes[0].waits && !mr_core_waits(core()) && !mr_core_rests(core()));
  CHECK_EQUAL(mr_core_counters(core())->kept, kept);
}

/* Nobody grants it anything: it rests when all is home, and reads what came later. */
static void waits_on(void) {
  open_world(false, false);
  change(0, 8);
  emit(code(0), sync_of(MR_WAIT, 4, 0));
  look_at(0, 16);
  run_what_can();
  begins();
  still_waits(0);
  let_go(0, 2);
  run_what_can();
  CHECK(world.nodes[0].waits && mr_core_waits(core()) && mr_core_rests(core()));
  CHECK_EQUAL(mr_core_clean(core()), 0);
  CHECK_EQUAL(cleaned(), 1);
  change(1, 16);
  emit(code(1), sync_of(MR_POST, 4, 1));
  run_all();
}

/* By a semaphore of node 1, or of node 0 itself.  Meanwhile node 0 hears of other times. */
static void granted(uint32_t semaphore) {
  open_world(false, false);
  look_at(0, 16);
  change(0, 8);
  emit(code(0), sync_of(MR_WAIT, semaphore, 0));
  look_at(0, 16);
  change(0, 24);
  emit(code(0), sync_of(MR_POST, 5, 1));
  run_what_can();
  begins();
  change(1, 16);
  emit(code(1), sync_of(MR_POST, semaphore, 1));
  still_waits(1);
  change(1, 32);
  emit(code(1), lock_of(6));
  emit(code(1), unlock_of(6));
  emit(code(2), lock_of(9));
  emit(code(2), unlock_of(9));
  still_waits(1);
  let_go(0, 2);
  emit(code(2), sync_of(MR_WAIT, 5, 0));
  look_at(2, 8);
  look_at(2, 24);
  run_all();
}

/* Of a lock that it may keep. Another node tries it, or waits for it, before all is home. */
static void lock_wanted(enum mr_op op) {
  open_world(false, false);
  emit(code(0), lock_of(1));
  emit(code(0), unlock_of(1));
  run_what_can();
  hold_back(0, 1);
  change(0, 8);
  emit(code(0), lock_of(1));
  change(0, 16);
  emit(code(0), unlock_of(1));
  run_what_can();
  begins();
  let_go(0, 1);
  still_waits(1);
  emit(code(2), sync_of(op, 1, 0));
  still_waits(1);
  CHECK_EQUAL(world.nodes[2].waits, op == MR_LOCK);
  CHECK(op == MR_LOCK || world.nodes[2].registers[REGISTERS - 1] == 0);
  let_go(0, 2);
  run_what_can();
  CHECK(!world.nodes[0].waits && !world.nodes[2].waits);
  if (op == MR_TRY)
    emit(code(2), lock_of(1));
  look_at(2, 16);
  emit(code(2), unlock_of(1));
  run_all();
}

/* It stands in a condition's queue, as it does not know yet, and is signalled. */
static void signalled_at_once(void) {
  open_world(false, false);
  emit(code(0), lock_of(0));
  change(0, 8);
  emit(code(0), sync_of(MR_CONDITION, 4, 0));
  look_at(0, 16);
  emit(code(0), unlock_of(0));
  hold_back(0, 1);
  run_what_can();
  begins();
  let_go(0, 1);
  still_waits(1);
  emit(code(1), sync_of(MR_SIGNAL, 4, 0));
  emit(code(1), lock_of(0));
  look_at(1, 8);
  change(1, 16);
  emit(code(1), unlock_of(0));
  still_waits(1);
  let_go(0, 2);
  run_all();
}

/* It sleeps, which it does with changes of its own where locks are beside the core. */
static void signalled_asleep(void) {
  open_world(true, false);
  emit(code(0), lock_of(0));
  change(0, 8);
  emit(code(0), sync_of(MR_CONDITION, 4, 0));
  emit(code(0), unlock_of(0));
  run_what_can();
  begins();
  emit(code(1), sync_of(MR_SIGNAL, 4, 0));
  still_waits(0);
  let_go(0, 2);
  run_all();
}

/* What only its own pages have takes no message. */
static void at_home(void) {
  open_world(false, false);
  emit(code(1), read_of(1, 0, 8));
  run_what_can();
  emit(code(0), set_of(0, 5));
  emit(code(0), write_of(0, 8, 8));
  emit(code(0), sync_of(MR_WAIT, 4, 0));
  run_what_can();
  uint64_t sent = mr_core_counters(core())->messages;
  CHECK(mr_core_waits(core()) && !mr_core_rests(core()));
  CHECK_EQUAL(mr_core_clean(core()), 0);
  CHECK(mr_core_waits(core()) && mr_core_rests(core()) && world.nodes[0].waits);
  CHECK_EQUAL(mr_core_counters(core())->messages, sent);
  emit(code(0), sync_of(MR_POST, 5, 1));
  emit(code(1), sync_of(MR_POST, 4, 1));
  emit(code(1), sync_of(MR_WAIT, 5, 0));
  emit(code(1), read_of(1, 8, 8));
  run_all();
}

/* One that makes no request sends it home as well, and makes its next request after that. */
static void stands_still(void) {
  open_world(false, false);
  change(0, 8);
  run_what_can();
  CHECK(!world.nodes[0].waits && !mr_core_rests(core()));
  CHECK_EQUAL(mr_core_clean(core()), 0);
  CHECK(!mr_core_rests(core()) && !mr_core_waits(core()));
  run_what_can();
  CHECK(mr_core_rests(core()));
  CHECK_EQUAL(mr_core_access(core(), 2), MR_READ);
  CHECK_EQUAL(cleaned(), 1);
  change(0, 16);
  emit(code(0), sync_of(MR_POST, 4, 1));
  emit(code(1), sync_of(MR_WAIT, 4, 0));
  look_at(1, 8);
  look_at(1, 16);
  run_all();
}

/* A node that has changed nothing is left alone. */
static void not_asked(void) {
  open_world(false, false);
  emit(code(0), sync_of(MR_POST, 4, 1));
  emit(code(0), sync_of(MR_WAIT, 7, 0));
  run_what_can();
  CHECK(mr_core_rests(core()));
  CHECK_EQUAL(mr_core_clean(core()), 0);
  CHECK_EQUAL(cleaned(), 0);
  world_destroy(&world);
}

/* What was granted, and waits, is not granted again; and a core that has stopped does nothing. */
static void granted_twice(void) {
  open_world(false, true);
  change(0, 8);
  emit(code(0), sync_of(MR_WAIT, 4, 0));
  run_what_can();
  begins();
  hold_back(1, 0);
  emit(code(1), sync_of(MR_POST, 4, 1));
  run_what_can();
  const struct message *grant = world.channels[1][0].head;
  CHECK(grant != NULL);
  CHECK_EQUAL(mr_core_message(core(), 1, grant->bytes, grant->length), 0);
  CHECK(world.nodes[0].waits);
  CHECK_EQUAL(mr_core_message(core(), 1, grant->bytes, grant->length), -ECANCELED);
  CHECK_EQUAL(world.failure, -EPROTO);
  CHECK_EQUAL(mr_core_clean(core()), -ECANCELED);
  world_destroy(&world);
}

int main(void) {
  waits_on();
  granted(4);
  granted(3);
  lock_wanted(MR_TRY);
  lock_wanted(MR_LOCK);
  signalled_at_once();
  signalled_asleep();
  at_home();
  stands_still();
  not_asked();
  granted_twice();
  return 0;
}
