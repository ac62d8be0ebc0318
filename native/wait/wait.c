/* wait.c: the waiting loops, one for each way to let time pass between two looks.
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
 *
 * COOP sleeps without arming: no notifier makes a system call for it.  Whoever
 * begins to wait on the same board looks through the channels and wakes those with
 * a message; on each CPU one waiter stays awake (it gives way between two looks)
 * and does that while nobody else comes, for WATCH_NS without any message; and a
 * sleeper looks by itself every COOP_SLICE_NS, whatever becomes of the others.  Who has
 * watched in vain for so long rests: armed where the sender rings, else as a sleeper
 * whose slices begin short.
 *
 * Staying awake by giving way is a service to others while a turn is short.  Beside a
 * program that does not give way, a turn is a time slice, and nobody looks meanwhile.  So
 * after one slow turn whoever waits by ADAPTIVE on that CPU sleeps as DCS does, for TRY_EVERY
 * times what the turn took: finding out whether the other one has gone costs one part in so
 * many.  Where turns were slow since processes compute for long, sleeping costs little.
 *
 * A thread lowers itself only inside of one call, and the call does not return
 * before the thread has looked that its priority is its own again.  The daemon may
 * have restored (or boosted) it by then: only a priority that is still the lowered
 * one is changed.  models/boost.pml checks this.
 */
#define _GNU_SOURCE
#include "channel.h"

#include "futex.h"
#include "priority.h"

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
#define LEARNED_MOST 4u    /* ADAPTIVE spins up to so many times spin_ns */
#define YIELDS_PER_CLOCK 8
#define SLOW_TURN_NS 2000000   /* half of a rotation of the scheduler's */
#define SLOW_MOST_NS 100000000 /* who took longer was stopped: by no hog */
#define TRY_EVERY 50
#define CROWDED_SLICE_NS 100000 /* at first, where nobody rings */
#define SLEEP_POLL_NS 50000
#define COOP_SPIN_NS 2500     /* twice a switch between two threads of one CPU, measured */
#ifndef COOP_SLICE_NS         /* a test sets these two beyond its own end, too */
#define COOP_SLICE_NS 4000000 /* a rotation of the scheduler's */
#endif
#define WATCH_NS 12000000   /* some rotations without a message for anybody */
#define GANG_SPIN_NS 100000 /* in the own time slot, between looks at the slot */
#ifndef GANG_SLICE_NS
#define GANG_SLICE_NS 1000000 /* out of it */
#endif
#define DCS_TIME_SLICE 100000u  /* the least that the kernel grants */
#define SHORT_SLICES (1u << 31) /* of maru_wait_policy.learned: they were granted */

_Static_assert(sizeof(struct maru_wait_policy) == 40, "Maru.Native.Channel allocates so much");

/* Each wait is one call of a function of this type. */
struct wait {
  _Atomic uint32_t *word;
  struct mr_condition c;
  struct maru_wait_policy *policy;
  struct maru_channel *channel; /* the policy's, if the word is its; else NULL */
  int64_t deadline_ns;
  int64_t watched_ns;    /* how long it has stayed awake for others, in vain */
  int64_t ended_beat_ns; /* the heartbeat whose boosts of this thread are ended */
};

/* Internal: the daemon died while we were lowered. */
#define FORSAKEN (-ESTALE)

enum why { AS_ASKED, CANNOT_RESTORE, NO_CHANNEL, NO_DOORBELL, NO_SLOTS };

static const char *const reasons[] = {
    [AS_ASKED] = "",
    [CANNOT_RESTORE] = "a lowered thread could not come back: CAP_SYS_NICE or ulimit -e is missing",
    [NO_CHANNEL] = "the word is not a channel on a board, so other waiters cannot see it",
    [NO_DOORBELL] = "the sender of this channel rings no doorbell",
    [NO_SLOTS] = "no `maru boost --policy gang` gives time slots",
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

static bool several_cpus_allowed(void) {
  unsigned long mask[1024 / sizeof(unsigned long)] = {0}; /* 8192 CPUs */
  if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask) < 0)
    return true; /* the mask does not fit: a large machine */
  return CPU_COUNT_S(sizeof mask, (cpu_set_t *)mask) > 1;
}

