/* Over 500 lines: the sink, the schedule and the cuts share what a world is made of. */
#include "world.h"

#include "../races.h"
#include "../save.h"

#include "../message.h"
#include "check.h"

#define STEPS_MAX 2000000u
/* In which nodes that stand are asked for what they have of their own. */
#define ROUNDS_MAX 10000u
/* What the shortest message takes, where time is what messages take. */
#define LATENCY_NS 1000u

uint32_t emit(struct program *program, struct instruction instruction) {
  if (program->length == program->capacity) {
    program->capacity = program->capacity != 0 ? 2 * program->capacity : 64;
    program->code = realloc(program->code, program->capacity * sizeof instruction);
    CHECK(program->code != NULL);
  }
  program->code[program->length] = instruction;
  return program->length++;
}

uint32_t world_random(struct world *world, uint32_t bound) {
  return (uint32_t)((next_random(&world->random) >> 32) % bound);
}

uint16_t world_home(const struct world *world, uint32_t page) {
  uint16_t home = WORLD_NODES, homes = 0;
  for (uint16_t node = 0; node < world->shape.nodes; node++)
    if (!world->nodes[node].gone && mr_core_home(world->nodes[node].core, page) == node) {
      home = node;
      homes++;
    }
  /* None: while its home is moving. */
  CHECK(homes <= 1);
  return home;
}

#define TRACE(world, ...)                                                                          \
  do {                                                                                             \
    if ((world)->trace)                                                                            \
      fprintf(stderr, __VA_ARGS__);                                                                \
  } while (0)

/* ---- the sink -------------------------------------------------------------- */

static void on_send(void *context, uint16_t to, const void *bytes, size_t length) {
  struct node *node = context;
  CHECK(to < node->world->shape.nodes && to != node->number);
  if (node->world->shape.replays)
    repeated_sends(node, to, bytes, length);
  if (node->repeats)
    return;
  if (node->world->nodes[to].gone)
    return;
  if (((const uint8_t *)bytes)[offsetof(struct mr_header, type)] == MR_PAGE_COPY)
    node->world->copied[node->number][to] += length;
  struct channel *channel = &node->world->channels[node->number][to];
  struct message *message = malloc(sizeof *message + length);
  CHECK(message != NULL);
  *message = (struct message){.from = node->number, .to = to, .length = length};
  memcpy(message->bytes, bytes, length);
  *channel->tail = message;
  channel->tail = &message->next;
}

static void on_protect(void *context, uint32_t page, uint32_t count, enum mr_access access) {
  struct node *node = context;
  CHECK(count > 0 && page < node->world->shape.pages && count <= node->world->shape.pages - page);
  for (uint32_t p = page; p < page + count; p++)
    node->mapped[p] = access;
  TRACE(node->world, "  node %u: pages %u + %u access %d\n", node->number, page, count, access);
}

static uint64_t on_now(void *context) {
  struct world *world = ((struct node *)context)->world;
  if (world->shape.ns_per_kib == NULL)
    world->now += world_random(world, 4) == 0 ? world_random(world, 100000) : 1;
  return world->now;
}

static void on_done(void *context, int64_t result) {
  struct node *node = context;
  CHECK(node->waits);
  node->waits = false;
  if (node->result != NULL)
    *node->result = result;
}

static void on_failed(void *context, int error, const char *why) {
  struct node *node = context;
  TRACE(node->world, "  node %u: stopped: %s\n", node->number, why);
  node->world->failure = error;
  if (!node->world->shape.stumble) {
    fprintf(stderr, "node %u stopped: %s: %s\n", node->number, why, strerror(-error));
    CHECK(!"a core may stop");
  }
}

/* Said when it is so, and of what is so.  What a node sends home while it waits moves nobody. */
static void on_stuck(void *context, const struct mr_wait *waits) {
  struct world *world = ((struct node *)context)->world;
  for (uint16_t i = 0; i < world->shape.nodes; i++) {
    CHECK(world_waits(&world->nodes[i]) && waits[i].waits);
    for (uint16_t j = 0; j < world->shape.nodes; j++)
      CHECK(world->channels[i][j].head == NULL || world->shape.cleans != 0);
  }
  memcpy(world->waits, waits, world->shape.nodes * sizeof *waits);
  world->stuck = true;
}

