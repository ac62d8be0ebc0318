/* job.c: a program of threads begins and ends on the nodes of a job (maru/threads.h).
 *
 * Node 0 runs main; the others wait for threads.  What the program has before main, its globals and
 * what static constructors allocated, is node 0's: every node's shared memory is zero at first, and
 * node 0 writes it there.  From then on globals, malloc's blocks, mappings and stacks are shared.
 *
 * Where main returns, or somebody calls exit, the job ends as a process does, whatever other
 * threads do.  If none runs, all nodes leave together.  Else the launcher is told, and ends the
 * others.
 */
#define _GNU_SOURCE
#include "threads.h"

#include "../diff.h"
#include "../parmacs/iostreams.h"
#include "../parmacs/memory.h"
#include "../parmacs/part.h"
#include "../parmacs/program.h"
#include "../parmacs/start.h"
#include "../sparse.h"
#include "../stack.h"
#include "input.h"
#include "objects.h"
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <maru/dsm.h>
#include <maru/parmacs.h>
#include <maru/threads.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFAULT_MIB 4096u
/* The table comes first in shared memory, then what was allocated before main. */
#define TABLE ((struct mr_table *)MR_ADDRESS)
#define EARLY (MR_ADDRESS + ((sizeof(struct mr_table) + MR_PAGE - 1) & ~(size_t)(MR_PAGE - 1)))
#define EARLY_SIZE ((size_t)1 << 30)
/* What of a node's own stacks is in use lies in a checkpoint: the one that serves, and behind it
 * the one for requests. */
#define SERVE MR_STACK
#define REQUESTS (MR_STACK + MR_STACK_SIZE)
_Static_assert(MR_SERVE_STACK + MR_STACK_REQUESTS <= MR_STACK_SIZE, "both have room");
/* Until then the launcher has ended this process. */
#define TOLD_MS 10000

static struct {
  const struct maru_parmacs_program *program;
  char **arguments, **environment;
  int count, status;
  pid_t owner;
  int tells; /* the launcher reads there that the program is over; 0: nobody does */
  bool over, leaves, quick;
} job;

/* ---- before main ----------------------------------------------------------------------- */

/* Bytes that are put away, and where they were. A large array of zeros takes no memory here. */
struct kept {
  uint8_t *at, *bytes;
  size_t size;
};

static struct kept keep(uint8_t *from, const uint8_t *to) {
  size_t size = (size_t)(to - from);
  uint8_t *bytes = mmap(NULL, size > 0 ? size : 1, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes == MAP_FAILED)
    mr_node_die(STATUS_UNAVAILABLE, "no memory");
  mr_sparse_copy(bytes, from, size);
  return (struct kept){from, bytes, size};
}

static void put_back(const struct kept *kept) { mr_sparse_copy(kept->at, kept->bytes, kept->size); }

static void let_go(const struct kept *kept) {
  munmap(kept->bytes, kept->size > 0 ? kept->size : 1);
}

static void make_table(const struct mr_table *early) {
  struct mr_table *table = TABLE;
  table->libraries = stdout;
  table->keys = early->keys;
  table->numbers = early->numbers;
  table->input_is_empty = mr_input_is_empty();
  for (uint32_t node = maru_dsm_nodes() - 1; node > 0; node--)
    table->idle[table->idle_count++] = (uint16_t)node;
}

/* Every node has the same zeros, and node 0 has something to write. */
static void start_node(void) {
  struct mr_range early = mr_memory_heap();
  uint8_t *first = (uint8_t *)job.program->globals, *last = (uint8_t *)job.program->globals_end;
  struct kept globals = keep(first, last), blocks = keep(early.from, early.to);
  struct mr_globals pages = {(void *)((uintptr_t)first & ~(uintptr_t)(MR_PAGE - 1)), 0};
  pages.size =
      (((uintptr_t)last + MR_PAGE - 1) & ~(uintptr_t)(MR_PAGE - 1)) - (uintptr_t)pages.address;
  mr_memory_forget();
  mr_sparse_clear(first, globals.size);
  mr_node_start(&pages, DEFAULT_MIB);
  mr_program_map_stack();
  int rc = mr_stack_prepare(REQUESTS);
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "no stack for what the library does: %s", strerror(-rc));
  mr_memory_share_all();
  mr_memory_share_maps();
  if (maru_dsm_node() == 0 && !mr_node_restores()) {
    mr_memory_pages((size_t)(EARLY - MR_ADDRESS) + blocks.size);
    put_back(&globals);
    put_back(&blocks);
    make_table(mr_threads_table());
  }
  let_go(&globals);
  let_go(&blocks);
}

