/* maru-sim-dsm: the shipped protocol core on a network that is described.  Prints JSON.
 *
 *     maru-sim-dsm programs LATENCY_NS PS_PER_BYTE CPU
 *
 * runs tsp, raytrace and ocean on 8 nodes, by each fetch policy;
 *
 *     maru-sim-dsm homes LATENCY_NS PS_PER_BYTE CPU
 *
 * runs them by each policy of homes, with and without diffs on grants;
 *
 *     maru-sim-dsm scale
 *
 * counts what a fetch, a lock and a barrier cost on 1 to 64 nodes.
 *
 * Method.  N cores in one process; simulated time.  A message leaves when its sender's
 * card is free, occupies it PS_PER_BYTE for each byte and arrives LATENCY_NS later; a node
 * handles one at a time.  Programs are coroutines that really compute on the cores'
 * memory: their results are checked, their accesses are what they are.  What computing, faults
 * and the handling of messages cost are the constants below, times CPU (the paper's Pentium III
 * is taken for 20 of today's).  Nothing is random but by seed.
 */
#define _GNU_SOURCE
#include "../../native/dsm/core.h"
#include "../../native/dsm/diff.h"

#include <inttypes.h>
#include <math.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define NODES_MAX 64
#define STACK (256 * 1024)

/* ns.  Sources: dsm/access and dsm/diff on the machine of the results. */
#define FAULT_NS 3300u
#define HANDLE_NS 500u
#define PART_NS 150u   /* gather, pack, unpack, apply */
#define SEARCHED_NS 4u /* a bitmap united */
#define DIFF_NS 150u

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "maru: maru-sim-dsm: %s\n", what);
  exit(70);
}

static void *need(void *memory) {
  if (memory == NULL)
    fail("no memory");
  return memory;
}

/* ---- the machine ---------------------------------------------------------------- */

struct link {
  double latency_ns, ns_per_byte, cpu;
};

struct message {
  uint16_t from, to;
  size_t length;
  uint8_t bytes[];
};

struct event {
  double at;
  uint64_t number;         /* first come, first served */
  struct message *message; /* NULL: `node` computes on */
  uint16_t node;
};

struct node {
  uint16_t number;
  struct mr_core *core;
  uint8_t *memory, *twins;
  enum mr_access *mapped;
  ucontext_t context;
  void *stack;
  bool waits, ended;
  int64_t result;
  double free_at, card_free_at; /* the server's processor, the network card */
  struct message *outbox[4 * NODES_MAX];
  unsigned outgoing;
};

struct machine {
  struct link link;
  uint16_t nodes;
  uint32_t pages;
  struct node node[NODES_MAX];
  struct event *heap;
  size_t count, capacity;
  uint64_t numbers;
  double now;
  ucontext_t scheduler;
  struct node *running;
  void (*program)(uint16_t me);
};

static struct machine m;

static bool before(const struct event *a, const struct event *b) {
  return a->at < b->at || (a->at == b->at && a->number < b->number);
}

static void push(struct event event) {
  if (m.count == m.capacity) {
    m.capacity = m.capacity != 0 ? 2 * m.capacity : 1024;
    m.heap = need(realloc(m.heap, m.capacity * sizeof *m.heap));
  }
  size_t i = m.count++;
  for (; i > 0 && before(&event, &m.heap[(i - 1) / 2]); i = (i - 1) / 2)
    m.heap[i] = m.heap[(i - 1) / 2];
  m.heap[i] = event;
}

static struct event pop(void) {
  struct event top = m.heap[0], last = m.heap[--m.count];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < m.count; i = child) {
    child += child + 1 < m.count && before(&m.heap[child + 1], &m.heap[child]);
    if (!before(&m.heap[child], &last))
      break;
    m.heap[i] = m.heap[child];
  }
  m.heap[i] = last;
  return top;
}

static void resume_at(uint16_t node, double at) {
  push((struct event){.at = at, .number = m.numbers++, .node = node});
}