/* Out of memory that its owner shows. */
static int on_copy(void *context, uint16_t home, uint32_t page, void *bytes, uint64_t *version) {
  struct world *world = ((struct node *)context)->world;
  struct node *from = &world->nodes[home];
  size_t at = (size_t)page * MR_PAGE;
  CHECK(home < world->shape.nodes && from != context && (uintptr_t)bytes % 64 == 0);
  if (from->shown == NULL || from->gone || world_random(world, world->shape.copies) == 0)
    return -ENXIO;
  int rc = mr_shown_copy(&from->shown[page], from->memory + at, from->twins + at, bytes, version);
  world->shown += rc == 0;
  return rc;
}

static const void *on_gives(void *context, uint32_t page, const void *memory) {
  return repeated_gives(context, page, memory);
}

static void on_locked(void *context, uint32_t id, uint16_t giver, bool behind, uint64_t ns) {
  struct node *node = context;
  (void)id;
  (void)ns;
  CHECK(giver < node->world->shape.nodes && !(behind && giver == node->number));
  node->giver = giver;
  node->behind = behind;
}

static const struct mr_core_sink sink = {.send = on_send,
                                         .protect = on_protect,
                                         .done = on_done,
                                         .failed = on_failed,
                                         .now = on_now,
                                         .stuck = on_stuck,
                                         .copy = on_copy,
                                         .gives = on_gives,
                                         .locked = on_locked,
                                         .unlock = latched_unlock,
                                         .apart = latched_apart};

/* ---- life -------------------------------------------------------------------- */

static uint8_t *pages_of(const struct shape *shape) {
  uint8_t *bytes = aligned_alloc(MR_PAGE, (size_t)shape->pages * MR_PAGE);
  CHECK(bytes != NULL);
  memset(bytes, 0, (size_t)shape->pages * MR_PAGE);
  return bytes;
}

/* The programs have none. */
static void on_race(void *context, uint32_t page, uint32_t first, uint32_t last, uint16_t one,
                    uint16_t other) {
  (void)context;
  fprintf(stderr, "page %u, bytes %u to %u, nodes %u and %u\n", page, first, last, one, other);
  CHECK(!"a race is seen where there is none");
}

void world_make_core(struct world *world, uint16_t number) {
  uint32_t incarnations[WORLD_NODES];
  struct node *node = &world->nodes[number];
  for (uint32_t i = 0; i < WORLD_NODES; i++)
    incarnations[i] = 100 + i;
  *node = (struct node){.world = world,
                        .number = number,
                        .memory = pages_of(&world->shape),
                        .twins = pages_of(&world->shape)};
  node->mapped = calloc(world->shape.pages, sizeof *node->mapped);
  CHECK(node->mapped != NULL);
  if (world->shape.copies != 0)
    CHECK((node->shown = calloc(world->shape.pages, sizeof *node->shown)) != NULL);
  if (world->shape.races)
    CHECK_EQUAL(
        mr_races_create(&node->races, world->shape.pages, world->shape.nodes, on_race, NULL), 0);
  struct mr_core_config config = {.nodes = world->shape.nodes,
                                  .me = number,
                                  .pages = world->shape.pages,
                                  .home_run = world->shape.home_run,
                                  .objects = world->shape.objects,
                                  .epoch = world->epoch,
                                  .incarnations = incarnations,
                                  .fetch = world->shape.fetch[number],
                                  .homes = world->shape.homes[number],
                                  .limits = world->shape.limits,
                                  .migrate_after = world->shape.migrate_after,
                                  .prefetch = world->shape.prefetch,
                                  .grant_bytes = world->shape.grant_bytes,
                                  .log_bytes = world->shape.log_bytes,
                                  .log_most = world->shape.log_most,
                                  .replays = world->shape.replays,
                                  .unseen = world->shape.unseen,
                                  .races = node->races,
                                  .shown = node->shown,
                                  .memory = node->memory,
                                  .twins = node->twins,
                                  .sink = &sink,
                                  .context = node};
  CHECK_EQUAL(mr_core_create(&node->core, &config), 0);
  if (world->shape.latches)
    mr_core_locks_apart(node->core);
}

