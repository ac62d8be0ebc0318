/* wait.c: one waiting loop for every policy.
 *
 * Why no wake-up is lost.  All accesses are read-modify-writes of one word, so
 * they have one order.  A waiter sets ARMED and, in the same operation, reads
 * the value; if that does not satisfy it, it sleeps on exactly value|ARMED.  A
 * notifier whose change comes earlier is seen by the waiter; one whose change
 * comes later sees ARMED, clears it and wakes.  When the clearing comes between
 * the arming and the sleep, the kernel finds another value and the waiter looks
 * again.  models/wait.pml checks this.
 *
 * What the protocol cannot cover is a notifier killed between its change and
 * its wake.  Therefore no sleep is longer than SLICE_NS.
 */
#define _GNU_SOURCE
#include <maru/wait.h>

#include "futex.h"

#include <sched.h>
#include <stdbool.h>
#include <string.h>

#define DEFAULT_SPIN_NS 20000u
#ifndef SLICE_NS          /* a test sets it beyond its own end */
#define SLICE_NS 50000000 /* how long a killed notifier can delay a sleeper */
#endif
#define POLL_NS 1000000    /* between looks where the kernel refuses futexes */
#define LOOKS_PER_CLOCK 32 /* a look and a pause: 1 to 2 us between clock reads */
#define LEAST_SPIN_NS 512u /* a budget below this is not worth a clock read */
#define WAITS_TO_PROBE 64u /* below LEAST_SPIN_NS: see adaptive_budget */

struct condition {
  uint32_t value, mask;
  bool until_equal;
};

static const char *const names[MARU_WAIT_KINDS] = {
    [MARU_WAIT_ADAPTIVE] = "adaptive",
    [MARU_WAIT_SPIN] = "spin",
    [MARU_WAIT_YIELD] = "yield",
    [MARU_WAIT_BLOCK] = "block",
    [MARU_WAIT_SPIN_BLOCK] = "spin-block",
    [MARU_WAIT_SPIN_LOWER] = "spin-lower",
    [MARU_WAIT_LOWER_YIELD] = "lower-yield",
    [MARU_WAIT_SLEEP_POLL] = "sleep-poll",
    [MARU_WAIT_COOP] = "coop",
    [MARU_WAIT_GANG] = "gang",
    [MARU_WAIT_DCS] = "dcs",
};

const char *maru_wait_kind_name(enum maru_wait_kind kind) {
  return (unsigned)kind < MARU_WAIT_KINDS ? names[kind] : NULL;
}

int maru_wait_kind_of(const char *name) {
  for (int kind = 0; kind < MARU_WAIT_KINDS; kind++)
    if (strcmp(name, names[kind]) == 0)
      return kind;
  return -EINVAL;
}

static int check_kind(uint32_t kind) {
  switch (kind) {
  case MARU_WAIT_ADAPTIVE:
  case MARU_WAIT_SPIN:
  case MARU_WAIT_BLOCK:
  case MARU_WAIT_SPIN_BLOCK:
    return 0;
  default:
    return kind < MARU_WAIT_KINDS ? -ENOTSUP : -EINVAL;
  }
}

static bool several_cpus_allowed(void) {
  unsigned long mask[1024 / sizeof(unsigned long)] = {0}; /* 8192 CPUs */
  if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask) < 0)
    return true; /* the mask does not fit: a large machine */
  return CPU_COUNT_S(sizeof mask, (cpu_set_t *)mask) > 1;
}

int maru_wait_policy_init(struct maru_wait_policy *policy, enum maru_wait_kind kind) {
  int rc = check_kind(kind);
  if (rc < 0)
    return rc;
  *policy = (struct maru_wait_policy){.kind = kind,
                                      .spin_ns = DEFAULT_SPIN_NS,
                                      .learned = DEFAULT_SPIN_NS,
                                      .spare = several_cpus_allowed()};
  return 0;
}

int64_t maru_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void pause_core(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#else
  atomic_signal_fence(memory_order_seq_cst);
#endif
}

static bool holds(uint32_t word, const struct condition *c) {
  return ((word & c->mask) == c->value) == c->until_equal;
}

/* Acquire: whoever returns on this look sees what the writer did before. */
static bool look(_Atomic uint32_t *word, const struct condition *c) {
  return holds(atomic_load_explicit(word, memory_order_acquire), c);
}

/* True when the condition held before the time `end`. */
static bool spin(_Atomic uint32_t *word, const struct condition *c, int64_t end_ns) {
  do {
    for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
      if (look(word, c))
        return true;
      pause_core();
    }
  } while (maru_now_ns() < end_ns);
  return look(word, c);
}

/* In place of a futex that the kernel refuses. */
static int poll_pause(void) {
  struct timespec pause = {.tv_nsec = POLL_NS};
  return nanosleep(&pause, NULL) < 0 ? -errno : 0;
}