/* ---- the sink --------------------------------------------------------------------- */

static void on_send(void *context, uint16_t to, const void *bytes, size_t length) {
  struct node *node = context;
  struct message *message = need(malloc(sizeof *message + length));
  *message = (struct message){.from = node->number, .to = to, .length = length};
  memcpy(message->bytes, bytes, length);
  if (node->outgoing == sizeof node->outbox / sizeof *node->outbox)
    fail("too many messages at once");
  node->outbox[node->outgoing++] = message;
}

static void on_protect(void *context, uint32_t page, uint32_t count, enum mr_access access) {
  struct node *node = context;
  for (uint32_t p = page; p < page + count; p++)
    node->mapped[p] = access;
}

static void on_done(void *context, int64_t result) {
  struct node *node = context;
  node->result = result;
  node->waits = false;
}

static void on_failed(void *context, int error, const char *why) {
  (void)context;
  (void)error;
  fail(why);
}

static uint64_t on_now(void *context) {
  (void)context;
  return (uint64_t)m.now;
}

static const struct mr_core_sink sink = {on_send, on_protect, on_done, on_failed, on_now};

static double work_in(const struct mr_core_counters *c) {
  return (double)c->parts * PART_NS + (double)c->searched * SEARCHED_NS +
         (double)c->diffs * DIFF_NS;
}

/* What was sent while the node worked from `start` until the result leaves then. */
static double post(struct node *node, double start, double before_ns, double base_ns) {
  double end = start + m.link.cpu * (base_ns + work_in(mr_core_counters(node->core)) - before_ns);
  for (unsigned i = 0; i < node->outgoing; i++) {
    struct message *message = node->outbox[i];
    double leave = end > node->card_free_at ? end : node->card_free_at;
    node->card_free_at = leave + m.link.ns_per_byte * (double)message->length;
    push((struct event){
        .at = node->card_free_at + m.link.latency_ns, .number = m.numbers++, .message = message});
  }
  node->outgoing = 0;
  return end;
}

static void deliver(struct event event) {
  struct node *node = &m.node[event.message->to];
  if (node->free_at > m.now) {
    event.at = node->free_at;
    push(event);
    return;
  }
  bool waited = node->waits;
  double before_ns = work_in(mr_core_counters(node->core));
  if (mr_core_message(node->core, event.message->from, event.message->bytes,
                      event.message->length) != 0)
    fail("a message was refused");
  free(event.message);
  node->free_at = post(node, m.now, before_ns, HANDLE_NS);
  if (waited && !node->waits)
    resume_at(node->number, node->free_at);
}

/* ---- what programs call -------------------------------------------------------------- */

static void suspend(struct node *node) { swapcontext(&node->context, &m.scheduler); }

static void work(double ns) {
  struct node *node = m.running;
  resume_at(node->number, m.now + ns * m.link.cpu);
  suspend(node);
}

/* A request was made; goes on when it is done. */
static int64_t complete(struct node *node, int rc, double before_ns, double base_ns) {
  if (rc != 0)
    fail("a request was refused");
  double end = post(node, m.now, before_ns, base_ns);
  if (!node->waits)
    resume_at(node->number, end);
  suspend(node);
  return node->result;
}

static uint8_t *touch(size_t address, bool write) {
  struct node *node = m.running;
  uint32_t page = (uint32_t)(address / MR_PAGE);
  while (node->mapped[page] < (write ? MR_READ_WRITE : MR_READ)) {
    double before_ns = work_in(mr_core_counters(node->core));
    node->waits = true;
    int rc = write ? mr_core_write(node->core, page) : mr_core_read(node->core, page);
    complete(node, rc, before_ns, FAULT_NS);
  }
  return node->memory + address;
}

static int64_t synchronise(enum mr_op op, uint32_t id, int64_t argument) {
  struct node *node = m.running;
  double before_ns = work_in(mr_core_counters(node->core));
  node->waits = true;
  return complete(node, mr_core_sync(node->core, op, id, argument), before_ns, HANDLE_NS);
}