static void run_instead(struct maru_wait_policy *policy, enum maru_wait_kind kind, enum why why) {
  policy->runs = kind;
  policy->why = why;
}

static bool may_lower(const struct maru_wait_policy *policy) {
  struct mr_sched own;
  int rc = 0;
  if (policy->channel != NULL)
    own = mr_channel_normal(policy->channel);
  else
    rc = mr_sched_get(0, &own);
  return rc == 0 && mr_sched_can_restore(&own) == 0;
}

static bool is_silent(const struct maru_channel *channel) {
  /* Relaxed: fixed when the channel was registered. */
  return (atomic_load_explicit(&channel->flags, memory_order_relaxed) & MARU_CHANNEL_SILENT) != 0;
}

void mr_wait_decide(struct maru_wait_policy *policy) {
  bool shared = policy->channel != NULL;
  bool silent = shared && is_silent(policy->channel);
  run_instead(policy, (enum maru_wait_kind)policy->kind, AS_ASKED);
  switch (policy->kind) {
  case MARU_WAIT_SPIN_LOWER:
  case MARU_WAIT_LOWER_YIELD:
    if (!may_lower(policy))
      run_instead(policy, shared ? MARU_WAIT_COOP : MARU_WAIT_YIELD, CANNOT_RESTORE);
    break;
  case MARU_WAIT_COOP:
  case MARU_WAIT_GANG:
    if (!shared)
      run_instead(policy, MARU_WAIT_SPIN_BLOCK, NO_CHANNEL);
    break;
  case MARU_WAIT_BLOCK:
  case MARU_WAIT_SPIN_BLOCK:
  case MARU_WAIT_DCS:
    if (silent)
      run_instead(policy, MARU_WAIT_COOP, NO_DOORBELL);
    break;
  default:
    break;
  }
}

int maru_wait_policy_init(struct maru_wait_policy *policy, enum maru_wait_kind kind) {
  if ((unsigned)kind >= MARU_WAIT_KINDS)
    return -EINVAL;
  *policy = (struct maru_wait_policy){.kind = kind,
                                      .spin_ns = DEFAULT_SPIN_NS,
                                      .learned = DEFAULT_SPIN_NS,
                                      .spare = several_cpus_allowed()};
  mr_wait_decide(policy);
  return 0;
}

static bool slots_on(const struct maru_wait_table *table) {
  return mr_daemon_fresh(table, maru_now_ns()) &&
         /* Relaxed: nothing hangs on the order of slots and messages. */
         atomic_load_explicit(&table->slot_job, memory_order_relaxed) != 0;
}

enum maru_wait_kind maru_wait_runs_as(const struct maru_wait_policy *policy, const char **why) {
  /* Whether there are time slots changes while the thread waits. */
  bool slotless = policy->runs == MARU_WAIT_GANG && !slots_on(policy->table);
  if (why != NULL)
    *why = reasons[slotless ? (uint32_t)NO_SLOTS : policy->why];
  return slotless ? MARU_WAIT_COOP : (enum maru_wait_kind)policy->runs;
}

int64_t maru_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The clock, for every loop here: a thread that nobody would put back any more puts
 * itself back at the next look at it, and every sleep is short enough for that. */
static int64_t now_in(struct wait *w) {
  int64_t now = maru_now_ns();
  if (w->policy->channel != NULL)
    mr_channel_end_stale_boosts(w->policy, now, &w->ended_beat_ns);
  return now;
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

/* Acquire: whoever returns on this look sees what the writer did before. */
static inline bool look_at(_Atomic uint32_t *word, const struct mr_condition *c) {
  return mr_holds(atomic_load_explicit(word, memory_order_acquire), c);
}

static bool look(struct wait *w) { return look_at(w->word, &w->c); }

static int64_t earlier(int64_t left, int64_t right) { return left < right ? left : right; }

/* True when the condition held before the time `end`. */
static bool spin(struct wait *w, int64_t end_ns) {
  struct mr_condition c = w->c; /* in registers: each look is one load */
  _Atomic uint32_t *word = w->word;
  do {
    for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
      if (look_at(word, &c))
        return true;
      pause_core();
    }
  } while (now_in(w) < end_ns);
  return look_at(word, &c);
}

