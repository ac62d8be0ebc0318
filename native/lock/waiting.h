/* waiting.h: how the threads at one lock wait, and until when (internal). */
#ifndef MARU_LOCK_WAITING_H
#define MARU_LOCK_WAITING_H

#include "../wait/turns.h"

#include <maru/wait.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* Values of the words of this room, beside MARU_WAIT_ARMED. */
#define MR_SET 2u

struct mr_deadline {
  clockid_t clock;
  int64_t ns; /* MARU_WAIT_FOREVER: none */
};

static const struct mr_deadline mr_forever = {CLOCK_MONOTONIC, MARU_WAIT_FOREVER};

struct mr_waiting {
  struct maru_wait_policy policy; /* as made */
  struct mr_turn_rule rule;
  _Alignas(64) _Atomic uint32_t learned; /* what ADAPTIVE has learnt at this lock's words */
};

int mr_waiting_init(struct mr_waiting *waiting, enum maru_wait_kind kind, uint32_t spin_ns);

/* Until (*word & mask) == want, over signals: 0 (acquire) or -ETIMEDOUT. */
int mr_waiting_for(struct mr_waiting *waiting, _Atomic uint32_t *word, uint32_t want, uint32_t mask,
                   const struct mr_deadline *deadline);
/* The same until (*word & mask) != seen. */
int mr_waiting_while(struct mr_waiting *waiting, _Atomic uint32_t *word, uint32_t seen,
                     uint32_t mask, const struct mr_deadline *deadline);

/* In a queue: ADAPTIVE waits by turns, all others as above.  `turns` NULL: it has no order, and
 * nobody waits by turns.  A hold's turn is cleared before its first wait in a queue. */
int mr_waiting_turn(struct mr_waiting *waiting, struct mr_turns *turns, struct maru_wait_turn *turn,
                    _Atomic uint32_t *word, uint32_t want, uint32_t mask,
                    const struct mr_deadline *deadline);
/* Stores `value` for the thread that waits so. */
void mr_waiting_grant(const struct mr_waiting *waiting, struct mr_turns *turns,
                      _Atomic uint32_t *word, uint32_t value);
/* Its turn is over, and the next one's has begun. */
void mr_waiting_end(const struct mr_waiting *waiting, struct mr_turns *turns,
                    struct maru_wait_turn *turn);
/* It waits no more, and has had no turn. */
void mr_waiting_leave(struct mr_turns *turns, struct maru_wait_turn *turn);
bool mr_waits_by_turns(const struct mr_waiting *waiting, const struct mr_turns *turns);

/* Whether (*word & mask) == want before `end_ns`, while awake.  False at once where the way to wait
 * is not ADAPTIVE, or there is one CPU. */
bool mr_waiting_spins(const struct mr_waiting *waiting, _Atomic uint32_t *word, uint32_t want,
                      uint32_t mask, int64_t end_ns);

/* For `ns` at most, the deadline or a signal.  Nothing is learnt. */
void mr_waiting_pause(const struct mr_waiting *waiting, int64_t ns,
                      const struct mr_deadline *deadline);
bool mr_deadline_passed(const struct mr_deadline *deadline);
/* Nanoseconds until then, negative once it has passed. */
int64_t mr_deadline_left(const struct mr_deadline *deadline);
/* -EINVAL: neither CLOCK_MONOTONIC nor CLOCK_REALTIME, or bad nanoseconds. */
int mr_deadline_read(struct mr_deadline *deadline, clockid_t clock, const struct timespec *then);

/* By libc's own waiting.  Errors of pthread_mutex_lock and pthread_mutex_clocklock, negative. */
int mr_mutex_acquire(pthread_mutex_t *mutex, const struct mr_deadline *deadline);

#endif
