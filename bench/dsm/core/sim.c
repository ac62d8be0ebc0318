#define _GNU_SOURCE
#include "sim.h"

#include "../../../native/dsm/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define STACK (256 * 1024)

/* ns.  Sources: bench_dsm_access and bench_dsm_diff on the machine of the results. */
#define FAULT_NS 3300u
#define HANDLE_NS 500u
#define PART_NS 150u   /* gather, pack, unpack, apply */
#define SEARCHED_NS 4u /* a bitmap united */
#define DIFF_NS 150u

_Noreturn void sim_fail(const char *what) {
  fprintf(stderr, "maru: maru-sim-dsm: %s\n", what);
  exit(70);
}

void *sim_need(void *memory) {
  if (memory == NULL)
    sim_fail("no memory");
  return memory;
}

/* ---- the machine ---------------------------------------------------------------- */

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
  struct mr_area *area; /* NULL: `memory` and `mapped` */
  uint8_t *memory, *twins;
  enum mr_access *mapped;
  ucontext_t context;
  void *stack;
  bool waits, ended;
  int64_t result;
  double free_at, card_free_at; /* the server's processor, the network card */
  struct message *outbox[4 * SIM_NODES_MAX];
  unsigned outgoing;
};

static struct {
  struct sim_job job;
  struct node node[SIM_NODES_MAX];
  struct event *heap;
  size_t count, capacity;
  uint64_t numbers;
  double now;
  ucontext_t scheduler;
  struct node *running;
} m;

static bool before(const struct event *a, const struct event *b) {
  return a->at < b->at || (a->at == b->at && a->number < b->number);
}

