/* parmacs.c: processes as by fork, on the nodes of a job (maru/parmacs.h).
 *
 * Node 0 runs the program's main.  Every other node waits in a loop for something to do.  At CREATE
 * node 0 writes the *image* of its private memory into shared memory, and posts a semaphore for
 * each node that is to go on from there. That node copies the image to the same addresses, on top
 * of its own, and calls the body. Pages of zeros are not written, only named.
 *
 * The program is not position-independent and its libraries lie where they lie on node 0
 * (address randomisation is turned off), so pointers mean the same.  This library's own state is
 * not in the image: it is another object than the program.
 */
#define _GNU_SOURCE
#include <maru/parmacs.h>

#include "core.h"
#include "diff.h"
#include "image.h"
#include "memory.h"
#include "node.h"
#include "program.h"
#include "start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define DEFAULT_MIB 4096u
#define IDS_AT_ONCE 256u

/* What a created process does. */
struct body {
  void (*plain)(void); /* this, or the other with the argument */
  void (*given)(void *);
  void *argument;
};

/* What node 0 tells the others; the first thing in shared memory. */
struct command {
  struct body body; /* neither: the job ends */
  void *libraries;
  uint8_t *stack; /* what of it is in use begins there */
  struct mr_image image;
};

/* A process begins with one node's: there is one program in it, as there is one node. */
static struct {
  pid_t owner; /* 0: main was none of ours */
  bool shared; /* globals and what malloc gives are */
  struct command *command;
  ucontext_t loop, process;
} self;

/* The same of what a checkpoint holds. */
static struct {
  uint32_t id, ids_end;
  size_t image_room; /* bytes at the image that was written last */
  uint8_t *image;
  uint32_t first, created; /* children not yet waited for: nodes order[first … created) */
  uint32_t order[MR_JOB_NODES_MAX];
  bool busy[MR_JOB_NODES_MAX];
  bool running; /* a created process's body */
  struct body body;
  uint8_t *stack; /* what of it the image holds begins there */
} kept;

int mr_parmacs_own(struct mr_range *ranges) {
  ranges[0] = (struct mr_range){.from = (uint8_t *)&kept, .to = (uint8_t *)(&kept + 1)};
  return 1;
}

/* ---- synchronisation --------------------------------------------------------------------- */

uint32_t maru_parmacs_id(void) {
  if (kept.id == kept.ids_end) {
    int64_t first = mr_node_request(MR_FETCH_ADD, MR_NAMES, IDS_AT_ONCE);
    if (first + IDS_AT_ONCE > (int64_t)MARU_DSM_IDS)
      mr_node_die(STATUS_UNAVAILABLE, "more than %u locks, barriers and the like", MARU_DSM_IDS);
    /* 0 is none. */
    kept.id = (uint32_t)first + (first == 0);
    kept.ids_end = (uint32_t)first + IDS_AT_ONCE;
  }
  return kept.id++;
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

int maru_parmacs_gettime(int clock, struct timespec *now) { return mr_node_clock(clock, now); }

unsigned long maru_parmacs_clock(void) {
  struct timespec now;
  mr_node_clock(CLOCK_REALTIME, &now);
  return (unsigned long)now.tv_sec * 1000000 + (unsigned long)now.tv_nsec / 1000;
}

/* ---- images -------------------------------------------------------------------------------- */

/* From the last one's if that is enough. */
static uint8_t *image_room(size_t size) {
  if (size > kept.image_room) {
    kept.image_room = 2 * size + MR_PAGE;
    kept.image = maru_parmacs_share(kept.image_room, "CREATE");
  }
  return kept.image;
}

static void write_image(uint8_t *stack) {
  static struct mr_range ranges[MR_PROGRAM_RANGES];
  char why[160];
  ssize_t count = mr_program_list(stack, ranges, why, sizeof why);
  if (count < 0)
    mr_node_die(STATUS_UNAVAILABLE, "CREATE: %s", why);
  self.command->stack = stack;
  self.command->libraries = stdout;
  int rc = mr_image_write(&self.command->image, ranges, (size_t)count, image_room);
  if (rc == -EAGAIN)
    mr_node_die(STATUS_UNAVAILABLE, "CREATE: another thread goes on using more memory; a program "
                                    "in these macros has one thread a process");
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "CREATE: %s", strerror(-rc));
}

