/* channel.c: a wait as a line on the board shows it; what others do with such lines.
 *
 * A line's fields are stored relaxed and its state last, with release order: who
 * loads the state with acquire order sees what that wait is for.  A reader may
 * still meet a line between two waits; what it then does is a wake too many.
 */
#define _GNU_SOURCE
#include "channel.h"

#include "futex.h"
#include "priority.h"
#include "task.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <unistd.h>

_Static_assert(sizeof(struct maru_channel) == 64, "a channel is one cache line");
_Static_assert(offsetof(struct maru_wait_table, heartbeat_ns) == 8 &&
                   offsetof(struct maru_wait_table, channels) == 64 + 2 * 4 * 256 &&
                   MARU_WAIT_CHANNELS == 1024 && MARU_WAIT_STALE_NS == 90000000,
               "maru top decodes it: Maru.Cli.Room.Wait.Page");

#define LEAST_SPIN_NS 2000
#define MOST_SPIN_NS 100000
#define USUAL_HANDOVER_NS 10000

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

struct maru_wait_table *mr_channel_table(const struct maru_channel *channel) {
  /* The line knows its own number; relaxed: it was written before anybody attached. */
  uint32_t number = LOAD(channel->taken);
  if (number == 0 || number > MARU_WAIT_CHANNELS)
    return NULL;
  const struct maru_channel *first = channel - (number - 1);
  return (struct maru_wait_table *)((char *)first - offsetof(struct maru_wait_table, channels));
}

void maru_channel_vacate(struct maru_channel *channel) {
  STORE(channel->tid, 0);
  STORE(channel->since_ns, 0);
  STORE(channel->state, MARU_CHANNEL_IDLE);
}

/* ---- the waiter ---------------------------------------------------------- */

/* Whoever waits for a step again has got none since. */
static bool goes_on(const struct maru_channel *channel, const struct mr_condition *c) {
  return LOAD(channel->since_ns) != 0 && !c->until_equal && LOAD(channel->until_equal) == 0 &&
         LOAD(channel->want) == c->value && LOAD(channel->mask) == c->mask;
}

void mr_channel_begin(struct maru_channel *channel, const struct mr_condition *c, int64_t now_ns) {
  if (!goes_on(channel, c)) {
    STORE(channel->want, c->value);
    STORE(channel->mask, c->mask);
    STORE(channel->until_equal, c->until_equal);
    STORE(channel->since_ns, now_ns);
  }
  STORE(channel->cpu, (uint32_t)sched_getcpu());
  mr_channel_show(channel, MARU_CHANNEL_AWAKE);
}

void mr_channel_show(struct maru_channel *channel, enum maru_channel_state state) {
  /* Release: the state comes with what the wait is for. */
  if (channel != NULL)
    atomic_store_explicit(&channel->state, (uint32_t)state, memory_order_release);
}

static bool fresh(int64_t beat_ns, int64_t now_ns) {
  return beat_ns != 0 && now_ns - beat_ns < MARU_WAIT_STALE_NS;
}

bool mr_daemon_fresh(const struct maru_wait_table *table, int64_t now_ns) {
  return fresh(LOAD(table->heartbeat_ns), now_ns);
}

bool mr_daemon_slots(const struct maru_wait_table *table) {
  return mr_daemon_fresh(table, maru_now_ns()) &&
         /* Relaxed: nothing hangs on the order of slots and messages. */
         atomic_load_explicit(&table->slot_job, memory_order_relaxed) != 0;
}

struct mr_sched mr_channel_normal(const struct maru_channel *channel) {
  return mr_sched_unpack(LOAD(channel->normal));
}

bool mr_channel_boosted(const struct maru_channel *channel) { return LOAD(channel->boosted) != 0; }

/* A line through which the daemon holds this thread boosted; NULL.  The start time
 * tells threads of other pid namespaces apart. */
static struct maru_channel *boosted_line(struct maru_wait_table *table, pid_t tid, uint64_t start) {
  uint32_t used = LOAD(table->used);
  for (uint32_t i = 0; i < used && i < MARU_WAIT_CHANNELS; i++) {
    struct maru_channel *line = &table->channels[i];
    if (LOAD(line->tid) == tid && mr_channel_boosted(line) && LOAD(line->start) == start)
      return line;
  }
  return NULL;
}

static void end_boost(struct maru_channel *line) {
  struct mr_sched normal = mr_channel_normal(line);
  pid_t tid = LOAD(line->tid); /* not 0: a policy may be detached by another thread */
  /* From above to its own place: no right is needed but to end "reset on fork". */
  if (mr_sched_set(tid, &normal) < 0) {
    normal.on_fork = 1;
    (void)mr_sched_set(tid, &normal);
  }
  STORE(line->boosted, 0);
}

void mr_channel_end_stale_boosts(const struct maru_wait_policy *policy, int64_t now_ns,
                                 int64_t *ended_beat_ns) {
  struct maru_channel *channel = policy->channel;
  struct maru_wait_table *table = policy->table;
  int64_t beat = LOAD(table->heartbeat_ns);
  if (fresh(beat, now_ns))
    return;
  if (mr_channel_boosted(channel))
    end_boost(channel);
  if (beat == *ended_beat_ns)
    return;
  *ended_beat_ns = beat;
  struct maru_channel *line;
  while ((line = boosted_line(table, LOAD(channel->tid), LOAD(channel->start))) != NULL)
    end_boost(line);
}

/* What the kernel says of a boosted thread is not its own place: another of its
 * lines has kept that. */
