#define _GNU_SOURCE
#include "hold.h"

#include "../base/futex.h"

#include <maru/wait.h>
#include <stddef.h>

enum { FREE, ASKED, HELD };

/* The holder's death is the process's; nobody relies on this. */
#define LOOKS_NS INT64_C(1000000000)

/* Release: with a state comes what was done before it; acquire, to see that. */
static bool change(struct mr_hold *hold, uint32_t from, uint32_t to) {
  if (!atomic_compare_exchange_strong_explicit(&hold->state, &from, to, memory_order_acq_rel,
                                               memory_order_acquire))
    return false;
  mr_futex_wake_all(&hold->state);
  return true;
}

static bool is(struct mr_hold *hold, uint32_t state) {
  return atomic_load_explicit(&hold->state, memory_order_acquire) == state;
}

void mr_hold_here(struct mr_hold *hold) {
  sigset_t every, before;
  if (!is(hold, ASKED))
    return;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &before);
  sigpending(&hold->waiting);
  if (change(hold, ASKED, HELD))
    while (is(hold, HELD))
      mr_futex_wait(&hold->state, HELD, maru_now_ns() + LOOKS_NS);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void mr_hold_ask(struct mr_hold *hold) { (void)change(hold, FREE, ASKED); }

bool mr_hold_await(struct mr_hold *hold, int64_t until_ns) {
  while (is(hold, ASKED) && maru_now_ns() < until_ns)
    mr_futex_wait(&hold->state, ASKED, until_ns);
  return !change(hold, ASKED, FREE);
}

void mr_hold_end(struct mr_hold *hold) { (void)change(hold, HELD, FREE); }
