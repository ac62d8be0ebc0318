/* Description: a job of which every node waits, and nobody can end that, is called stuck, and no
 * other. Programs that take locks in any order, under random schedules, with looks at any time.
 * (What is said must be true when it is said: world.c.)
 */
#include "world.h"

#include "../message.h"
#include "check.h"

#define SCHEDULES 4000u
#define LOCKS 3u
#define TURNS 3

static struct world world;

/* Tries, waits for a signal with that lock, or gives one. */
static void write_more(struct program *program, uint32_t lock) {
  uint32_t what = world_random(&world, 8), tried = LOCKS;
  if (what == 0) {
    emit(program, sync_of(MR_CONDITION, 5, lock));
  } else if (what < 4) {
    emit(program, sync_of(what == 1 ? MR_BROADCAST : MR_SIGNAL, 5, 0));
  } else if (what == 4) {
    emit(program, (struct instruction){.code = SYNC, .op = MR_TRY, .id = tried, .reg = 1});
    emit(program, jump_zero(1, program->length + 2));
    emit(program, unlock_of(tried));
  }
}

/* Two locks at a time, in any order: now and then in a circle. */
static void write_program(uint16_t node) {
  struct program *program = &world.nodes[node].program;
  for (int turn = 0; turn < TURNS; turn++) {
    uint32_t one = world_random(&world, LOCKS), other = world_random(&world, LOCKS);
    emit(program, lock_of(one));
    emit(program, set_of(0, 1 + turn));
    emit(program, write_of(0, 64 * one, 8));
    if (other != one) {
      emit(program, lock_of(other));
      emit(program, unlock_of(other));
    }
    if (world.shape.latches)
      write_more(program, one);
    emit(program, unlock_of(one));
  }
  emit(program, sync_of(MR_BARRIER, 7, world.shape.nodes));
}

/* As a job ends: a node that is through waits for all. */
static bool all_wait(void) {
  for (uint16_t i = 0; i < world.shape.nodes; i++)
    if (!world_waits(&world.nodes[i]))
      return false;
  return true;
}

/* Whether it got stuck. */
static bool one(uint64_t seed) {
  struct shape shape = {.nodes = (uint16_t)(1 + seed % 4),
                        .pages = 2,
                        .home_run = 1,
                        .objects = 8,
                        .stale = true,
                        .looks = seed % 8 < 4,
                        .latches = seed % 16 < 8,
                        .cleans = seed % 3 == 0 ? 8 : 0};
  world_create(&world, &shape, seed);
  for (uint16_t i = 0; i < shape.nodes; i++)
    write_program(i);
  while (world_step(&world))
    ;
  bool stuck = all_wait();
  CHECK(stuck || !world.stuck);
  /* One look finds it where nothing else happens, and finds nothing else. */
  world.shape.cleans = 0;
  CHECK_EQUAL(mr_core_look(world.nodes[0].core), 0);
  while (!world.stuck && world_step(&world))
    ;
  CHECK_EQUAL(world.stuck, stuck);
  world_destroy(&world);
  return stuck;
}

/* What nodes wait for is what they are said to wait for. */
static void named(void) {
  struct shape shape = {.nodes = 2, .pages = 1, .home_run = 1, .objects = 8};
  world_create(&world, &shape, 1);
  emit(&world.nodes[0].program, lock_of(3));
  emit(&world.nodes[0].program, sync_of(MR_CONDITION, 4, 3));
  emit(&world.nodes[1].program, sync_of(MR_WAIT, 5, 0));
  while (world_step(&world))
    ;
  CHECK_EQUAL(mr_core_look(world.nodes[0].core), 0);
  while (!world.stuck && world_step(&world))
    ;
  CHECK(world.stuck);
  CHECK(world.waits[0].op == MR_CONDITION && world.waits[0].id == 4);
  CHECK(world.waits[1].op == MR_WAIT && world.waits[1].id == 5);
  world_destroy(&world);
}

/* Both nodes are at a barrier of both, and not at the same. */
static void apart(void) {
  struct shape shape = {.nodes = 2, .pages = 1, .home_run = 1, .objects = 8};
  world_create(&world, &shape, 1);
  emit(&world.nodes[0].program, sync_of(MR_BARRIER, 6, 2));
  emit(&world.nodes[1].program, sync_of(MR_BARRIER, 7, 2));
  while (world_step(&world))
    ;
  CHECK(!world.nodes[0].ended && !world.nodes[1].ended);
  CHECK_EQUAL(mr_core_look(world.nodes[0].core), 0);
  while (!world.stuck && world_step(&world))
    ;
  CHECK(world.stuck);
  CHECK(world.waits[0].op == MR_BARRIER && world.waits[0].id == 6);
  CHECK(world.waits[1].op == MR_BARRIER && world.waits[1].id == 7);
  world_destroy(&world);
}

/* Node 1 says to node 0 that it waits. */
static int say(int64_t look, uint64_t sent, uint64_t received) {
  struct mr_header header = {.version = MR_MESSAGE_VERSION,
                             .type = MR_SEEN,
                             .from = 1,
                             .epoch = 7,
                             .incarnation = 101,
                             .value = look,
                             .detail = MR_WAIT,
                             .length = 17};
  uint8_t message[sizeof header + 17];
  memcpy(message, &header, sizeof header);
  message[sizeof header] = 1;
  memcpy(message + sizeof header + 1, &sent, sizeof sent);
  memcpy(message + sizeof header + 9, &received, sizeof received);
  return mr_core_message(world.nodes[0].core, 1, message, sizeof message);
}