static void lock(uint32_t id) { synchronise(MR_LOCK, id, 0); }
static void unlock(uint32_t id) { synchronise(MR_UNLOCK, id, 0); }
static void barrier(void) { synchronise(MR_BARRIER, 0, m.nodes); }

/* Values that do not cross a page. */
#define GET(type, address) (*(const type *)(const void *)touch(address, false))
#define PUT(type, address, value) (*(type *)(void *)touch(address, true) = (value))

/* ---- running ------------------------------------------------------------------------- */

static void enter(void) {
  struct node *node = m.running;
  m.program(node->number);
  node->ended = true;
  swapcontext(&node->context, &m.scheduler);
}

/* How a core is to be, where it differs from the defaults. */
struct how {
  enum mr_fetch fetch;
  uint32_t batch, home_run;
  enum mr_homes homes;
  uint32_t grant_bytes;
};

#define HOME_RUN 16u

static void open_node(uint16_t number, const struct how *how) {
  static uint32_t incarnations[NODES_MAX];
  struct node *node = &m.node[number];
  size_t size = (size_t)m.pages * MR_PAGE;
  *node = (struct node){.number = number,
                        .memory = need(aligned_alloc(MR_PAGE, size)),
                        .twins = need(aligned_alloc(MR_PAGE, size)),
                        .mapped = need(calloc(m.pages, sizeof *node->mapped)),
                        .stack = need(malloc(STACK))};
  memset(node->memory, 0, size);
  struct mr_core_config config = {
      .nodes = m.nodes,
      .me = number,
      .pages = m.pages,
      .home_run = how->home_run != 0 ? how->home_run : HOME_RUN,
      .objects = 512,
      .incarnations = incarnations,
      .fetch = how->fetch,
      .homes = how->homes,
      .grant_bytes = how->grant_bytes,
      .limits = {.batch = how->batch, .part_ns = (uint32_t)(PART_NS * m.link.cpu)},
      .memory = node->memory,
      .twins = node->twins,
      .sink = &sink,
      .context = node};
  if (mr_core_create(&node->core, &config) != 0)
    fail("no core");
  getcontext(&node->context);
  node->context.uc_stack.ss_sp = node->stack;
  node->context.uc_stack.ss_size = STACK;
  makecontext(&node->context, enter, 0);
  resume_at(number, 0);
}

/* Runs `program` on all nodes to its end; simulated nanoseconds. */
static double run(void (*program)(uint16_t), struct link link, uint16_t nodes, uint32_t pages,
                  const struct how *how) {
  double end = 0;
  m.link = link;
  m.nodes = nodes;
  m.pages = pages;
  m.program = program;
  m.now = 0;
  for (uint16_t i = 0; i < nodes; i++)
    open_node(i, how);
  while (m.count > 0) {
    struct event event = pop();
    m.now = event.at;
    if (event.message != NULL) {
      deliver(event);
      continue;
    }
    m.running = &m.node[event.node];
    swapcontext(&m.scheduler, &m.running->context);
    if (m.running->ended)
      end = m.now;
  }
  for (uint16_t i = 0; i < nodes; i++)
    if (!m.node[i].ended)
      fail("a node hangs");
  return end;
}

static struct mr_core_counters sum(void) {
  struct mr_core_counters all = {0};
  for (uint16_t i = 0; i < m.nodes; i++) {
    const struct mr_core_counters *c = mr_core_counters(m.node[i].core);
    all.fetches += c->fetches;
    all.pages += c->pages;
    all.parts += c->parts;
    all.page_bytes += c->page_bytes;
    all.part_bytes += c->part_bytes;
    all.searched += c->searched;
    all.messages += c->messages;
    all.bytes += c->bytes;
    all.requests += c->requests;
    all.moved += c->moved;
    all.passed_on += c->passed_on;
    all.diffs += c->diffs;
    all.carried += c->carried;
    all.spared += c->spared;
  }
  return all;
}

