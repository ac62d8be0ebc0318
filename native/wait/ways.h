/* ways.h: the ways to let time pass between two looks at a word (internal).
 *
 * Each way waits until the condition holds: 0; -ETIMEDOUT when the deadline has passed,
 * -EINTR after a signal handler (a way that stays awake may not notice), or what the
 * kernel refuses.  When it returns, the thread's priority is its own.
 */
#ifndef MARU_WAIT_WAYS_H
#define MARU_WAIT_WAYS_H

#include "channel.h"

#include <errno.h>

/* One call of maru_wait. */
struct mr_wait {
  _Atomic uint32_t *word;
  struct mr_condition c;
  struct maru_wait_policy *policy;
  struct maru_channel *channel; /* the policy's, if the word is its; else NULL */
  int64_t deadline_ns;
  int64_t watched_ns;    /* how long it has stayed awake for others, in vain */
  int64_t ended_beat_ns; /* the heartbeat whose boosts of this thread are ended */
};

/* Of maru_wait_policy.learned: short slices were granted. */
#define MR_SHORT_SLICES (1u << 31)

/* Acquire: a thread that returns on this look sees what the writer did before. */
static inline bool mr_look_at(_Atomic uint32_t *word, const struct mr_condition *c) {
  return mr_holds(atomic_load_explicit(word, memory_order_acquire), c);
}

static inline bool mr_look(struct mr_wait *w) { return mr_look_at(w->word, &w->c); }

static inline int64_t mr_earlier(int64_t left, int64_t right) {
  return left < right ? left : right;
}

/* The clock, for every loop: a thread that nobody would put back any more puts
 * itself back at the next look at it, and every sleep is short enough for that. */
int64_t mr_wait_now(struct mr_wait *w);

/* ---- awake.c -------------------------------------------------------------- */

void mr_pause_core(void);
/* True when the condition held before the time `end_ns`. */
bool mr_wait_spinning(struct mr_wait *w, int64_t end_ns);
/* What most policies begin with.  True when that was all. */
bool mr_wait_spinning_first(struct mr_wait *w, uint32_t budget_ns);
int mr_wait_yielding(struct mr_wait *w);

/* ---- asleep.c ------------------------------------------------------------- */

/* 0 too after `until_ns`, or when the word was another value. */
int mr_sleep_on(_Atomic uint32_t *word, uint32_t expected, int64_t until_ns);
/* Until when one that sleeps from now on need not look by itself, `until_ns` at most. */
int64_t mr_slice_end(const struct mr_wait *w, int64_t now_ns, int64_t until_ns);
/* Armed: the notifier wakes.  -ETIMEDOUT at `until_ns`. */
int mr_block_until(struct mr_wait *w, int64_t until_ns);
int mr_wait_blocked(struct mr_wait *w);
int mr_wait_polling(struct mr_wait *w);
/* A thread with short time slices is due soon after it wakes: the arrival of the message
 * schedules its receiver.  Asks for them, if need be. */
void mr_ask_short_slices(struct mr_wait *w);

/* ---- coop.c, on a channel ------------------------------------------------- */

int mr_wait_coop(struct mr_wait *w);
/* On that CPU a turn was slow: it sleeps where COOP would give way.  Of ADAPTIVE alone: a caller
 * that asks for COOP gets it. */
bool mr_avoids_crowd(const struct mr_wait *w, int cpu, int64_t now_ns);

/* ---- lowered.c ------------------------------------------------------------ */

int mr_wait_lowered(struct mr_wait *w);

/* ---- policy.c ------------------------------------------------------------- */

/* CPUs that this process may use. */
uint32_t mr_cpus_allowed(void);

/* The right to come back was taken away: what runs from now on. */
void mr_wait_cannot_restore(struct maru_wait_policy *policy);

#endif
