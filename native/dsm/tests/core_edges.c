/* Description: what a core refuses, what its log keeps, how many messages its operations cost. And
 * that no message from outside makes it do what it must not.
 *
 * Over 500 lines: a list of cases, each of which stands alone, over one world.
 */
#include "world.h"

#include "../message.h"
#include "../races.h"
#include "../state.h"
#include "check.h"

#define FUZZ 3000u

static struct world world;

static void open_world(uint16_t nodes, uint32_t pages, uint64_t seed, bool stumble) {
  struct shape shape = {
      .nodes = nodes, .pages = pages, .home_run = 1, .objects = 16, .stumble = stumble};
  world_create(&world, &shape, seed);
}

static struct program *code(int node) { return &world.nodes[node].program; }

/* ---- refusals ---------------------------------------------------------------- */

static void bad_configurations(void) {
  struct mr_core *core;
  static uint32_t incarnations[2];
  struct mr_core_config good = {
      .nodes = 2, .pages = 1, .home_run = 1, .objects = 1, .incarnations = incarnations};
  struct mr_core_config bad = good;
  bad.me = 2;
  CHECK_EQUAL(mr_core_create(&core, &bad), -EINVAL);
  bad = good;
  bad.pages = 0;
  CHECK_EQUAL(mr_core_create(&core, &bad), -EINVAL);
  bad = good;
  bad.nodes = MR_NODES_MAX + 1;
  CHECK_EQUAL(mr_core_create(&core, &bad), -EINVAL);
  bad = good;
  bad.home_run = 0;
  CHECK_EQUAL(mr_core_create(&core, &bad), -EINVAL);
  bad = good;
  bad.objects = UINT32_MAX;
  CHECK_EQUAL(mr_core_create(&core, &bad), -EINVAL);
  bad = good;
  bad.twins = (uint8_t *)(uintptr_t)32;
  CHECK_EQUAL(mr_core_create(&core, &bad), -EINVAL);
  bad = good;
  bad.homes = MR_HOMES_MIGRATE;
  CHECK_EQUAL(mr_races_create(&bad.races, 1, 2, NULL, NULL), 0);
  CHECK_EQUAL(mr_core_create(&core, &bad), -EINVAL);
  mr_races_destroy(bad.races);
  CHECK_EQUAL(mr_core_create(&core, &good), 0);
  mr_core_destroy(core);
}

static void bad_requests(void) {
  open_world(2, 2, 1, false);
  struct mr_core *core = world.nodes[0].core;
  CHECK_EQUAL(mr_core_read(core, 2), -EINVAL);
  CHECK_EQUAL(mr_core_write(core, UINT32_MAX), -EINVAL);
  CHECK_EQUAL(mr_core_sync(core, MR_LOCK, 16, 0), -EINVAL);
  CHECK_EQUAL(mr_core_sync(core, MR_OPS, 0, 0), -EINVAL);
  CHECK_EQUAL(mr_core_sync(core, MR_CONDITION, 1, 16), -EINVAL);
  world.nodes[0].waits = true;
  CHECK_EQUAL(mr_core_sync(core, MR_LOCK, 1, 0), 0); /* managed elsewhere */
  CHECK_EQUAL(mr_core_sync(core, MR_LOCK, 1, 0), -EBUSY);
  CHECK_EQUAL(mr_core_read(core, 0), -EBUSY);
  world_destroy(&world);
}

/* A misuse stops the node that did it, with the reason, wherever the manager is. */
static void misuse(const struct instruction *first, const struct instruction *second, int error) {
  for (uint16_t node = 0; node < 2; node++) {
    open_world(2, 2, 1, true);
    emit(code(node), *first);
    emit(code(node), *second);
    world_run(&world);
    CHECK_EQUAL(world.failure, error);
    CHECK_EQUAL(mr_core_read(world.nodes[node].core, 0), -ECANCELED);
    CHECK_EQUAL(mr_core_message(world.nodes[node].core, (uint16_t)(1 - node), "", 0), -ECANCELED);
    world_destroy(&world);
  }
}

static void misuses(void) {
  struct instruction lock = lock_of(0), unlock = unlock_of(0), other = unlock_of(2),
                     post = sync_of(MR_POST, 0, 1), none = sync_of(MR_BARRIER, 2, 0),
                     many = sync_of(MR_BARRIER, 2, 3), minus = sync_of(MR_POST, 2, -1);
  misuse(&lock, &other, -EPERM);
  misuse(&unlock, &lock, -EPERM);
  misuse(&lock, &lock, -EBUSY);
  misuse(&lock, &post, -EINVAL);
  misuse(&lock, &none, -EINVAL);
  misuse(&lock, &many, -EINVAL);
  misuse(&lock, &minus, -EINVAL);
}

/* ---- locks ---------------------------------------------------------------------- */

static uint64_t sent_by_all(void) {
  uint64_t all = 0;
  for (uint16_t node = 0; node < world.shape.nodes; node++)
    all += mr_core_counters(world.nodes[node].core)->messages;
  return all;
}

/* Messages for so many turns of node 1 alone at a lock of node 0's. */
static uint64_t turns_alone(int turns) {
  open_world(3, 1, 1, false);
  for (int n = 0; n < turns; n++) {
    emit(code(1), lock_of(0));
    emit(code(1), unlock_of(0));
  }
  world_run(&world);
  uint64_t all = sent_by_all();
  world_destroy(&world);
  return all;
}

/* Request, grant and release; the second time request and grant; then nothing.  A trial brings it
 * back, whether its keeper is there or not, and is right. */
static void kept(void) {
  CHECK_EQUAL(turns_alone(1), 3);
  CHECK_EQUAL(turns_alone(2), 5);
  CHECK_EQUAL(turns_alone(100), 5);
  for (int holds = 0; holds < 2; holds++) {
    open_world(3, 1, 1, false);
    for (int n = 0; n < 5; n++) {
      emit(code(1), lock_of(0));
      emit(code(1), set_of(0, 7));
      emit(code(1), write_of(0, 8, 8));
      if (n < 4 || !holds)
        emit(code(1), unlock_of(0));
    }
    for (uint16_t node = 0; node < 3; node++)
      emit(code(node), sync_of(MR_BARRIER, 2, 3));
    struct instruction trial = sync_of(MR_TRY, 0, 0);
    trial.reg = 0;
    emit(code(2), trial);
    emit(code(2), read_of(1, 8, 8));
    world_run(&world);
    CHECK_EQUAL(world.nodes[2].registers[0], !holds);
    CHECK_EQUAL(world.nodes[2].registers[1], 7);
    world_destroy(&world);
  }
}

