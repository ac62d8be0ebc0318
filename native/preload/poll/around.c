/* around.c: the process and its threads under libmaru-poll.so: symbols, ledger, rows. */
/* With these the headers would give our functions other names. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include "around.h"
#include "section.h"

#include <maru/board.h>
#include <maru/wait.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_NS 10000000 /* how old a thread's figures on the board may be */

/* The process. */
static enum mr_spin_mode mode = MR_SPIN_ADAPT;
static struct maru_board board = {.fd = -1};
static struct mr_poll *section; /* NULL: counted where nobody looks */
static _Atomic bool active;     /* from begin() until the process restricts itself */
static _Atomic bool counted;    /* as one that spun */

__thread struct poll_self poll_self __attribute__((tls_model("initial-exec")));

/* ---- the next library's symbols ------------------------------------------ */

extern struct symbol first_symbol[] __asm__("__start_poll_symbols"), end_of_symbols[] __asm__(
                                                                         "__stop_poll_symbols");

/* dlsym waits while another thread loads a library, which may wait for us: not in a call. */
static void find_symbols(void) {
  for (struct symbol *s = first_symbol; s < end_of_symbols; s++)
    atomic_store_explicit(&s->address, dlsym(RTLD_NEXT, s->name), memory_order_relaxed);
}

void *poll_symbol(struct symbol *symbol) {
  void *address = dlsym(RTLD_NEXT, symbol->name);
  if (address == NULL) {
    static const char text[] = "maru: libmaru-poll.so: this libc lacks a function: ";
    (void)!syscall(SYS_write, STDERR_FILENO, text, sizeof text - 1);
    (void)!syscall(SYS_write, STDERR_FILENO, symbol->name, strlen(symbol->name));
    abort();
  }
  atomic_store_explicit(&symbol->address, address, memory_order_relaxed);
  return address;
}

long poll_raw(long number, long a, long b, long c, long d, long e, long f) {
  NEXT(syscall, long, (long, ...))
  return next(number, a, b, c, d, e, f);
}

