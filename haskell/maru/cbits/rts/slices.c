/* Short time slices for a while.
 *
 * A thread of Haskell's that computes is preempted every 20 ms. Until then no other runs on the
 * same capability: a timer that is due, the walk of a list and the fork of a worker would take five
 * such slices. So a thread of the system does each half millisecond what the run-time system's
 * ticker does, for as long as it was asked for. It tells that capability to put its thread behind
 * others, at its next allocation. What does not allocate, or is in an unsafe foreign call, goes
 * on. */
#include "internals.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { slice_ns = 500000 };

/* seq_cst, all of them: who asks extends the time and then looks for the ticker; the ticker says
   that it is gone and then looks at the time once more. One of the two sees the other. */
static _Atomic int64_t until;
static _Atomic pid_t ticker; /* the process that has one; a child of it has none */
static Capability *_Atomic asking;

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool leave(pid_t self) {
  atomic_store_explicit(&ticker, 0, memory_order_seq_cst);
  return now_ns() >= atomic_load_explicit(&until, memory_order_seq_cst) ||
         atomic_exchange_explicit(&ticker, self, memory_order_seq_cst) == self;
}

static void *tick(void *unused) {
  (void)unused;
  pid_t self = getpid();
  for (;;) {
    nanosleep(&(struct timespec){.tv_nsec = slice_ns}, NULL);
    if (now_ns() >= atomic_load_explicit(&until, memory_order_seq_cst)) {
      if (leave(self))
        return NULL;
    } else {
      maru_rts_switch(atomic_load_explicit(&asking, memory_order_seq_cst));
    }
  }
}

/* The first capability of a GHC whose memory it is for ever; of others, and where the symbol is
   hidden, NULL. */
extern struct Capability_ MainCapability MARU_WEAK;

/* For so long from now, on the capability of who calls. Called unsafely. Without a thread for it,
   or where the program runs without a ticker (-V0), slices stay as they are. So they do with
   several capabilities, where a thread that may run finds another one; and where the capability's
   memory is given back while the program ends. */
void maru_rts_slices(int64_t ns) {
  Capability *here = rts_unsafeGetMyCapability();
  if (RtsFlags.MiscFlags.tickInterval == 0 || n_capabilities != 1 || here != &MainCapability)
    return;
  int64_t wanted = now_ns() + ns, before = atomic_load_explicit(&until, memory_order_seq_cst);
  while (before < wanted &&
         !atomic_compare_exchange_weak_explicit(&until, &before, wanted, memory_order_seq_cst,
                                                memory_order_seq_cst))
    ;
  atomic_store_explicit(&asking, here, memory_order_seq_cst);
  pid_t self = getpid();
  if (atomic_exchange_explicit(&ticker, self, memory_order_seq_cst) == self)
    return;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  if (pthread_create(&thread, NULL, tick, NULL) == 0)
    pthread_detach(thread);
  else
    atomic_store_explicit(&ticker, 0, memory_order_seq_cst);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}