/* Node 1 holds what it may keep while node 2 tries. Once it gives it back, the next trial succeeds.
 */
static void asked_while_held(void) {
  open_world(3, 1, 1, false);
  for (int n = 0; n < 3; n++) {
    emit(code(1), lock_of(0));
    if (n < 2)
      emit(code(1), unlock_of(0));
  }
  for (int meeting = 0; meeting < 3; meeting++) {
    for (uint16_t node = 1; node < 3; node++)
      emit(code(node), sync_of(MR_BARRIER, 2, 2));
    if (meeting == 1)
      emit(code(1), unlock_of(0));
    struct instruction trial = sync_of(MR_TRY, 0, 0);
    trial.reg = (uint8_t)meeting;
    if (meeting != 1)
      emit(code(2), trial);
  }
  world_run(&world);
  CHECK_EQUAL(world.nodes[2].registers[0], 0);
  CHECK_EQUAL(world.nodes[2].registers[2], 1);
  world_destroy(&world);
}

/* Misuse is seen where it happens, though the manager may not know whose the lock is. */
static void misuse_beside_others(void) {
  for (int again = 0; again < 2; again++) {
    open_world(3, 1, 1, true);
    emit(code(1), lock_of(0));
    for (uint16_t node = 1; node < 3; node++)
      emit(code(node), sync_of(MR_BARRIER, 2, 2));
    emit(code(1), sync_of(MR_WAIT, 4, 0));
    emit(code(1), again ? lock_of(0) : unlock_of(0));
    emit(code(2), again ? lock_of(0) : unlock_of(0));
    while (world_step(&world))
      ;
    CHECK_EQUAL(world.failure, again ? 0 : -EPERM);
    emit(code(0), sync_of(MR_POST, 4, 1));
    world.nodes[0].ended = false;
    while (world_step(&world))
      ;
    CHECK_EQUAL(world.failure, again ? -EBUSY : -EPERM);
    world_destroy(&world);
  }
}

/* Each of a queue's hand-overs is one message: request, name and grant, and one release at last. */
static void handed_over(void) {
  open_world(4, 1, 1, false);
  emit(code(1), lock_of(0));
  for (uint16_t node = 1; node < 4; node++)
    emit(code(node), sync_of(MR_BARRIER, 2, 3));
  for (uint16_t node = 2; node < 4; node++) {
    emit(code(node), lock_of(0));
    emit(code(node), unlock_of(0));
  }
  emit(code(1), sync_of(MR_WAIT, 4, 0));
  emit(code(1), unlock_of(0));
  while (world_step(&world))
    ;
  uint64_t before = sent_by_all();
  CHECK(world.nodes[1].waits && world.nodes[2].waits && world.nodes[3].waits);
  emit(code(0), sync_of(MR_POST, 4, 1));
  world.nodes[0].ended = false;
  world_run(&world);
  /* The semaphore's grant, two of the lock, and the last one's release. */
  CHECK_EQUAL(sent_by_all() - before, 4);
  uint64_t given = 0;
  for (uint16_t node = 0; node < 4; node++)
    given += mr_core_counters(world.nodes[node].core)->given;
  CHECK_EQUAL(given, 2);
  /* Each came right after its giver. */
  uint16_t first = world.nodes[2].giver == 1 ? 2 : 3, second = 5 - first;
  CHECK_EQUAL(world.nodes[first].giver, 1);
  CHECK(world.nodes[first].behind);
  CHECK_EQUAL(world.nodes[second].giver, first);
  CHECK(world.nodes[second].behind);
  CHECK(!world.nodes[1].behind);
  world_destroy(&world);
}

/* ---- the log -------------------------------------------------------------------- */

/* Nodes that exchange one lock and never meet at a barrier: every interval is
 * acquired by all in time, and is dropped. */
static void trimmed(void) {
  enum { TURNS = 400 };
  open_world(3, 2, 5, false);
  uint64_t most = 0, intervals = 0;
  for (int node = 0; node < 3; node++)
    for (int n = 0; n < TURNS; n++) {
      emit(code(node), lock_of(n % 3));
      emit(code(node), read_of(0, 64u * (uint32_t)(n % 3), 8));
      emit(code(node), add_of(0, 1));
      emit(code(node), write_of(0, 64u * (uint32_t)(n % 3), 8));
      emit(code(node), unlock_of(n % 3));
    }
  while (world_step(&world))
    for (int node = 0; node < 3; node++) {
      uint64_t length = mr_core_log_length(world.nodes[node].core);
      most = length > most ? length : most;
    }
  for (int node = 0; node < 3; node++) {
    CHECK(world.nodes[node].ended);
    intervals += mr_core_counters(world.nodes[node].core)->intervals;
  }
  /* While the page's home is alone with it, its intervals are none. */
  CHECK(intervals > 2 * TURNS && intervals <= 3 * TURNS);
  /* How far nodes may be apart is the schedule's choice, but it is not the whole run. */
  CHECK(most < 3 * TURNS / 4);
  world_destroy(&world);
}

/* The longest log while `turns` times every node counts up under lock n, then n + 1:
 * only neighbours ever meet, a node alone itself. */
