/* waiting.c: maru_wait with the patience of a lock. */
#include "waiting.h"

#include <errno.h>
#include <stdatomic.h>

/* A realtime clock may be set while somebody waits by it: it is looked at this often. */
#define REALTIME_SLICE_NS 50000000

int mr_waiting_init(struct mr_waiting *waiting, enum maru_wait_kind kind, uint32_t spin_ns) {
  int rc = maru_wait_policy_init(&waiting->policy, kind);
  if (rc < 0)
    return rc;
  if (spin_ns > 0)
    waiting->policy.spin_ns = waiting->policy.learned = spin_ns;
  atomic_init(&waiting->learned, waiting->policy.learned);
  return 0;
}

static int64_t now_on(clockid_t clock) {
  if (clock == CLOCK_MONOTONIC)
    return maru_now_ns();
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Until when maru_wait may wait before the deadline's own clock is asked. */
static int64_t next_look(const struct mr_deadline *deadline) {
  if (deadline->clock == CLOCK_MONOTONIC)
    return deadline->ns;
  int64_t left = deadline->ns - now_on(deadline->clock);
  return maru_now_ns() + (left < REALTIME_SLICE_NS ? left : REALTIME_SLICE_NS);
}

bool mr_deadline_passed(const struct mr_deadline *deadline) {
  return now_on(deadline->clock) >= deadline->ns;
}

typedef int wait_function(_Atomic uint32_t *, uint32_t, uint32_t, struct maru_wait_policy *,
                          int64_t);

static int patiently(wait_function *wait, struct mr_waiting *waiting, _Atomic uint32_t *word,
                     uint32_t value, uint32_t mask, const struct mr_deadline *deadline) {
  struct maru_wait_policy policy = waiting->policy;
  /* Relaxed, both: a guess; who overwrites whose does not matter. */
  policy.learned = atomic_load_explicit(&waiting->learned, memory_order_relaxed);
  uint32_t learned = policy.learned;
  int rc;
  do
    rc = wait(word, value, mask, &policy, next_look(deadline));
  while (rc == -EINTR || (rc == -ETIMEDOUT && !mr_deadline_passed(deadline)));
  /* What the other policies keep there concerns one thread. */
  if (policy.kind == MARU_WAIT_ADAPTIVE && policy.learned != learned)
    atomic_store_explicit(&waiting->learned, policy.learned, memory_order_relaxed);
  return rc;
}

int mr_waiting_for(struct mr_waiting *waiting, _Atomic uint32_t *word, uint32_t want, uint32_t mask,
                   const struct mr_deadline *deadline) {
  return patiently(maru_wait, waiting, word, want, mask, deadline);
}

int mr_waiting_while(struct mr_waiting *waiting, _Atomic uint32_t *word, uint32_t seen,
                     uint32_t mask, const struct mr_deadline *deadline) {
  return patiently(maru_wait_while, waiting, word, seen, mask, deadline);
}

void mr_waiting_pause(const struct mr_waiting *waiting, int64_t ns,
                      const struct mr_deadline *deadline) {
  _Atomic uint32_t never = 0;
  struct maru_wait_policy policy = waiting->policy;
  int64_t until = maru_now_ns() + ns, look = next_look(deadline);
  maru_wait(&never, MR_SET, MR_SET, &policy, look < until ? look : until);
}
