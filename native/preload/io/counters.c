/* counters.c: each thread counts in a line of its own, so that counting costs no shared
 * cache line. */
#define _GNU_SOURCE
#include "io.h"

#include <sys/syscall.h>

static struct maru_io_section *_Atomic section_now;
static struct maru_io_line nowhere;
/* Without a board: counted where nobody looks, at the price of counting where somebody does. */
static __thread struct maru_io_line unseen __attribute__((tls_model("initial-exec")));

struct maru_io_line *io_shared_line = &nowhere;

void io_counters_open(struct maru_io_section *section) {
  io_shared_line = section != NULL ? &section->lines[0] : &nowhere;
  /* Calls that were made before us counted in the old shared line. */
  io_self.line = NULL;
  /* Release: with the shared line. */
  atomic_store_explicit(&section_now, section, memory_order_release);
}

struct maru_io_section *io_section(void) {
  return atomic_load_explicit(&section_now, memory_order_acquire);
}

void io_add_shared(_Atomic uint64_t *counter, uint64_t more) {
  atomic_fetch_add_explicit(counter, more, memory_order_relaxed); /* nobody wants an order */
}

/* Not called twice for one thread: a handler that comes meanwhile counts in the shared line. */
struct maru_io_line *io_line_take(void) {
  struct maru_io_section *section = io_section();
  io_self.line = io_shared_line;
  if (io_self.gone || io_is_sealed())
    return io_self.line;
  if (section == NULL)
    return io_self.line = &unseen;
  uint32_t tid = (uint32_t)io_raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
  for (uint32_t i = 0; i < MARU_IO_LINES - 1; i++) {
    struct maru_io_line *line = &section->lines[1 + (tid + i) % (MARU_IO_LINES - 1)];
    uint32_t free = 0;
    /* Acquire: what the last holder counted. */
    if (atomic_load_explicit(&line->holder, memory_order_relaxed) == 0 &&
        atomic_compare_exchange_strong_explicit(&line->holder, &free, tid, memory_order_acquire,
                                                memory_order_relaxed)) {
      /* Relaxed: for readers who tolerate the previous one. */
      atomic_store_explicit(&line->pid, (uint32_t)io_process.pid, memory_order_relaxed);
      io_thread_begins();
      return io_self.line = line;
    }
  }
  return io_self.line;
}

void io_line_leave(void) {
  struct maru_io_line *line = io_self.line;
  io_self.line = io_shared_line;
  if (line != NULL && line != io_shared_line && line != &unseen)
    /* Release: the counts, for the next holder. */
    atomic_store_explicit(&line->holder, 0, memory_order_release);
}
