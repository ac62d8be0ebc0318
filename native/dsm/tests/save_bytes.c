/* Description: a core takes back what it saved, and refuses bytes that are no save: damaged, cut
 * off, too long, another node's.  None of them makes it read or write where it may not (address
 * sanitizer). */
#include "../save.h"
#include "../state.h"
#include "check.h"
#include "world.h"

#define PAGES 3
#define OBJECTS 12
#define DAMAGES 20000u

/* Locks that are kept, waited for and asked back; a barrier, a semaphore, a flag, a condition. */
static void write_programs(struct world *world) {
  for (uint16_t node = 0; node < world->shape.nodes; node++) {
    struct program *program = &world->nodes[node].program;
    for (int i = 0; i < 3; i++) {
      emit(program, lock_of(1));
      emit(program, read_of(0, 64, 8));
      /* What follows it in one stretch, for habits. */
      emit(program, read_of(2, MR_PAGE + 2048, 8));
      emit(program, read_of(2, 2 * MR_PAGE + 2048, 8));
      emit(program, add_of(0, node + 1));
      emit(program, write_of(0, 64, 8));
      emit(program, unlock_of(1));
      emit(program, lock_of(2 + node));
      emit(program, set_of(1, 77));
      emit(program, write_of(1, MR_PAGE * (node % PAGES) + 512 + 8 * node, 8));
      emit(program, unlock_of(2 + node));
    }
    emit(program, sync_of(MR_FETCH_ADD, 6, 5));
    if (node == 0)
      emit(program, lock_of(1));
    if (node == 1)
      emit(program, sync_of(MR_WAIT, 7, 0));
    if (node == 2)
      emit(program, sync_of(MR_FLAG_AWAIT, 8, 3));
    emit(program, sync_of(MR_BARRIER, 9, world->shape.nodes));
  }
}

static struct mr_core *new_core(const struct world *world, uint16_t me, uint8_t *memory,
                                uint8_t *twins) {
  static const uint32_t incarnations[WORLD_NODES];
  struct mr_core *core;
  struct mr_core_config config = {.nodes = world->shape.nodes,
                                  .me = me,
                                  .pages = PAGES,
                                  .home_run = 1,
                                  .objects = OBJECTS,
                                  .incarnations = incarnations,
                                  .memory = memory,
                                  .twins = twins,
                                  .prefetch = world->shape.prefetch,
                                  .replays = world->shape.replays,
                                  .sink = NULL};
  CHECK_EQUAL(mr_core_create(&core, &config), 0);
  return core;
}

/* What it has learnt is about pages that it has. */
static void use_habits(struct mr_core *core) {
  uint32_t pages[MR_BATCH_MAX];
  for (uint32_t page = 0; page < PAGES; page++) {
    for (uint32_t n = mr_habits_row(core, page, pages, MR_BATCH_MAX); n > 0; n--)
      CHECK(pages[n - 1] < PAGES);
    mr_habits_part(core->habits);
    for (uint32_t n = mr_habits_follow(core, page, pages, MR_BATCH_MAX); n > 0; n--)
      CHECK(pages[n - 1] < PAGES);
  }
}

static int load(const struct world *world, uint16_t me, const struct mr_saved *saved,
                struct cut *cut) {
  static _Alignas(64) uint8_t memory[PAGES * MR_PAGE], twins[PAGES * MR_PAGE];
  struct mr_core *core = new_core(world, me, memory, twins);
  int rc = world->shape.replays
               ? mr_core_load_own(core, &saved[me], world_saved_page, &cut->nodes[me])
               : mr_core_load(core, saved, world_saved_page, &cut->nodes[me]);
  if (rc == 0 && world->shape.prefetch)
    use_habits(core);
  mr_core_destroy(core);
  return rc;
}

