/* policy.h: what `maru run --lock` may be given (internal).
 *
 * "NAME[:KEY=VALUE,...]" with those keys of maru_lock_options_parse that the name has. */
#ifndef MARU_PRELOAD_POLICY_H
#define MARU_PRELOAD_POLICY_H

#include "../lock/queue.h"

/* The most keys that one has, and a NULL. */
enum { MR_POLICY_KEYS = 7 };

struct mr_policy {
  const char *name;
  const char *keys[MR_POLICY_KEYS];
  enum maru_lock_kind kind;
  enum mr_queue_order order;
  bool queues;   /* no: passes through to glibc */
  bool shuffles; /* the head sorts */
  bool places;   /* sockets matter */
};

/* Number `position` of the list; NULL past the last. */
const struct mr_policy *mr_policy_at(unsigned position);

/* 0, or -EINVAL; then *wrong is where in `text` the mistake is. */
int mr_policy_read(const char *text, const struct mr_policy **policy,
                   struct maru_lock_options *options, const char **wrong);

#endif