static void read_image(void) {
  if (self.command->libraries != stdout)
    mr_node_die(STATUS_UNAVAILABLE,
                "libraries lie elsewhere than on node 0: address randomisation could not be turned "
                "off, or the libraries differ");
  mr_image_read(&self.command->image);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void await_child(uint32_t child) {
  mr_node_request(MR_WAIT, MR_ENDED + child, 0);
  kept.busy[child] = false;
}

void maru_parmacs_wait(long count) {
  for (; count > 0 && kept.first < kept.created; count--)
    await_child(kept.order[kept.first++]);
  if (kept.first == kept.created)
    kept.first = kept.created = 0;
}

/* A node that is idle; else the oldest child's, when that has ended. */
static uint32_t idle_node(void) {
  for (uint32_t i = 1; i < maru_dsm_nodes(); i++)
    if (!kept.busy[i])
      return i;
  uint32_t oldest = kept.order[0];
  memmove(kept.order, kept.order + 1, --kept.created * sizeof *kept.order);
  await_child(oldest);
  return oldest;
}

static void give_command(const struct body *body, long count) {
  uint32_t chosen[MR_JOB_NODES_MAX];
  self.command->body = *body;
  for (long i = 0; i < count; i++) {
    chosen[i] = idle_node();
    kept.busy[chosen[i]] = true;
  }
  for (long i = 0; i < count; i++) {
    kept.order[kept.created++] = chosen[i];
    mr_node_request(MR_POST, MR_START + chosen[i], 1);
  }
  /* The next image may not be written before. */
  for (long i = 0; i < count; i++)
    mr_node_request(MR_WAIT, MR_TAKEN, 0);
}

static void create(const struct body *body, long count, uint8_t *stack) {
  if (self.owner == 0)
    mr_node_die(STATUS_USAGE, "CREATE in a program that creates threads or calls maru_dsm_init, "
                              "too; use one of them");
  if (kept.running)
    mr_node_die(STATUS_USAGE, "CREATE by a created process; only the first may");
  if (count < 1)
    return;
  check_processes("CREATE", count + 1);
  memmove(kept.order, kept.order + kept.first, (kept.created - kept.first) * sizeof *kept.order);
  kept.created -= kept.first;
  kept.first = 0;
  /* What stdio holds would be nobody's otherwise: a child's streams are its own. */
  fflush(NULL);
  /* What the writing knows is in no checkpoint. */
  mr_node_captures(false);
  write_image(stack);
  mr_node_captures(true);
  give_command(body, count);
}

/* Created processes get the program's frames. What the library's hold is another thing each time,
 * and a process that repeats this one has to send the same. */
#if defined(__x86_64__)
#define CALLERS_STACK ((uint8_t *)__builtin_frame_address(0) + 2 * sizeof(void *))
#else
#define CALLERS_STACK ((uint8_t *)__builtin_frame_address(0))
#endif

void maru_parmacs_create(void (*body)(void), long count) {
  create(&(struct body){.plain = body}, count, CALLERS_STACK);
}

void maru_parmacs_create_with(void (*body)(void *), void *argument, long count) {
  create(&(struct body){.given = body, .argument = argument}, count, CALLERS_STACK);
}

static void run_process(void) {
  if (kept.body.plain != NULL)
    kept.body.plain();
  else
    kept.body.given(kept.body.argument);
}

/* On the stack of the image, below what is in use. */
static void enter_process(void) {
  getcontext(&self.process);
  self.process.uc_stack.ss_sp = MR_STACK;
  self.process.uc_stack.ss_size = (size_t)(kept.stack - MR_STACK) - MR_RED_ZONE;
  self.process.uc_link = &self.loop;
  makecontext(&self.process, run_process, 0);
  kept.running = true;
  mr_node_captures(true);
  swapcontext(&self.loop, &self.process);
}

static void end_process(void) {
  mr_node_captures(false);
  kept.running = false;
  fflush(NULL);
  mr_node_request(MR_POST, MR_ENDED + maru_dsm_node(), 1);
}

static void serve_node_0(void) {
  uint32_t me = maru_dsm_node();
  for (;;) {
    mr_node_request(MR_WAIT, MR_START + me, 0);
    if (self.command->body.plain == NULL && self.command->body.given == NULL)
      return;
    mr_program_forget();
    read_image();
    /* From the next line on node 0 may write another command. */
    kept.body = self.command->body;
    kept.stack = self.command->stack;
    mr_node_request(MR_POST, MR_TAKEN, 1);
    enter_process();
    end_process();
  }
}

/* Whether the first process ends, and waits for those that it created.  Where it fails nobody is
 * waited for: they may wait for it.  A child of the program's own is no node. */
static bool ends_job(int status) {
  return self.owner == getpid() && mr_node_started() && maru_dsm_node() == 0 &&
         (status == 0 || kept.first == kept.created);
}

/* A created process that ends well leaves its node to the next.  The first waits before its static
 * destructors run: where globals are shared, others may use them until then. */
void maru_parmacs_exit(int status) {
  if (kept.running && status == 0)
    setcontext(&self.loop);
  if (ends_job(status))
    maru_parmacs_wait(MR_JOB_NODES_MAX);
  mr_program_leave();
  exit(status);
}

/* The last of all handlers: it was the first to be registered. */
static void at_exit(int status, void *unused) {
  (void)unused;
  mr_program_leave();
  if (!ends_job(status))
    return;
  /* Where they wait for node 0, the job ends: deadlock.c. */
  maru_parmacs_wait(MR_JOB_NODES_MAX);
  self.command->body = (struct body){.plain = NULL};
  for (uint32_t i = 1; i < maru_dsm_nodes(); i++)
    mr_node_request(MR_POST, MR_START + i, 1);
  maru_dsm_exit();
}

/* Before the handlers of the program, its static destructors among them. */
void maru_parmacs_prepare(void) {
  mr_memory_prepare(MR_ARENA, MR_ARENA_SIZE);
  mr_program_map_streams();
  on_exit(at_exit, NULL);
}

/* ---- main ---------------------------------------------------------------------- */

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

static void run_main(void) { maru_parmacs_exit(mr_program_main()); }

/* In the place of another process.  What returns from here was called with another word for the
 * stack protector. */
__attribute__((no_stack_protector)) static void go_on(void) {
  const ucontext_t *context = mr_node_resume();
  if (context == NULL)
    return;
  mr_node_captures(true);
  if (maru_dsm_node() == 0)
    setcontext(context);
  swapcontext(&self.loop, context);
  end_process();
}

int maru_parmacs_main(const struct maru_parmacs_program *program, int count, char **arguments,
                      char **environment) {
  (void)environment;
  mr_start_steadily(arguments);
  self.owner = getpid();
  self.shared = globals_shared();
  mr_program_is(program, count, arguments, self.shared, mr_parmacs_own);
  mr_node_part(mr_program_part());
  start_node(program);
  mr_program_map_stack();
  size_t size;
  self.command = (struct command *)mr_node_memory(&size);
  mr_memory_share_anonymous();
  if (self.shared)
    mr_memory_share_all();
  if (mr_node_restores())
    go_on();
  else if (maru_dsm_node() == 0) {
    mr_memory_pages(sizeof *self.command);
    mr_program_enter(run_main);
  }
  serve_node_0();
  maru_dsm_exit();
  /* Exit handlers and destructors are for the process that ran main. */
  _exit(0);
}
