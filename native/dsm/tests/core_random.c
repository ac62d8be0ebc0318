/* Description: random programs without data races see sequential consistency,
 * whatever the order in which messages come.
 *
 * Nodes differ in how they answer fetches.  A program has phases between barriers.  In each phase
 * each variable (1 to 8 bytes; several share blocks and pages) is guarded by a lock, or one node's
 * own, or only read. Or it is handed from one node to others by a semaphore, a flag or a condition.
 */
#include "world.h"

#include "../message.h"
#include "check.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SCHEDULES 1500u
#else
#define SCHEDULES 40000u
#endif

#define VARIABLES 14
#define PHASES 3
#define PHASES_MOST 8
#define LOCKS 3
/* Object ids: locks, then barrier, counter, the lock of the conditions, then one per
 * phase and variable. */
#define BARRIER_ID LOCKS
#define COUNTER_ID (LOCKS + 1)
#define GATE_ID (LOCKS + 2)
#define HANDED_ID (LOCKS + 3)
#define OBJECTS (HANDED_ID + PHASES_MOST * VARIABLES)

/* Far from the variables: a byte per phase and variable that says it was handed over. */
#define SIGNS 2048u

enum role { GUARDED, OWNED, CONSTANT, HANDED, ROLES };
enum way { BY_SEMAPHORE, BY_FLAG, BY_CONDITION, WAYS };

struct variable {
  uint32_t address;
  uint8_t length;
  enum role role; /* in the phase that is being written */
  uint16_t node;  /* the owner, or who hands it over */
  uint16_t to;    /* HANDED by a semaphore: to whom; otherwise to all others */
  enum way way;
  uint32_t lock;
};

struct plan {
  struct world *world;
  struct variable variables[VARIABLES];
  uint64_t random; /* of the program; the schedule has its own */
  uint32_t phases;
  bool alike; /* each variable has one role throughout: nodes get habits */
};

static uint32_t draw(struct plan *plan, uint32_t bound) {
  return (uint32_t)((next_random(&plan->random) >> 32) % bound);
}

static void place(struct plan *plan) {
  uint32_t next[8] = {0};
  /* From a page's beginning or its end. */
  uint32_t backward = draw(plan, 256);
  for (int v = 0; v < VARIABLES; v++) {
    uint32_t page = draw(plan, plan->world->shape.pages);
    uint8_t length = (uint8_t)(1 + draw(plan, 8));
    next[page] += draw(plan, 4);
    uint32_t at = backward >> page & 1 ? MR_PAGE - next[page] - length : next[page];
    plan->variables[v] = (struct variable){.address = page * MR_PAGE + at, .length = length};
    next[page] += length;
  }
}

static void cast(struct plan *plan) {
  uint16_t nodes = plan->world->shape.nodes;
  for (int v = 0; v < VARIABLES; v++) {
    struct variable *variable = &plan->variables[v];
    variable->role = (enum role)draw(plan, ROLES);
    variable->node = (uint16_t)draw(plan, nodes);
    variable->lock = draw(plan, LOCKS);
    variable->way = (enum way)draw(plan, WAYS);
    variable->to = (uint16_t)((variable->node + 1 + draw(plan, nodes - 1u)) % nodes);
  }
}

/* Few values: bytes are often written with what they had, or written back. */
static int64_t value(struct plan *plan) {
  return draw(plan, 2) != 0 ? draw(plan, 3) * INT64_C(0x0101010101010101)
                            : (int64_t)next_random(&plan->random);
}

static void look(struct plan *plan, struct program *program, const struct variable *v) {
  emit(program, read_of((uint8_t)draw(plan, 4), v->address, v->length));
}

static void change(struct plan *plan, struct program *program, const struct variable *v) {
  uint8_t reg = (uint8_t)draw(plan, 4);
  if (draw(plan, 2) != 0) {
    emit(program, read_of(reg, v->address, v->length));
    emit(program, add_of(reg, 1 + draw(plan, 300)));
  } else {
    emit(program, set_of(reg, value(plan)));
  }
  emit(program, write_of(reg, v->address, v->length));
}

static void use(struct plan *plan, struct program *program, const struct variable *v) {
  for (uint32_t n = 1 + draw(plan, 2); n > 0; n--)
    if (draw(plan, 3) == 0)
      look(plan, program, v);
    else
      change(plan, program, v);
}