static void close_all(void) {
  for (uint16_t i = 0; i < m.nodes; i++) {
    mr_core_destroy(m.node[i].core);
    free(m.node[i].memory);
    free(m.node[i].twins);
    free(m.node[i].mapped);
    free(m.node[i].stack);
  }
}

/* ---- tsp: branch and bound ------------------------------------------------------------ */

/* As the program of Rice's distribution: a pool of partial tours and the bound in shared
 * memory, under locks; short tours are split into the pool, long ones solved by one node. */
#define CITIES 13
#define SPLIT 5 /* cities of a tour that is solved whole */
#define POOL 60000u

struct tour {
  int32_t length, count;
  uint8_t city[24];
};

static int32_t distance[CITIES][CITIES];
static int64_t checksum;

/* Addresses: the bound, then the pool's top and tours of 32 bytes. */
#define BOUND 0u
#define TOP MR_PAGE
#define TOURS (2 * MR_PAGE)
_Static_assert(MR_PAGE % sizeof(struct tour) == 0, "no tour crosses a page");

static void place_cities(void) {
  uint64_t random = 5;
  int32_t x[CITIES], y[CITIES];
  for (int i = 0; i < CITIES; i++) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    x[i] = (int32_t)(random >> 33) % 1000;
    y[i] = (int32_t)(random >> 45) % 1000;
  }
  for (int i = 0; i < CITIES; i++)
    for (int j = 0; j < CITIES; j++)
      distance[i][j] = (int32_t)(100 * hypot(x[i] - x[j], y[i] - y[j]));
}

static void put_tour(const struct tour *tour) {
  int32_t top = GET(int32_t, TOP);
  if ((uint32_t)top >= POOL)
    fail("the pool is full");
  PUT(struct tour, TOURS + (size_t)top * sizeof *tour, *tour);
  PUT(int32_t, TOP, top + 1);
}

/* The shortest way on, by depth first search; `expanded` counts what it costs. */
static int32_t solve(struct tour *tour, uint32_t used, int32_t best, uint64_t *expanded) {
  int last = tour->city[tour->count - 1];
  ++*expanded;
  if (tour->count == CITIES) {
    int32_t whole = tour->length + distance[last][tour->city[0]];
    return whole < best ? whole : best;
  }
  for (int next = 0; next < CITIES; next++) {
    int32_t length = tour->length + distance[last][next];
    if ((used >> next & 1) != 0 || length >= best)
      continue;
    int32_t kept = tour->length;
    tour->length = length;
    tour->city[tour->count++] = (uint8_t)next;
    best = solve(tour, used | 1u << next, best, expanded);
    tour->count--;
    tour->length = kept;
  }
  return best;
}

static bool take_tour(struct tour *tour) {
  lock(1);
  int32_t top = GET(int32_t, TOP);
  if (top > 0) {
    *tour = GET(struct tour, TOURS + (size_t)(top - 1) * sizeof *tour);
    PUT(int32_t, TOP, top - 1);
  }
  unlock(1);
  return top > 0;
}

static void split(const struct tour *tour, uint32_t used, int32_t bound) {
  lock(1);
  for (int next = CITIES - 1; next >= 0; next--) {
    struct tour longer = *tour;
    longer.length += distance[tour->city[tour->count - 1]][next];
    if ((used >> next & 1) != 0 || longer.length >= bound)
      continue;
    longer.city[longer.count++] = (uint8_t)next;
    put_tour(&longer);
  }
  unlock(1);
}

static void lower_bound(int32_t found) {
  lock(2);
  if (found < GET(int32_t, BOUND))
    PUT(int32_t, BOUND, found);
  unlock(2);
}

static int32_t read_bound(void) {
  lock(2);
  int32_t bound = GET(int32_t, BOUND);
  unlock(2);
  return bound;
}