static void *run_main(void *unused) {
  (void)unused;
  /* Pointers to them may be in the program's memory. */
  char **arguments = mr_start_copy(job.arguments);
  environ = mr_start_copy(environ);
  maru_parmacs_exit(job.program->main(job.count, arguments, environ));
}

/* What the program starts has no part in it. */
static void find_launcher(void) {
  job.tells = (int)mr_environment_number("MARU_DSM_OVER_FD", 0, 3, INT32_MAX);
  unsetenv("MARU_DSM_OVER_FD");
  if (job.tells > 0)
    fcntl(job.tells, F_SETFD, FD_CLOEXEC);
}

/* ---- checkpoints ----------------------------------------------------------------------- */

static int list_own(struct mr_range *ranges) {
  int count = mr_parmacs_own(ranges);
  size_t stacks_size;
  uint8_t *stacks = mr_stack_state(&stacks_size);
  const struct mr_range own[] = {mr_threads_state(),
                                 mr_stack_places(),
                                 {.from = stacks, .to = stacks + stacks_size},
                                 mr_carried_state(),
                                 mr_signals_state(),
                                 mr_private_state(),
                                 mr_objects_held(),
                                 {.from = SERVE, .to = SERVE + MR_SERVE_STACK, .anonymous = true}};
  _Static_assert(1 + sizeof own / sizeof *own + MR_OBJECTS_STATE <= MR_PROGRAM_OWN,
                 "all have room");
  memcpy(ranges + count, own, sizeof own);
  count += (int)(sizeof own / sizeof *own);
  return count + mr_objects_state(ranges + count);
}

/* In the place of another process. */
__attribute__((no_stack_protector)) static void go_on(void) {
  const ucontext_t *context = mr_node_resume();
  if (context == NULL)
    mr_node_die(STATUS_DATA, "the checkpoint is of another sort of program");
  mr_node_captures(true);
  mr_threads_go_on(context);
}

/* What a program puts in the place of the empty one has an end of its own. */
static void refuse_input(void) {
  if (mr_input_is_empty() && !mr_threads_table()->input_is_empty)
    mr_node_die(STATUS_USAGE, "a thread read the standard input, which only node 0 has; main reads "
                              "it, and lets threads have what it read");
}

/* Until the program is over. */
__attribute__((no_stack_protector)) static void run(void) {
  mr_iostreams_begin(true);
  if (maru_dsm_node() != 0)
    mr_input_begin(refuse_input);
  if (mr_node_restores()) {
    go_on();
    return;
  }
  bool first = maru_dsm_node() == 0;
  mr_threads_begin(TABLE);
  mr_carried_begin();
  if (first) /* no checkpoint has this stack, on which it makes requests */
    mr_threads_make_first(run_main);
  mr_program_begins();
  if (first)
    mr_threads_run_first();
  else
    mr_threads_serve(SERVE);
}

int maru_threads_main(const struct maru_parmacs_program *program, int count, char **arguments) {
  static struct maru_parmacs_program kept;
  kept = *program;
  mr_start_steadily(arguments);
  job.program = &kept;
  job.arguments = arguments;
  job.count = count;
  job.owner = getpid();
  job.environment = environ;
  find_launcher();
  mr_program_is(&kept, count, arguments, true, list_own);
  mr_node_part(mr_program_part());
  mr_part_throws_own();
  mr_node_on_return(mr_threads_came_back);
  mr_node_on_stuck(mr_threads_advise);
  start_node();
  run();
  job.over = true;
  /* What else is to be done at the exit is for the process that ran main. */
  if (maru_dsm_node() == 0)
    exit(job.status);
  maru_dsm_exit();
  _exit(0);
}

/* ---- the end ----------------------------------------------------------------------------------
 */

/* The launcher ends the others, which this process's end would frighten.  Another launcher than
 * `maru launch` can only be told of a failure. */