static uint64_t ring(uint16_t nodes, int turns) {
  uint64_t longest = 0;
  open_world(nodes, nodes, 3, false);
  for (uint16_t node = 0; node < nodes; node++) {
    world.weights[node] = 1;
    for (uint16_t to = 0; to < nodes; to++)
      world.channels[node][to].weight = 1;
    for (int n = 0; n < 2 * turns; n++) {
      uint32_t lock = (node + n % 2u) % nodes;
      emit(code(node), lock_of(lock));
      emit(code(node), read_of(0, 64 * lock, 8));
      emit(code(node), add_of(0, 1));
      emit(code(node), write_of(0, 64 * lock, 8));
      emit(code(node), unlock_of(lock));
    }
  }
  /* A node that has ended hears nothing any more. */
  for (bool all = true; all && world_step(&world);)
    for (uint16_t node = 0; node < nodes; node++) {
      uint64_t length = mr_core_log_length(world.nodes[node].core);
      longest = length > longest ? length : longest;
      all = all && !world.nodes[node].ended;
    }
  world_run(&world);
  world_destroy(&world);
  return longest;
}

static void neighbours(void) {
  for (uint16_t nodes = 1; nodes <= WORLD_NODES; nodes++)
    CHECK(ring(nodes, 300) <= 4u * nodes * nodes);
}

/* The longest log while nodes 0 and 1 exchange a lock, or node 0 posts what nobody waits for.
 * Node 2 `waits` at a barrier meanwhile, or computes.  The page's home is node 2, which does
 * not write: what others write, they tell of. */
static uint64_t longest_beside(bool posts, bool waits, uint32_t turns, uint32_t log_most) {
  uint64_t longest = 0;
  struct shape shape = {.nodes = 3, .pages = 3, .home_run = 1, .objects = 16, .log_most = log_most};
  world_create(&world, &shape, 3);
  for (uint16_t node = 0; node < 3; node++) {
    world.weights[node] = 1;
    for (uint16_t to = 0; to < 3; to++)
      world.channels[node][to].weight = 1;
  }
  emit(code(2), read_of(0, 2 * MR_PAGE, 8));
  if (waits)
    emit(code(2), sync_of(MR_BARRIER, 4, 3));
  while (!world.nodes[2].waits && !world.nodes[2].ended)
    world_step(&world);
  for (uint32_t n = 0; n < turns; n++)
    for (int node = 0; node < (posts ? 1 : 2); node++) {
      if (!posts)
        emit(code(node), lock_of(1));
      emit(code(node), read_of(0, 2 * MR_PAGE, 8));
      emit(code(node), add_of(0, 1));
      emit(code(node), write_of(0, 2 * MR_PAGE, 8));
      emit(code(node), posts ? sync_of(MR_POST, 5, 1) : unlock_of(1));
    }
  for (bool all = false; !all && world_step(&world);) {
    all = true;
    for (uint16_t node = 0; node < 3; node++) {
      uint64_t length = mr_core_log_length(world.nodes[node].core);
      longest = length > longest ? length : longest;
      all = all && world.nodes[node].next == world.nodes[node].program.length;
    }
  }
  /* The node that was silent sees what was written. */
  for (int node = 0; node < 3; node++) {
    if (node < 2 || !waits)
      emit(code(node), sync_of(MR_BARRIER, 4, 3));
    emit(code(node), read_of(0, 2 * MR_PAGE, 8));
    world.nodes[node].ended = false;
  }
  world_run(&world);
  CHECK_EQUAL(world.nodes[2].registers[0], (int64_t)turns * (posts ? 1 : 2));
  world_destroy(&world);
  return longest;
}

static void silent(void) {
  for (int posts = 0; posts < 2; posts++)
    for (int waits = 0; waits < 2; waits++) {
      /* Of the last one the diff may be under way. */
      CHECK(longest_beside(posts, waits, 500, UINT32_MAX) >= 499);
      /* Two rounds of both writers. */
      CHECK(longest_beside(posts, waits, 500, 32) <= 32 * 4);
    }
}

/* The home wrote what was there already, another node wrote elsewhere in the page
 * meanwhile: the home has changed nothing, and tells of nothing. */
static void home_changes_nothing(void) {
  open_world(2, 1, 1, false);
  emit(code(0), set_of(0, 0));
  emit(code(0), write_of(0, 0, 8));
  emit(code(0), sync_of(MR_WAIT, 0, 0));
  emit(code(0), sync_of(MR_BARRIER, 1, 2));
  emit(code(1), set_of(0, 9));
  emit(code(1), write_of(0, 256, 8));
  /* The home writes first. */
  while (world.nodes[0].mapped[0] != MR_READ_WRITE)
    CHECK(world_step(&world));
  emit(code(1), sync_of(MR_POST, 0, 1));
  emit(code(1), sync_of(MR_BARRIER, 1, 2));
  world.nodes[1].ended = false;
  world_run(&world);
  CHECK_EQUAL(mr_core_counters(world.nodes[0].core)->intervals, 0);
  CHECK_EQUAL(mr_core_counters(world.nodes[1].core)->intervals, 1);
  CHECK_EQUAL(mr_core_counters(world.nodes[1].core)->masked, 1);
  world_destroy(&world);
}

/* ---- what it costs ---------------------------------------------------------------- */

static uint64_t messages(void) {
  uint64_t sum = 0;
  for (uint16_t node = 0; node < world.shape.nodes; node++)
    sum += mr_core_counters(world.nodes[node].core)->messages;
  return sum;
}

static void costs_of(uint16_t nodes) {
  uint64_t seed = nodes, n = nodes;
  /* A lock managed elsewhere: ask, grant, give back. */
  open_world(nodes, n, seed, false);
  emit(code(0), lock_of(1));
  emit(code(0), unlock_of(1));
  world_run(&world);
  CHECK_EQUAL(messages(), 3);
  world_destroy(&world);
  /* A barrier: there and back for all but the manager; a dirty page: diff and
   * acknowledgement; a page that has become invalid: request and copy. */
  open_world(nodes, n, seed, false);
  for (int node = 0; node < nodes; node++) {
    emit(code(node), set_of(0, 5));
    emit(code(node), write_of(0, MR_PAGE * ((uint32_t)(node + 1) % nodes), 4));
    emit(code(node), sync_of(MR_BARRIER, 0, nodes));
    emit(code(node), read_of(0, MR_PAGE * ((uint32_t)(node + 2) % nodes), 4));
  }
  world_run(&world);
  uint64_t fetched = nodes > 2 ? 2 * n : 0; /* of two nodes each reads its own home's page */
  CHECK_EQUAL(messages(), 2 * (n - 1) + 2 * n + fetched);
  world_destroy(&world);
}