static void handle(struct tour *tour) {
  uint32_t used = 0;
  uint64_t expanded = 0;
  int32_t bound = read_bound();
  for (int i = 0; i < tour->count; i++)
    used |= 1u << tour->city[i];
  if (tour->length >= bound)
    return;
  if (tour->count < SPLIT) {
    work(2000);
    split(tour, used, bound);
    return;
  }
  int32_t found = solve(tour, used, bound, &expanded);
  work(30.0 * (double)expanded);
  if (found < bound)
    lower_bound(found);
}

/* Ends when the pool is empty and nobody has a tour in hand. */
static void tsp(uint16_t me) {
  struct tour tour = {.count = 1};
  if (me == 0) {
    place_cities();
    PUT(int32_t, BOUND, INT32_MAX);
    PUT(int32_t, TOP, 0);
    put_tour(&tour);
  }
  barrier();
  for (bool idle = false;;) {
    if (take_tour(&tour)) {
      if (idle)
        synchronise(MR_FETCH_ADD, 400, -1);
      idle = false;
      handle(&tour);
      continue;
    }
    int64_t resting = synchronise(MR_FETCH_ADD, 400, idle ? 0 : 1) + (idle ? 0 : 1);
    idle = true;
    if (resting == m.nodes)
      break;
    work(20000);
  }
  barrier();
  checksum = GET(int32_t, BOUND);
}

/* ---- raytrace: tiles of one picture -------------------------------------------------------- */

/* Spheres over a floor, as a stand-in for SPLASH's scenes: read-only data, a queue of tiles a node
 * with stealing, pixels, and ray counts under a lock. */
#define WIDTH 256u
#define TILE 8u
#define TILES (WIDTH / TILE * (WIDTH / TILE))
#define QUEUE(node) ((size_t)(1 + (node)) * 64)
#define RAYS 0u
#define SCENE (2 * MR_PAGE)
#define SPHERES 64u
#define PICTURE (SCENE + 4 * MR_PAGE)

struct sphere {
  double x, y, z, r;
};

static uint32_t shade(uint32_t px, uint32_t py, uint64_t *tests) {
  double best = 1e9, u = ((double)px - 128) / 128, v = ((double)py - 128) / 128;
  double length = sqrt(u * u + v * v + 1);
  uint32_t colour = (uint32_t)(v > 0 ? 40 + 100 * v : 10);
  for (uint32_t i = 0; i < SPHERES; i++, ++*tests) {
    struct sphere s = GET(struct sphere, SCENE + i * sizeof s);
    double b = (u * s.x + v * s.y + s.z) / length;
    double c = s.x * s.x + s.y * s.y + s.z * s.z - s.r * s.r, d = b * b - c;
    if (d > 0 && b - sqrt(d) > 0 && b - sqrt(d) < best) {
      best = b - sqrt(d);
      colour = i * 1000 + (uint32_t)(best * 50);
    }
  }
  return colour;
}

static int32_t take_tile(uint16_t from) {
  lock(10 + from);
  int32_t next = GET(int32_t, QUEUE(from)), end = GET(int32_t, QUEUE(from) + 4);
  if (next < end)
    PUT(int32_t, QUEUE(from), next + 1);
  unlock(10 + from);
  return next < end ? next : -1;
}

static void trace(int32_t tile) {
  uint32_t x0 = (uint32_t)tile % (WIDTH / TILE) * TILE, y0 = (uint32_t)tile / (WIDTH / TILE) * TILE;
  uint64_t tests = 0;
  for (uint32_t y = y0; y < y0 + TILE; y++) {
    uint64_t row = 0;
    for (uint32_t x = x0; x < x0 + TILE; x++)
      PUT(uint32_t, PICTURE + 4 * ((size_t)y * WIDTH + x), shade(x, y, &row));
    work(10.0 * (double)row);
    tests += row;
  }
  lock(9);
  PUT(uint64_t, RAYS, GET(uint64_t, RAYS) + tests);
  unlock(9);
}

