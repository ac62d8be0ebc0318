/* start.c: what happens when the library is loaded, when a thread ends and when the process
 * forks.
 *
 * Nothing is started and no descriptor is kept open here: most programs that inherit
 * LD_PRELOAD are short.  The environment is read now: servers wipe it later.
 */
#define _GNU_SOURCE
#include "io.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const mode_names[MARU_IO_MODES] = {
    [MARU_IO_NEVER] = "never",
    [MARU_IO_HINT] = "hint",
    [MARU_IO_ALWAYS] = "always",
};

static void thread_ends(void *unused) {
  (void)unused;
  io_slot_leave();
  io_line_leave();
  io_self.gone = true;
  if (pthread_equal(pthread_self(), io_process.first))
    io_contexts_outlive();
}

/* A handler may fork over a request: the child could wait for its end for ever. */
static void before_fork(void) { io_settle(); }

static void in_child(void) {
  io_process.pid = io_is_sealed() ? 0 : getpid(); /* 0: not asked, so it is nobody's */
  io_process.first = pthread_self();
  io_contexts_forget();
  io_slots_forget();
  io_files_fork();
  io_hint_fork();
  io_thread_begins();
  io_self.line = NULL; /* it is the parent's thread that counts there */
  io_self.slot = 0;
}

/* Also called by _Fork, which runs no handlers. */
void io_forked(bool child) {
  if (child) {
    in_child();
    io_contexts_reserve();
  } else
    before_fork();
}

/* False: the text names none. */
static bool read_mode(const char *text) {
  for (int mode = 0; text != NULL && mode < MARU_IO_MODES; mode++)
    if (strcmp(text, mode_names[mode]) == 0) {
      io_process.mode = (enum maru_io_mode)mode;
      return true;
    }
  return text == NULL;
}

__attribute__((constructor)) static void begin(void) {
  int saved = errno;
  io_find_symbols();
  io_process.pid = (pid_t)io_raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
  io_process.first = pthread_self();
  /* First: a call that counts or delegates uses the key. */
  bool hears = io_hear_threads(thread_ends) && pthread_atfork(before_fork, NULL, in_child) == 0;
  io_thread_begins();
  io_contexts_open(io_serve, io_hint_work); /* before the mode: another thread may call already */
  bool known = read_mode(getenv(MARU_IO_ENV));
  io_contexts_reserve();
  struct maru_io_section *section = io_section_open();
  io_counters_open(section);
  if (section != NULL) {
    /* Relaxed: read by people. */
    atomic_store_explicit(&section->mode, io_process.mode, memory_order_relaxed);
    atomic_fetch_add_explicit(&section->loads, 1, memory_order_relaxed);
  }
  if (!known)
    io_say("counts only: " MARU_IO_ENV " names no mode");
  if (!hears) {
    io_say("counts and delegates nothing: too many keys or fork handlers");
    io_process.mode = MARU_IO_NEVER;
    io_self.gone = true;
  }
  errno = saved;
}

/* A thread that calls exit ends without its destructors. */
__attribute__((destructor)) static void end(void) {
  if (io_is_sealed() || io_same_process())
    io_line_leave();
}
