/* wait.c: one wait, by the policy; and the notifiers.  The ways are in ways.h. */
#define _GNU_SOURCE
#include "futex.h"
#include "ways.h"

#include <sched.h>

#define LEAST_SPIN_NS 512u    /* a budget below this is not worth a clock read */
#define WAITS_TO_PROBE 64u    /* below LEAST_SPIN_NS: see adaptive_budget */
#define LEARNED_MOST 4u       /* ADAPTIVE spins up to so many times spin_ns */
#define COOP_SPIN_NS 2500     /* twice a switch between two threads of one CPU, measured */
#define GANG_SPIN_NS 100000   /* in the own time slot, between looks at the slot */
#ifndef GANG_SLICE_NS         /* a test sets it beyond its own end */
#define GANG_SLICE_NS 1000000 /* out of it */
#endif

/* Does ADAPTIVE wait on this channel as COOP does?  Relaxed: fixed when it was registered. */
static bool gives_way(const struct mr_wait *w) {
  return w->channel != NULL && (atomic_load_explicit(&w->channel->flags, memory_order_relaxed) &
                                MARU_CHANNEL_WORKING) == 0;
}

/* How long spinning pays before a policy goes on: twice what the hand-over then costs.
 * To and from coop that is a switch on one CPU, and its watcher looks as often as a
 * spinner while nobody else wants the CPU. */
static uint32_t spin_before(const struct mr_wait *w, bool to_coop) {
  return to_coop ? mr_earlier(w->policy->spin_ns, COOP_SPIN_NS) : w->policy->spin_ns;
}

/* ---- by the scheduler ---------------------------------------------------- */

static int gang(struct mr_wait *w) {
  struct maru_wait_table *table = w->policy->table;
  for (;;) {
    int64_t now = mr_wait_now(w);
    if (now >= w->deadline_ns)
      return mr_look(w) ? 0 : -ETIMEDOUT;
    if (!mr_daemon_slots(table))
      return mr_wait_coop(w);
    /* Relaxed, as in mr_daemon_slots; the job is fixed. */
    uint32_t slot = atomic_load_explicit(&table->slot_job, memory_order_relaxed);
    uint32_t job = atomic_load_explicit(&w->channel->job, memory_order_relaxed);
    if (slot == job + 1) {
      mr_channel_show(w->channel, MARU_CHANNEL_AWAKE);
      if (mr_wait_spinning(w, mr_earlier(now + GANG_SPIN_NS, w->deadline_ns)))
        return 0;
      continue;
    }
    int rc = mr_block_until(w, mr_earlier(now + GANG_SLICE_NS, w->deadline_ns));
    if (rc != -ETIMEDOUT)
      return rc;
  }
}

static int due_at_once(struct mr_wait *w) {
  mr_ask_short_slices(w);
  return mr_wait_blocked(w);
}

/* ADAPTIVE keeps one number beside MR_SHORT_SLICES.  From LEAST_SPIN_NS upwards it is the
 * budget.  Below, spinning has not been paying, and it counts the waits until one
 * probes with the whole budget again. */
static void learn(struct maru_wait_policy *policy, uint32_t number) {
  policy->learned = (policy->learned & MR_SHORT_SLICES) | number;
}

static uint32_t adaptive_budget(struct maru_wait_policy *policy, uint32_t base) {
  uint32_t learned = policy->learned & ~MR_SHORT_SLICES;
  if (learned > 0 && learned < LEAST_SPIN_NS) {
    learn(policy, learned - 1);
    return 0;
  }
  if (learned == 0)
    learn(policy, learned = base);
  return mr_earlier(learned, (int64_t)LEARNED_MOST * base);
}

/* Longer while messages keep arriving in time, shorter while they do not. */
static void adaptive_learn(struct maru_wait_policy *policy, uint32_t base, uint32_t budget,
                           bool paid) {
  if (paid)
    learn(policy, mr_earlier(2 * (int64_t)budget, (int64_t)LEARNED_MOST * base));
  else
    learn(policy, budget / 2 < LEAST_SPIN_NS ? WAITS_TO_PROBE : budget / 2);
}