static void section(struct plan *plan, struct program *program, uint32_t lock) {
  uint32_t refused = UINT32_MAX;
  if (draw(plan, 4) == 0) {
    /* A trial that may fail; then the section is left out. */
    emit(program, sync_of(MR_TRY, lock, 0));
    refused = emit(program, jump_zero(REGISTERS - 1, 0));
  } else {
    emit(program, lock_of(lock));
  }
  for (int v = 0; v < VARIABLES; v++)
    if (plan->variables[v].role == GUARDED && plan->variables[v].lock == lock && draw(plan, 2) != 0)
      use(plan, program, &plan->variables[v]);
  /* One lock inside another, in the order of their numbers. */
  if (lock + 1 < LOCKS && draw(plan, 4) == 0)
    section(plan, program, lock + 1);
  emit(program, unlock_of(lock));
  if (refused != UINT32_MAX)
    program->code[refused].id = program->length;
}

static uint32_t handed_id(const struct plan *plan, const struct variable *v, uint32_t phase) {
  return HANDED_ID + phase * VARIABLES + (uint32_t)(v - plan->variables);
}

static void show_sign(struct plan *plan, struct program *program, uint32_t id) {
  bool first = draw(plan, 2) != 0;
  emit(program, lock_of(GATE_ID));
  emit(program, set_of(6, 1));
  emit(program, write_of(6, SIGNS + id, 1));
  if (first)
    emit(program, sync_of(MR_BROADCAST, id, 0));
  emit(program, unlock_of(GATE_ID));
  if (!first)
    emit(program, sync_of(MR_BROADCAST, id, 0));
}

/* while (no sign) wait(condition) */
static void await_sign(struct program *program, uint32_t id) {
  emit(program, lock_of(GATE_ID));
  uint32_t again = emit(program, read_of(6, SIGNS + id, 1));
  uint32_t branch = emit(program, jump_zero(6, 0));
  uint32_t done = emit(program, jump(0));
  uint32_t wait = emit(program, sync_of(MR_CONDITION, id, GATE_ID));
  emit(program, jump(again));
  /* Emitting may move the code. */
  uint32_t leave = emit(program, unlock_of(GATE_ID));
  program->code[branch].id = wait;
  program->code[done].id = leave;
}

static void hand_over(struct plan *plan, struct program *program, const struct variable *v,
                      uint32_t phase) {
  uint32_t id = handed_id(plan, v, phase);
  use(plan, program, v);
  if (v->way == BY_CONDITION)
    show_sign(plan, program, id);
  else
    emit(program, v->way == BY_FLAG ? sync_of(MR_FLAG_SET, id, 5) : sync_of(MR_POST, id, 1));
}

/* After a semaphore one may do anything, otherwise everybody who waited may read. */
static void take_over(struct plan *plan, struct program *program, const struct variable *v,
                      uint32_t phase) {
  uint32_t id = handed_id(plan, v, phase);
  if (v->way == BY_CONDITION)
    await_sign(program, id);
  else
    emit(program, v->way == BY_FLAG ? sync_of(MR_FLAG_AWAIT, id, 5) : sync_of(MR_WAIT, id, 0));
  if (v->way == BY_SEMAPHORE)
    use(plan, program, v);
  else
    look(plan, program, v);
}

static void handed(struct plan *plan, uint16_t node, uint32_t phase) {
  struct program *program = &plan->world->nodes[node].program;
  for (int n = 0; n < VARIABLES; n++) {
    const struct variable *v = &plan->variables[n];
    if (v->role != HANDED)
      continue;
    if (v->node == node)
      hand_over(plan, program, v, phase);
    else if (v->way != BY_SEMAPHORE || node == v->to)
      take_over(plan, program, v, phase);
  }
}

static void act(struct plan *plan, uint16_t node) {
  struct program *program = &plan->world->nodes[node].program;
  const struct variable *v = &plan->variables[draw(plan, VARIABLES)];
  if (v->role == GUARDED)
    section(plan, program, v->lock);
  else if (v->role == OWNED && v->node == node)
    use(plan, program, v);
  else if (v->role == CONSTANT)
    look(plan, program, v);
  else if (draw(plan, 4) == 0)
    emit(program, sync_of(MR_FETCH_ADD, COUNTER_ID, draw(plan, 5)));
}

/* Every node hands and takes in the order of the variables, and holds no lock
 * meanwhile: nobody waits in a circle. */
static void write_programs(struct plan *plan) {
  uint16_t nodes = plan->world->shape.nodes;
  for (uint32_t phase = 0; phase < plan->phases; phase++) {
    if (phase == 0 || !plan->alike)
      cast(plan);
    for (uint16_t node = 0; node < nodes; node++) {
      struct program *program = &plan->world->nodes[node].program;
      for (uint32_t n = draw(plan, 5); n > 0; n--)
        act(plan, node);
      handed(plan, node, phase);
      for (uint32_t n = draw(plan, 5); n > 0; n--)
        act(plan, node);
      emit(program, sync_of(MR_BARRIER, BARRIER_ID, nodes));
    }
  }
  for (uint16_t node = 0; node < nodes; node++)
    for (int v = 0; v < VARIABLES; v++)
      look(plan, &plan->world->nodes[node].program, &plan->variables[v]);
}