void world_create(struct world *world, const struct shape *shape, uint64_t seed) {
  static const uint32_t weights[] = {1, 1, 4, 16, 64};
  snprintf(check_note, sizeof check_note, "(again: MARU_DSM_SEED=%llu MARU_DSM_SCHEDULES=1)",
           (unsigned long long)seed);
  memset(world, 0, sizeof *world);
  world->shape = *shape;
  world->random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
  world->epoch = 7;
  world->trace = getenv("MARU_DSM_TRACE") != NULL;
  world->reference = pages_of(shape);
  if (shape->latches)
    CHECK((world->latches = aligned_alloc(64, shape->objects * sizeof *world->latches)) != NULL);
  for (uint32_t i = 0; shape->latches && i < shape->objects; i++)
    world->latches[i] = (struct mr_latch){0};
  for (uint16_t i = 0; i < shape->nodes; i++)
    world_make_core(world, i);
  for (uint16_t i = 0; i < shape->nodes; i++) {
    world->weights[i] = weights[world_random(world, 5)];
    for (uint16_t j = 0; j < shape->nodes; j++)
      world->channels[i][j] = (struct channel){.tail = &world->channels[i][j].head,
                                               .weight = weights[world_random(world, 5)]};
  }
}

static void drop(struct channel *channel) {
  for (struct message *m = channel->head, *next; m != NULL; m = next) {
    next = m->next;
    free(m);
  }
}

void world_drop_core(struct node *node) {
  if (!node->gone)
    mr_core_destroy(node->core);
  if (node->races != NULL)
    mr_races_destroy(node->races);
  free(node->memory);
  free(node->twins);
  free(node->shown);
  free(node->mapped);
  free(node->stamps);
  free(node->stamped);
}

void world_destroy(struct world *world) {
  for (uint16_t i = 0; i < world->shape.nodes; i++) {
    struct node *node = &world->nodes[i];
    world_drop_core(node);
    free(node->program.code);
    repeated_forget(node);
    for (uint16_t j = 0; j < world->shape.nodes; j++)
      drop(&world->channels[i][j]);
  }
  free(world->reference);
  free(world->latches);
}

void world_lose(struct world *world, uint16_t number) {
  struct node *lost = &world->nodes[number];
  mr_core_destroy(lost->core);
  lost->gone = true;
  for (uint16_t other = 0; other < world->shape.nodes; other++) {
    struct channel *to = &world->channels[other][number], *from = &world->channels[number][other];
    drop(to);
    *to = (struct channel){.tail = &to->head, .weight = to->weight};
    struct message **last = &from->head;
    while (*last != NULL && world_random(world, 4) != 0)
      last = &(*last)->next;
    struct channel never = {.head = *last};
    *last = NULL;
    from->tail = last;
    drop(&never);
  }
}

/* ---- one step ------------------------------------------------------------------ */

static void wrong_read(const struct node *node, const struct instruction *i, int64_t found,
                       int64_t expected) {
  fprintf(stderr, "node %u, instruction %u: %u bytes at %u are %llx, not %llx\n", node->number,
          node->next, i->length, i->address, (unsigned long long)found,
          (unsigned long long)expected);
  CHECK(!"a read sees the last write before it");
}

/* A request has been made; only a core that stops meanwhile does not take it. */
static void begun(const struct node *node, int rc) {
  CHECK_EQUAL(rc, node->world->failure != 0 ? -ECANCELED : 0);
}

/* False: the access needs the core first. */
static bool may(struct node *node, uint32_t page, enum mr_access needed) {
  if (node->mapped[page] >= needed)
    return true;
  node->waits = true;
  node->result = NULL;
  repeated_request(node, needed == MR_READ ? READ : WRITE, page, 0, 0);
  begun(node, needed == MR_READ ? mr_core_read(node->core, page) : mr_core_write(node->core, page));
  return false;
}

/* Now and then somebody says what it will access next. */
static uint32_t says_beforehand(struct node *node, uint32_t page) {
  struct world *world = node->world;
  if (node->repeats)
    return repeated_brings(node);
  if (world->shape.bring == 0 || world_random(world, world->shape.bring) != 0)
    return 0;
  return 1 + world_random(world, world->shape.pages - page);
}

static bool bring(struct node *node, uint32_t page, bool write) {
  uint32_t count = says_beforehand(node, page);
  if (count == 0)
    return false;
  node->waits = true;
  node->result = NULL;
  repeated_request(node, BRINGS, page, count, write);
  begun(node, mr_core_bring(node->core, page, count, write));
  return true;
}

/* Whether the node accesses it in this step. */
static bool begins_access(struct node *node, const struct instruction *i) {
  uint32_t page = i->address / MR_PAGE;
  bool write = i->code == WRITE;
  if (!node->said &&
      (bring(node, page, write) || !may(node, page, write ? MR_READ_WRITE : MR_READ)))
    return false;
  node->said = node->world->shape.unseen && !node->said;
  return !node->said;
}

