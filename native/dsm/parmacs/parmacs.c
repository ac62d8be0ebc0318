/* parmacs.c: processes as by fork, on the nodes of a job (maru/parmacs.h).
 *
 * Node 0 runs the program's main.  Every other node waits in a loop for something to do.  At CREATE
 * node 0 writes the *image* of its private memory into shared memory, and posts a semaphore for
 * each node that is to go on from there; that node copies the image to the same addresses, on top
 * of its own, and calls the body.  Pages of zeros are not written, only named.
 *
 * The program is not position-independent and its libraries lie where they lie on node 0
 * (address randomisation is turned off), so pointers mean the same.  This library's own state is
 * not in the image: it is another object than the program.
 */
#define _GNU_SOURCE
#include <maru/parmacs.h>

#include "core.h"
#include "diff.h"
#include "heap.h"
#include "node.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* Behind the largest shared memory (node.c). */
#define ARENA ((uint8_t *)UINT64_C(0x320000000000))
#define ARENA_SIZE ((size_t)64 << 30)
#define STACK_SIZE ((size_t)64 << 20)
#define STACK (ARENA + ARENA_SIZE + MR_PAGE)
#define RED_ZONE 256u
#define DEFAULT_MIB 4096u
#define IDS_AT_ONCE 256u
#define CHUNK ((size_t)64 << 10)
#define STEADY "MARU_PARMACS_STEADY"

struct range {
  uint8_t *from, *to;
};
enum { GLOBALS, HEAP, STACK_IN_USE, RANGES };

/* What node 0 tells the others; the first thing in shared memory. */
struct command {
  void (*body)(void); /* NULL: the job ends */
  void *libraries;
  struct range ranges[RANGES];
  size_t pieces;
  uint8_t **addresses; /* `pieces` of them, ascending within a range */
  uint8_t *contents;   /* a page each */
};

/* A process begins with one node's: there is one program in it, as there is one node. */
static struct {
  const struct maru_parmacs_program *program;
  char **arguments;
  int count;
  pid_t owner;
  bool shared; /* globals and what malloc gives are */
  struct command *command;
  struct mr_heap *heap;       /* NULL: not yet */
  struct mr_heap of_node;     /* where it is shared: what this node cuts blocks from */
  uint8_t *chunk, *chunk_end; /* of small shared blocks */
  uint32_t id, ids_end;
  size_t image_room; /* bytes at the image that was written last */
  uint8_t *image;
  uint32_t first, created; /* children not yet waited for: nodes order[first … created) */
  uint32_t order[MR_JOB_NODES_MAX];
  bool busy[MR_JOB_NODES_MAX];
  bool running; /* a created process's body */
  void (*body)(void);
  uint8_t *stack; /* what of it the image holds begins there */
  ucontext_t loop, process;
} self;

/* ---- shared memory ---------------------------------------------------------------- */

static uint8_t *shared_pages(size_t size) {
  size_t most;
  uint8_t *base = mr_node_memory(&most);
  size_t whole = (size + MR_PAGE - 1) & ~(size_t)(MR_PAGE - 1);
  int64_t at = whole < size || whole > most
                   ? INT64_MAX
                   : mr_node_request(MR_FETCH_ADD, MR_HEAP, (int64_t)whole);
  if ((uint64_t)at > most || whole > most - (size_t)at)
    mr_node_die(STATUS_UNAVAILABLE,
                "no room for %zu more bytes in %zu MiB of shared memory; set MARU_DSM_MIB to more",
                size, most >> 20);
  return base + at;
}

static uint8_t *shared_block(size_t size) {
  if (size >= MR_PAGE)
    return shared_pages(size);
  size_t unit = (size + 63) & ~(size_t)63;
  if (unit > (size_t)(self.chunk_end - self.chunk)) {
    self.chunk = shared_pages(CHUNK);
    self.chunk_end = self.chunk + CHUNK;
  }
  uint8_t *at = self.chunk;
  self.chunk += unit;
  return at;
}

void *maru_parmacs_share(size_t size, const char *site) {
  uint8_t *block = shared_block(size);
  mr_node_site(block, size, site);
  return block;
}