static void raytrace(uint16_t me) {
  if (me == 0) {
    for (uint32_t i = 0; i < SPHERES; i++)
      PUT(struct sphere, SCENE + i * sizeof(struct sphere),
          ((struct sphere){(i % 8) - 3.5, (i / 8) - 3.5, 5 + i % 5, 0.4}));
    for (uint16_t q = 0; q < m.nodes; q++) {
      PUT(int32_t, QUEUE(q), (int32_t)(TILES * q / m.nodes));
      PUT(int32_t, QUEUE(q) + 4, (int32_t)(TILES * (q + 1u) / m.nodes));
    }
  }
  barrier();
  for (uint16_t k = 0; k < m.nodes; k++)
    for (int32_t tile; (tile = take_tile((uint16_t)((me + k) % m.nodes))) >= 0;)
      trace(tile);
  barrier();
  if (me != 0)
    return;
  checksum = (int64_t)GET(uint64_t, RAYS);
  for (size_t i = 0; i < WIDTH * WIDTH; i++)
    checksum = checksum * 31 + GET(uint32_t, PICTURE + 4 * i);
}

/* ---- ocean: sweeps over grids ------------------------------------------------------------ */

/* As SPLASH's: in each step sweeps that make one grid of others, then red-black relaxation with
 * a residual under a lock; rows in bands. */
#define GRID 258u
#define STEPS 4
#define SWEEPS 4
#define RELAXATIONS 4
#define CELL(grid, i, j)                                                                           \
  (MR_PAGE + (size_t)(grid)*131 * MR_PAGE + 8 * ((size_t)(i)*GRID + (size_t)(j)))

static void sweep(uint32_t to, uint32_t from, uint32_t first, uint32_t last) {
  for (uint32_t i = first; i < last; i++) {
    for (uint32_t j = 1; j < GRID - 1; j++)
      PUT(double, CELL(to, i, j),
          0.2 * (GET(double, CELL(from, i, j)) + GET(double, CELL(from, i - 1, j)) +
                 GET(double, CELL(from, i + 1, j)) + GET(double, CELL(from, i, j - 1)) +
                 GET(double, CELL(from, i, j + 1))) +
              1e-3 * (i ^ j));
    work(3.0 * GRID);
  }
}

static double relax(uint32_t colour, uint32_t first, uint32_t last) {
  double change = 0;
  for (uint32_t i = first; i < last; i++) {
    for (uint32_t j = 1 + (i + colour) % 2; j < GRID - 1; j += 2) {
      double old = GET(double, CELL(0, i, j));
      double fresh = 0.25 * (GET(double, CELL(0, i - 1, j)) + GET(double, CELL(0, i + 1, j)) +
                             GET(double, CELL(0, i, j - 1)) + GET(double, CELL(0, i, j + 1)));
      PUT(double, CELL(0, i, j), old + 1.2 * (fresh - old));
      change += fabs(fresh - old);
    }
    work(3.0 * GRID);
  }
  return change;
}

static void add_residual(double change) {
  lock(3);
  /* Whole numbers: the order of adding does not matter. */
  PUT(int64_t, 0, GET(int64_t, 0) + (int64_t)(change * 1e6));
  unlock(3);
}

static void ocean(uint16_t me) {
  uint32_t first = 1 + (GRID - 2) * me / m.nodes, last = 1 + (GRID - 2) * (me + 1u) / m.nodes;
  for (uint32_t i = first; i < last; i++)
    for (uint32_t j = 1; j < GRID - 1; j++)
      PUT(double, CELL(0, i, j), (i * 7 + j * 13) % 100);
  barrier();
  for (int step = 0; step < STEPS; step++) {
    for (uint32_t s = 0; s < SWEEPS; s++) {
      sweep((s + 1) % SWEEPS, s, first, last);
      barrier();
    }
    for (int r = 0; r < RELAXATIONS; r++) {
      double change = 0;
      for (uint32_t colour = 0; colour < 2; colour++) {
        change += relax(colour, first, last);
        barrier();
      }
      add_residual(change);
    }
  }
  barrier();
  if (me == 0)
    checksum = GET(int64_t, 0);
}