static bool touch(struct node *node, const struct instruction *i) {
  uint32_t page = i->address / MR_PAGE;
  int64_t expected = 0, *reg = &node->registers[i->reg];
  if (!begins_access(node, i))
    return false;
  CHECK(mr_core_access(node->core, page) >= node->mapped[page]);
  if (i->code == WRITE) {
    memcpy(node->memory + i->address, reg, i->length);
    node->writes++;
    if (!node->repeats) /* others may have written since */
      memcpy(node->world->reference + i->address, reg, i->length);
    return true;
  }
  *reg = 0;
  memcpy(reg, node->memory + i->address, i->length);
  memcpy(&expected, node->world->reference + i->address, i->length);
  if (i->code == READ && *reg != expected && !node->repeats)
    wrong_read(node, i, *reg, expected);
  return true;
}

static bool locks(enum mr_op op) {
  return op == MR_LOCK || op == MR_UNLOCK || op == MR_TRY || op == MR_CONDITION;
}

static void synchronise(struct node *node, const struct instruction *i) {
  if (node->world->shape.latches && locks((enum mr_op)i->op)) {
    latched_begin(node, i);
    return;
  }
  node->waits = true;
  node->result = &node->registers[i->reg];
  repeated_request(node, SYNC, i->id, i->value,
                   i->op == MR_COMPARE_SWAP ? node->registers[i->address] : i->op);
  begun(node, i->op == MR_COMPARE_SWAP
                  ? mr_core_swap(node->core, i->id, node->registers[i->address], i->value)
                  : mr_core_sync(node->core, (enum mr_op)i->op, i->id, i->value));
}

/* On the way to a cut: before its next operation what it wrote goes home, then it stops. */
static bool parks(struct node *node) {
  const struct instruction *i = &node->program.code[node->next];
  bool over = node->next == node->program.length || i->code == END || i->code == SYNC;
  if (!node->world->parking || !over)
    return false;
  node->parked = node->fenced;
  if (node->fenced)
    return true;
  node->fenced = node->waits = true;
  node->result = NULL;
  begun(node, mr_core_sync(node->core, MR_FETCH_ADD, node->world->shape.objects - 1, 0));
  return true;
}

void world_run_instruction(struct node *node) {
  node->ran++;
  if (parks(node) || latched_step(node))
    return;
  const struct instruction *i = &node->program.code[node->next];
  if (node->next == node->program.length || i->code == END) {
    node->ended = true;
    return;
  }
  TRACE(node->world, "node %u @%u: code %u op %u id %u address %u reg %u=%lld value %lld\n",
        node->number, node->next, i->code, i->op, i->id, i->address, i->reg,
        (long long)node->registers[i->reg], (long long)i->value);
  switch (i->code) {
  case READ:
  case READ_RACY:
  case WRITE:
    node->next += touch(node, i);
    return;
  case SET:
    node->registers[i->reg] = i->value;
    break;
  case ADD:
    node->registers[i->reg] += i->value;
    break;
  case SYNC:
    node->next++;
    synchronise(node, i);
    return;
  case JUMP_ZERO:
    node->next = node->registers[i->reg] == 0 ? i->id : node->next + 1;
    return;
  case JUMP:
    node->next = i->id;
    return;
  case BRINGS:
  case GIVES:
    CHECK(!"no instruction");
  }
  node->next++;
}

/* A message that was sent before a failure, and came late. */
static void deliver_stale(struct world *world, struct message *message) {
  struct mr_header header;
  memcpy(&header, message->bytes, sizeof header);
  struct mr_header kept = header;
  header.epoch -= world_random(world, 2);
  header.incarnation -= header.epoch == kept.epoch;
  memcpy(message->bytes, &header, sizeof header);
  CHECK_EQUAL(mr_core_message(world->nodes[message->to].core, message->from, message->bytes,
                              message->length),
              -ESTALE);
  memcpy(message->bytes, &kept, sizeof kept);
  /* One that was cut off on the way is no message. */
  CHECK_EQUAL(mr_core_message(world->nodes[message->to].core, message->from, message->bytes,
                              world_random(world, (uint32_t)message->length)),
              -EBADMSG);
}

/* What it takes on its way. */
static uint64_t way_ns(const struct world *world, const struct message *message) {
  const uint32_t *ns_per_kib = world->shape.ns_per_kib;
  if (ns_per_kib == NULL)
    return 0;
  return LATENCY_NS +
         message->length * (ns_per_kib[message->from] + ns_per_kib[message->to]) / 1024;
}

