/* lowered.c: waiting below all others.
 *
 * A thread lowers itself only inside of one call, and the call does not return
 * before the thread has looked that its priority is its own again.  The daemon may
 * have restored (or boosted) it by then: only a priority that is still the lowered
 * one is changed.  models/boost.pml checks this.
 */
#define _GNU_SOURCE
#include "priority.h"
#include "ways.h"

#include <sched.h>

#define LOOKS_PER_CLOCK 32 /* as in awake.c */
#define YIELDS_PER_CLOCK 8
/* Internal: the daemon died while we were lowered. */
#define FORSAKEN (-ESTALE)

/* Whether a daemon that would have restored us has died since `had_daemon`. */
static bool forsaken(struct mr_wait *w, bool had_daemon, int64_t now_ns) {
  return had_daemon && !mr_daemon_fresh(w->policy->table, now_ns);
}

static int look_lowered(struct mr_wait *w) {
  bool giving_way = w->policy->runs == MARU_WAIT_LOWER_YIELD;
  int64_t now = mr_wait_now(w);
  bool had_daemon = w->channel != NULL && mr_daemon_fresh(w->policy->table, now);
  do {
    for (int i = 0; i < (giving_way ? YIELDS_PER_CLOCK : LOOKS_PER_CLOCK); i++) {
      if (mr_look(w))
        return 0;
      if (giving_way)
        sched_yield();
      else
        mr_pause_core();
    }
    now = mr_wait_now(w);
    if (forsaken(w, had_daemon, now))
      return FORSAKEN;
  } while (now < w->deadline_ns);
  return mr_look(w) ? 0 : -ETIMEDOUT;
}

/* Back to the own place, unless the daemon has put us there or above. */
static void restore(struct maru_wait_policy *policy, const struct mr_sched *normal) {
  struct mr_sched now, lowered = mr_sched_lowered(normal);
  if (mr_sched_get(0, &now) == 0 && !mr_sched_equal(&now, &lowered))
    return;
  if (mr_sched_set(0, normal) < 0) /* the right was taken away meanwhile */
    mr_wait_cannot_restore(policy);
}

int mr_wait_lowered(struct mr_wait *w) {
  struct mr_sched normal;
  if (w->policy->channel != NULL) /* the kernel might tell of a boost */
    normal = mr_channel_normal(w->policy->channel);
  else if (mr_sched_get(0, &normal) < 0)
    return mr_wait_yielding(w);
  struct mr_sched low = mr_sched_lowered(&normal);
  if (mr_sched_set(0, &low) < 0)
    return mr_wait_yielding(w);
  mr_channel_show(w->channel, MARU_CHANNEL_LOWERED);
  int rc = look_lowered(w);
  restore(w->policy, &normal);
  mr_channel_show(w->channel, MARU_CHANNEL_AWAKE);
  return rc == FORSAKEN ? mr_wait_coop(w) : rc;
}