static int adaptive(struct mr_wait *w) {
  int64_t now = mr_wait_now(w);
  uint32_t base = spin_before(w, gives_way(w) && !mr_avoids_crowd(w, sched_getcpu(), now));
  uint32_t budget = w->policy->spare ? adaptive_budget(w->policy, base) : 0;
  if (budget > 0) {
    int64_t end = now + budget;
    bool paid = mr_wait_spinning(w, mr_earlier(end, w->deadline_ns));
    /* A budget that a deadline cut short says nothing. */
    if (paid || end <= w->deadline_ns)
      adaptive_learn(w->policy, base, budget, paid);
    if (paid)
      return 0;
  }
  return gives_way(w) ? mr_wait_coop(w) : mr_wait_blocked(w);
}

/* ---- all ----------------------------------------------------------------- */

static int wait_by(struct mr_wait *w) {
  uint32_t kind = w->policy->runs;
  if (kind == MARU_WAIT_SPIN)
    return mr_wait_spinning(w, w->deadline_ns) ? 0 : -ETIMEDOUT;
  if (kind == MARU_WAIT_BLOCK)
    return mr_wait_blocked(w);
  if (kind == MARU_WAIT_ADAPTIVE)
    return adaptive(w);
  if (kind == MARU_WAIT_DCS)
    return due_at_once(w);
  if (kind == MARU_WAIT_GANG && w->channel != NULL)
    return gang(w);
  if (mr_wait_spinning_first(w, spin_before(w, kind == MARU_WAIT_COOP && w->channel != NULL)))
    return 0;
  switch (kind) {
  case MARU_WAIT_YIELD:
    return mr_wait_yielding(w);
  case MARU_WAIT_SLEEP_POLL:
    return mr_wait_polling(w);
  case MARU_WAIT_SPIN_LOWER:
  case MARU_WAIT_LOWER_YIELD:
    return mr_wait_lowered(w);
  default: /* COOP or GANG with another word than its channel's: as SPIN_BLOCK */
    return kind != MARU_WAIT_SPIN_BLOCK && w->channel != NULL ? mr_wait_coop(w)
                                                              : mr_wait_blocked(w);
  }
}

static int wait_for(_Atomic uint32_t *word, const struct mr_condition *c,
                    struct maru_wait_policy *policy, int64_t deadline_ns) {
  if (policy->kind >= MARU_WAIT_KINDS || policy->runs >= MARU_WAIT_KINDS)
    return -EINVAL;
  if ((c->mask & MARU_WAIT_ARMED) || (c->value & ~c->mask))
    return -EINVAL;
  struct mr_wait w = {.word = word, .c = *c, .policy = policy, .deadline_ns = deadline_ns};
  if (policy->channel != NULL && mr_channel_boosted(policy->channel))
    (void)mr_wait_now(&w);
  if (mr_look_at(word, c))
    return 0;
  if (policy->channel == NULL || word != &policy->channel->word)
    return wait_by(&w);
  w.channel = policy->channel;
  mr_channel_begin(w.channel, c, mr_wait_now(&w));
  int rc = wait_by(&w);
  mr_channel_show(w.channel, MARU_CHANNEL_IDLE);
  return rc;
}

int maru_wait(_Atomic uint32_t *word, uint32_t want, uint32_t mask, struct maru_wait_policy *policy,
              int64_t deadline_ns) {
  struct mr_condition c = {.value = want, .mask = mask, .until_equal = true};
  return wait_for(word, &c, policy, deadline_ns);
}

int maru_wait_while(_Atomic uint32_t *word, uint32_t seen, uint32_t mask,
                    struct maru_wait_policy *policy, int64_t deadline_ns) {
  struct mr_condition c = {.value = seen, .mask = mask, .until_equal = false};
  return wait_for(word, &c, policy, deadline_ns);
}

void maru_notify(_Atomic uint32_t *word) {
  /* Release: a waiter that sees the step sees what we wrote before it. */
  uint32_t old = atomic_fetch_add_explicit(word, MARU_WAIT_STEP, memory_order_release);
  if (old & MARU_WAIT_ARMED) {
    /* A thread that armed the word until here is asleep and will be woken, or will find
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
