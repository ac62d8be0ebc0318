/* start.c: what happens when the library is loaded, when the process forks, and when it
 * restricts itself.
 *
 * Nothing is started and no descriptor is kept open here: most programs that inherit
 * LD_PRELOAD are short.  The environment is read now: servers wipe it later.
 */
#define _GNU_SOURCE
#include "io.h"

#include <maru/board.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct io_process io_process;
__thread struct io_self io_self;

static struct maru_board board = {.fd = -1};
static bool has_board;
static pthread_key_t thread_end;
static bool hears; /* of threads' ends, and of forks */

static const char *const mode_names[MARU_IO_MODES] = {
    [MARU_IO_NEVER] = "never",
    [MARU_IO_HINT] = "hint",
    [MARU_IO_ALWAYS] = "always",
};

void *io_next_symbol(const char *name) {
  void *symbol = dlsym(RTLD_NEXT, name);
  if (symbol == NULL) {
    static const char text[] = "maru: libmaru-io.so: this libc has no such function: ";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    (void)!write(STDERR_FILENO, name, strlen(name));
    (void)!write(STDERR_FILENO, "\n", 1);
    abort();
  }
  return symbol;
}

long io_raw(long number, long a, long b, long c, long d, long e, long f) {
  /* Relaxed: whoever looks it up finds the same. */
  static _Atomic(long (*)(long, ...)) next;
  long (*call)(long, ...) = atomic_load_explicit(&next, memory_order_relaxed);
  if (call == NULL) {
    call = (long (*)(long, ...))io_next_symbol("syscall");
    atomic_store_explicit(&next, call, memory_order_relaxed);
  }
  int saved = errno;
  long result = call(number, a, b, c, d, e, f);
  if (result == -1)
    result = -errno;
  errno = saved;
  return result;
}

/* A system call, not a remembered number: see struct io_process. */
bool io_same_process(void) { return io_raw(SYS_getpid, 0, 0, 0, 0, 0, 0) == io_process.pid; }

void io_say(const char *text) {
  if (has_board)
    maru_board_say(&board, "io", "process %d: %s", (int)io_process.pid, text);
}

void io_go_direct(const char *why) {
  if (!io_same_process())
    return; /* what a child of vfork does to itself */
  /* Relaxed: requests that are under way were allowed when they were made. */
  if (!atomic_exchange_explicit(&io_process.direct, true, memory_order_relaxed) &&
      io_process.mode == MARU_IO_ALWAYS)
    io_say(why);
}

static void thread_ends(void *unused) {
  (void)unused;
  io_settle();
  io_slot_leave();
  io_line_leave();
  io_self.gone = true;
  if (io_raw(SYS_gettid, 0, 0, 0, 0, 0, 0) == io_process.pid)
    io_contexts_outlive();
}

/* Called with the first line or slot of a thread, and for a process's first thread. */
void io_thread_begins(void) {
  if (hears)
    pthread_setspecific(thread_end, &io_self);
}

/* A handler may fork over a request: the child could wait for its end for ever. */
static void before_fork(void) { io_settle(); }

static void in_child(void) {
  io_process.pid = getpid();
  io_contexts_forget();
  io_files_fork();
  io_hint_fork();
  io_thread_begins();
  io_self.line = NULL; /* it is the parent's thread that counts there */
  io_self.slot = 0;
  io_self.inside = 0;
}

/* Also called by _Fork, which runs no handlers. */
void io_forked(bool child) {
  if (child)
    in_child();
  else
    before_fork();
}

static void read_mode(const char *text) {
  for (int mode = 0; text != NULL && mode < MARU_IO_MODES; mode++)
    if (strcmp(text, mode_names[mode]) == 0)
      io_process.mode = (enum maru_io_mode)mode;
}

static struct maru_io_section *open_section(void) {
  void *data;
  if (maru_board_open_env(&board) < 0)
    return NULL;
  maru_board_forget_fd(&board);
  has_board = true;
  size_t size = sizeof(struct maru_io_section);
  int rc = maru_board_share(&board, MARU_IO_SECTION, MARU_IO_VERSION, size, &data);
  if (rc < 0)
    io_say("no counters: the board's section cannot be used");
  return rc < 0 ? NULL : data;
}

__attribute__((constructor)) static void begin(void) {
  int saved = errno;
  io_find_symbols();
  io_process.pid = (pid_t)io_raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
  /* First: a call that counts or delegates uses the key. */
  hears = pthread_key_create(&thread_end, thread_ends) == 0 &&
          pthread_atfork(before_fork, NULL, in_child) == 0;
  io_thread_begins();
  read_mode(getenv(MARU_IO_ENV));
  struct maru_io_section *section = open_section();
  io_counters_open(section);
  if (section != NULL) {
    /* Relaxed: read by people. */
    atomic_store_explicit(&section->mode, io_process.mode, memory_order_relaxed);
    atomic_fetch_add_explicit(&section->loads, 1, memory_order_relaxed);
  }
  if (!hears) {
    io_say("counts and delegates nothing: too many keys or fork handlers");
    io_process.mode = MARU_IO_NEVER;
    io_self.gone = true;
  }
  errno = saved;
}

/* A thread that calls exit ends without its destructors. */
__attribute__((destructor)) static void end(void) {
  if (io_same_process())
    io_line_leave();
}