/* What most policies begin with.  True when that was all. */
static bool spin_first(struct wait *w, uint32_t budget_ns) {
  if (!w->policy->spare || budget_ns == 0)
    return false;
  return spin(w, earlier(now_in(w) + budget_ns, w->deadline_ns));
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

/* Armed: the notifier wakes. */
static int block_until(struct wait *w, int64_t until_ns) {
  for (;;) {
    mr_channel_show(w->channel, MARU_CHANNEL_ASLEEP);
    /* Acquire, as in look(). */
    uint32_t now = atomic_fetch_or_explicit(w->word, MARU_WAIT_ARMED, memory_order_acquire);
    if (mr_holds(now, &w->c))
      return 0;
    int64_t time = now_in(w);
    if (time >= until_ns)
      return -ETIMEDOUT;
    int rc = sleep_on(w->word, now | MARU_WAIT_ARMED, earlier(time + SLICE_NS, until_ns));
    if (rc < 0)
      return look(w) ? 0 : rc;
  }
}

static int block(struct wait *w) { return block_until(w, w->deadline_ns); }

/* One turn may take a time slice of somebody else's: the clock is read after each. */
static int give_way_until(struct wait *w) {
  do {
    if (look(w))
      return 0;
    sched_yield();
  } while (now_in(w) < w->deadline_ns);
  return look(w) ? 0 : -ETIMEDOUT;
}

static int sleep_poll(struct wait *w) {
  for (;;) {
    if (look(w))
      return 0;
    int64_t left = w->deadline_ns - now_in(w);
    if (left <= 0)
      return -ETIMEDOUT;
    struct timespec pause = {.tv_nsec = earlier(left, SLEEP_POLL_NS)};
    if (nanosleep(&pause, NULL) < 0)
      return look(w) ? 0 : -EINTR;
  }
}

/* A thread with short time slices is due soon after it wakes: the arrival of the
 * message schedules its receiver.  A raise of the daemon's takes the slice away: asked
 * for in each wait while there is a daemon, or after a refusal. */
static void ask_short_slices(struct wait *w) {
  struct maru_channel *channel = w->policy->channel;
  bool daemon = channel != NULL && mr_daemon_fresh(w->policy->table, now_in(w));
  if (daemon || !(w->policy->learned & SHORT_SLICES)) {
    bool granted = mr_sched_short_slice(DCS_TIME_SLICE) == 0; /* else: as BLOCK */
    w->policy->learned &= ~SHORT_SLICES;
    w->policy->learned |= granted && !daemon ? SHORT_SLICES : 0;
  }
}

/* ---- coop ---------------------------------------------------------------- */

/* The watch of a CPU is a lease: its word holds when the waiter that stays awake there
 * looked last, in units of 2^20 ns (never 0).  One that does not look for WATCH_LEASE
 * units (killed, stopped, pushed aside by others) has lost it, whatever pid namespace it
 * lives in.  Relaxed throughout: the watch orders nothing; two watchers would only look
 * twice. */
#define WATCH_LEASE 20u
/* In the same units, 21 s: beyond is not the future but the past. */
#define CROWD_MOST 20000u

static uint32_t coarse(int64_t now_ns) { return (uint32_t)(now_ns >> 20) | 1u << 31; }

static bool take_watch(_Atomic uint32_t *watch, int64_t now_ns) {
  uint32_t held = atomic_load_explicit(watch, memory_order_relaxed), now = coarse(now_ns);
  if (held != 0 && ((now - held) & ~(1u << 31)) < WATCH_LEASE)
    return false;
  return atomic_compare_exchange_strong_explicit(watch, &held, now, memory_order_relaxed,
                                                 memory_order_relaxed);
}

/* Relaxed, here and below: nothing hangs on it but time. */
static void note_crowd(struct maru_wait_table *table, int cpu, int64_t now_ns, int64_t took_ns) {
  if (took_ns > SLOW_TURN_NS)
    atomic_store_explicit(&table->crowded_until[(unsigned)cpu % MARU_WAIT_CPUS],
                          coarse(now_ns + TRY_EVERY * earlier(took_ns, SLOW_MOST_NS)),
                          memory_order_relaxed);
}

/* Of ADAPTIVE alone: who asks for COOP gets it. */
static bool avoids_crowd(const struct wait *w, int cpu, int64_t now_ns) {
  if (w->policy->runs != MARU_WAIT_ADAPTIVE)
    return false;
  uint32_t until = atomic_load_explicit(
      &w->policy->table->crowded_until[(unsigned)cpu % MARU_WAIT_CPUS], memory_order_relaxed);
  /* Their distance modulo 2^31, for the clock of 31 bits wraps. */
  return until != 0 && ((until - coarse(now_ns)) & ~(1u << 31)) <= CROWD_MOST;
}

/* As long as there are messages for somebody, and on this CPU. */
static int watch_on(struct wait *w, struct maru_wait_table *table, int cpu) {
  _Atomic uint32_t *watch = &table->awake[(unsigned)cpu % MARU_WAIT_CPUS];
  int64_t now = now_in(w), busy = now - w->watched_ns;
  do {
    atomic_store_explicit(watch, coarse(now), memory_order_relaxed);
    if (look(w))
      return 0;
    if (maru_wait_wake_pending(table, w->channel) > 0)
      busy = now;
    int64_t before = now;
    sched_yield();
    now = now_in(w);
    note_crowd(table, cpu, now, now - before);
    w->watched_ns = now - busy;
    if (now >= w->deadline_ns)
      return look(w) ? 0 : -ETIMEDOUT;
  } while (w->watched_ns < WATCH_NS && sched_getcpu() == cpu && !avoids_crowd(w, cpu, now));
  return -EAGAIN;
}

/* Not armed: no notifier knows. */
static int sleep_unknown(struct wait *w, int64_t slice_ns) {
  mr_channel_show(w->channel, MARU_CHANNEL_ASLEEP);
  /* Acquire, as in look().  The state is shown before this look: who changes the
   * word later and then looks for sleepers finds us, or the kernel finds another
   * value.  Where these cross, the slice ends the sleep. */
  uint32_t now = atomic_load_explicit(w->word, memory_order_acquire);
  if (mr_holds(now, &w->c))
    return 0;
  int64_t time = now_in(w);
  if (time >= w->deadline_ns)
    return -ETIMEDOUT;
  int rc = sleep_on(w->word, now, earlier(time + slice_ns, w->deadline_ns));
  return look(w) ? 0 : rc < 0 ? rc : -EAGAIN;
}

/* Nothing has happened for long: until something does, this costs next to no time. */
static int rest(struct wait *w, int64_t slice_ns) {
  if (!is_silent(w->channel))
    return block(w);
  int rc;
  while ((rc = sleep_unknown(w, slice_ns)) == -EAGAIN) {
    maru_wait_wake_pending(w->policy->table, w->channel);
    slice_ns = earlier(2 * slice_ns, COOP_SLICE_NS);
  }
  return rc;
}

/* Relaxed: fixed when the channel was registered. */
static bool gives_way(const struct wait *w) {
  return (atomic_load_explicit(&w->channel->flags, memory_order_relaxed) & MARU_CHANNEL_WORKING) ==
         0;
}

/* How long spinning pays before a policy goes on: twice what the hand-over then costs.
 * To and from coop that is a switch on one CPU, and its watcher looks as often as a
 * spinner while nobody else wants the CPU. */
static uint32_t spin_before(struct wait *w) {
  bool to_coop = w->channel != NULL && (w->policy->runs == MARU_WAIT_COOP ||
                                        (w->policy->runs == MARU_WAIT_ADAPTIVE && gives_way(w)));
  return to_coop ? earlier(w->policy->spin_ns, COOP_SPIN_NS) : w->policy->spin_ns;
}

static int coop(struct wait *w) {
  struct maru_wait_table *table = w->policy->table;
  int rc = -EAGAIN;
  maru_wait_wake_pending(table, w->channel);
  while (rc == -EAGAIN && w->watched_ns < WATCH_NS) {
    int cpu = sched_getcpu();
    int64_t now = now_in(w);
    _Atomic uint32_t *watch = &table->awake[(unsigned)cpu % MARU_WAIT_CPUS];
    if (avoids_crowd(w, cpu, now)) {
      ask_short_slices(w);
      return rest(w, CROWDED_SLICE_NS);
    }
    if (!take_watch(watch, now)) {
      rc = sleep_unknown(w, COOP_SLICE_NS);
      continue;
    }
    mr_channel_show(w->channel, MARU_CHANNEL_AWAKE);
    rc = watch_on(w, table, cpu);
    atomic_store_explicit(watch, 0, memory_order_relaxed);
  }
  return rc == -EAGAIN ? rest(w, SLEEP_POLL_NS) : rc;
}

/* ---- lowered ------------------------------------------------------------- */

/* Whether a daemon that would have restored us has died since `had_daemon`. */
static bool forsaken(struct wait *w, bool had_daemon, int64_t now_ns) {
  return had_daemon && !mr_daemon_fresh(w->policy->table, now_ns);
}

static int look_lowered(struct wait *w) {
  bool giving_way = w->policy->runs == MARU_WAIT_LOWER_YIELD;
  int64_t now = now_in(w);
  bool had_daemon = w->channel != NULL && mr_daemon_fresh(w->policy->table, now);
  do {
    for (int i = 0; i < (giving_way ? YIELDS_PER_CLOCK : LOOKS_PER_CLOCK); i++) {
      if (look(w))
        return 0;
      if (giving_way)
        sched_yield();
      else
        pause_core();
    }
    now = now_in(w);
    if (forsaken(w, had_daemon, now))
      return FORSAKEN;
  } while (now < w->deadline_ns);
  return look(w) ? 0 : -ETIMEDOUT;
}

/* Back to the own place, unless the daemon has put us there or above. */
static void restore(struct maru_wait_policy *policy, const struct mr_sched *normal) {
  struct mr_sched now, lowered = mr_sched_lowered(normal);
  if (mr_sched_get(0, &now) == 0 && !mr_sched_equal(&now, &lowered))
    return;
  if (mr_sched_set(0, normal) < 0) /* the right was taken away meanwhile */
    run_instead(policy, policy->channel != NULL ? MARU_WAIT_COOP : MARU_WAIT_YIELD, CANNOT_RESTORE);
}

static int lowered(struct wait *w) {
  struct mr_sched normal;
  if (w->policy->channel != NULL) /* the kernel might tell of a boost */
    normal = mr_channel_normal(w->policy->channel);
  else if (mr_sched_get(0, &normal) < 0)
    return give_way_until(w);
  struct mr_sched low = mr_sched_lowered(&normal);
  if (mr_sched_set(0, &low) < 0)
    return give_way_until(w);
  mr_channel_show(w->channel, MARU_CHANNEL_LOWERED);
  int rc = look_lowered(w);
  restore(w->policy, &normal);
  mr_channel_show(w->channel, MARU_CHANNEL_AWAKE);
  return rc == FORSAKEN ? coop(w) : rc;
}

/* ---- by the scheduler ---------------------------------------------------- */

static int gang(struct wait *w) {
  struct maru_wait_table *table = w->policy->table;
  for (;;) {
    int64_t now = now_in(w);
    if (now >= w->deadline_ns)
      return look(w) ? 0 : -ETIMEDOUT;
    if (!slots_on(table))
      return coop(w);
    /* Relaxed, as in slots_on; the job is fixed. */
    uint32_t slot = atomic_load_explicit(&table->slot_job, memory_order_relaxed);
    uint32_t job = atomic_load_explicit(&w->channel->job, memory_order_relaxed);
    if (slot == job + 1) {
      mr_channel_show(w->channel, MARU_CHANNEL_AWAKE);
      if (spin(w, earlier(now + GANG_SPIN_NS, w->deadline_ns)))
        return 0;
      continue;
    }
    int rc = block_until(w, earlier(now + GANG_SLICE_NS, w->deadline_ns));
    if (rc != -ETIMEDOUT)
      return rc;
  }
}

static int due_at_once(struct wait *w) {
  ask_short_slices(w);
  return block(w);
}

/* ---- adaptive ------------------------------------------------------------ */

/* ADAPTIVE keeps one number beside SHORT_SLICES.  From LEAST_SPIN_NS upwards it is the
 * budget.  Below, spinning has not been paying, and it counts the waits until one
 * probes with the whole budget again. */
static void learn(struct maru_wait_policy *policy, uint32_t number) {
  policy->learned = (policy->learned & SHORT_SLICES) | number;
}

static uint32_t adaptive_budget(struct maru_wait_policy *policy, uint32_t base) {
  uint32_t learned = policy->learned & ~SHORT_SLICES;
  if (learned > 0 && learned < LEAST_SPIN_NS) {
    learn(policy, learned - 1);
    return 0;
  }
  if (learned == 0)
    learn(policy, learned = base);
  return earlier(learned, (int64_t)LEARNED_MOST * base);
}

/* Longer while messages keep arriving in time, shorter while they do not. */
static void adaptive_learn(struct maru_wait_policy *policy, uint32_t base, uint32_t budget,
                           bool paid) {
  if (paid)
    learn(policy, earlier(2 * (int64_t)budget, (int64_t)LEARNED_MOST * base));
  else
    learn(policy, budget / 2 < LEAST_SPIN_NS ? WAITS_TO_PROBE : budget / 2);
}

static int adaptive(struct wait *w) {
  uint32_t base = spin_before(w);
  uint32_t budget = w->policy->spare ? adaptive_budget(w->policy, base) : 0;
  if (budget > 0) {
    int64_t end = now_in(w) + budget;
    bool paid = spin(w, earlier(end, w->deadline_ns));
    /* A budget that a deadline cut short says nothing. */
    if (paid || end <= w->deadline_ns)
      adaptive_learn(w->policy, base, budget, paid);
    if (paid)
      return 0;
  }
  return w->channel != NULL && gives_way(w) ? coop(w) : block(w);
}

/* ---- all ----------------------------------------------------------------- */

static int wait_by(struct wait *w) {
  uint32_t kind = w->policy->runs;
  if (kind == MARU_WAIT_SPIN)
    return spin(w, w->deadline_ns) ? 0 : -ETIMEDOUT;
  if (kind == MARU_WAIT_BLOCK)
    return block(w);
  if (kind == MARU_WAIT_ADAPTIVE)
    return adaptive(w);
  if (kind == MARU_WAIT_DCS)
    return due_at_once(w);
  if (kind == MARU_WAIT_GANG && w->channel != NULL)
    return gang(w);
  if (spin_first(w, spin_before(w)))
    return 0;
  switch (kind) {
  case MARU_WAIT_YIELD:
    return give_way_until(w);
  case MARU_WAIT_SLEEP_POLL:
    return sleep_poll(w);
  case MARU_WAIT_SPIN_LOWER:
  case MARU_WAIT_LOWER_YIELD:
    return lowered(w);
  default: /* COOP or GANG with another word than its channel's: as SPIN_BLOCK */
    return kind != MARU_WAIT_SPIN_BLOCK && w->channel != NULL ? coop(w) : block(w);
  }
}

static int wait_for(_Atomic uint32_t *word, const struct mr_condition *c,
                    struct maru_wait_policy *policy, int64_t deadline_ns) {
  if (policy->kind >= MARU_WAIT_KINDS || policy->runs >= MARU_WAIT_KINDS)
    return -EINVAL;
  if ((c->mask & MARU_WAIT_ARMED) || (c->value & ~c->mask))
    return -EINVAL;
  struct wait w = {.word = word, .c = *c, .policy = policy, .deadline_ns = deadline_ns};
  if (policy->channel != NULL && mr_channel_boosted(policy->channel))
    (void)now_in(&w);
  if (look_at(word, c))
    return 0;
  if (policy->channel == NULL || word != &policy->channel->word)
    return wait_by(&w);
  w.channel = policy->channel;
  mr_channel_begin(w.channel, c, now_in(&w));
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