static const struct {
  const char *name;
  void (*run)(uint16_t);
  uint32_t pages;
} programs[] = {{"tsp", tsp, 512}, {"raytrace", raytrace, 80}, {"ocean", ocean, 540}};

static void run_programs(struct link link) {
  static const uint32_t batches[] = {1, MR_BATCH};
  const char *separator = "";
  printf("{\"nodes\": 8, \"runs\": [");
  for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
    int64_t expected = 0;
    for (int fetch = 0; fetch < MR_FETCH_POLICIES; fetch++)
      for (int b = 0; b < 2; b++) {
        /* As in the paper homes stay, and nothing rides on grants. */
        struct how how = {.fetch = (enum mr_fetch)fetch, .batch = batches[b], .grant_bytes = 1};
        double ns = run(programs[p].run, link, 8, programs[p].pages, &how);
        struct mr_core_counters c = sum();
        close_all();
        expected = fetch == 0 && b == 0 ? checksum : expected;
        if (checksum != expected)
          fail("the policies' results differ");
        printf("%s\n{\"program\": \"%s\", \"fetch\": \"%s\", \"batch\": %u, \"seconds\": %.9f, "
               "\"result\": %" PRId64 ", \"messages\": %" PRIu64 ", \"bytes\": %" PRIu64
               ", \"fetches\": %" PRIu64 ", \"pages\": %" PRIu64 ", \"parts\": %" PRIu64
               ", \"part_bytes\": %" PRIu64 ", \"searched\": %" PRIu64 "}",
               separator, programs[p].name, mr_fetch_name((enum mr_fetch)fetch), batches[b],
               ns * 1e-9, checksum, c.messages, c.bytes, c.fetches, c.pages, c.parts, c.part_bytes,
               c.searched);
        separator = ",";
      }
  }
  printf("\n]}\n");
}

/* ---- homes ---------------------------------------------------------------------------- */

static void run_homes(struct link link) {
  static const struct {
    const char *name;
    enum mr_homes homes;
    bool block;
  } policies[] = {{"cyclic", MR_HOMES_STAY, false},
                  {"block", MR_HOMES_STAY, true},
                  {"first-writer", MR_HOMES_FIRST_WRITER, false},
                  {"migrate", MR_HOMES_MIGRATE, false}};
  const char *separator = "";
  printf("{\"nodes\": 8, \"runs\": [");
  for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
    int64_t expected = 0;
    for (size_t h = 0; h < sizeof policies / sizeof *policies; h++)
      for (uint32_t grant = 0; grant < 2; grant++) {
        struct how how = {.batch = MR_BATCH,
                          .homes = policies[h].homes,
                          .home_run = policies[h].block ? (programs[p].pages + 7) / 8 : 0,
                          .grant_bytes = grant != 0 ? MR_GRANT_BYTES : 1};
        double ns = run(programs[p].run, link, 8, programs[p].pages, &how);
        struct mr_core_counters c = sum();
        close_all();
        expected = h == 0 && grant == 0 ? checksum : expected;
        if (checksum != expected)
          fail("the policies' results differ");
        printf(
            "%s\n{\"program\": \"%s\", \"homes\": \"%s\", \"grant_bytes\": %u, \"seconds\": %.9f, "
            "\"messages\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"fetches\": %" PRIu64
            ", \"diffs\": %" PRIu64 ", \"moved\": %" PRIu64 ", \"passed_on\": %" PRIu64
            ", \"carried\": %" PRIu64 ", \"renewed\": %" PRIu64 "}",
            separator, programs[p].name, policies[h].name, grant != 0 ? MR_GRANT_BYTES : 0,
            ns * 1e-9, c.messages, c.bytes, c.fetches, c.diffs, c.moved, c.passed_on, c.carried,
            c.spared);
        separator = ",";
      }
  }
  printf("\n]}\n");
}