/* A copy of exactly so many bytes: what lies behind is not theirs. */
static uint8_t *copy_of(const uint8_t *bytes, size_t length, size_t most) {
  uint8_t *copy = malloc(most != 0 ? most : 1);
  CHECK(copy != NULL);
  memset(copy, 0, most);
  memcpy(copy, bytes, length < most ? length : most);
  return copy;
}

static size_t damage(struct world *world, uint8_t **bytes, size_t length) {
  size_t most = length;
  uint32_t kind = world_random(world, 8);
  if (kind == 0)
    most = world_random(world, (uint32_t)length);
  else if (kind == 1)
    most = length + 1 + world_random(world, 5000);
  uint8_t *copy = copy_of(*bytes, length, most);
  /* Most of what decides is at the beginning. */
  for (uint32_t n = kind < 2 ? 0 : 1 + world_random(world, 3); n > 0 && most > 0; n--) {
    uint32_t end = kind < 6 && most > 600 ? 600 : (uint32_t)most;
    copy[world_random(world, end)] ^= (uint8_t)(1u << world_random(world, 8));
  }
  *bytes = copy;
  return most;
}

/* Each bit, one by one. */
static void damage_all(const struct world *world, struct mr_saved *saved, struct cut *cut) {
  for (uint16_t me = 0; me < world->shape.nodes; me++) {
    struct mr_saved whole = saved[me];
    uint8_t *bytes = copy_of(whole.bytes, whole.length, whole.length);
    saved[me].bytes = bytes;
    for (size_t bit = 0; bit < 8 * whole.length; bit++) {
      bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
      int rc = load(world, me, saved, cut);
      CHECK(rc == 0 || rc == -EBADMSG || rc == -EPROTO);
      bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(bytes);
    saved[me] = whole;
  }
}

static void save_and_damage(const struct shape *shape) {
  static struct world world;
  struct cut cut = {.reference = NULL};
  struct mr_saved saved[WORLD_NODES];
  uint64_t refused = 0, taken = 0;
  world_create(&world, shape, setting("MARU_DSM_SEED", 1));
  write_programs(&world);
  while (world_step(&world))
    ;
  world_cut(&world, &cut);
  for (uint16_t i = 0; i < shape->nodes; i++)
    saved[i] = (struct mr_saved){cut.nodes[i].bytes, cut.nodes[i].length};
  for (uint16_t i = 0; i < shape->nodes; i++)
    CHECK_EQUAL(load(&world, i, saved, &cut), 0);
  struct mr_saved swapped[] = {saved[1], saved[0], saved[2], saved[3]};
  CHECK_EQUAL(load(&world, 0, swapped, &cut), -EBADMSG);
  for (uint32_t n = DAMAGES * (uint32_t)setting("MARU_TEST_SCALE", 1); n > 0; n--) {
    uint16_t whose = (uint16_t)world_random(&world, 4);
    uint16_t me = shape->replays ? whose : (uint16_t)world_random(&world, 4);
    struct mr_saved whole = saved[whose];
    uint8_t *bytes = cut.nodes[whose].bytes;
    saved[whose].length = damage(&world, &bytes, whole.length);
    saved[whose].bytes = bytes;
    int rc = load(&world, me, saved, &cut);
    CHECK(rc == 0 || rc == -EBADMSG || (rc == -EPROTO && shape->replays));
    CHECK(rc < 0 || saved[whose].length == whole.length);
    refused += rc < 0;
    taken += rc == 0;
    free(bytes);
    saved[whose] = whole;
  }
  printf("%llu refused, %llu taken\n", (unsigned long long)refused, (unsigned long long)taken);
  CHECK(refused > 1000);
  if (shape->replays)
    damage_all(&world, saved, &cut);
  world_cut_free(&cut);
  world_destroy(&world);
}

int main(void) {
  struct shape shape = {
      .nodes = 4, .pages = PAGES, .home_run = 1, .objects = OBJECTS, .survives = true};
  save_and_damage(&shape);
  /* From its own bytes alone, with what it has learnt. */
  shape.replays = shape.prefetch = true;
  save_and_damage(&shape);
  return 0;
}