static void deliver(struct world *world, struct channel *channel) {
  struct message *message = channel->head;
  channel->head = message->next;
  if (channel->head == NULL)
    channel->tail = &channel->head;
  world->now += way_ns(world, message);
  TRACE(world, "message %u -> %u type %u subject %u\n", message->from, message->to,
        message->bytes[1], *(uint32_t *)(void *)(message->bytes + 12));
  if (world->shape.stale && world_random(world, 16) == 0)
    deliver_stale(world, message);
  repeated_told(&world->nodes[message->to], message->from, message->bytes, message->length);
  int rc = mr_core_message(world->nodes[message->to].core, message->from, message->bytes,
                           message->length);
  if (world->shape.stumble && world->failure == 0)
    world->failure = rc;
  CHECK(rc == 0 || world->shape.stumble);
  free(message);
}

static bool runnable(const struct node *node) {
  return !world_waits(node) && !node->gone && !node->parked &&
         (!node->ended || node->world->parking);
}

/* Nobody who stands still hears of it. */
static void clean(struct node *node) {
  if (node->gone || !(node->parked || (node->waits && node->at_latch == APART)))
    return;
  bool waited = node->waits;
  repeated_cleans(node);
  begun(node, mr_core_clean(node->core));
  CHECK_EQUAL(node->waits, waited);
}

bool world_step(struct world *world) {
  uint16_t nodes = world->shape.nodes;
  uint32_t total = 0;
  for (uint16_t i = 0; i < nodes; i++) {
    total += runnable(&world->nodes[i]) ? world->weights[i] : 0;
    for (uint16_t j = 0; j < nodes; j++)
      total += world->channels[i][j].head != NULL ? world->channels[i][j].weight : 0;
  }
  if (total == 0 || world->failure != 0)
    return false;
  CHECK(world->steps++ < STEPS_MAX);
  if (world->shape.looks && !world->parking && !world->nodes[0].gone &&
      world_random(world, 16) == 0)
    CHECK_EQUAL(mr_core_look(world->nodes[0].core), 0);
  if (world->shape.cleans != 0 && world_random(world, world->shape.cleans) == 0)
    clean(&world->nodes[world_random(world, nodes)]);
  uint32_t ticket = world_random(world, total);
  for (uint16_t i = 0; i < nodes; i++) {
    uint32_t weight = runnable(&world->nodes[i]) ? world->weights[i] : 0;
    if (ticket < weight) {
      world_run_instruction(&world->nodes[i]);
      return true;
    }
    ticket -= weight;
    for (uint16_t j = 0; j < nodes; j++) {
      weight = world->channels[i][j].head != NULL ? world->channels[i][j].weight : 0;
      if (ticket < weight) {
        deliver(world, &world->channels[i][j]);
        return true;
      }
      ticket -= weight;
    }
  }
  return true;
}

void world_run(struct world *world) {
  while (world_step(world))
    ;
  if (world->failure != 0)
    return;
  for (uint16_t i = 0; i < world->shape.nodes; i++)
    if (!world->nodes[i].ended) {
      fprintf(stderr, "node %u hangs at instruction %u\n", i, world->nodes[i].next);
      CHECK(!"every node ends");
    }
}

/* ---- cuts ---------------------------------------------------------------------- */

struct bytes {
  uint8_t *bytes;
  size_t length;
};

static int put(void *context, const void *bytes, size_t length) {
  struct bytes *to = context;
  to->bytes = realloc(to->bytes, to->length + length);
  CHECK(to->bytes != NULL);
  memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
  return 0;
}

struct saving {
  struct node *node;
  struct bytes bytes, pages;
};

static int put_bytes(void *context, const void *bytes, size_t length) {
  return put(&((struct saving *)context)->bytes, bytes, length);
}

/* A stamp that is the page's of the cut before says that these are its bytes. */
static int put_page(void *context, uint32_t page, uint64_t stamp, const uint8_t *bytes) {
  struct saving *saving = context;
  struct node *node = saving->node;
  if (node->stamps == NULL) {
    node->stamps = calloc(node->world->shape.pages, sizeof *node->stamps);
    node->stamped = pages_of(&node->world->shape);
    CHECK(node->stamps != NULL);
  }
  uint8_t *before = node->stamped + (size_t)page * MR_PAGE;
  CHECK(stamp == 0 || stamp != node->stamps[page] || memcmp(before, bytes, MR_PAGE) == 0);
  node->stamps[page] = stamp;
  memcpy(before, bytes, MR_PAGE);
  return put(&saving->pages, bytes, MR_PAGE);
}

