/* around.h: what stands around each call of libmaru-poll.so. That is the symbol behind ours, the
 * thread's row of questions that found nothing, and the wait before the next one.
 *
 * Everything here is async-signal-safe and allocates nothing.  A call that a signal handler makes
 * while this code is at work passes.
 */
#ifndef MARU_PRELOAD_POLL_AROUND_H
#define MARU_PRELOAD_POLL_AROUND_H

#include "spin.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* The calling thread's. */
struct poll_self {
  volatile sig_atomic_t inside;
  int64_t flushed_ns;
  struct mr_spin spin;
};
extern __thread struct poll_self poll_self __attribute__((tls_model("initial-exec")));

/* One for each function; the linker makes a table of them.  Aligned to its size, so that it
 * leaves no gaps. */
struct symbol {
  const char *name;
  _Atomic(void *) address;
} __attribute__((aligned(16)));
void *poll_symbol(struct symbol *symbol);

/* `next`: the symbol behind ours; looked up here only in calls that are made before begin().
 * Relaxed: each thread that looks it up finds the same. */
#define NEXT(name, result, parameters)                                                             \
  typedef result(*next_type) parameters;                                                           \
  static struct symbol symbol_ __attribute__((section("poll_symbols"), used)) = {#name, NULL};     \
  next_type next = (next_type)atomic_load_explicit(&symbol_.address, memory_order_relaxed);        \
  if (__builtin_expect(next == NULL, 0))                                                           \
    next = (next_type)poll_symbol(&symbol_);

/* A system call that is no cancellation point and is not seen by other libraries. */
long poll_raw(long number, long a, long b, long c, long d, long e, long f);

/* The thread's CPU time, and how often it has slept; `sleeps` may be NULL. */
int64_t poll_cpu_ns(uint64_t *sleeps);

/* Before a call that would not wait.  Not NULL: tell its descriptors and then call
 * poll_wait_for, which says whether it slept. */
struct mr_spin *poll_row(void);
bool poll_wait_for(struct mr_spin *spin, bool yield);

/* The thread found something, or does something else. */
void poll_other(void);
void poll_empty(bool yield);
/* poll_empty or poll_other. */
void poll_answered(bool nothing);

#endif
