/* waiting.c: maru_wait with the patience of a lock. */
#define _GNU_SOURCE /* pthread_mutex_clocklock */
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
  mr_turn_rule_init(&waiting->rule, waiting->policy.spin_ns);
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
  int64_t left = mr_deadline_left(deadline);
  return maru_now_ns() + (left < REALTIME_SLICE_NS ? left : REALTIME_SLICE_NS);
}

bool mr_deadline_passed(const struct mr_deadline *deadline) {
  return mr_deadline_left(deadline) <= 0;
}

int64_t mr_deadline_left(const struct mr_deadline *deadline) {
  return deadline->ns - now_on(deadline->clock);
}

int mr_deadline_read(struct mr_deadline *deadline, clockid_t clock, const struct timespec *then) {
  if ((clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME) || then->tv_nsec < 0 ||
      then->tv_nsec >= 1000000000)
    return -EINVAL;
  *deadline = (struct mr_deadline){.clock = clock};
  if (then->tv_sec < 0)
    deadline->ns = 0;
  else if (then->tv_sec >= INT64_MAX / 1000000000)
    deadline->ns = INT64_MAX - 1; /* centuries; MARU_WAIT_FOREVER would mean no deadline at all */
  else
    deadline->ns = (int64_t)then->tv_sec * 1000000000 + then->tv_nsec;
  return 0;
}

int mr_mutex_acquire(pthread_mutex_t *mutex, const struct mr_deadline *deadline) {
  if (deadline->ns == MARU_WAIT_FOREVER)
    return -pthread_mutex_lock(mutex);
  struct timespec until = {.tv_sec = deadline->ns / 1000000000,
                           .tv_nsec = deadline->ns % 1000000000};
  return -pthread_mutex_clocklock(mutex, deadline->clock, &until);
}

typedef int wait_function(_Atomic uint32_t *, uint32_t, uint32_t, struct maru_wait_policy *,
                          int64_t);

/* It is to wait on: neither there nor too late. */
static bool goes_on(int rc, const struct mr_deadline *deadline) {
  return rc == -EINTR || (rc == -ETIMEDOUT && !mr_deadline_passed(deadline));
}

static int patiently(wait_function *wait, struct mr_waiting *waiting, _Atomic uint32_t *word,
                     uint32_t value, uint32_t mask, const struct mr_deadline *deadline) {
  struct maru_wait_policy policy = waiting->policy;
  /* Relaxed, both: a guess; which thread overwrites whose does not matter. */
  policy.learned = atomic_load_explicit(&waiting->learned, memory_order_relaxed);
  uint32_t learned = policy.learned;
  int rc;
  do
    rc = wait(word, value, mask, &policy, next_look(deadline));
  while (goes_on(rc, deadline));
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

bool mr_waits_by_turns(const struct mr_waiting *waiting, const struct mr_turns *turns) {
  return turns != NULL && waiting->policy.kind == MARU_WAIT_ADAPTIVE;
}

int mr_waiting_turn(struct mr_waiting *waiting, struct mr_turns *turns, struct maru_wait_turn *turn,
                    _Atomic uint32_t *word, uint32_t want, uint32_t mask,
                    const struct mr_deadline *deadline) {
  if (!mr_waits_by_turns(waiting, turns))
    return mr_waiting_for(waiting, word, want, mask, deadline);
  struct maru_wait_policy policy = waiting->policy;
  int rc;
  if (!turn->counted)
    mr_turn_begin(turns, turn);
  do
    rc = mr_turn_wait(turns, &waiting->rule, turn, word, want, mask, &policy, next_look(deadline));
  while (goes_on(rc, deadline));
  return rc;
}

void mr_waiting_grant(const struct mr_waiting *waiting, struct mr_turns *turns,
                      _Atomic uint32_t *word, uint32_t value) {
  if (mr_waits_by_turns(waiting, turns))
    mr_turn_grant(turns, word, value);
  else
    maru_notify_store(word, value);
}

void mr_waiting_end(const struct mr_waiting *waiting, struct mr_turns *turns,
                    struct maru_wait_turn *turn) {
  if (turn->counted)
    mr_turn_end(turns, &waiting->rule, turn);
}

void mr_waiting_leave(struct mr_turns *turns, struct maru_wait_turn *turn) {
  if (turn->counted)
    mr_turn_leave(turns, turn);
}

bool mr_waiting_spins(const struct mr_waiting *waiting, _Atomic uint32_t *word, uint32_t want,
                      uint32_t mask, int64_t end_ns) {
  struct maru_wait_policy policy = {.kind = MARU_WAIT_SPIN, .runs = MARU_WAIT_SPIN};
  if (waiting->policy.kind != MARU_WAIT_ADAPTIVE || !waiting->policy.spare ||
      maru_now_ns() >= end_ns)
    return false;
  return maru_wait(word, want, mask, &policy, end_ns) == 0;
}

void mr_waiting_pause(const struct mr_waiting *waiting, int64_t ns,
                      const struct mr_deadline *deadline) {
  _Atomic uint32_t never = 0;
  struct maru_wait_policy policy = waiting->policy;
  int64_t until = maru_now_ns() + ns, look = next_look(deadline);
  maru_wait(&never, MR_SET, MR_SET, &policy, look < until ? look : until);
}