/* ---- malloc --------------------------------------------------------------------------- */

static bool from_heap(const void *block) {
  const uint8_t *at = block;
  return self.heap != NULL &&
         (self.shared ? mr_node_shares(block, 1) : at >= ARENA && at < ARENA + ARENA_SIZE);
}

void *maru_parmacs_memalign(size_t alignment, size_t size) {
  if (self.heap == NULL)
    return aligned_alloc(alignment, size);
  void *block = mr_heap_take(self.heap, size, alignment);
  size_t need = mr_heap_need(size, alignment);
  if (block == NULL && self.shared && need != 0) {
    size_t chunk = need > CHUNK ? need : CHUNK;
    self.heap->next = maru_parmacs_share(chunk, "malloc");
    self.heap->end = self.heap->next + chunk;
    block = mr_heap_take(self.heap, size, alignment);
  }
  if (block == NULL)
    errno = ENOMEM;
  return block;
}

void *maru_parmacs_malloc(size_t size) {
  return self.heap != NULL ? maru_parmacs_memalign(16, size) : malloc(size);
}

void maru_parmacs_free(void *block) {
  if (from_heap(block))
    mr_heap_give(self.heap, block);
  else
    free(block);
}

void *maru_parmacs_calloc(size_t count, size_t size) {
  size_t whole;
  if (__builtin_mul_overflow(count, size, &whole)) {
    errno = ENOMEM;
    return NULL;
  }
  void *block = maru_parmacs_malloc(whole);
  return block != NULL ? memset(block, 0, whole) : NULL;
}

void *maru_parmacs_realloc(void *old, size_t size) {
  if (old == NULL)
    return maru_parmacs_malloc(size);
  if (!from_heap(old))
    /* A library's: its content's size is unknown here. */
    return realloc(old, size);
  size_t room = mr_heap_room(old);
  if (size <= room)
    return old;
  void *block = maru_parmacs_malloc(size);
  if (block == NULL)
    return NULL;
  memcpy(block, old, room);
  maru_parmacs_free(old);
  return block;
}

/* ---- synchronisation --------------------------------------------------------------------- */

uint32_t maru_parmacs_id(void) {
  if (self.id == self.ids_end) {
    int64_t first = mr_node_request(MR_FETCH_ADD, MR_NAMES, IDS_AT_ONCE);
    if (first + IDS_AT_ONCE > (int64_t)MARU_DSM_IDS)
      mr_node_die(STATUS_UNAVAILABLE, "more than %u locks, barriers and the like", MARU_DSM_IDS);
    /* 0 is none. */
    self.id = (uint32_t)first + (first == 0);
    self.ids_end = (uint32_t)first + IDS_AT_ONCE;
  }
  return self.id++;
}

static uint32_t initialised(const char *macro, uint32_t id) {
  if (id == 0)
    mr_node_die(STATUS_USAGE, "%s of what was not initialised", macro);
  return id;
}

void maru_parmacs_lock(uint32_t id) { maru_dsm_lock(initialised("LOCK", id)); }
void maru_parmacs_unlock(uint32_t id) { maru_dsm_unlock(initialised("UNLOCK", id)); }
void maru_parmacs_set(uint32_t id, int on) { maru_dsm_flag_set(initialised("SETPAUSE", id), on); }
void maru_parmacs_await(uint32_t id) { maru_dsm_flag_await(initialised("WAITPAUSE", id), 1); }

void maru_parmacs_condition_wait(uint32_t id, uint32_t lock) {
  maru_dsm_condition_wait(initialised("CONDVARWAIT", id), initialised("CONDVARWAIT", lock));
}
void maru_parmacs_signal(uint32_t id) {
  maru_dsm_condition_signal(initialised("CONDVARSIGNAL", id));
}
void maru_parmacs_broadcast(uint32_t id) {
  maru_dsm_condition_broadcast(initialised("CONDVARBCAST", id));
}

/* There would be a wait without end. */
static void check_processes(const char *macro, long processes) {
  if (processes < 1 || (uint64_t)processes > maru_dsm_nodes())
    mr_node_die(STATUS_USAGE, "%s for %ld processes in a job of %u nodes; start it with -n %ld",
                macro, processes, maru_dsm_nodes(), processes);
}

