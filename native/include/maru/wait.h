/* maru/wait.h: the one way to wait for a word to change.
 *
 * A *word* is a 32-bit atomic in any memory: a lock node on a stack, a field
 * in a shared mapping.  Bit 0 (MARU_WAIT_ARMED) belongs to this room.  A waiter
 * sets it before it sleeps, so a notifier makes a system call only when a
 * thread sleeps.  The owner of the word keeps its own value in bits 1..31.
 *
 * A *channel* is a word that lies on the board of a run.  Its line there also
 * says which thread waits for what since when.  Other waiters and `maru boost` see
 * it: they can wake its waiter without any help of the sender.
 *
 * Thread-safety: every function may be called from any thread of any process
 * that maps the word.  Signal-safety: the waits and notifications, maru_now_ns and
 * the names are async-signal-safe.  A handler must not leave a wait by longjmp
 * (the thread might be lowered).  A function that starts a thread, and so is not
 * async-signal-safe, says so.
 * Failure: negative errno.
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

/* The list is the same in the C API, on the board and on every command line. */
enum maru_wait_kind {
  MARU_WAIT_ADAPTIVE = 0, /* spin while that has been paying, then COOP; sleep instead
                             on no channel, or while giving way is slow (CPU hogs) */
  MARU_WAIT_SPIN,         /* burn the core until the deadline */
  MARU_WAIT_YIELD,        /* spin for spin_ns, then give way between two looks */
  MARU_WAIT_BLOCK,        /* sleep at once; the notifier wakes */
  MARU_WAIT_SPIN_BLOCK,   /* spin for spin_ns, then sleep */
  MARU_WAIT_SPIN_LOWER,   /* spin for spin_ns, lower the own priority, spin on */
  MARU_WAIT_LOWER_YIELD,  /* the same, giving way between two looks */
  MARU_WAIT_SLEEP_POLL,   /* spin for spin_ns, then look every 50 us */
  MARU_WAIT_COOP,         /* spin for spin_ns, then sleep unknown to the notifier: the
                             next waiter looks for us; one waiter a CPU stays awake
                             while there are messages for any thread */
  MARU_WAIT_GANG,         /* spin in the own job's time slot of `maru boost`, else sleep */
  MARU_WAIT_DCS,          /* sleep at once, due at once when the message arrives: the
                             thread asks for short time slices and keeps them */
  MARU_WAIT_KINDS
};

struct maru_board;
struct maru_channel;
struct maru_wait_table;

/* How one waiting thread waits.  Owned by the caller, one per waiting thread:
 * the adaptive policy learns in it, so threads must not share it.
 * Initialise with maru_wait_policy_init; then `spin_ns`, `spare` and `own` may be changed.
 * `own` is for a word, not a channel, that only threads of this process change.  None of these
 * threads may end between its change and its wake, as nothing wakes the sleeper to look. */
struct maru_wait_policy {
  uint32_t kind;                 /* enum maru_wait_kind */
  uint32_t spin_ns;              /* spinning before anything else, on the way to COOP 2.5 us
                        at most; ADAPTIVE: 0 to 4 times that */
  uint32_t learned;              /* ADAPTIVE: current budget in ns; private */
  uint32_t spare;                /* 1: another core is there to change the word while we spin */
  struct maru_channel *channel;  /* of maru_channel_attach, or NULL; private */
  uint32_t runs;                 /* the kind that really runs; private */
  uint16_t why;                  /* private: see maru_wait_runs_as */
  uint16_t own;                  /* 1: see above; 0 at first */
  struct maru_wait_table *table; /* the channel's; private */
};

/* One wait in a queue.  Private. */
struct maru_wait_turn {
  int64_t since_ns; /* 0: it is not timed */
  uint32_t number;  /* in order of arrival */
  uint32_t before;  /* waiters, at its arrival */
  uint32_t slot;    /* where it sleeps */
  uint32_t counted; /* 1: it waits, or has waited and is not over */
};

/* Sets *policy to `kind` with defaults for this machine.  `spin_ns` is 20 000, about
 * twice a hand-over between cores; maru_channel_attach measures it.  There is no
 * spinning at all when only one CPU is allowed to this process.  0, or -EINVAL for an
 * unknown kind.  SPIN_LOWER and LOWER_YIELD: starts and joins a thread that
 * tries whether a lowered thread could come back. */
int maru_wait_policy_init(struct maru_wait_policy *policy, enum maru_wait_kind kind);

/* The kind that really runs, and why it is not the one asked for (*why, "" if it
 * is; static text, `why` may be NULL):
 *   SPIN_LOWER, LOWER_YIELD   where a lowered thread could not come back by itself
 *                             (unprivileged Linux): COOP on a channel, else YIELD
 *   COOP                      for a word that is no channel: SPIN_BLOCK
 *   GANG                      the same; without time slots of `maru boost`: COOP
 *   what sleeps on a doorbell, on a channel whose sender rings none: COOP (DCS,
 *                             BLOCK and SPIN_BLOCK; this is no loss of wake-ups) */
enum maru_wait_kind maru_wait_runs_as(const struct maru_wait_policy *policy, const char **why);

