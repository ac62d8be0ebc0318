/* attach.c: a thread comes to a line of the board, and leaves it. */
#define _GNU_SOURCE
#include "channel.h"

#include "priority.h"
#include "task.h"

#include <errno.h>
#include <unistd.h>

#define LEAST_SPIN_NS 2000
#define MOST_SPIN_NS 100000
#define USUAL_HANDOVER_NS 10000

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

/* What the kernel says of a boosted thread is not its own place: another of its
 * lines has kept that. */
static int own_place(struct maru_wait_table *table, pid_t tid, uint64_t start, uint32_t *packed) {
  struct mr_sched sched;
  struct maru_channel *before = mr_channel_boosted_line(table, tid, start);
  int rc = mr_sched_get(0, &sched);
  struct maru_channel *boosted =
      before != NULL ? before : mr_channel_boosted_line(table, tid, start);
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