/* ---- forged ------------------------------------------------------------------------ */

struct forged {
  struct mr_header header;
  uint8_t body[512];
};

/* A message of node 1's. */
static struct forged forged(enum mr_message_type type, uint32_t subject, int64_t value,
                            uint32_t detail) {
  return (struct forged){.header = {.version = MR_MESSAGE_VERSION,
                                    .type = (uint8_t)type,
                                    .from = 1,
                                    .epoch = 7,
                                    .incarnation = 101,
                                    .subject = subject,
                                    .value = value,
                                    .detail = detail}};
}

static void put(struct forged *message, const void *bytes, size_t size) {
  CHECK(message->header.length + size <= sizeof message->body);
  memcpy(message->body + message->header.length, bytes, size);
  message->header.length += (uint32_t)size;
}

static void put_numbers(struct forged *message, uint64_t first, uint64_t second) {
  put(message, &first, sizeof first);
  put(message, &second, sizeof second);
}

/* A floor, and a round of whom the bits of `in` name. */
static void put_progress(struct forged *message, uint64_t floor, uint64_t round, uint64_t in) {
  put_numbers(message, floor, 0);
  put_numbers(message, round, in);
  put_numbers(message, 0, 0);
}

/* Interval `number` of node 1 wrote `page`. */
static void put_interval(struct forged *message, uint64_t number, uint32_t page, uint64_t version) {
  uint16_t node = 1;
  uint32_t count = 1;
  put(message, &node, sizeof node);
  put(message, &number, sizeof number);
  put(message, &count, sizeof count);
  put(message, &page, sizeof page);
  put(message, &version, sizeof version);
}

static int deliver(const struct forged *message) {
  return mr_core_message(world.nodes[0].core, message->header.from, message,
                         sizeof message->header + message->header.length);
}

/* Times of two nodes. */
static struct forged request(enum mr_op op, uint32_t id, uint64_t of0, uint64_t of1) {
  struct forged message = forged(MR_SYNC, id, 0, op);
  put_numbers(&message, of0, of1);
  put_progress(&message, 0, 0, 2);
  return message;
}

/* ---- many nodes --------------------------------------------------------------------- */

#define MANY 130u

static void count_send(void *context, uint16_t to, const void *message, size_t length) {
  (void)to;
  (void)message;
  (void)length;
  ++*(uint32_t *)context;
}
static void no_protect(void *context, uint32_t page, uint32_t count, enum mr_access access) {
  (void)context;
  (void)page;
  (void)count;
  (void)access;
}
static void no_result(void *context, int64_t result) {
  (void)context;
  (void)result;
}
static void no_failure(void *context, int error, const char *why) {
  (void)context;
  (void)error;
  fprintf(stderr, "%s\n", why);
  CHECK(!"a core may stop");
}

/* A store that comes just before the page is protected is part of the interval. */
struct late {
  uint8_t *page;
  bool seen;
};

static void store_late(void *context, uint32_t page, uint32_t count, enum mr_access access) {
  struct late *late = context;
  if (page == 1 && count == 1 && access == MR_READ)
    late->page[100] = 9;
}

static void look_for_it(void *context, uint16_t to, const void *message, size_t length) {
  static struct mr_diff diff;
  static alignas(64) uint8_t page[MR_PAGE];
  struct late *late = context;
  const struct mr_header *header = message;
  CHECK_EQUAL(to, 1);
  CHECK_EQUAL(header->type, MR_DIFF);
  CHECK_EQUAL(mr_diff_unpack(&diff, header + 1, length - sizeof *header), 0);
  mr_diff_code(MR_DIFF_SCALAR)->apply(&diff, page);
  CHECK(page[0] == 1 && page[100] == 9);
  late->seen = true;
}

static void late_store(void) {
  static const struct mr_core_sink sink = {
      .send = look_for_it, .protect = store_late, .done = no_result, .failed = no_failure};
  static alignas(64) uint8_t memory[2 * MR_PAGE], twins[2 * MR_PAGE];
  static uint32_t incarnations[2];
  struct late late = {.page = memory + MR_PAGE};
  struct mr_core *core;
  struct mr_core_config config = {.nodes = 2,
                                  .pages = 2,
                                  .home_run = 1,
                                  .objects = 1,
                                  .incarnations = incarnations,
                                  .memory = memory,
                                  .twins = twins,
                                  .sink = &sink,
                                  .context = &late};
  CHECK_EQUAL(mr_core_create(&core, &config), 0);
  CHECK_EQUAL(mr_core_write(core, 1), 0);
  memory[MR_PAGE] = 1;
  CHECK_EQUAL(mr_core_sync(core, MR_POST, 0, 1), 0);
  CHECK(late.seen);
  mr_core_destroy(core);
}

/* Shows a page of that version, and counts what the core asks for instead. */
struct old_home {
  uint64_t version;
  uint32_t asked;
};

static void count_fetch(void *context, uint16_t to, const void *message, size_t length) {
  struct old_home *home = context;
  const struct mr_header *header = message;
  (void)length;
  CHECK(to == 1 && header->type == MR_FETCH);
  home->asked++;
}

static int copy_old(void *context, uint16_t home, uint32_t page, void *bytes, uint64_t *version) {
  struct old_home *shows = context;
  CHECK(home == 1 && page == 1);
  memset(bytes, 7, MR_PAGE);
  *version = shows->version;
  return 0;
}

static void ignore_result(void *context, int64_t result) { (void)context, (void)result; }

static void ignore_rights(void *context, uint32_t page, uint32_t count, enum mr_access access) {
  (void)context, (void)page, (void)count, (void)access;
}