/* "spin-block" and so on; NULL for an unknown kind. */
const char *maru_wait_kind_name(enum maru_wait_kind kind);
/* The kind of that name; -EINVAL when there is none. */
int maru_wait_kind_of(const char *name);

/* 1: it has use for a spin limit (maru_wait_policy.spin_ns).  0: SPIN, BLOCK, GANG and DCS, which
 * would ignore one without a word. */
int maru_wait_takes_spin(enum maru_wait_kind kind);

/* Reads a way to wait as people and MARU_WAIT write it: a name, or "spin-block:spin=40us" (ns, us
 * or ms; 100 ms at most).  Returns the kind.  Sets *spin_ns, for maru_wait_policy.spin_ns; to -1
 * where the text says nothing of that.  -EINVAL; also for a spin limit of a kind that takes none.
 */
int maru_wait_parse(const char *text, int64_t *spin_ns);

/* Nanoseconds of CLOCK_MONOTONIC, the clock of every deadline here. */
int64_t maru_now_ns(void);

/* Returns once (*word & mask) == want.  `mask` must not hold MARU_WAIT_ARMED.
 *
 * 0: the word has (had) that value, and what its writer did before is visible
 * (acquire).
 *
 * -ETIMEDOUT: the absolute deadline has passed.
 *
 * -EINTR: a signal handler ran while it slept.  Nothing was lost; call again.
 * A policy that stays awake, or sleeps shortly, may not notice.
 *
 * -EINVAL: bad policy, or bits of `want` outside of `mask`.
 *
 * A notifier killed between its change and its wake delays a sleeper by at most
 * 50 ms (`own`: for good).  When it returns, the thread's priority is what it was. */
int maru_wait(MARU_ATOMIC(uint32_t) * word, uint32_t want, uint32_t mask,
              struct maru_wait_policy *policy, int64_t deadline_ns);

/* The same until (*word & mask) != seen: for counters such as doorbells. */
int maru_wait_while(MARU_ATOMIC(uint32_t) * word, uint32_t seen, uint32_t mask,
                    struct maru_wait_policy *policy, int64_t deadline_ns);

/* Adds MARU_WAIT_STEP with release order and wakes every sleeper.  Makes no system
 * call unless a thread sleeps.  Wait-free but for that call.  May touch the word
 * after a waiter has returned: the word must outlive both. */
void maru_notify(MARU_ATOMIC(uint32_t) * word);

/* Stores `value` (bit 0 clear) with release order and wakes every sleeper.
 * Touches the word once: a waiter may free it as soon as it returns. */
void maru_notify_store(MARU_ATOMIC(uint32_t) * word, uint32_t value);

/* ---- channels: words on the board ---------------------------------------- */

#define MARU_WAIT_SECTION "wait"
#define MARU_WAIT_VERSION 2u
#define MARU_WAIT_CHANNELS 1024u
#define MARU_WAIT_CPUS 256u
#define MARU_WAIT_WORLDS 15u
/* A daemon that says nothing of its life for so long is taken for dead. */
#define MARU_WAIT_STALE_NS INT64_C(90000000)

/* What the waiter of a channel is doing. */
enum maru_channel_state {
  MARU_CHANNEL_IDLE = 0, /* no thread waits */
  MARU_CHANNEL_AWAKE,    /* it spins or gives way */
  MARU_CHANNEL_ASLEEP,   /* in the kernel; FUTEX_WAKE of the word wakes it */
  MARU_CHANNEL_LOWERED   /* awake with lowered priority */
};

enum maru_channel_flags {
  /* The sender only stores (maru_channel_post): nothing ever wakes the waiter but
   * other waiters and the daemon. */
  MARU_CHANNEL_SILENT = 1u,
  /* Its sender always rings and works in between.  ADAPTIVE sleeps there on the doorbell, as on
   * a word that is no channel, and does not give way.  A thread that attaches keeps its spin_ns:
   * nothing is measured. */
  MARU_CHANNEL_WORKING = 2u,
  /* One of these tells readers what its waiter waits for. */
  MARU_CHANNEL_WORK = 1u << 8,   /* a worker of a parallel map: a chunk */
  MARU_CHANNEL_RESULTS = 2u << 8 /* the process that started the map: results */
};

/* One cache line.  Written by the waiter but for `word` (the sender) and
 * `boosted` (the daemon).  A reader that is privileged trusts none of it. */
struct maru_channel {
  MARU_ATOMIC(uint32_t) word;  /* as everywhere: bit 0 is the doorbell */
  MARU_ATOMIC(uint32_t) state; /* enum maru_channel_state; stored last, with release order */
  MARU_ATOMIC(uint32_t) want;
  MARU_ATOMIC(uint32_t) mask;
  MARU_ATOMIC(uint32_t) until_equal; /* 1: waits for (word & mask) == want, 0: for != */
  MARU_ATOMIC(uint32_t) taken;       /* its number + 1 from register to release */
  MARU_ATOMIC(uint32_t) flags;
  MARU_ATOMIC(uint32_t) job;
  /* maru_now_ns when this wait began.  One that goes on, for a step of the same value, does
   * not begin anew after a deadline or a signal. */
  MARU_ATOMIC(int64_t) since_ns;
  MARU_ATOMIC(uint64_t) start;   /* of the waiting thread: /proc/TID/stat field 22 */
  MARU_ATOMIC(int32_t) tid;      /* the waiting thread; 0: none is attached */
  MARU_ATOMIC(uint32_t) normal;  /* its own place in the scheduler, packed; private */
  MARU_ATOMIC(uint32_t) boosted; /* 1 while the daemon holds it boosted */
  MARU_ATOMIC(uint32_t) cpu;     /* where this wait began */
};

