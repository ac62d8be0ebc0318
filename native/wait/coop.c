/* coop.c: waiters that wake each other.
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
 * many.  Where turns were slow since processes compute for long, sleeping costs little; where
 * since two of them exchange messages so fast that neither gives way, ADAPTIVE spins for
 * what a wake-up costs before it sleeps, and they stay in step.
 */
#define _GNU_SOURCE
#include "ways.h"

#include <sched.h>

#define SLOW_TURN_NS 2000000   /* half of a rotation of the scheduler's */
#define SLOW_MOST_NS 100000000 /* a turn that took longer was a stop: by no hog */
#define TRY_EVERY 50
#ifndef COOP_SLICE_NS         /* tests set these beyond their own end */
#define COOP_SLICE_NS 4000000 /* a rotation of the scheduler's */
#endif
#ifndef REST_SLICE_NS           /* at first, where nobody rings */
#define REST_SLICE_NS 50000     /* ... nothing has happened for long */
#define CROWDED_SLICE_NS 100000 /* ... a turn was slow */
#endif
#ifndef WATCH_NS          /* a test sets it shorter */
#define WATCH_NS 12000000 /* some rotations without a message for anybody */
#endif

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
                          coarse(now_ns + TRY_EVERY * mr_earlier(took_ns, SLOW_MOST_NS)),
                          memory_order_relaxed);
}

bool mr_avoids_crowd(const struct mr_wait *w, int cpu, int64_t now_ns) {
  if (w->policy->runs != MARU_WAIT_ADAPTIVE)
    return false;
  uint32_t until = atomic_load_explicit(
      &w->policy->table->crowded_until[(unsigned)cpu % MARU_WAIT_CPUS], memory_order_relaxed);
  /* Their distance modulo 2^31, for the clock of 31 bits wraps. */
  return until != 0 && ((until - coarse(now_ns)) & ~(1u << 31)) <= CROWD_MOST;
}

/* As long as there are messages for somebody, and on this CPU. */
static int watch_on(struct mr_wait *w, struct maru_wait_table *table, int cpu) {
  _Atomic uint32_t *watch = &table->awake[(unsigned)cpu % MARU_WAIT_CPUS];
  int64_t now = mr_wait_now(w), busy = now - w->watched_ns;
  do {
    atomic_store_explicit(watch, coarse(now), memory_order_relaxed);
    if (mr_look(w))
      return 0;
    if (maru_wait_wake_pending(table, w->channel) > 0)
      busy = now;
    int64_t before = now;
    sched_yield();
    now = mr_wait_now(w);
    note_crowd(table, cpu, now, now - before);
    w->watched_ns = now - busy;
    if (now >= w->deadline_ns)
      return mr_look(w) ? 0 : -ETIMEDOUT;
  } while (w->watched_ns < WATCH_NS && sched_getcpu() == cpu && !mr_avoids_crowd(w, cpu, now));
  return -EAGAIN;
}

/* Not armed: no notifier knows. */
static int sleep_unknown(struct mr_wait *w, int64_t slice_ns) {
  mr_channel_show(w->channel, MARU_CHANNEL_ASLEEP);
  /* Acquire, as in mr_look.  The state is shown before this look: who changes the
   * word later and then looks for sleepers finds us, or the kernel finds another
   * value.  Where these cross, the slice ends the sleep. */
  uint32_t now = atomic_load_explicit(w->word, memory_order_acquire);
  if (mr_holds(now, &w->c))
    return 0;
  int64_t time = mr_wait_now(w);
  if (time >= w->deadline_ns)
    return -ETIMEDOUT;
  int rc = mr_sleep_on(w->word, now, mr_earlier(time + slice_ns, w->deadline_ns));
  return mr_look(w) ? 0 : rc < 0 ? rc : -EAGAIN;
}

/* Nothing has happened for long: until something does, this costs next to no time. */
static int rest(struct mr_wait *w, int64_t slice_ns) {
  if (!mr_channel_silent(w->channel))
    return mr_wait_blocked(w);
  int rc;
  while ((rc = sleep_unknown(w, slice_ns)) == -EAGAIN) {
    maru_wait_wake_pending(w->policy->table, w->channel);
    slice_ns = mr_earlier(2 * slice_ns, COOP_SLICE_NS);
  }
  return rc;
}

int mr_wait_coop(struct mr_wait *w) {
  struct maru_wait_table *table = w->policy->table;
  int rc = -EAGAIN;
  maru_wait_wake_pending(table, w->channel);
  while (rc == -EAGAIN && w->watched_ns < WATCH_NS) {
    int cpu = sched_getcpu();
    int64_t now = mr_wait_now(w);
    _Atomic uint32_t *watch = &table->awake[(unsigned)cpu % MARU_WAIT_CPUS];
    if (mr_avoids_crowd(w, cpu, now)) {
      mr_ask_short_slices(w);
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
  return rc == -EAGAIN ? rest(w, REST_SLICE_NS) : rc;
}