const uint8_t *world_saved_page(void *saved_node, size_t number) {
  const struct saved_node *saved = saved_node;
  return number < saved->pages_length / MR_PAGE ? saved->pages + number * MR_PAGE : NULL;
}

static void save_node(struct node *node, struct saved_node *saved) {
  struct saving saving = {.node = node};
  const struct mr_save to = {&saving, put_bytes, put_page};
  CHECK(mr_core_rests(node->core));
  CHECK_EQUAL(mr_core_waits(node->core), node->waits);
  CHECK_EQUAL(mr_core_save(node->core, &to), 0);
  *saved = (struct saved_node){.bytes = saving.bytes.bytes,
                               .length = saving.bytes.length,
                               .pages = saving.pages.bytes,
                               .pages_length = saving.pages.length,
                               .next = node->next,
                               .waits = node->waits,
                               .ended = node->ended,
                               .result = node->result};
  memcpy(saved->registers, node->registers, sizeof saved->registers);
}

/* The nodes that have something of their own are asked for it; whether there was one. */
static bool clean_some(struct world *world) {
  bool some = false;
  for (uint16_t i = 0; i < world->shape.nodes; i++)
    if (!mr_core_rests(world->nodes[i].core)) {
      clean(&world->nodes[i]);
      some = true;
    }
  return some;
}

void world_cut(struct world *world, struct cut *cut) {
  size_t size = (size_t)world->shape.pages * MR_PAGE;
  uint64_t all_sent = 0, all_received = 0;
  world->parking = true;
  while (world_step(world))
    ;
  for (uint32_t rounds = 0; clean_some(world); rounds++) {
    CHECK(rounds < ROUNDS_MAX);
    while (world_step(world))
      ;
  }
  world->parking = false;
  for (uint16_t i = 0; i < world->shape.nodes; i++) {
    uint64_t sent, received;
    mr_core_traffic(world->nodes[i].core, &sent, &received);
    all_sent += sent;
    all_received += received;
    save_node(&world->nodes[i], &cut->nodes[i]);
    world->nodes[i].parked = world->nodes[i].fenced = false;
    if (world->shape.replays) {
      CHECK_EQUAL(mr_core_renew(world->nodes[i].core), 0);
      repeated_forget(&world->nodes[i]);
    }
  }
  CHECK_EQUAL(all_sent, all_received);
  cut->reference = pages_of(&world->shape);
  memcpy(cut->reference, world->reference, size);
}

void world_cut_free(struct cut *cut) {
  for (uint16_t i = 0; i < WORLD_NODES; i++) {
    free(cut->nodes[i].bytes);
    free(cut->nodes[i].pages);
  }
  free(cut->reference);
}

static void restore_node(struct world *world, uint16_t number, struct cut *cut) {
  struct node *node = &world->nodes[number];
  struct saved_node *from = &cut->nodes[number];
  struct mr_saved saved[WORLD_NODES];
  struct program program = node->program;
  for (uint16_t i = 0; i < world->shape.nodes; i++)
    saved[i] = (struct mr_saved){cut->nodes[i].bytes, cut->nodes[i].length};
  world_make_core(world, number);
  node->program = program;
  node->next = from->next;
  node->waits = from->waits;
  node->ended = from->ended;
  node->result = from->result;
  memcpy(node->registers, from->registers, sizeof node->registers);
  CHECK_EQUAL(mr_core_load(node->core, saved, world_saved_page, from), 0);
  CHECK_EQUAL(mr_core_waits(node->core), node->waits);
}

void world_restore(struct world *world, struct cut *cut) {
  uint16_t nodes = world->shape.nodes;
  world->epoch++;
  world->stuck = false;
  memcpy(world->reference, cut->reference, (size_t)world->shape.pages * MR_PAGE);
  for (uint16_t i = 0; i < nodes; i++) {
    world_drop_core(&world->nodes[i]);
    for (uint16_t j = 0; j < nodes; j++) {
      struct channel *channel = &world->channels[i][j];
      drop(channel);
      *channel = (struct channel){.tail = &channel->head, .weight = channel->weight};
    }
  }
  for (uint16_t i = 0; i < nodes; i++)
    restore_node(world, i, cut);
}
