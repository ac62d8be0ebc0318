/* process.c: what every part stands on: the process and its threads as the library sees them, the
 * next library's symbols, system calls, the run's log. */
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
static bool hears; /* of threads' ends */

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
  /* Relaxed: each thread that looks it up finds the same. */
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
  /* The second: what a child of vfork does to itself. */
  if (atomic_load_explicit(&io_process.direct, memory_order_relaxed) || !io_same_process())
    return;
  /* Relaxed: requests that are under way were allowed when they were made. */
  if (!atomic_exchange_explicit(&io_process.direct, true, memory_order_relaxed) &&
      io_process.mode == MARU_IO_ALWAYS)
    io_say(why);
}

void io_seal(void) {
  /* A child of vfork seals itself, and not us. */
  if (!io_is_sealed() && io_same_process())
    atomic_store_explicit(&io_process.sealed, true, memory_order_relaxed);
}

bool io_hear_threads(void (*ends)(void *)) {
  hears = pthread_key_create(&thread_end, ends) == 0;
  return hears;
}

void io_thread_begins(void) {
  if (hears)
    pthread_setspecific(thread_end, &io_self);
}

struct maru_io_section *io_section_open(void) {
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