/* News of version 2 of page 1: what shows an older one has to be asked. */
static void old_copy(uint64_t version, uint32_t asked) {
  static const struct mr_core_sink sink = {.send = count_fetch,
                                           .protect = ignore_rights,
                                           .done = ignore_result,
                                           .failed = no_failure,
                                           .copy = copy_old};
  static alignas(64) uint8_t memory[2 * MR_PAGE], twins[2 * MR_PAGE];
  static uint32_t incarnations[2];
  struct old_home home = {.version = version};
  struct mr_core *core;
  struct mr_core_config config = {.nodes = 2,
                                  .pages = 2,
                                  .home_run = 1,
                                  .objects = 2,
                                  .incarnations = incarnations,
                                  .memory = memory,
                                  .twins = twins,
                                  .sink = &sink,
                                  .context = &home};
  struct mr_notice notice = {.version = 2, .page = 1};
  CHECK_EQUAL(mr_core_create(&core, &config), 0);
  memory[MR_PAGE] = 0;
  mr_invalidate(core, &notice);
  CHECK_EQUAL(mr_core_read(core, 1), 0);
  CHECK_EQUAL(home.asked, asked);
  CHECK_EQUAL(memory[MR_PAGE], asked == 0 ? 7 : 0);
  mr_core_destroy(core);
}

/* All others arrive at the barrier that node 0 manages: they have acquired `acquired`
 * intervals of its, and are in `round`. */
static void arrive(struct mr_core *core, uint64_t acquired, uint64_t round) {
  for (uint16_t node = 1; node < MANY; node++) {
    struct {
      struct mr_header header;
      uint64_t time[MANY], floor[MANY], round, in[3], least[MANY];
    } message = {.header = forged(MR_SYNC, 0, MANY, MR_BARRIER).header};
    message.header.from = node;
    message.header.incarnation = 0;
    message.header.length = sizeof message - sizeof message.header;
    message.time[0] = message.least[0] = acquired;
    message.round = round;
    message.in[node / 64] = UINT64_C(1) << node % 64;
    CHECK_EQUAL(mr_core_message(core, node, &message, sizeof message), 0);
  }
}

/* One word of bits is not enough for them. */
static void many_nodes(void) {
  static const struct mr_core_sink sink = {
      .send = count_send, .protect = no_protect, .done = no_result, .failed = no_failure};
  static alignas(64) uint8_t memory[MR_PAGE], twins[MR_PAGE];
  static uint32_t incarnations[MANY];
  uint32_t sent = 0;
  struct mr_core *core;
  struct mr_core_config config = {.nodes = MANY,
                                  .pages = 1,
                                  .home_run = 1,
                                  .objects = 1,
                                  .epoch = 7,
                                  .incarnations = incarnations,
                                  .memory = memory,
                                  .twins = twins,
                                  .sink = &sink,
                                  .context = &sent};
  CHECK_EQUAL(mr_core_create(&core, &config), 0);
  CHECK_EQUAL(mr_core_write(core, 0), 0);
  memory[0] = 1;
  for (uint64_t round = 0; round < 3; round++) {
    CHECK_EQUAL(mr_core_sync(core, MR_BARRIER, 0, MANY), 0);
    /* In round 0 and 1 they do not have the interval yet, or entered before they did. */
    arrive(core, round > 1, round);
    CHECK_EQUAL(mr_core_log_length(core), round < 2);
    CHECK_EQUAL(sent, (round + 1) * (MANY - 1));
  }
  mr_core_destroy(core);
}

static struct forged grant(enum mr_op op, uint32_t id, uint64_t of0, uint64_t of1) {
  struct forged message = forged(MR_GRANT, id, op == MR_LOCK ? MR_TURN : 0, op);
  put_numbers(&message, of0, of1);
  put_progress(&message, 0, 0, 2);
  return message;
}

/* Two nodes; what is forged comes to node 0, which may be asking for something. */
static struct mr_core *victim(bool asks, enum mr_op op, uint32_t id, int64_t argument) {
  open_world(2, 4, 1, true);
  if (asks) {
    world.nodes[0].waits = true;
    CHECK_EQUAL(mr_core_sync(world.nodes[0].core, op, id, argument), 0);
  }
  return world.nodes[0].core;
}

static void refused(const struct forged *message, int rc, int failure) {
  CHECK_EQUAL(deliver(message), rc);
  CHECK_EQUAL(world.failure, failure);
  world_destroy(&world);
}

static void forged_requests(void) {
  struct forged message = request(MR_FETCH_ADD, 0, 0, 1);
  victim(false, 0, 0, 0);
  refused(&message, -ECANCELED, -EPROTO); /* a release without its notices */
  message = request(MR_LOCK, 0, 1, 0);
  victim(false, 0, 0, 0);
  refused(&message, -ECANCELED, -EPROTO); /* it knows an interval that I never had */
  message = request(MR_FETCH_ADD, 0, 0, 2);
  put_interval(&message, 2, 1, 1);
  victim(false, 0, 0, 0);
  refused(&message, -ECANCELED, -EPROTO); /* one is missing between */
  message = request(MR_FETCH_ADD, 0, 0, 1);
  put_interval(&message, 1, 1, 1);
  put_interval(&message, 1, 1, 2);
  victim(false, 0, 0, 0);
  refused(&message, -ECANCELED, -EPROTO); /* the same, but not the same */
  message = request(MR_FETCH_ADD, 1, 0, 0);
  victim(false, 0, 0, 0);
  refused(&message, -EBADMSG, 0); /* managed elsewhere */
}

/* A node that is refused has released nothing. */
static void refused_release(void) {
  struct forged message = request(MR_UNLOCK, 0, 0, 1);
  put_interval(&message, 1, 1, 1);
  struct mr_core *core = victim(false, 0, 0, 0);
  CHECK_EQUAL(deliver(&message), 0);
  world.nodes[0].waits = true;
  CHECK_EQUAL(mr_core_sync(core, MR_LOCK, 0, 0), 0);
  CHECK_EQUAL(mr_core_access(core, 1), MR_READ);
  world_destroy(&world);
}