/* When all is done the homes hold what the reference holds. */
static void check_homes(const struct plan *plan) {
  for (int v = 0; v < VARIABLES; v++) {
    uint32_t address = plan->variables[v].address;
    uint16_t home = world_home(plan->world, address / MR_PAGE);
    CHECK(home < WORLD_NODES);
    CHECK(memcmp(plan->world->nodes[home].memory + address, plan->world->reference + address,
                 plan->variables[v].length) == 0);
  }
}

/* How often happened what is rare; a run that is long enough has seen it. */
static struct mr_core_counters seen;
static uint64_t seen_bereaved; /* nodes that wait since another was lost */
static uint64_t seen_restored; /* worlds that went on from a cut */
static uint64_t seen_repeated; /* nodes that did again what they did since one */
static uint64_t seen_shown;    /* pages that were copied from their homes' memory */

static void count_rare(const struct world *world) {
  seen_shown += world->shown;
  for (uint16_t node = 0; node < world->shape.nodes; node++) {
    if (world->nodes[node].gone)
      continue;
    const struct mr_core_counters *c = mr_core_counters(world->nodes[node].core);
    seen.moved += c->moved;
    seen.foreseen += c->foreseen;
    seen.unused += c->unused;
    seen.passed_on += c->passed_on;
    seen.spared += c->spared;
    seen.given += c->given;
    seen.retaken += c->retaken;
    seen.cleaned += c->cleaned;
    seen.kept += c->kept;
    seen.caught += c->caught;
    seen.kinds[MR_HOLDS].messages += c->kinds[MR_HOLDS].messages;
  }
}

/* One policy for all, or each its own; limits that are met often. */
static void choose_policies(struct plan *plan, struct shape *shape) {
  static const uint32_t gaps[] = {1, 2, 5, 16}, bytes[] = {8, 64, 2048, 4096},
                        batches[] = {1, 2, 64};
  bool mixed = draw(plan, 4) == 0;
  shape->fetch[0] = (enum mr_fetch)draw(plan, MR_FETCH_POLICIES);
  for (uint16_t node = 1; node < shape->nodes; node++)
    shape->fetch[node] = mixed ? (enum mr_fetch)draw(plan, MR_FETCH_POLICIES) : shape->fetch[0];
  shape->limits = (struct mr_fetch_limits){.range_gap = gaps[draw(plan, 4)],
                                           .range_bytes = bytes[draw(plan, 4)],
                                           .batch = batches[draw(plan, 3)],
                                           .part_ns = 1 + draw(plan, 2000)};
  /* Often enough that homes move in so short a run. */
  bool moving = draw(plan, 2) != 0;
  for (uint16_t node = 0; node < shape->nodes; node++)
    shape->homes[node] = moving && !shape->races ? (enum mr_homes)draw(plan, 3) : MR_HOMES_STAY;
  static const uint32_t grants[] = {1, 40, 256};
  shape->grant_bytes = grants[draw(plan, 3)];
  shape->log_bytes = draw(plan, 4) == 0 ? 200 : 0;
  shape->migrate_after = 1 + draw(plan, 2);
  shape->bring = draw(plan, 2) * 8;
  shape->prefetch = draw(plan, 2) != 0;
  shape->log_most = draw(plan, 2) * (1 + draw(plan, 8));
  static const uint32_t copies[] = {0, 0, 2, 1000};
  shape->copies = copies[draw(plan, 4)];
}

static void steps(struct plan *plan) {
  for (uint32_t n = draw(plan, 1000); n > 0 && world_step(plan->world); n--)
    ;
}

/* A node is lost at some event. Every read of the nodes that are left is right. None of their
 * cores takes it for a broken promise or for a job that is stuck. Nothing is said of how far
 * they come: a node that waits in the end is ended by its process. */
static void bereave(struct plan *plan) {
  struct world *world = plan->world;
  steps(plan);
  world_lose(world, (uint16_t)draw(plan, world->shape.nodes));
  while (world_step(world))
    ;
  CHECK(!world->stuck);
  for (uint16_t node = 0; node < world->shape.nodes; node++) {
    const struct node *n = &world->nodes[node];
    seen_bereaved += !n->gone && !n->ended;
  }
}

/* Nodes are lost at some event, some times after each cut. All are, and new ones go on from there,
 * again and again. Or one is, and a new one does again what it did, of which the others hear
 * nothing. Each read is right, and in the end all is done. */