void maru_parmacs_barrier(uint32_t id, long processes) {
  check_processes("BARRIER", processes);
  uint32_t barrier = initialised("BARRIER", id);
  if (barrier >= MARU_DSM_IDS)
    mr_node_die(STATUS_USAGE, "BARRIER of %u, which is no barrier", id);
  mr_node_request(MR_BARRIER, MR_BARRIERS + barrier, processes);
}

long maru_parmacs_next(uint32_t id, long last, long processes) {
  int64_t value = maru_dsm_fetch_add(initialised("GETSUB", id), 1);
  if (value <= last)
    return (long)value;
  /* Each process is one too many, once. */
  maru_parmacs_barrier(id, processes);
  if (value == last + 1)
    maru_dsm_fetch_add(id, -(last + 1 + processes));
  maru_parmacs_barrier(id, processes);
  return -1;
}

unsigned long maru_parmacs_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (unsigned long)now.tv_sec * 1000000 + (unsigned long)now.tv_nsec / 1000;
}

/* ---- images -------------------------------------------------------------------------------- */

/* Where the piece ends that begins at `from`: none lies in two pages. */
static uint8_t *piece_end(const struct range *range, uint8_t *from) {
  uint8_t *page_end = (uint8_t *)(((uintptr_t)from | (MR_PAGE - 1)) + 1);
  return page_end < range->to ? page_end : range->to;
}

static bool is_zero(const uint8_t *from, const uint8_t *to) {
  return from == to || (*from == 0 && memcmp(from, from + 1, (size_t)(to - from) - 1) == 0);
}

static size_t count_pieces(const struct range *range) {
  size_t pieces = 0;
  for (uint8_t *at = range->from, *end; at < range->to; at = end) {
    end = piece_end(range, at);
    pieces += !is_zero(at, end);
  }
  return pieces;
}

static void write_pieces(struct command *command, const struct range *range) {
  for (uint8_t *at = range->from, *end; at < range->to; at = end) {
    end = piece_end(range, at);
    if (is_zero(at, end))
      continue;
    command->addresses[command->pieces] = at;
    memcpy(command->contents + command->pieces * MR_PAGE, at, (size_t)(end - at));
    command->pieces++;
  }
}

static size_t read_pieces(const struct command *command, const struct range *range, size_t next) {
  for (uint8_t *at = range->from, *end; at < range->to; at = end) {
    end = piece_end(range, at);
    if (next < command->pieces && command->addresses[next] == at)
      memcpy(at, command->contents + next++ * MR_PAGE, (size_t)(end - at));
    else if (!is_zero(at, end))
      memset(at, 0, (size_t)(end - at));
  }
  return next;
}

/* Room for the image, from the last one's if that is enough. */
static void make_room(struct command *command, size_t pieces) {
  size_t need = pieces * (sizeof(uint8_t *) + MR_PAGE) + MR_PAGE;
  if (need > self.image_room) {
    self.image_room = 2 * need;
    self.image = maru_parmacs_share(self.image_room, "CREATE");
  }
  command->contents = self.image;
  command->addresses = (uint8_t **)(self.image + pieces * MR_PAGE);
}

/* `stack`: what of the stack is in use begins there. */
static void write_image(uint8_t *stack) {
  struct command *command = self.command;
  uint8_t *globals = (uint8_t *)self.program->globals,
          *globals_end = (uint8_t *)self.program->globals_end;
  command->ranges[GLOBALS] = (struct range){globals, self.shared ? globals : globals_end};
  command->ranges[HEAP] = (struct range){ARENA, self.shared ? ARENA : self.heap->next};
  command->ranges[STACK_IN_USE] = (struct range){stack, STACK + STACK_SIZE};
  command->libraries = stdout;
  size_t pieces = 0;
  for (int i = 0; i < RANGES; i++)
    pieces += count_pieces(&command->ranges[i]);
  make_room(command, pieces);
  command->pieces = 0;
  for (int i = 0; i < RANGES; i++)
    write_pieces(command, &command->ranges[i]);
}