static void forged_grants(void) {
  struct forged message = grant(MR_LOCK, 1, 0, 1);
  victim(true, MR_LOCK, 1, 0);
  refused(&message, -ECANCELED, -EPROTO); /* without the notices */
  message = grant(MR_LOCK, 1, 1, 0);
  victim(true, MR_LOCK, 1, 0);
  refused(&message, -ECANCELED, -EPROTO); /* of intervals that I never had */
  message = grant(MR_LOCK, 3, 0, 0);
  victim(true, MR_LOCK, 1, 0);
  refused(&message, -ECANCELED, -EPROTO); /* of another lock */
  message = forged(MR_REFUSED, 2, -EPERM, MR_LOCK);
  victim(true, MR_LOCK, 1, 0);
  refused(&message, -EBADMSG, 0); /* node 0's own object */
}

/* Turns come in their order, and each has one next. */
static void forged_turns(void) {
  struct forged message = grant(MR_LOCK, 1, 0, 0);
  message.header.value = MR_KEEPS; /* of no turn */
  victim(true, MR_LOCK, 1, 0);
  refused(&message, -ECANCELED, -EPROTO);
  message.header.value = INT64_MIN;
  victim(true, MR_TRY, 1, 0);
  message.header.detail = MR_TRY;
  refused(&message, -ECANCELED, -EPROTO);
  static const struct {
    uint32_t id;
    int64_t turn;
    uint32_t next;
    int rc;
  } named[] = {{0, 1, 1, -EBADMSG},         /* not the sender's to say */
               {1, 0, 1, -EBADMSG},         /* of no turn */
               {1, INT64_MAX, 1, -EBADMSG}, /* whose next has no number */
               {1, 1, 0, -EBADMSG},         /* this node itself */
               {1, 1, 2, -EBADMSG},         /* no node */
               {1, 1, MR_NOBODY, -ECANCELED} /* it keeps none */};
  for (unsigned i = 0; i < sizeof named / sizeof *named; i++) {
    message = forged(MR_NAMES_NEXT, named[i].id, named[i].turn, named[i].next);
    victim(false, 0, 0, 0);
    refused(&message, named[i].rc, named[i].rc == -EBADMSG ? 0 : -EPROTO);
  }
  struct mr_core *core = victim(true, MR_LOCK, 1, 0);
  message = grant(MR_LOCK, 1, 0, 0);
  CHECK_EQUAL(deliver(&message), 0);
  CHECK_EQUAL(mr_core_access(core, 0), MR_READ);
  message = forged(MR_NAMES_NEXT, 1, 1, 1);
  CHECK_EQUAL(deliver(&message), 0);
  refused(&message, -ECANCELED, -EPROTO); /* it has one */
  core = victim(true, MR_LOCK, 1, 0);
  message = grant(MR_LOCK, 1, 0, 0);
  CHECK_EQUAL(deliver(&message), 0);
  for (int op = MR_UNLOCK; op >= MR_LOCK; op--) {
    world.nodes[0].waits = true;
    CHECK_EQUAL(mr_core_sync(core, (enum mr_op)op, 1, 0), 0);
  }
  refused(&message, -ECANCELED, -EPROTO); /* that turn is over */
  victim(false, 0, 0, 0);
  message = forged(MR_HOLDS, 0, 1, 0);
  CHECK_EQUAL(deliver(&message), 0); /* refused: nobody asked */
  CHECK(world.channels[0][1].head != NULL);
  message = forged(MR_HOLDS, 1, 1, 0);
  refused(&message, -EBADMSG, 0); /* managed elsewhere */
}

struct forged_copy {
  struct mr_header header;
  uint8_t body[16 + MR_PAGE];
};

/* One whole page. */
static struct forged_copy forged_copy(uint32_t page, uint64_t version) {
  struct forged_copy copy = {.header = forged(MR_PAGE_COPY, page, 0, 0).header};
  uint32_t length = MR_PAGE;
  memcpy(copy.body, &page, sizeof page);
  memcpy(copy.body + 4, &version, sizeof version);
  memcpy(copy.body + 12, &length, sizeof length);
  copy.header.length = sizeof copy.body;
  return copy;
}

static int deliver_copy(struct mr_core *core, const struct forged_copy *copy) {
  return mr_core_message(core, copy->header.from, copy, sizeof copy->header + copy->header.length);
}

/* What all have acquired is at most what this node has. */
static void forged_progress(void) {
  static const uint64_t lies[][3] = {/* floor, round, in it */
                                     {1, 0, 2},
                                     {0, 2, 2},
                                     {0, UINT64_MAX, 2},
                                     {0, 1, 3},
                                     {0, 0, 4}};
  for (unsigned i = 0; i < sizeof lies / sizeof *lies; i++)
    for (int granted = 0; granted < 2; granted++) {
      struct forged message = forged(granted ? MR_GRANT : MR_SYNC, granted != 0, 0, MR_LOCK);
      put_numbers(&message, 0, 0);
      put_progress(&message, lies[i][0], lies[i][1], lies[i][2]);
      victim(granted, MR_LOCK, 1, 0);
      refused(&message, -ECANCELED, -EPROTO);
    }
}

/* Nothing but a signal wakes who sleeps at a condition. */
static void forged_wake(void) {
  struct mr_core *core = victim(true, MR_LOCK, 1, 0);
  struct forged message = grant(MR_LOCK, 1, 0, 0);
  CHECK_EQUAL(deliver(&message), 0);
  world.nodes[0].waits = true;
  CHECK_EQUAL(mr_core_sync(core, MR_CONDITION, 3, 1), 0);
  message = grant(MR_CONDITION, 3, 0, 0);
  CHECK_EQUAL(deliver(&message), 0);
  message = grant(MR_UNLOCK, 1, 0, 0);
  refused(&message, -ECANCELED, -EPROTO);
}

/* Node 0 waits for page 1, which has version 5. */
static struct mr_core *waiting_for_copy(void) {
  struct mr_core *core = victim(true, MR_LOCK, 1, 0);
  struct forged message = grant(MR_LOCK, 1, 0, 1);
  put_interval(&message, 1, 1, 5);
  CHECK_EQUAL(deliver(&message), 0);
  world.nodes[0].waits = true;
  CHECK_EQUAL(mr_core_read(core, 1), 0);
  return core;
}