/* ---- scale --------------------------------------------------------------------------- */

#define TURNS 20

/* A page of each home's is read by the next node, 20 times. */
static void only_fetch(uint16_t me) {
  for (int turn = 1; turn <= TURNS; turn++) {
    PUT(int32_t, (size_t)me * 16 * MR_PAGE, turn);
    barrier();
    if (GET(int32_t, (size_t)((me + 1u) % m.nodes) * 16 * MR_PAGE) != turn)
      fail("a wrong value");
    barrier();
  }
}
static void no_fetch(uint16_t me) {
  for (int turn = 1; turn <= TURNS; turn++) {
    PUT(int32_t, (size_t)me * 16 * MR_PAGE, turn);
    barrier();
    barrier();
  }
}
static void locks(uint16_t me) {
  (void)me;
  for (int turn = 0; turn < TURNS; turn++) {
    lock(1);
    unlock(1);
  }
}
static void barriers(uint16_t me) {
  (void)me;
  for (int turn = 0; turn < TURNS; turn++)
    barrier();
}

static void cost(const char *what, const char *separator, uint16_t nodes, uint64_t operations,
                 const struct mr_core_counters *all, const struct mr_core_counters *without) {
  printf("%s\n{\"operation\": \"%s\", \"nodes\": %u, \"messages\": %.3f, \"bytes\": %.1f}",
         separator, what, nodes, (double)(all->messages - without->messages) / (double)operations,
         (double)(all->bytes - without->bytes) / (double)operations);
}

static struct mr_core_counters counted(void (*program)(uint16_t), uint16_t nodes,
                                       enum mr_fetch fetch) {
  static const struct link none = {1000, 0, 1};
  run(program, none, nodes, 16u * nodes, &(struct how){.fetch = fetch, .batch = 1});
  struct mr_core_counters c = sum();
  close_all();
  return c;
}

static void run_scale(void) {
  const struct mr_core_counters none = {0};
  printf("{\"costs\": [");
  for (uint16_t nodes = 1; nodes <= NODES_MAX; nodes *= 2) {
    struct mr_core_counters b = counted(barriers, nodes, MR_FETCH_PAGE);
    cost("barrier", nodes > 1 ? "," : "", nodes, TURNS, &b, &none);
    struct mr_core_counters l = counted(locks, nodes, MR_FETCH_PAGE);
    cost("lock", ",", nodes, (uint64_t)TURNS * nodes, &l, &none);
    struct mr_core_counters w = counted(no_fetch, nodes, MR_FETCH_PAGE);
    cost("barrier where every node wrote a page", ",", nodes, 2 * TURNS, &w, &none);
    if (nodes == 1)
      continue;
    for (int fetch = MR_FETCH_PAGE; fetch <= MR_FETCH_STAMP; fetch++) {
      char name[32];
      struct mr_core_counters f = counted(only_fetch, nodes, (enum mr_fetch)fetch);
      snprintf(name, sizeof name, "fetch, %s", mr_fetch_name((enum mr_fetch)fetch));
      cost(name, ",", nodes, (uint64_t)TURNS * nodes, &f, &w);
    }
  }
  printf("\n]}\n");
}

int main(int count, char **arguments) {
  if (count == 2 && strcmp(arguments[1], "scale") == 0) {
    run_scale();
    return 0;
  }
  struct link link;
  bool homes = count > 1 && strcmp(arguments[1], "homes") == 0;
  if (count != 5 || (!homes && strcmp(arguments[1], "programs") != 0) ||
      (link.latency_ns = atof(arguments[2])) < 0 ||
      (link.ns_per_byte = atof(arguments[3]) / 1e3) < 0 || (link.cpu = atof(arguments[4])) <= 0) {
    fprintf(stderr,
            "maru: usage: maru-sim-dsm scale | programs|homes LATENCY_NS PS_PER_BYTE CPU\n");
    return 64;
  }
  (homes ? run_homes : run_programs)(link);
  return 0;
}
