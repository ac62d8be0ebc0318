/* maru/wait.h: the one way to wait for a word to change.
 *
 * A *word* is a 32-bit atomic in any memory: a lock node on a stack, a field
 * in a shared mapping.  Bit 0 (MARU_WAIT_ARMED) belongs to this room: a waiter
 * sets it before it sleeps, so that a notifier makes a system call only when
 * somebody sleeps.  The owner of the word keeps its own value in bits 1..31.
 *
 * Thread-safety: every function may be called from any thread of any process
 * that maps the word.  Signal-safety: all are async-signal-safe.
 * Failure: negative errno.  No function allocates memory.
 */
#ifndef MARU_WAIT_H
#define MARU_WAIT_H

#include <stdint.h>

/* An atomic object in memory that C and C++ share: the same bytes in both. */
#ifdef __cplusplus
#include <atomic>
#define MARU_ATOMIC(type) std::atomic<type>
#else
#include <stdatomic.h>
#define MARU_ATOMIC(type) _Atomic(type)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Set in the word while at least one waiter sleeps (or is about to). */
#define MARU_WAIT_ARMED 1u
/* One step of a word that is used as a counter: bits 1..31 wrap freely. */
#define MARU_WAIT_STEP 2u
/* No deadline.  Use it only where the other side's death also changes the
 * word; otherwise wait in slices and look. */
#define MARU_WAIT_FOREVER INT64_MAX

/* The list is the same in the C API, on the board and on every command line.
 * Kinds that this build does not implement fail with -ENOTSUP. */
enum maru_wait_kind {
  MARU_WAIT_ADAPTIVE = 0, /* spin while that has been paying, then sleep */
  MARU_WAIT_SPIN,         /* burn the core until the deadline */
  MARU_WAIT_YIELD,
  MARU_WAIT_BLOCK,      /* sleep at once */
  MARU_WAIT_SPIN_BLOCK, /* spin for spin_ns, then sleep */
  MARU_WAIT_SPIN_LOWER,
  MARU_WAIT_LOWER_YIELD,
  MARU_WAIT_SLEEP_POLL,
  MARU_WAIT_COOP,
  MARU_WAIT_GANG,
  MARU_WAIT_DCS,
  MARU_WAIT_KINDS
};

/* How one waiting thread waits.  Owned by the caller, one per waiting thread:
 * the adaptive policy learns in it, so it must not be shared.
 * Initialise with maru_wait_policy_init. */
struct maru_wait_policy {
  uint32_t kind;    /* enum maru_wait_kind */
  uint32_t spin_ns; /* budget of SPIN_BLOCK, upper bound of ADAPTIVE */
  uint32_t learned; /* ADAPTIVE: current budget in ns; private */
  uint32_t spare;   /* 1: another core is there to change the word while we spin */
};

/* Sets *policy to `kind` with defaults for this machine: spin_ns 20 000 (about
 * twice a measured hand-over between cores), no spinning at all when only one
 * CPU is allowed to this process.  0, or -EINVAL for an unknown kind,
 * -ENOTSUP for one that this build lacks. */
int maru_wait_policy_init(struct maru_wait_policy *policy, enum maru_wait_kind kind);

/* "spin-block" and so on; NULL for an unknown kind. */
const char *maru_wait_kind_name(enum maru_wait_kind kind);
/* The kind of that name; -EINVAL when there is none. */
int maru_wait_kind_of(const char *name);

/* Nanoseconds of CLOCK_MONOTONIC, the clock of every deadline here. */
int64_t maru_now_ns(void);

/* Returns once (*word & mask) == want.  `mask` must not hold MARU_WAIT_ARMED.
 * 0: the word has (had) that value, and what its writer did before is visible
 * (acquire).  -ETIMEDOUT: the absolute deadline has passed.  -EINTR: a signal
 * handler ran while it slept; nothing was lost, call again.  -EINVAL: bad policy,
 * or bits of `want` outside of `mask`.  -ENOTSUP: policy not in this build.
 * A notifier killed between its change and its wake delays a sleeper by at most
 * 50 ms. */
int maru_wait(MARU_ATOMIC(uint32_t) * word, uint32_t want, uint32_t mask,
              struct maru_wait_policy *policy, int64_t deadline_ns);

/* The same until (*word & mask) != seen: for counters such as doorbells. */
int maru_wait_while(MARU_ATOMIC(uint32_t) * word, uint32_t seen, uint32_t mask,
                    struct maru_wait_policy *policy, int64_t deadline_ns);

/* Adds MARU_WAIT_STEP with release order and wakes every sleeper.  No system
 * call unless somebody sleeps.  Wait-free but for that call.  May touch the word
 * after a waiter has returned: the word must outlive both. */
void maru_notify(MARU_ATOMIC(uint32_t) * word);

/* Stores `value` (bit 0 clear) with release order and wakes every sleeper.
 * Touches the word once: a waiter may free it as soon as it returns. */
void maru_notify_store(MARU_ATOMIC(uint32_t) * word, uint32_t value);

#ifdef __cplusplus
}
#endif
#endif