/* News bring the write notices that they speak of, and speak of nothing that never was. */
static void forged_news(void) {
  struct forged message = forged(MR_NEWS_HEARD, 0, 0, 0);
  put_numbers(&message, 1, 0);
  put_progress(&message, 0, 0, 2);
  victim(false, 0, 0, 0);
  refused(&message, -ECANCELED, -EPROTO);
  /* Even where they are to be acquired later. */
  message = forged(MR_NEWS, 0, 0, 0);
  put_numbers(&message, 0, 2);
  put_progress(&message, 0, 0, 2);
  waiting_for_copy();
  refused(&message, -ECANCELED, -EPROTO);
}

static void forged_copies(void) {
  struct mr_core *core = waiting_for_copy();
  struct forged_copy copy = forged_copy(3, 5);
  CHECK_EQUAL(deliver_copy(core, &copy), -EBADMSG); /* of another page */
  copy = forged_copy(1, 5);
  copy.header.length--;
  CHECK_EQUAL(deliver_copy(core, &copy), -EBADMSG); /* cut off */
  copy = forged_copy(1, 5);
  copy.body[12]--;
  CHECK_EQUAL(deliver_copy(core, &copy), -EBADMSG); /* neither a page nor a diff */
  copy = forged_copy(1, 4);                         /* older than the notice */
  CHECK_EQUAL(deliver_copy(core, &copy), -ECANCELED);
  CHECK_EQUAL(world.failure, -EPROTO);
  world_destroy(&world);
}

/* A part is what changed, not what some other writer changed of it. */
static void forged_part(void) {
  static struct mr_diff diff;
  static alignas(64) uint8_t page[MR_PAGE], twin[MR_PAGE];
  struct mr_core *core = waiting_for_copy();
  page[9] = 7;
  mr_diff_best()->encode(&diff, page, twin);
  mr_diff_mask(&diff, twin);
  for (int masked = 1; masked >= 0; masked--) {
    struct forged_copy copy = forged_copy(1, 5);
    diff.masked = masked != 0;
    uint32_t length = (uint32_t)mr_diff_pack(&diff, copy.body + 16);
    memcpy(copy.body + 12, &length, sizeof length);
    copy.header.length = 16 + length;
    CHECK_EQUAL(deliver_copy(core, &copy), masked ? -EBADMSG : 0);
    CHECK_EQUAL(deliver_copy(core, &copy), -EBADMSG); /* nobody waits for it twice */
  }
  CHECK_EQUAL(world.nodes[0].memory[MR_PAGE + 9], 7);
  world_destroy(&world);
}

/* A diff that comes with a notice names bytes. */
static void forged_renewal(void) {
  static struct mr_diff diff;
  static alignas(64) uint8_t page[MR_PAGE], twin[MR_PAGE];
  page[9] = 7;
  mr_diff_best()->encode(&diff, page, twin);
  for (int masked = 0; masked < 2; masked++) {
    uint8_t packed[64];
    struct forged message = grant(MR_LOCK, 1, 0, 1);
    uint16_t node = 1;
    uint32_t one = 1, carries = 1 | UINT32_C(1) << 31;
    uint64_t number = 1;
    if (masked)
      mr_diff_mask(&diff, twin);
    uint16_t length = (uint16_t)mr_diff_pack(&diff, packed);
    put(&message, &node, sizeof node);
    put(&message, &number, sizeof number);
    put(&message, &one, sizeof one);
    put(&message, &carries, sizeof carries);
    put(&message, &number, sizeof number); /* its version */
    put(&message, &length, sizeof length);
    put(&message, packed, length);
    struct mr_core *core = victim(true, MR_LOCK, 1, 0);
    CHECK_EQUAL(deliver(&message), masked ? 0 : -ECANCELED);
    CHECK_EQUAL(world.failure, masked ? 0 : -EPROTO);
    CHECK_EQUAL(world.nodes[0].memory[MR_PAGE + 9], masked ? 7 : 0);
    CHECK_EQUAL(world.nodes[0].waits, !masked);
    CHECK_EQUAL(mr_core_access(core, 1), MR_READ);
    world_destroy(&world);
  }
}

/* Nobody becomes a home whose copy is not the page. */
static void forged_home(void) {
  for (int64_t version = 1; version <= 2; version++) {
    struct mr_core *core = victim(false, 0, 0, 0);
    world.nodes[0].waits = true;
    CHECK_EQUAL(mr_core_write(core, 1), 0);
    world.nodes[0].memory[MR_PAGE] = 1;
    world.nodes[0].waits = true;
    CHECK_EQUAL(mr_core_sync(core, MR_POST, 0, 1), 0);
    struct forged message = forged(MR_DIFF_KEPT, 1, version, 2 | 1 << 2);
    CHECK_EQUAL(deliver(&message), version == 1 ? 0 : -ECANCELED);
    CHECK_EQUAL(world.failure, version == 1 ? 0 : -EPROTO);
    CHECK(version != 1 || mr_core_home(core, 1) == 0);
    world_destroy(&world);
  }
}

static void forged_fetches(void) {
  victim(false, 0, 0, 0);
  uint32_t pages[] = {2, 1};
  uint64_t have = 0;
  struct forged message = forged(MR_FETCH, 2, 1, 0);
  CHECK_EQUAL(deliver(&message), -EBADMSG); /* of nothing */
  put(&message, &pages[0], 4);
  put(&message, &have, 8);
  CHECK_EQUAL(deliver(&message), 0);
  message.header.subject = 0;
  CHECK_EQUAL(deliver(&message), -EBADMSG); /* it begins with another */
  message.header.subject = 2;
  put(&message, &pages[1], 4);
  put(&message, &have, 8);
  refused(&message, -EBADMSG, 0); /* one whose home is elsewhere */
}