/* Node 0 has sent one message, and waits. */
static void open_waiting(void) {
  struct shape shape = {.nodes = 2, .pages = 1, .home_run = 1, .objects = 8};
  world_create(&world, &shape, 1);
  world.nodes[0].waits = true;
  CHECK_EQUAL(mr_core_sync(world.nodes[0].core, MR_WAIT, 5, 0), 0);
}

/* Answers that nobody asked for, or that were given before. */
static void strangers(void) {
  open_waiting();
  CHECK_EQUAL(say(0, 0, 1), -EBADMSG);
  CHECK_EQUAL(mr_core_look(world.nodes[0].core), 0);
  CHECK_EQUAL(say(2, 0, 1), -EBADMSG);
  CHECK_EQUAL(say(1, 0, 2), 0);
  CHECK_EQUAL(say(1, 0, 1), -EBADMSG);
  world_destroy(&world);
}

/* As many messages received as sent, twice; but they are others. */
static void between(void) {
  open_waiting();
  CHECK_EQUAL(mr_core_look(world.nodes[0].core), 0);
  CHECK_EQUAL(say(1, 0, 1), 0);
  CHECK_EQUAL(say(2, 1, 2), 0);
  CHECK(!world.stuck);
  world_destroy(&world);
}

/* Node 1 says so in answer to a look, which it has received. */
static int answer(int64_t look) {
  struct channel *channel = &world.channels[0][1];
  for (struct message *m = channel->head, *next; m != NULL; m = next) {
    next = m->next;
    free(m);
  }
  *channel = (struct channel){.tail = &channel->head, .weight = channel->weight};
  return say(look, 0, 0);
}

/* Node 0 waits for a latch, in two answers of a look for the same; but it went on between.  Then
 * for one that is free, or that it has taken already: it is about to go on. */
static void at_latches(void) {
  struct shape shape = {.nodes = 2, .pages = 1, .home_run = 1, .objects = 8, .latches = true};
  world_create(&world, &shape, 1);
  world.nodes[0].at_latch = FIRST;
  world.nodes[0].latch = 3;
  world.nodes[1].waits = true;
  CHECK(mr_latch_try(&world.latches[3], 1));
  CHECK_EQUAL(mr_core_look(world.nodes[0].core), 0);
  mr_core_went_on(world.nodes[0].core);
  CHECK_EQUAL(answer(1), 0);
  CHECK_EQUAL(answer(2), 0);
  CHECK(!world.stuck);
  CHECK_EQUAL(mr_latch_give(&world.latches[3], 1), 0);
  CHECK_EQUAL(mr_core_look(world.nodes[0].core), 0);
  CHECK_EQUAL(answer(3), -EBADMSG); /* nobody asked */
  CHECK(mr_latch_try(&world.latches[3], 0));
  world.nodes[0].at_latch = TOOK;
  CHECK_EQUAL(mr_core_look(world.nodes[0].core), 0);
  CHECK_EQUAL(answer(3), -EBADMSG); /* nor now */
  CHECK_EQUAL(mr_latch_give(&world.latches[3], 0), 0);
  world.nodes[0].at_latch = FIRST;
  CHECK(mr_latch_try(&world.latches[3], 1));
  CHECK_EQUAL(mr_core_look(world.nodes[0].core), 0);
  CHECK_EQUAL(answer(3), 0);
  CHECK_EQUAL(answer(4), 0);
  CHECK(world.stuck && world.waits[0].op == MR_LOCK && world.waits[0].id == 3);
  world_destroy(&world);
}

/* A node that waits for a signal gives its latch, and has it again.  The protocol's lock is free
 * then. */
static void signalled(uint64_t seed) {
  struct shape shape = {.nodes = 2, .pages = 1, .home_run = 1, .objects = 8, .latches = true};
  world_create(&world, &shape, seed);
  struct program *waiter = &world.nodes[0].program, *other = &world.nodes[1].program;
  emit(waiter, lock_of(3));
  emit(waiter, sync_of(MR_POST, 5, 1));
  emit(waiter, sync_of(MR_CONDITION, 4, 3));
  emit(waiter, unlock_of(3));
  emit(other, sync_of(MR_WAIT, 5, 0));
  emit(other, lock_of(3)); /* once the waiter has given it */
  emit(other, sync_of(MR_SIGNAL, 4, 0));
  emit(other, unlock_of(3));
  for (int turn = 0; turn < TURNS; turn++)
    for (uint16_t i = 0; i < 2; i++) {
      emit(&world.nodes[i].program, lock_of(3));
      emit(&world.nodes[i].program, unlock_of(3));
    }
  world_run(&world);
  world_destroy(&world);
}

int main(void) {
  uint64_t seed = setting("MARU_DSM_SEED", 1), stuck = 0;
  uint64_t schedules = setting("MARU_DSM_SCHEDULES", SCHEDULES * setting("MARU_TEST_SCALE", 1));
  named();
  apart();
  strangers();
  between();
  at_latches();
  for (uint64_t i = 0; i < 50; i++)
    signalled(seed + i);
  for (uint64_t i = 0; i < schedules; i++)
    stuck += one(seed + i);
  printf("%llu schedules from seed %llu, %llu stuck\n", (unsigned long long)schedules,
         (unsigned long long)seed, (unsigned long long)stuck);
  if (schedules >= 1000)
    CHECK(stuck > 0 && stuck < schedules);
  return 0;
}
