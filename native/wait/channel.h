/* channel.h: what the waiting loop needs to know of channels (internal). */
#ifndef MARU_WAIT_CHANNEL_H
#define MARU_WAIT_CHANNEL_H

#include "priority.h"

#include <maru/wait.h>
#include <stdbool.h>

/* What a waiter waits for. */
struct mr_condition {
  uint32_t value, mask;
  bool until_equal;
};

static inline bool mr_holds(uint32_t word, const struct mr_condition *c) {
  return ((word & c->mask) == c->value) == c->until_equal;
}

/* The state, if what it waits for is there; else IDLE. */
static inline uint32_t mr_channel_pending_state(const struct maru_channel *line, uint32_t state) {
  /* Relaxed: the caller has loaded the state with acquire order. */
  struct mr_condition c = {.value = atomic_load_explicit(&line->want, memory_order_relaxed),
                           .mask = atomic_load_explicit(&line->mask, memory_order_relaxed),
                           .until_equal =
                               atomic_load_explicit(&line->until_equal, memory_order_relaxed) != 0};
  uint32_t word = atomic_load_explicit(&line->word, memory_order_relaxed);
  return mr_holds(word, &c) ? state : (uint32_t)MARU_CHANNEL_IDLE;
}

/* Shows a wait and its state; once the wait has ended, MARU_CHANNEL_IDLE.  A NULL
 * channel is not shown. */
void mr_channel_begin(struct maru_channel *channel, const struct mr_condition *c, int64_t now_ns);
void mr_channel_show(struct maru_channel *channel, enum maru_channel_state state);

/* The section that a channel lies in; NULL once it is given back, which another process may
 * do at any time: a policy keeps the answer. */
struct maru_wait_table *mr_channel_table(const struct maru_channel *channel);

/* Sets what really runs, from kind, channel and rights. */
void mr_wait_decide(struct maru_wait_policy *policy);

/* The daemon has been there and lives. */
bool mr_daemon_fresh(const struct maru_wait_table *table, int64_t now_ns);
/* ... and gives time slots. */
bool mr_daemon_slots(const struct maru_wait_table *table);

/* Its sender rings no doorbell. */
static inline bool mr_channel_silent(const struct maru_channel *channel) {
  /* Relaxed: fixed when the channel was registered. */
  return (atomic_load_explicit(&channel->flags, memory_order_relaxed) & MARU_CHANNEL_SILENT) != 0;
}

/* The own place in the scheduler of the thread that attached. */
struct mr_sched mr_channel_normal(const struct maru_channel *channel);
/* The daemon holds that thread boosted through this line. */
bool mr_channel_boosted(const struct maru_channel *channel);

/* A line through which the daemon holds that thread boosted; NULL.  The start time tells threads
 * of other pid namespaces apart. */
struct maru_channel *mr_channel_boosted_line(struct maru_wait_table *table, pid_t tid,
                                             uint64_t start);

/* When the daemon has died, the thread that attached the policy's channel goes back to its own
 * place, whichever line it was boosted through.  *ended_beat_ns, 0 at first,
 * keeps which heartbeat that was done for: the other lines are looked through once, since
 * a dead daemon boosts nobody. */
void mr_channel_end_stale_boosts(const struct maru_wait_policy *policy, int64_t now_ns,
                                 int64_t *ended_beat_ns);

#endif