int64_t poll_cpu_ns(uint64_t *sleeps) {
  struct timespec now;
  struct rusage used;
  if (sleeps != NULL) {
    used.ru_nvcsw = 0;
    (void)getrusage(RUSAGE_THREAD, &used);
    *sleeps = (uint64_t)used.ru_nvcsw;
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- the ledger ---------------------------------------------------------- */

static void add(_Atomic uint64_t *sum, uint64_t more) {
  atomic_fetch_add_explicit(sum, more, memory_order_relaxed); /* see section.h */
}

static void flush(struct mr_spin *spin) {
  struct mr_spin_cost *cost = &spin->cost;
  if (section != NULL && (cost->waited_ns | cost->spins) != 0) {
    if (!atomic_exchange_explicit(&counted, true, memory_order_relaxed))
      add(&section->processes, 1);
    add(&section->spins, cost->spins);
    add(&section->waited_ns, cost->waited_ns);
    add(&section->cpu_ns, cost->cpu_ns);
    add(&section->sleeps, cost->sleeps);
    add(&section->slept_ns, cost->slept_ns);
    add(&section->yields, cost->yields);
  }
  memset(cost, 0, sizeof *cost);
}

static void flush_now_and_then(struct mr_spin *spin, int64_t now_ns) {
  if (spin->cost.waited_ns == 0 || now_ns - poll_self.flushed_ns < FLUSH_NS)
    return;
  poll_self.flushed_ns = now_ns;
  flush(spin);
}

/* ---- around a call ------------------------------------------------------- */

static bool on_duty(void) {
  /* Relaxed: orders nothing. */
  return atomic_load_explicit(&active, memory_order_relaxed) && !poll_self.inside;
}

struct mr_spin *poll_row(void) {
  struct mr_spin *spin = &poll_self.spin;
  if (!mr_spin_wants(spin) || !on_duty())
    return NULL;
  poll_self.inside = 1;
  int64_t now = maru_now_ns();
  bool goes_on = mr_spin_before(spin, now, poll_cpu_ns);
  flush_now_and_then(spin, now);
  if (!goes_on)
    poll_self.inside = 0;
  return goes_on ? spin : NULL;
}

static void sleep_for(struct mr_spin *spin) {
  struct timespec slice = {.tv_nsec = spin->slice_ns};
  long ready = poll_raw(SYS_ppoll, (long)spin->fds, spin->used, (long)&slice, 0, 8, 0);
  /* A signal: its handler ran, as it would have between two calls. */
  mr_spin_slept(spin, maru_now_ns(), ready > 0, poll_cpu_ns);
}

bool poll_wait_for(struct mr_spin *spin, bool yield) {
  int saved = errno;
  enum mr_spin_act act = mr_spin_decide(spin, mode, yield);
  switch (act) {
  case MR_ACT_SLEEP:
    sleep_for(spin);
    break;
  case MR_ACT_YIELD:
    (void)poll_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    mr_spin_yielded(spin, maru_now_ns(), poll_cpu_ns);
    break;
  default:
    break;
  }
  errno = saved;
  poll_self.inside = 0;
  return act == MR_ACT_SLEEP;
}

void poll_other(void) {
  struct mr_spin *spin = &poll_self.spin;
  if ((spin->empties == 0 && !spin->watched) || !on_duty())
    return;
  poll_self.inside = 1;
  if (spin->watched) {
    int saved = errno;
    int64_t now = maru_now_ns();
    mr_spin_over(spin, now, poll_cpu_ns);
    flush_now_and_then(spin, now);
    errno = saved;
  }
  spin->empties = 0;
  poll_self.inside = 0;
}

void poll_empty(bool yield) {
  if (!on_duty())
    return;
  poll_self.inside = 1;
  int saved = errno;
  mr_spin_empty(&poll_self.spin, maru_now_ns(), yield, poll_cpu_ns);
  errno = saved;
  poll_self.inside = 0;
}

void poll_answered(bool nothing) {
  if (nothing)
    poll_empty(false);
  else
    poll_other();
}

/* ---- the process --------------------------------------------------------- */

static void retire(void) { atomic_store_explicit(&active, false, memory_order_relaxed); }

/* A process that restricts its system calls may have forgotten those that it does not make
 * itself: ours would kill it. */
EXPORT int prctl(int option, ...) {
  NEXT(prctl, int, (int, ...))
  va_list list;
  unsigned long a[4];
  va_start(list, option);
  for (int i = 0; i < 4; i++)
    a[i] = va_arg(list, unsigned long);
  va_end(list);
  if (option == PR_SET_SECCOMP)
    retire();
  return next(option, a[0], a[1], a[2], a[3]);
}

EXPORT long syscall(long number, ...) {
  NEXT(syscall, long, (long, ...))
  va_list list;
  long a[6];
  va_start(list, number);
  for (int i = 0; i < 6; i++)
    a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_seccomp || (number == SYS_prctl && a[0] == PR_SET_SECCOMP))
    retire();
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static enum mr_spin_mode mode_of(const char *policy) {
  int64_t spin_ns; /* a row of polls is long enough by itself */
  int kind = policy == NULL ? MARU_WAIT_ADAPTIVE : maru_wait_parse(policy, &spin_ns);
  if (kind < 0 && board.base != NULL)
    (void)maru_board_say(&board, "wait", "loops of polls: MARU_WAIT is no way to wait: adaptive");
  switch (kind) {
  case MARU_WAIT_SPIN:
    return MR_SPIN_WATCH;
  case MARU_WAIT_YIELD:
    return MR_SPIN_YIELD;
  case MARU_WAIT_ADAPTIVE:
    return MR_SPIN_ADAPT;
  default:
    return kind < 0 ? MR_SPIN_ADAPT : MR_SPIN_SLEEP;
  }
}

static struct mr_poll *open_section(void) {
  void *data;
  if (maru_board_open_env(&board) < 0)
    return NULL;
  maru_board_forget_fd(&board);
  int rc = maru_board_share(&board, MR_POLL_SECTION, MR_POLL_VERSION, sizeof *section, &data);
  if (rc < 0)
    (void)maru_board_say(&board, "wait", "loops of polls are not counted: the board refuses");
  return rc < 0 ? NULL : data;
}

/* What the parent's thread has not told yet is the parent's to tell. */
static void in_child(void) {
  memset(&poll_self, 0, sizeof poll_self);
  atomic_store_explicit(&counted, false, memory_order_relaxed);
}

__attribute__((constructor)) static void begin(void) {
  int saved = errno;
  find_symbols();
  section = open_section();
  mode = mode_of(getenv("MARU_WAIT"));
  if (section != NULL)
    add(&section->loads, 1);
  /* Without the handler a child would tell what its parent tells. */
  bool hears = pthread_atfork(NULL, NULL, in_child) == 0;
  atomic_store_explicit(&active, hears, memory_order_relaxed);
  errno = saved;
}

__attribute__((destructor)) static void end(void) {
  poll_other();
  if (on_duty())
    flush(&poll_self.spin);
}
