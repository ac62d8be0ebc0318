/* asleep.c: waiting in the kernel.
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
 * its wake.  Therefore no sleep is longer than SLICE_NS, but where notifiers die
 * only together with who sleeps (maru_wait_policy.own).
 */
#define _GNU_SOURCE
#include "futex.h"
#include "priority.h"
#include "ways.h"

#include <time.h>

#ifndef SLICE_NS          /* a test sets it beyond its own end */
#define SLICE_NS 50000000 /* how long a killed notifier can delay a sleeper */
#endif
#define POLL_NS 1000000 /* between looks where the kernel refuses futexes */
#define SLEEP_POLL_NS 50000
#define DCS_TIME_SLICE 100000u /* the least that the kernel grants */

/* In place of a futex that the kernel refuses. */
static int poll_pause(void) {
  struct timespec pause = {.tv_nsec = POLL_NS};
  return nanosleep(&pause, NULL) < 0 ? -errno : 0;
}

int mr_sleep_on(_Atomic uint32_t *word, uint32_t expected, int64_t until_ns) {
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

int64_t mr_slice_end(const struct mr_wait *w, int64_t now_ns, int64_t until_ns) {
  return w->policy->own ? until_ns : mr_earlier(now_ns + SLICE_NS, until_ns);
}

int mr_block_until(struct mr_wait *w, int64_t until_ns) {
  for (;;) {
    mr_channel_show(w->channel, MARU_CHANNEL_ASLEEP);
    /* Acquire, as in mr_look. */
    uint32_t now = atomic_fetch_or_explicit(w->word, MARU_WAIT_ARMED, memory_order_acquire);
    if (mr_holds(now, &w->c))
      return 0;
    int64_t time = mr_wait_now(w);
    if (time >= until_ns)
      return -ETIMEDOUT;
    int rc = mr_sleep_on(w->word, now | MARU_WAIT_ARMED, mr_slice_end(w, time, until_ns));
    if (rc < 0)
      return mr_look(w) ? 0 : rc;
  }
}

int mr_wait_blocked(struct mr_wait *w) { return mr_block_until(w, w->deadline_ns); }

int mr_wait_polling(struct mr_wait *w) {
  for (;;) {
    if (mr_look(w))
      return 0;
    int64_t left = w->deadline_ns - mr_wait_now(w);
    if (left <= 0)
      return -ETIMEDOUT;
    struct timespec pause = {.tv_nsec = mr_earlier(left, SLEEP_POLL_NS)};
    if (nanosleep(&pause, NULL) < 0)
      return mr_look(w) ? 0 : -EINTR;
  }
}

/* A raise of the daemon's takes the slice away: asked for in each wait while there is a
 * daemon, or after a refusal. */
void mr_ask_short_slices(struct mr_wait *w) {
  struct maru_channel *channel = w->policy->channel;
  bool daemon = channel != NULL && mr_daemon_fresh(w->policy->table, mr_wait_now(w));
  if (daemon || !(w->policy->learned & MR_SHORT_SLICES)) {
    bool granted = mr_sched_short_slice(DCS_TIME_SLICE) == 0; /* else: as BLOCK */
    w->policy->learned &= ~MR_SHORT_SLICES;
    w->policy->learned |= granted && !daemon ? MR_SHORT_SLICES : 0;
  }
}