/* Each page of a batch comes once, by itself or with others. */
static void copy_comes_once(void) {
  struct forged_copy copy = forged_copy(2, 5);
  open_world(3, 3, 1, true);
  struct mr_core *core = world.nodes[0].core;
  world.nodes[0].waits = true;
  CHECK_EQUAL(mr_core_sync(core, MR_LOCK, 1, 0), 0);
  struct forged message = forged(MR_GRANT, 1, MR_TURN, MR_LOCK);
  static const uint64_t time[3] = {0, 2, 0}, zeros[3 + 2 + 3];
  put(&message, time, sizeof time);
  put(&message, zeros, sizeof zeros); /* the floor; round 0, nobody in it; the least */
  put_interval(&message, 1, 1, 5);
  put_interval(&message, 2, 2, 5);
  CHECK_EQUAL(deliver(&message), 0);
  CHECK_EQUAL(mr_core_bring(core, 0, 4, false), -EINVAL);
  CHECK_EQUAL(mr_core_bring(core, 1, 0, false), -EINVAL);
  world.nodes[0].waits = true;
  CHECK_EQUAL(mr_core_bring(core, 0, 3, false), 0);
  copy.header.from = 2;
  copy.header.incarnation = 102;
  CHECK_EQUAL(deliver_copy(core, &copy), 0);
  CHECK_EQUAL(deliver_copy(core, &copy), -EBADMSG); /* it has come */
  CHECK(world.nodes[0].waits);
  copy = forged_copy(1, 5);
  CHECK_EQUAL(deliver_copy(core, &copy), 0);
  CHECK(!world.nodes[0].waits);
  world_destroy(&world);
}

/* A node that holds an interval is not told of it again. */
static void told_once(void) {
  enum { TURNS = 50 };
  uint64_t notices = 0;
  open_world(2, 2, 1, false);
  for (int node = 0; node < 2; node++)
    for (int n = 0; n < TURNS; n++) {
      emit(code(node), lock_of(0));
      emit(code(node), read_of(0, 64, 8));
      emit(code(node), add_of(0, 1));
      emit(code(node), write_of(0, 64, 8));
      emit(code(node), unlock_of(0));
    }
  world_run(&world);
  for (int node = 0; node < 2; node++)
    notices += mr_core_counters(world.nodes[node].core)->notices;
  CHECK(notices > 0 && notices <= 2 * TURNS);
  world_destroy(&world);
  /* Nor by a node that hears nothing meanwhile. */
  open_world(2, 2, 5, false);
  for (int n = 0; n < TURNS; n++) {
    emit(code(1), set_of(0, n + 1));
    emit(code(1), write_of(0, 8, 8));
    emit(code(1), sync_of(MR_POST, 4, 1));
  }
  world_run(&world);
  CHECK_EQUAL(mr_core_counters(world.nodes[1].core)->notices, TURNS);
  world_destroy(&world);
}

/* ---- hostile ------------------------------------------------------------------------ */

static void write_racy_programs(void) {
  for (int node = 0; node < 3; node++)
    for (int n = 0; n < 6; n++) {
      uint32_t address = (uint32_t)n % 4 * MR_PAGE + 64u * (uint32_t)n;
      emit(code(node), lock_of((uint32_t)(n + node) % 3));
      struct instruction read = read_of(0, address, 8);
      read.code = READ_RACY;
      emit(code(node), read);
      emit(code(node), add_of(0, 1));
      emit(code(node), write_of(0, address, 8));
      emit(code(node), unlock_of((uint32_t)(n + node) % 3));
      emit(code(node), sync_of(MR_BARRIER, 3, 3));
    }
}

/* Another message like one that is on its way, with a few bytes changed, behind
 * the part of the header that the transport vouches for. */
static void forge(struct channel *channel) {
  static uint8_t bytes[64 * 1024];
  struct message *real = channel->head;
  if (real == NULL || real->length > sizeof bytes)
    return;
  memcpy(bytes, real->bytes, real->length);
  bytes[1] = world_random(&world, 2) != 0
                 ? (uint8_t)(1 + world_random(&world, MR_MESSAGE_TYPES - 1))
                 : bytes[1];
  for (uint32_t n = 1 + world_random(&world, 4); n > 0; n--)
    bytes[12 + world_random(&world, (uint32_t)real->length - 12)] =
        (uint8_t)(world_random(&world, 2) != 0 ? world_random(&world, 4)
                                               : next_random(&world.random));
  mr_core_message(world.nodes[real->to].core, real->from, bytes, real->length);
}

static void hostile(uint64_t seed) {
  /* Fetches of several pages, answers in parts. */
  struct shape shape = {.nodes = 3,
                        .pages = 6,
                        .home_run = 1 + (uint32_t)(seed % 2),
                        .objects = 16,
                        .bring = 4,
                        .log_most = 4,
                        .migrate_after = 1,
                        .stumble = true};
  for (uint16_t node = 0; node < 3; node++) {
    shape.fetch[node] = (enum mr_fetch)((seed / 2 + node) % MR_FETCH_POLICIES);
    shape.homes[node] = (enum mr_homes)((seed + node) % 3);
  }
  world_create(&world, &shape, seed);
  write_racy_programs();
  /* Ends where it ends: stopped, stuck or done, but within its own memory (address
   * sanitizer) and without a wrong call of the sink. */
  for (uint32_t steps = 0; steps < 400 && world_step(&world); steps++)
    if (world_random(&world, 8) == 0)
      forge(&world.channels[world_random(&world, 3)][world_random(&world, 3)]);
  world_destroy(&world);
}

int main(void) {
  bad_configurations();
  bad_requests();
  misuses();
  trimmed();
  neighbours();
  silent();
  home_changes_nothing();
  for (uint16_t nodes = 2; nodes <= WORLD_NODES; nodes++)
    costs_of(nodes);
  told_once();
  kept();
  asked_while_held();
  misuse_beside_others();
  handed_over();
  forged_turns();
  forged_requests();
  refused_release();
  forged_grants();
  forged_progress();
  forged_wake();
  forged_news();
  forged_copies();
  forged_part();
  forged_renewal();
  forged_home();
  forged_fetches();
  copy_comes_once();
  late_store();
  old_copy(1, 1);
  old_copy(2, 0);
  many_nodes();
  uint64_t seed = setting("MARU_DSM_SEED", 1);
  uint64_t rounds = setting("MARU_DSM_SCHEDULES", FUZZ * setting("MARU_TEST_SCALE", 1));
  for (uint64_t i = 0; i < rounds; i++)
    hostile(seed + i);
  return 0;
}