static void survive(struct plan *plan) {
  struct world *world = plan->world;
  for (uint32_t cuts = 1 + draw(plan, 3); cuts > 0; cuts--) {
    struct cut cut = {.reference = NULL};
    steps(plan);
    world_cut(world, &cut);
    for (uint32_t losses = draw(plan, 4); losses > 0; losses--) {
      steps(plan);
      if (world->shape.replays)
        world_repeat(world, &cut, (uint16_t)draw(plan, world->shape.nodes));
      else
        world_restore(world, &cut);
      seen_repeated += world->shape.replays;
      seen_restored += !world->shape.replays;
    }
    world_cut_free(&cut);
  }
  world_run(world);
  check_homes(plan);
}

/* The same, lost at every step of the schedule from the cut to the end. */
static void survive_each(struct plan *plan) {
  struct world *world = plan->world;
  struct cut cut = {.reference = NULL};
  uint64_t most = 0;
  steps(plan);
  world_cut(world, &cut);
  for (bool ended = false; !ended; most++) {
    world_restore(world, &cut);
    world->steps = 0;
    seen_restored++;
    for (uint64_t n = 0; n < most && !ended; n++)
      ended = !world_step(world);
  }
  check_homes(plan);
  world_cut_free(&cut);
}

static void one(uint64_t seed) {
  static struct world world;
  struct plan plan = {.world = &world, .random = seed * UINT64_C(0xd1342543de82ef95) | 1};
  struct shape shape = {.nodes =
                            (uint16_t)(2 + draw(&plan, draw(&plan, 8) != 0 ? 3 : WORLD_NODES - 1)),
                        .pages = 1 + draw(&plan, 4),
                        .home_run = 1 + draw(&plan, 2),
                        .objects = OBJECTS + 1,
                        .stale = true,
                        .looks = draw(&plan, 2) != 0,
                        .races = seed % 4 == 0};
  choose_policies(&plan, &shape);
  plan.alike = shape.prefetch && draw(&plan, 16) == 0;
  plan.phases = plan.alike ? PHASES_MOST : PHASES;
  shape.pages += plan.alike ? 4 : 0;
  uint32_t fate = draw(&plan, 64);
  shape.survives = fate > 48;
  shape.replays = fate > 56;
  shape.copies = shape.replays ? 0 : shape.copies;
  shape.races &= !shape.replays;
  shape.unseen = !shape.survives && seed % 4 == 2;
  shape.cleans = shape.survives || seed % 8 == 5 ? 2 + (uint32_t)(seed % 16) : 0;
  world_create(&world, &shape, seed);
  place(&plan);
  write_programs(&plan);
  if (fate == 0) {
    /* All nodes vanish at some event; nothing may be left (address sanitizer). */
    steps(&plan);
  } else if (fate <= 8) {
    bereave(&plan);
  } else if (shape.survives && !shape.replays && seed % 64 == 1) {
    survive_each(&plan);
  } else if (shape.survives) {
    survive(&plan);
  } else {
    world_run(&world);
    check_homes(&plan);
  }
  count_rare(&world);
  world_destroy(&world);
}

int main(void) {
  uint64_t seed = setting("MARU_DSM_SEED", 1);
  uint64_t schedules = setting("MARU_DSM_SCHEDULES", SCHEDULES * setting("MARU_TEST_SCALE", 1));
  for (uint64_t i = 0; i < schedules; i++)
    one(seed + i);
  printf("%llu schedules from seed %llu; %llu homes moved, %llu messages passed on, %llu copies "
         "renewed, %llu pages copied, %llu nodes bereaved, %llu worlds restored, %llu nodes "
         "repeated, %llu pages given while they were written, %llu pages unasked, %llu in vain, "
         "%llu nodes cleaned, %llu granted meanwhile\n",
         (unsigned long long)schedules, (unsigned long long)seed, (unsigned long long)seen.moved,
         (unsigned long long)seen.passed_on, (unsigned long long)seen.spared,
         (unsigned long long)seen_shown, (unsigned long long)seen_bereaved,
         (unsigned long long)seen_restored, (unsigned long long)seen_repeated,
         (unsigned long long)seen.caught, (unsigned long long)seen.foreseen,
         (unsigned long long)seen.unused, (unsigned long long)seen.cleaned,
         (unsigned long long)seen.kept);
  if (schedules >= 1000)
    CHECK(seen.moved > 0 && seen.passed_on > 0 && seen.spared > 0 && seen_bereaved > 0 &&
          seen_shown > 0 && seen_restored > 0 && seen_repeated > 0 && seen.given > 0 &&
          seen.retaken > 0 && seen.cleaned > 0 && seen.kept > 0 && seen.caught > 0 &&
          seen.kinds[MR_HOLDS].messages > 0);
  if (schedules >= 20000)
    CHECK(seen.foreseen > 0);
  return 0;
}