static void read_image(void) {
  const struct command *command = self.command;
  if (command->libraries != stdout)
    mr_node_die(STATUS_UNAVAILABLE,
                "libraries lie elsewhere than on node 0: address randomisation could not be turned "
                "off, or the libraries differ");
  size_t next = 0;
  for (int i = 0; i < RANGES; i++)
    next = read_pieces(command, &command->ranges[i], next);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void await_child(uint32_t child) {
  mr_node_request(MR_WAIT, MR_ENDED + child, 0);
  self.busy[child] = false;
}

void maru_parmacs_wait(long count) {
  for (; count > 0 && self.first < self.created; count--)
    await_child(self.order[self.first++]);
  if (self.first == self.created)
    self.first = self.created = 0;
}

/* A node that is idle; else the oldest child's, when that has ended. */
static uint32_t idle_node(void) {
  for (uint32_t i = 1; i < maru_dsm_nodes(); i++)
    if (!self.busy[i])
      return i;
  uint32_t oldest = self.order[0];
  memmove(self.order, self.order + 1, --self.created * sizeof *self.order);
  await_child(oldest);
  return oldest;
}

static void give_command(void (*body)(void), long count) {
  uint32_t chosen[MR_JOB_NODES_MAX];
  self.command->body = body;
  for (long i = 0; i < count; i++) {
    chosen[i] = idle_node();
    self.busy[chosen[i]] = true;
  }
  for (long i = 0; i < count; i++) {
    self.order[self.created++] = chosen[i];
    mr_node_request(MR_POST, MR_START + chosen[i], 1);
  }
  /* The next image may not be written before. */
  for (long i = 0; i < count; i++)
    mr_node_request(MR_WAIT, MR_TAKEN, 0);
}

void maru_parmacs_create(void (*body)(void), long count) {
  if (self.running)
    mr_node_die(STATUS_USAGE, "CREATE by a created process; only the first may");
  if (count < 1)
    return;
  check_processes("CREATE", count + 1);
  memmove(self.order, self.order + self.first, (self.created - self.first) * sizeof *self.order);
  self.created -= self.first;
  self.first = 0;
  /* What stdio holds would be nobody's otherwise: a child's streams are its own. */
  fflush(NULL);
  uintptr_t frame = (uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)63;
  write_image((uint8_t *)frame);
  give_command(body, count);
}

static void run_process(void) { self.body(); }

/* On the stack of the image, below what is in use. */
static void enter_process(void) {
  getcontext(&self.process);
  self.process.uc_stack.ss_sp = STACK;
  self.process.uc_stack.ss_size = (size_t)(self.stack - STACK) - RED_ZONE;
  self.process.uc_link = &self.loop;
  makecontext(&self.process, run_process, 0);
  self.running = true;
  swapcontext(&self.loop, &self.process);
  self.running = false;
}

static void serve_node_0(void) {
  uint32_t me = maru_dsm_node();
  for (;;) {
    mr_node_request(MR_WAIT, MR_START + me, 0);
    if (self.command->body == NULL)
      return;
    read_image();
    /* From the next line on node 0 may write another command. */
    self.body = self.command->body;
    self.stack = self.command->ranges[STACK_IN_USE].from;
    mr_node_request(MR_POST, MR_TAKEN, 1);
    enter_process();
    fflush(NULL);
    mr_node_request(MR_POST, MR_ENDED + me, 1);
  }
}

/* A created process that ends well leaves its node to the next. */
void maru_parmacs_exit(int status) {
  if (self.running && status == 0)
    setcontext(&self.loop);
  exit(status);
}

/* Of node 0.  Where it fails, nobody is waited for: they may wait for it. */
static void at_exit(int status, void *unused) {
  (void)unused;
  /* A child of the program's own is no node. */
  if (self.owner != getpid() || !mr_node_started() || maru_dsm_node() != 0 ||
      (status != 0 && self.first < self.created))
    return;
  /* Where they wait for node 0, the job ends: deadlock.c. */
  maru_parmacs_wait(MR_JOB_NODES_MAX);
  self.command->body = NULL;
  for (uint32_t i = 1; i < maru_dsm_nodes(); i++)
    mr_node_request(MR_POST, MR_START + i, 1);
  maru_dsm_exit();
}

/* ---- main ---------------------------------------------------------------------- */

/* Libraries at the same addresses on every node.  Where the system refuses, images
 * are refused when they differ (read_image). */
static void steady_addresses(char **arguments) {
  int now = personality(0xffffffff);
  if (getenv(STEADY) == NULL && getenv("MARU_DSM_NODES") != NULL && now >= 0 &&
      !(now & ADDR_NO_RANDOMIZE) && personality((unsigned)now | ADDR_NO_RANDOMIZE) >= 0) {
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = 0;
    setenv(STEADY, "1", 1);
    execv(self, arguments);
  }
  unsetenv(STEADY);
}

static void map_at(uint8_t *address, size_t size, const char *what) {
  uint8_t *mapped = mmap(address, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped != address)
    mr_node_die(STATUS_UNAVAILABLE, "no room for the %s at %p: %s", what, (void *)address,
                mapped == MAP_FAILED ? strerror(errno) : "something else lies there");
}

static bool globals_shared(void) {
  const char *asked = getenv("MARU_PARMACS_GLOBALS");
  if (asked != NULL && strcmp(asked, "shared") != 0 && strcmp(asked, "private") != 0)
    mr_node_die(STATUS_USAGE, "MARU_PARMACS_GLOBALS is '%s'; known: private, shared", asked);
  return asked != NULL && strcmp(asked, "shared") == 0;
}

static void start_node(const struct maru_parmacs_program *program) {
  uintptr_t first = (uintptr_t)program->globals & ~(uintptr_t)(MR_PAGE - 1),
            end = ((uintptr_t)program->globals_end + MR_PAGE - 1) & ~(uintptr_t)(MR_PAGE - 1);
  struct mr_globals globals = {(void *)first, end - first};
  mr_node_start(self.shared ? &globals : NULL, DEFAULT_MIB);
}

/* Pointers to them may be in the program's memory. */
static char **copy_strings(char **strings) {
  size_t count = 0;
  while (strings[count] != NULL)
    count++;
  char **copy = maru_parmacs_calloc(count + 1, sizeof *copy);
  for (size_t i = 0; i < count && copy != NULL; i++) {
    copy[i] = maru_parmacs_malloc(strlen(strings[i]) + 1);
    if (copy[i] == NULL)
      return NULL;
    strcpy(copy[i], strings[i]);
  }
  return copy;
}

static void run_main(void) {
  char **arguments = copy_strings(self.arguments), **environment = copy_strings(environ);
  if (arguments == NULL || environment == NULL)
    mr_node_die(STATUS_UNAVAILABLE, "no memory");
  environ = environment;
  exit(self.program->main(self.count, arguments, environment));
}

/* On a stack at an address that is free in every process. */
static void enter_main(void) {
  getcontext(&self.process);
  self.process.uc_stack.ss_sp = STACK;
  self.process.uc_stack.ss_size = STACK_SIZE;
  self.process.uc_link = NULL;
  makecontext(&self.process, run_main, 0);
  setcontext(&self.process);
}

int maru_parmacs_main(const struct maru_parmacs_program *program, int count, char **arguments,
                      char **environment) {
  (void)environment;
  static struct maru_parmacs_program kept;
  kept = *program;
  steady_addresses(arguments);
  self.program = &kept;
  self.arguments = arguments;
  self.count = count;
  self.owner = getpid();
  self.shared = globals_shared();
  start_node(program);
  map_at(ARENA, ARENA_SIZE, "heap");
  map_at(STACK, STACK_SIZE, "stack");
  size_t size;
  self.command = (struct command *)mr_node_memory(&size);
  on_exit(at_exit, NULL);
  self.heap = self.shared ? &self.of_node : (struct mr_heap *)ARENA;
  if (!self.shared)
    *self.heap = (struct mr_heap){.next = ARENA + sizeof *self.heap, .end = ARENA + ARENA_SIZE};
  if (maru_dsm_node() == 0) {
    shared_pages(sizeof *self.command);
    enter_main();
  }
  serve_node_0();
  maru_dsm_exit();
  return 0;
}