/* The board's section. */
struct maru_wait_table {
  MARU_ATOMIC(uint32_t) used; /* lines below were taken at least once */
  /* Measured by the first that attached (10 us if it could not); 0: not yet. */
  MARU_ATOMIC(uint32_t) handover_ns;
  MARU_ATOMIC(int64_t) heartbeat_ns; /* the daemon's last tick; 0: there was none */
  MARU_ATOMIC(uint32_t) slot_job;    /* + 1; of the time slot that is on; 0: no slots */
  char apart[44];
  MARU_ATOMIC(uint32_t) awake[MARU_WAIT_CPUS]; /* COOP: when one last looked there; private */
  /* ADAPTIVE: until then a waiter there sleeps, for giving way was slow; private. */
  MARU_ATOMIC(uint32_t) crowded_until[MARU_WAIT_CPUS];
  struct maru_channel channels[MARU_WAIT_CHANNELS];
  /* The process that took a line: pid, pid namespace (by its number below) and start time, 0: free.
   * It is one word: whenever the process dies, others can take the line over.  Private. */
  MARU_ATOMIC(uint64_t) owners[MARU_WAIT_CHANNELS];
  MARU_ATOMIC(uint64_t) worlds[MARU_WAIT_WORLDS];
};

/* Takes a line on the board, which must stay open as long as the channel is used;
 * adds the section if it is not there.  `job`: processes that wait for each other
 * have the same.  The word begins as 0.  Other processes reach the channel by its
 * number.  When all are taken, the call takes over a line whose process has ended without
 * giving it back.  That process is of this pid namespace, and no child of it is attached there.
 * -ENOSPC: there are none, or maru_board_add's errors. */
int maru_channel_register(struct maru_board *board, uint32_t job, uint32_t flags,
                          struct maru_channel **channel);
/* The same for `count` of them, at the price of about one: all or none. */
int maru_channels_register(struct maru_board *board, uint32_t job, uint32_t flags,
                           struct maru_channel **channels, uint32_t count);
/* Gives the line back; no thread may use it any more. */
void maru_channel_release(struct maru_channel *channel);
/* Its waiter has died: no thread waits there now. */
void maru_channel_vacate(struct maru_channel *channel);

/* The section of a board; -ENOENT where no channel was registered yet. */
int maru_wait_table_of(const struct maru_board *board, struct maru_wait_table **table);

/* From now on the calling thread is the one that waits for the channel's word with
 * `policy`, until it attaches the policy to NULL.  Decides anew what runs.  Sets
 * spin_ns to twice the hand-over between two threads, which the first to come
 * measures (maru_wait_measure_handover; not on MARU_CHANNEL_WORKING).  Attach again after a
 * change of the thread's priority or affinity.  Not for a signal handler.  -EPROTO: the
 * channel lies on no board's section. */
int maru_channel_attach(struct maru_channel *channel, struct maru_wait_policy *policy);

/* How often the word was stepped, modulo 2^31 (acquire). */
uint32_t maru_channel_count(const struct maru_channel *channel);

/* The step of maru_notify without its wake: for senders that never make a system
 * call.  Only for channels with MARU_CHANNEL_SILENT, and for maru_channel_expect. */
void maru_channel_post(struct maru_channel *channel);

/* For a thread that waits elsewhere, as for a descriptor.  From now on it shows that it waits for
 * the next step, on the channel that the policy is attached to.  A sender steps the channel
 * (maru_channel_post), then sends.  That wakes no thread.  But others see how long a message has
 * lain there, and the daemon may raise the thread. */
void maru_channel_expect(const struct maru_wait_policy *policy);
/* It waits no more. */
void maru_channel_met(const struct maru_wait_policy *policy);

/* Whether a thread waits there for what already happened.  A guess: both may
 * change meanwhile. */
int maru_channel_pending(const struct maru_channel *channel);

/* Wakes the sleepers of pending channels, but not `own` (may be NULL).  How many. */
int maru_wait_wake_pending(struct maru_wait_table *table, const struct maru_channel *own);

/* Nanoseconds from a futex wake to the wakened thread's return, between two threads
 * of this process, on two CPUs if it may use two.  It is the median of 64 wakes that found
 * the other thread asleep.  The call takes 1 to 12 ms.  On a busy machine it ends after 20 ms
 * and what the scheduler adds, with 8 wakes at least.  Negative errno, -ETIMEDOUT when there
 * were fewer. */
int64_t maru_wait_measure_handover(void);

#ifdef __cplusplus
}
#endif
#endif