static int sleep_on(_Atomic uint32_t *word, uint32_t expected, int64_t until_ns) {
  int rc = mr_futex_wait(word, expected, until_ns);
  switch (rc) {
  case -EAGAIN:
  case -ETIMEDOUT: /* of the slice; the caller knows the deadline */
    return 0;
  case -ENOSYS:
  case -EPERM:
    return poll_pause();
  default:
    return rc;
  }
}

static int block(_Atomic uint32_t *word, const struct condition *c, int64_t deadline_ns) {
  for (;;) {
    /* Acquire, as in look(). */
    uint32_t now = atomic_fetch_or_explicit(word, MARU_WAIT_ARMED, memory_order_acquire);
    if (holds(now, c))
      return 0;
    int64_t time = maru_now_ns();
    if (time >= deadline_ns)
      return -ETIMEDOUT;
    int64_t slice = time + SLICE_NS;
    int rc = sleep_on(word, now | MARU_WAIT_ARMED, slice < deadline_ns ? slice : deadline_ns);
    if (rc < 0)
      return look(word, c) ? 0 : rc;
  }
}

/* ADAPTIVE keeps one number.  From LEAST_SPIN_NS upwards it is the budget.
 * Below, spinning has not been paying, and it counts the waits until one
 * probes with the whole budget again. */
static uint32_t adaptive_budget(struct maru_wait_policy *policy) {
  if (policy->learned > 0 && policy->learned < LEAST_SPIN_NS) {
    policy->learned--;
    return 0;
  }
  if (policy->learned == 0 || policy->learned > policy->spin_ns)
    policy->learned = policy->spin_ns;
  return policy->learned;
}

static void adaptive_learn(struct maru_wait_policy *policy, bool paid) {
  uint32_t learned = policy->learned;
  if (paid)
    policy->learned = learned < policy->spin_ns / 2 ? 2 * learned : policy->spin_ns;
  else
    policy->learned = learned / 2 < LEAST_SPIN_NS ? WAITS_TO_PROBE : learned / 2;
}

static uint32_t spin_budget(struct maru_wait_policy *policy) {
  if (!policy->spare || policy->kind == MARU_WAIT_BLOCK)
    return 0;
  return policy->kind == MARU_WAIT_SPIN_BLOCK ? policy->spin_ns : adaptive_budget(policy);
}

static int spin_then_block(_Atomic uint32_t *word, const struct condition *c,
                           struct maru_wait_policy *policy, int64_t deadline_ns) {
  uint32_t budget = spin_budget(policy);
  if (budget > 0) {
    int64_t end = maru_now_ns() + budget;
    bool paid = spin(word, c, end < deadline_ns ? end : deadline_ns);
    /* A budget that a deadline cut short says nothing. */
    if (policy->kind == MARU_WAIT_ADAPTIVE && (paid || end <= deadline_ns))
      adaptive_learn(policy, paid);
    if (paid)
      return 0;
  }
  return block(word, c, deadline_ns);
}

static int wait_for(_Atomic uint32_t *word, const struct condition *c,
                    struct maru_wait_policy *policy, int64_t deadline_ns) {
  int rc = check_kind(policy->kind);
  if (rc < 0)
    return rc;
  if ((c->mask & MARU_WAIT_ARMED) || (c->value & ~c->mask))
    return -EINVAL;
  if (look(word, c))
    return 0;
  if (policy->kind == MARU_WAIT_SPIN)
    return spin(word, c, deadline_ns) ? 0 : -ETIMEDOUT;
  return spin_then_block(word, c, policy, deadline_ns);
}

int maru_wait(_Atomic uint32_t *word, uint32_t want, uint32_t mask, struct maru_wait_policy *policy,
              int64_t deadline_ns) {
  struct condition c = {.value = want, .mask = mask, .until_equal = true};
  return wait_for(word, &c, policy, deadline_ns);
}

int maru_wait_while(_Atomic uint32_t *word, uint32_t seen, uint32_t mask,
                    struct maru_wait_policy *policy, int64_t deadline_ns) {
  struct condition c = {.value = seen, .mask = mask, .until_equal = false};
  return wait_for(word, &c, policy, deadline_ns);
}

void maru_notify(_Atomic uint32_t *word) {
  /* Release: a waiter that sees the step sees what we wrote before it. */
  uint32_t old = atomic_fetch_add_explicit(word, MARU_WAIT_STEP, memory_order_release);
  if (old & MARU_WAIT_ARMED) {
    /* Whoever armed the word until here is asleep and will be woken, or will find
     * another value.  Relaxed: it publishes nothing, and as a read-modify-write it
     * stays in the release sequence of the step above. */
    atomic_fetch_and_explicit(word, ~MARU_WAIT_ARMED, memory_order_relaxed);
    mr_futex_wake_all(word);
  }
}

void maru_notify_store(_Atomic uint32_t *word, uint32_t value) {
  /* One access: a waiter may free the word as soon as it sees the value. */
  uint32_t old = atomic_exchange_explicit(word, value, memory_order_release);
  if (old & MARU_WAIT_ARMED)
    mr_futex_wake_all(word);
}