static void push(struct event event) {
  if (m.count == m.capacity) {
    m.capacity = m.capacity != 0 ? 2 * m.capacity : 1024;
    m.heap = sim_need(realloc(m.heap, m.capacity * sizeof *m.heap));
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
  struct message *message = sim_need(malloc(sizeof *message + length));
  *message = (struct message){.from = node->number, .to = to, .length = length};
  memcpy(message->bytes, bytes, length);
  if (node->outgoing == sizeof node->outbox / sizeof *node->outbox)
    sim_fail("too many messages at once");
  node->outbox[node->outgoing++] = message;
}

static void on_protect(void *context, uint32_t page, uint32_t count, enum mr_access access) {
  struct node *node = context;
  if (node->area != NULL && mr_area_allow(node->area, page, count, access) < 0)
    sim_fail("the rights of a page cannot be set");
  for (uint32_t p = page; node->area == NULL && p < page + count; p++)
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
  sim_fail(why);
}

static uint64_t on_now(void *context) {
  (void)context;
  return (uint64_t)m.now;
}

static const struct mr_core_sink sink = {
    .send = on_send, .protect = on_protect, .done = on_done, .failed = on_failed, .now = on_now};

static double work_in(const struct mr_core_counters *c) {
  return (double)c->parts * PART_NS + (double)c->searched * SEARCHED_NS +
         (double)c->diffs * DIFF_NS;
}

/* What was sent while the node worked from `start` until the result leaves then. */
static double post(struct node *node, double start, double before_ns, double base_ns) {
  double end =
      start + m.job.link.cpu * (base_ns + work_in(mr_core_counters(node->core)) - before_ns);
  for (unsigned i = 0; i < node->outgoing; i++) {
    struct message *message = node->outbox[i];
    double leave = end > node->card_free_at ? end : node->card_free_at;
    node->card_free_at = leave + m.job.link.ns_per_byte * (double)message->length;
    push((struct event){.at = node->card_free_at + m.job.link.latency_ns,
                        .number = m.numbers++,
                        .message = message});
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
    sim_fail("a message was refused");
  free(event.message);
  node->free_at = post(node, m.now, before_ns, HANDLE_NS);
  if (waited && !node->waits)
    resume_at(node->number, node->free_at);
}

/* ---- what programs call -------------------------------------------------------------- */

uint16_t sim_node(void) { return m.running->number; }
uint16_t sim_nodes(void) { return m.job.nodes; }
double sim_now(void) { return m.now; }
uint8_t *sim_memory(void) { return mr_area_program(m.running->area); }

static void suspend(struct node *node) { swapcontext(&node->context, &m.scheduler); }

void sim_work(double ns) {
  struct node *node = m.running;
  resume_at(node->number, m.now + ns * m.job.link.cpu);
  suspend(node);
}

/* A request was made; goes on when it is done. */
static int64_t complete(struct node *node, int rc, double before_ns, double base_ns) {
  if (rc != 0)
    sim_fail("a request was refused");
  double end = post(node, m.now, before_ns, base_ns);
  if (!node->waits)
    resume_at(node->number, end);
  suspend(node);
  return node->result;
}

static void ask(struct node *node, uint32_t page, bool write) {
  double before_ns = work_in(mr_core_counters(node->core));
  node->waits = true;
  int rc = write ? mr_core_write(node->core, page) : mr_core_read(node->core, page);
  complete(node, rc, before_ns, FAULT_NS);
}

uint8_t *sim_touch(size_t address, bool write) {
  struct node *node = m.running;
  uint32_t page = (uint32_t)(address / MR_PAGE);
  while (node->mapped[page] < (write ? MR_READ_WRITE : MR_READ))
    ask(node, page, write);
  return node->memory + address;
}

/* In a signal handler, on the coroutine's stack: others run until the page is there. */
static int on_fault(void *context, uint32_t page, bool write) {
  m.job.computed();
  ask(context, page, write);
  return 0;
}

int64_t sim_synchronise(enum mr_op op, uint32_t id, int64_t argument) {
  struct node *node = m.running;
  double before_ns = work_in(mr_core_counters(node->core));
  node->waits = true;
  return complete(node, mr_core_sync(node->core, op, id, argument), before_ns, HANDLE_NS);
}

/* ---- running ------------------------------------------------------------------------- */

static void enter(void) {
  struct node *node = m.running;
  m.job.program(node->number);
  node->ended = true;
  swapcontext(&node->context, &m.scheduler);
}

static void map_memory(struct node *node) {
  size_t size = (size_t)m.job.pages * MR_PAGE;
  if (m.job.faults) {
    if (mr_area_create(&node->area, MR_BY_MPROTECT, NULL, m.job.pages, on_fault, node) < 0)
      sim_fail("memory whose accesses are seen cannot be had");
    node->memory = mr_area_runtime(node->area);
  } else {
    node->memory = sim_need(aligned_alloc(MR_PAGE, size));
    memset(node->memory, 0, size);
    node->mapped = sim_need(calloc(m.job.pages, sizeof *node->mapped));
  }
  node->twins = sim_need(aligned_alloc(MR_PAGE, size));
}

static void open_node(uint16_t number) {
  static uint32_t incarnations[SIM_NODES_MAX];
  struct node *node = &m.node[number];
  *node = (struct node){.number = number, .stack = sim_need(malloc(STACK))};
  map_memory(node);
  struct mr_core_config config = {
      .nodes = m.job.nodes,
      .me = number,
      .pages = m.job.pages,
      .home_run = m.job.home_run != 0 ? m.job.home_run : 16,
      .objects = SIM_OBJECTS,
      .incarnations = incarnations,
      .fetch = m.job.fetch,
      .homes = m.job.homes,
      .prefetch = m.job.prefetch,
      .grant_bytes = m.job.grant_bytes,
      .limits = {.batch = m.job.batch, .part_ns = (uint32_t)(PART_NS * m.job.link.cpu)},
      .memory = node->memory,
      .twins = node->twins,
      .sink = &sink,
      .context = node};
  if (mr_core_create(&node->core, &config) != 0)
    sim_fail("no core");
  getcontext(&node->context);
  node->context.uc_stack.ss_sp = node->stack;
  node->context.uc_stack.ss_size = STACK;
  makecontext(&node->context, enter, 0);
  resume_at(number, 0);
}

static void close_node(struct node *node, struct mr_core_counters *all) {
  const struct mr_core_counters *c = mr_core_counters(node->core);
  if (!node->ended)
    sim_fail("a node hangs");
  all->fetches += c->fetches;
  all->pages += c->pages;
  all->parts += c->parts;
  all->page_bytes += c->page_bytes;
  all->part_bytes += c->part_bytes;
  all->searched += c->searched;
  all->messages += c->messages;
  all->bytes += c->bytes;
  all->foreseen += c->foreseen;
  all->unused += c->unused;
  all->requests += c->requests;
  all->moved += c->moved;
  all->passed_on += c->passed_on;
  all->diffs += c->diffs;
  all->carried += c->carried;
  all->spared += c->spared;
  mr_core_destroy(node->core);
  if (node->area != NULL)
    mr_area_destroy(node->area);
  else
    free(node->memory);
  free(node->twins);
  free(node->mapped);
  free(node->stack);
}

double sim_run(const struct sim_job *job, struct mr_core_counters *counters) {
  double end = 0;
  m.job = *job;
  m.now = 0;
  *counters = (struct mr_core_counters){0};
  for (uint16_t i = 0; i < job->nodes; i++)
    open_node(i);
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
  for (uint16_t i = 0; i < job->nodes; i++)
    close_node(&m.node[i], counters);
  return end;
}
