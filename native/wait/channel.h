/* channel.h: what the waiting loop needs to know of channels (internal). */
#ifndef MARU_WAIT_CHANNEL_H
#define MARU_WAIT_CHANNEL_H

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

/* The section that a channel lies in. */
struct maru_wait_table *mr_table_of(const struct maru_channel *channel);

/* Shows a wait and its state; once the wait has ended, MARU_CHANNEL_IDLE.  A NULL
 * channel is not shown. */
void mr_channel_begin(struct maru_channel *channel, const struct mr_condition *c);
void mr_channel_show(struct maru_channel *channel, enum maru_channel_state state);

/* Sets what really runs, from kind, channel and rights. */
void mr_wait_decide(struct maru_wait_policy *policy);

/* The daemon has been there and lives. */
bool mr_daemon_fresh(const struct maru_wait_table *table, int64_t now_ns);

/* A thread that the daemon holds boosted, when the daemon has died: the thread goes
 * back to its own place.  One load where it is not boosted. */
void mr_channel_end_stale_boost(struct maru_channel *channel);

#endif