static _Noreturn void end_others(int status) {
  const uint8_t said = (uint8_t)status;
  if (maru_dsm_nodes() == 1)
    _exit(status);
  if (job.tells == 0 && said == 0)
    mr_node_die(STATUS_LOST, "the program ended while threads of it ran; without maru launch that "
                             "is a failure: join them");
  if (job.tells == 0)
    mr_node_die(said, "the program ended with status %d while threads of it ran", said);
  if (write(job.tells, &said, 1) == 1)
    poll(NULL, 0, TOLD_MS);
  _exit(status);
}

/* Libraries' destructors may use what is shared: `new` within libraries gives such memory.  They
 * run before this library's, as maru-cc names it after them; a library that was opened later has to
 * do without. */
__attribute__((destructor)) static void leave(void) {
  if (!job.leaves || job.owner != getpid())
    return;
  job.leaves = false;
  environ = job.environment;
  maru_dsm_exit();
}

/* A library's destructor may end the process: the linker finds these before libc's.  The others
 * hear of this node's end all the same. */
static _Noreturn void end_process(int status) {
  bool leaves = job.leaves;
  job.leaves = false;
  if (leaves && job.owner == getpid())
    maru_dsm_exit();
  for (;;)
    syscall(SYS_exit_group, status);
}

void _exit(int status) { end_process(status); }
void _Exit(int status) { end_process(status); }

static bool others_idle(void) {
  mr_threads_lock();
  bool idle = mr_threads_table()->idle_count == maru_dsm_nodes() - 1;
  mr_threads_unlock();
  return idle;
}

/* The last of all handlers: it was the first to be registered.  A child of the program's own is no
 * node. */
static void at_exit(int status, void *unused) {
  (void)unused;
  if (job.over || job.owner != getpid() || !mr_node_started())
    return;
  job.over = true;
  mr_input_look();
  mr_program_leave();
  fflush(NULL);
  if (maru_dsm_node() != 0 || !others_idle())
    end_others(status);
  job.status = status;
  job.leaves = true;
  for (uint32_t i = 1; i < maru_dsm_nodes(); i++)
    mr_node_request(MR_POST, MR_START + i, 1);
  mr_threads_leave();
}

/* Behind what the program gave to at_quick_exit, as it was the first: libc would end this process,
 * and tell nobody. */
static void end_quickly(void) {
  if (job.quick)
    maru_threads_exit_now(job.status);
}

void maru_threads_quick_exit(int status) {
  job.status = status;
  job.quick = true;
}

void maru_threads_prepare(void) {
  mr_memory_prepare(EARLY, EARLY_SIZE);
  mr_private_prepare();
  mr_program_map_streams();
  on_exit(at_exit, NULL);
  at_quick_exit(end_quickly);
}

void maru_threads_exit_now(int status) {
  if (job.owner == getpid() && mr_node_started() && !job.over)
    end_others(status);
  _exit(status);
}

int maru_threads_fork(void) {
  mr_node_die(STATUS_USAGE, "fork: a child has no part in the memory of the threads; "
                            "posix_spawn starts other programs");
}

void maru_threads_timer(void) {
  mr_node_die(STATUS_USAGE,
              "timer_create: SIGEV_THREAD's function would run on no node; let a thread "
              "sleep, or use SIGEV_SIGNAL");
}

long maru_threads_sysconf(int name) {
  bool processors = name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF;
  return processors && mr_node_started() ? (long)maru_dsm_nodes() : sysconf(name);
}

/* They all run on a process's first thread; what a library creates is another. */
int maru_threads_is_one(void) { return syscall(SYS_gettid) == getpid(); }

int maru_threads_gave(const void *block) {
  return (uintptr_t)block - (uintptr_t)EARLY < EARLY_SIZE || mr_node_shares(block, 1);
}

int maru_threads_processors(void) { return (int)maru_threads_sysconf(_SC_NPROCESSORS_ONLN); }

int maru_threads_at_end(void (*call)(void *), void *object, void *file) {
  extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
  struct mr_running *now = mr_threads_now();
  if (now->below != NULL || maru_dsm_node() != 0) {
    mr_own_object(&now->own, call, object);
    return 0;
  }
  int kept = maru_parmacs_at_thread_exit(call, object);
  return kept == 0 ? __cxa_thread_atexit_impl(call, object, file) : kept < 0 ? -1 : 0;
}