static int own_place(struct maru_wait_table *table, pid_t tid, uint64_t start, uint32_t *packed) {
  struct mr_sched sched;
  struct maru_channel *before = boosted_line(table, tid, start);
  int rc = mr_sched_get(0, &sched);
  struct maru_channel *boosted = before != NULL ? before : boosted_line(table, tid, start);
  if (rc < 0)
    return rc;
  *packed = boosted != NULL ? LOAD(boosted->normal) : mr_sched_pack(&sched);
  return 0;
}

static uint32_t spin_of(struct maru_wait_table *table) {
  uint32_t handover = LOAD(table->handover_ns);
  if (handover == 0) {
    int64_t measured = maru_wait_measure_handover();
    /* A machine too busy to measure, or without threads: not tried again. */
    handover = measured <= 0             ? USUAL_HANDOVER_NS
               : measured > MOST_SPIN_NS ? MOST_SPIN_NS
                                         : (uint32_t)measured;
    STORE(table->handover_ns, handover);
  }
  uint32_t spin = 2 * handover;
  return spin < LEAST_SPIN_NS ? LEAST_SPIN_NS : spin > MOST_SPIN_NS ? MOST_SPIN_NS : spin;
}

static void detach(struct maru_wait_policy *policy) {
  if (policy->channel == NULL)
    return;
  int64_t ended_beat_ns = 0; /* nobody would end it once the line is nobody's */
  mr_channel_end_stale_boosts(policy, maru_now_ns(), &ended_beat_ns);
  STORE(policy->channel->tid, 0);
  mr_channel_show(policy->channel, MARU_CHANNEL_IDLE);
  policy->channel = NULL;
  policy->table = NULL;
}

int maru_channel_attach(struct maru_channel *channel, struct maru_wait_policy *policy) {
  if (channel == NULL) {
    detach(policy);
    mr_wait_decide(policy);
    return 0;
  }
  struct maru_wait_table *table = mr_channel_table(channel);
  if (table == NULL)
    return -EPROTO;
  pid_t tid = gettid();
  uint64_t start = mr_start_time(tid);
  bool keeps = (LOAD(channel->flags) & MARU_CHANNEL_WORKING) != 0;
  uint32_t normal, spin = keeps ? policy->spin_ns : spin_of(table);
  /* Before the old line is let go: it may be the one that keeps the own place. */
  int rc = own_place(table, tid, start, &normal);
  if (rc < 0)
    return rc;
  detach(policy);
  STORE(channel->normal, normal);
  STORE(channel->start, start);
  STORE(channel->since_ns, 0);
  /* Release: who sees the thread sees when it started. */
  atomic_store_explicit(&channel->tid, tid, memory_order_release);
  policy->channel = channel;
  policy->table = table;
  policy->spin_ns = spin;
  mr_wait_decide(policy);
  return 0;
}

void maru_channel_expect(const struct maru_wait_policy *policy) {
  /* Relaxed: a hint; the message itself comes another way. */
  struct mr_condition next = {.value = LOAD(policy->channel->word) & ~MARU_WAIT_ARMED,
                              .mask = ~MARU_WAIT_ARMED};
  int64_t now_ns = maru_now_ns(), ended_beat_ns = 0;
  mr_channel_end_stale_boosts(policy, now_ns, &ended_beat_ns);
  mr_channel_begin(policy->channel, &next, now_ns);
}

void maru_channel_met(const struct maru_wait_policy *policy) {
  mr_channel_show(policy->channel, MARU_CHANNEL_IDLE);
}

/* ---- everybody ----------------------------------------------------------- */

void maru_channel_post(struct maru_channel *channel) {
  /* Release: a waiter that sees the step sees what we wrote before it. */
  atomic_fetch_add_explicit(&channel->word, MARU_WAIT_STEP, memory_order_release);
}

uint32_t maru_channel_count(const struct maru_channel *channel) {
  /* Acquire: what was written before the steps is visible. */
  return atomic_load_explicit(&channel->word, memory_order_acquire) / MARU_WAIT_STEP;
}

int maru_channel_pending(const struct maru_channel *channel) {
  /* Acquire: pairs with the release of the state. */
  uint32_t state = atomic_load_explicit(&channel->state, memory_order_acquire);
  return mr_channel_pending_state(channel, state) != MARU_CHANNEL_IDLE;
}

/* One waker alone makes the system call.  Its death between two of these steps delays the sleeper
 * until the end of its slice.  Who is asleep by now may be so in another wait than the one that was
 * seen pending: shown as awake, it would not be found when its message comes, so it is shown
 * asleep again, and looked at again, for a message that came meanwhile. */
static bool wake(struct maru_channel *channel) {
  while (maru_channel_pending(channel)) {
    uint32_t asleep = MARU_CHANNEL_ASLEEP, awake = MARU_CHANNEL_AWAKE;
    /* Acquire: with the state comes what that wait is for. */
    if (!atomic_compare_exchange_strong_explicit(&channel->state, &asleep, MARU_CHANNEL_AWAKE,
                                                 memory_order_acquire, memory_order_relaxed))
      return false;
    if (maru_channel_pending(channel)) {
      mr_futex_wake_all(&channel->word);
      return true;
    }
    /* Release: the look above comes before.  It fails where the waiter has gone on by itself. */
    (void)atomic_compare_exchange_strong_explicit(&channel->state, &awake, MARU_CHANNEL_ASLEEP,
                                                  memory_order_release, memory_order_relaxed);
  }
  return false;
}

int maru_wait_wake_pending(struct maru_wait_table *table, const struct maru_channel *own) {
  int woken = 0;
  uint32_t used = LOAD(table->used);
  for (uint32_t i = 0; i < used && i < MARU_WAIT_CHANNELS; i++) {
    struct maru_channel *line = &table->channels[i];
    if (line != own && LOAD(line->state) == MARU_CHANNEL_ASLEEP)
      woken += wake(line);
  }
  return woken;
}
