/* maru/lock.h: mutual exclusion whose algorithm is chosen when the lock is made.
 *
 * The point is the hand-off: which thread gets the lock next, and from which socket.
 * A CNA lock keeps it among the threads of one socket, and its knobs bound what
 * that costs the others.  "Socket" means here: the CPUs that share a last-level
 * cache, as maru/topology.h reads them (MARU_TOPOLOGY overrides).
 *
 * A lock serves the threads of one process.  Each acquisition uses a hold, memory
 * of the caller that stays where it is from the acquisition to the release; any
 * thread may release.  A hold serves one acquisition at a time and needs no
 * initialisation.  Locks are not recursive, and not robust: a lock stays held if its holder
 * ended.  A child of fork may use a lock only if no other thread waited for it at the fork: the
 * queue names threads that the child does not have, and hands the lock to them.  A
 * pthread_atfork handler that takes the lock does not help.  Between processes: maru_shared_lock,
 * below.
 *
 * Ordering: what was done under the lock before a release is visible after the
 * acquisitions that follow it.
 * Thread-safety: all functions but create and destroy; none is signal-safe.
 * Waiting: by maru_wait only (but for MARU_LOCK_PTHREAD, glibc's own).  Signal
 * handlers run, and the wait goes on.
 * Failure: negative errno.
 *
 * Sources: ticket, MCS: Mellor-Crummey and Scott 1991.  CLH: Craig 1993, Magnusson
 * et al. 1994; leaving a queue: Scott and Scherer 2001.  qspin: after Linux's queued
 * spinlock.  Malthusian: Dice, EuroSys 2017.  ShflLock: Kashyap et al., SOSP 2019.  CNA: Dice and
 * Kogan, EuroSys 2019; the range of its hand-offs: seed 5; shuffle reduction and the deadline:
 * Kogan's Linux series v15.  Fissile: Dice and Kogan 2020.  Cohort locks: Dice, Marathe, Shavit,
 * PPoPP 2012; HMCS: Chabbi et al., PPoPP 2015. max_bypass: ours.
 */
#ifndef MARU_LOCK_H
#define MARU_LOCK_H

#include <maru/wait.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h> /* clockid_t, which strict C11 leaves out of time.h */
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum maru_lock_kind {
  MARU_LOCK_PTHREAD = 0, /* glibc's mutex, the peer */
  MARU_LOCK_TTAS,        /* one word; no order */
  MARU_LOCK_TICKET,      /* two words; first come, first served */
  MARU_LOCK_MCS,         /* a queue; first come, first served */
  MARU_LOCK_CLH,         /* the same; each waits at its predecessor's node */
  MARU_LOCK_CNA,         /* a queue that prefers the holder's socket */
  MARU_LOCK_QSPIN,       /* one word; the first waiter waits at it, the others queue */
  MARU_LOCK_MALTHUSIAN,  /* a queue that lets few threads circulate, the rest sleep */
  MARU_LOCK_SHFL,        /* one word, and a queue that its head sorts by socket */
  MARU_LOCK_FISSILE,     /* one word, barging allowed; waiters queue as in CNA */
  MARU_LOCK_C_BO_MCS,    /* a queue a socket, under one word */
  MARU_LOCK_HMCS,        /* a queue a socket, under a queue */
  MARU_LOCK_KINDS
};

/* "default": where nothing else is known.  A running thread may take it in front of a queue, so it
 * is at its best with any number of threads.  The queue's first waiter keeps newcomers out once it
 * has been the first for 1 ms, or has lost the lock to 16 of them, until it has it or gives up. */
#define MARU_LOCK_DEFAULT MARU_LOCK_FISSILE

/* "ttas", "c-bo-mcs" and so on; NULL for an unknown kind. */
const char *maru_lock_kind_name(enum maru_lock_kind kind);
/* The kind of that name; -EINVAL when there is none. */
int maru_lock_kind_of(const char *name);

#define MARU_LOCK_RANGE_MAX 0x10000u

/* What a lock is made of.  maru_lock_options_init sets the defaults; a knob that
 * the kind does not have is ignored. */
struct maru_lock_options {
  enum maru_lock_kind kind;
  /* SPIN burns the core.  SPIN_BLOCK spins for spin_ns and then sleeps.  BLOCK sleeps at
   * once.  ADAPTIVE (default) spins at a word while that has been paying for this lock.  In a
   * queue it is awake while its turn is near, which is four times spin_ns away, and sleeps
   * while it is far; those before it wake it in time. */
  enum maru_wait_kind wait;
  /* 0: the wait room's default, and all that SPIN and BLOCK take (maru_wait_takes_spin). */
  uint32_t spin_ns;

  /* cna, fissile.  At a hand-off the lock leaves the socket with a chance of 1 in
   * handoff_range.  A power of two, 1 (always) to 0x10000 (default; seed 5's).
   *
   * malthusian: with that chance the waiter that was set aside first returns (default 0x400). */
  uint32_t handoff_range;
  /* While no waiter has been set aside, the holder looks for a waiter of its own socket only
   * with a chance of 1 in this.  A power of two up to 0x10000.  1 (default): always.  Linux
   * v15 uses 128. */
  uint32_t shuffle_reduction;
  /* A hand-off goes to the waiter that was set aside first once that was this long ago.
   * 0 (default): no bound.  Each hand-off looks at it once. */
  uint64_t deadline_ns;
  /* cna.  How many later arrivals may get the lock before a waiter, at most; 0 is first
   * come, first served.  Default MARU_LOCK_UNBOUNDED.  A thread arrives when it joins
   * the queue; one that gives up counts no more. */
  uint64_t max_bypass;

  /* c-bo-mcs, hmcs: hand-offs within a socket before the others are let in.
   *
   * shfl: heads of the queue in a row that may sort it, and waiters that each looks at.
   * Default 64. */
  uint32_t passes;

  uint64_t seed; /* of the chances; default 1 */
};

#define MARU_LOCK_UNBOUNDED UINT64_MAX

/* 0, or -EINVAL for an unknown kind. */
int maru_lock_options_init(struct maru_lock_options *options, enum maru_lock_kind kind);

/* Reads "KIND[:KEY=VALUE,...]".  KIND is a name or "default".  The keys are wait, spin,
 * handoff_range, shuffle_reduction, deadline, max_bypass, passes, seed.  Times have a unit (ns, us,
 * ms, s). Numbers may be hexadecimal (0x...). A key stands once.
 *
 * 0, or -EINVAL; then *wrong, if not NULL, is where in `text` the mistake is. */
int maru_lock_options_parse(struct maru_lock_options *options, const char *text,
                            const char **wrong);

#ifdef __cplusplus
#define MARU_LOCK_ALIGNAS alignas(64)
#else
#define MARU_LOCK_ALIGNAS _Alignas(64)
#endif

/* One acquisition.  The fields are private. */
struct maru_lock_node {
  MARU_LOCK_ALIGNAS MARU_ATOMIC(struct maru_lock_node *) next;
  MARU_ATOMIC(uint32_t) linked; /* next has been written */
  MARU_ATOMIC(uint32_t) state;  /* where its owner waits */
  MARU_ATOMIC(uint32_t) claim;  /* of an owner that may give up: who was first */
  int32_t socket;               /* -1: not asked for */
  uint32_t may_give_up;
  uint64_t arrival;    /* 1.. in the order of arrival; 0: not seen yet */
  uint64_t bypassed;   /* by how many later arrivals */
  int64_t aside_since; /* 0: never, or no deadline_ns */
  struct maru_lock_node *prev;
};

struct maru_hold {
  struct maru_lock_node own;
  struct maru_lock_node *used; /* `own`, or one from the heap that outlives a timeout */
  uint32_t socket;             /* c-bo-mcs, hmcs: whose queue it went through */
  struct maru_wait_turn turn;
};

struct maru_lock;

/* Makes a lock with 64-byte alignment on the heap.  Reads the topology (some 100 us)
 * where the kind needs it.  A word of a lock is no channel: ways to wait that need one
 * are replaced (maru_wait_runs_as).  -EINVAL: bad options or MARU_TOPOLOGY; -ENOMEM. */
int maru_lock_create(struct maru_lock **lock, const struct maru_lock_options *options);
/* No other call on the lock may be under way, a release neither. */
void maru_lock_destroy(struct maru_lock *lock);

/* 0: the lock is held.  -ENOMEM: clh, which allocates a node each time; the others
 * never fail. */
int maru_lock_acquire(struct maru_lock *lock, struct maru_hold *hold);
/* 0, or -EBUSY: another thread has it or is next.  Never waits for a holder.  With clh, also
 * -ENOMEM.
 *
 * -EBUSY may also come from a lock that no thread holds.  With clh that is so while another thread
 * is in the middle of acquiring it.  With c-bo-mcs and hmcs it is so while a thread of the same
 * socket is releasing it, acquiring it or trying to. */
int maru_lock_try(struct maru_lock *lock, struct maru_hold *hold);
/* Until `clock` (CLOCK_MONOTONIC, CLOCK_REALTIME) shows `deadline`.  -ETIMEDOUT: the hold
 * is free again.  -EINVAL: another clock, or bad nanoseconds.
 *
 * -ENOMEM: where the lock is contended, the queues need a node that outlives the call: 64 bytes.
 *
 * Once the deadline has passed, the call takes the lock only when it is free.  A thread that gives
 * up in a queue leaves its node there until a later holder comes to the node and frees it.  A node
 * in the secondary queue of cna stays until the lock leaves the socket.
 *
 * When MARU_LOCK_LEFT_MAX such nodes are in one queue, further callers with a deadline do not
 * queue there.  Ten thousand times a second they look whether the queue is empty or has room
 * again.  So a queue holds at most MARU_LOCK_LEFT_MAX nodes and one for each thread that is in
 * such a call.
 *
 * This is so for mcs, cna and malthusian.  It is so for the queues of qspin, shfl, fissile,
 * c-bo-mcs (one a socket) and hmcs (one a socket and one).
 *
 * clh has no such bound: it keeps 64 bytes for each thread that gave up.  It frees them when the
 * thread behind goes on, or at once if there is none.  With ticket, such a caller never queues. */
#define MARU_LOCK_LEFT_MAX 256
int maru_lock_acquire_until(struct maru_lock *lock, struct maru_hold *hold, clockid_t clock,
                            const struct timespec *deadline);
/* Gives the lock to the next.  `hold` may be used again as soon as it returns.  Takes
 * time proportional to the waiters that it looks at (cna, fissile: up to the first of its
 * socket) or that gave up. */
void maru_lock_release(struct maru_lock *lock, struct maru_hold *hold);

/* What a cna lock's holders counted; of other kinds all zero. */
struct maru_lock_counts {
  uint64_t handoffs;       /* to a thread that waited */
  uint64_t left_socket;    /* of these, to another socket */
  uint64_t set_aside;      /* waiters moved to the secondary queue */
  uint64_t longest_bypass; /* most later arrivals that got it before one waiter */
};
/* The holder calls it. */
void maru_lock_counts(const struct maru_lock *lock, struct maru_lock_counts *counts);

/* ---- declared, not made -------------------------------------------------- */

/* A lock that needs neither a call to be made nor a hold: a variable of static storage serves,
 * initialised by MARU_MUTEX_INITIALIZER or, with a kind, MARU_MUTEX_INITIALIZER_OF(MARU_LOCK_CNA).
 * The first acquisition makes the lock behind it, with the kind's defaults.
 *
 * Between its acquisition and its release the mutex keeps what else the caller's hold keeps.  mcs,
 * clh, cna, malthusian, c-bo-mcs and hmcs take memory for that at each acquisition; the other kinds
 * take none.  All else is as maru_lock has it: any thread may release, no recursion.  It must not
 * move or be copied once it was used. */
struct maru_mutex {
  MARU_ATOMIC(struct maru_lock *) lock; /* private; NULL: not made yet */
  uint32_t kind;                        /* enum maru_lock_kind */
  uint32_t reserved;                    /* 0 */
};

#ifdef __cplusplus
#define MARU_MUTEX_INITIALIZER_OF(kind)                                                            \
  { {nullptr}, (kind), 0 }
#else
#define MARU_MUTEX_INITIALIZER_OF(kind)                                                            \
  { NULL, (kind), 0 }
#endif
#define MARU_MUTEX_INITIALIZER MARU_MUTEX_INITIALIZER_OF(MARU_LOCK_DEFAULT)

/* Instead of an initialiser, with other options than a kind's defaults.  Errors of
 * maru_lock_create. */
int maru_mutex_init(struct maru_mutex *mutex, const struct maru_lock_options *options);
/* Frees the lock behind it; no other call may be under way.  A mutex that was initialised by a
 * macro may be used again afterwards, and need not be destroyed. */
void maru_mutex_destroy(struct maru_mutex *mutex);

/* 0: it is held.  The first acquisition: also the errors of maru_lock_create.  Kinds that take
 * memory: -ENOMEM. */
int maru_mutex_acquire(struct maru_mutex *mutex);
/* The same, or -EBUSY; as maru_lock_try. */
int maru_mutex_try(struct maru_mutex *mutex);
/* The same, or -ETIMEDOUT; clocks, -EINVAL and -ENOMEM as maru_lock_acquire_until. */
int maru_mutex_acquire_until(struct maru_mutex *mutex, clockid_t clock,
                             const struct timespec *deadline);
/* By the holder, or a thread that it tells to. */
void maru_mutex_release(struct maru_mutex *mutex);

/* ---- between processes --------------------------------------------------- */

/* A lock in memory that several processes map (MAP_SHARED, at any address).  It outlives
 * a holder that dies with it: the next holder is told of the SIGKILL, as a robust
 * pthread_mutex_t does.  No thread waits for a waiter that has died.
 *
 * Kinds: pthread (no order), mcs (first come, first served) and cna (with handoff_range,
 * and with deadline_ns, which counts from when a waiter began to wait).  Inside, a robust mutex
 * says which thread holds it.  A table of MARU_SHARED_LOCK_SEATS waiters says which thread is woken
 * for it.
 *
 * The lock keeps order except where that would cost the lock.  That is after a death, between a
 * waiter that gives up and the release that meant it, and by waiters that find no seat.  After a
 * death the lock may stand idle for up to 100 ms.  All processes must be in one pid namespace.
 *
 * A process must not call exec while another thread of it waits.  That waiter counts as living
 * until the process ends: meanwhile mcs and cna call it first, and the others get a contended lock
 * by their own looks alone, ten times a second. */
#define MARU_SHARED_LOCK_SEATS 64

struct maru_shared_lock;

/* Bytes that it takes. */
size_t maru_shared_lock_size(void);
/* Makes one in `memory` (64-byte alignment, not in use).  -EINVAL: another kind, bad options
 * or alignment. */
int maru_shared_lock_init(void *memory, const struct maru_lock_options *options);
/* This process's view of the lock at `memory`, on the heap.  All threads may share it, and a
 * forked child may go on with it.  Reads the topology for cna.  -EINVAL: no lock of this version
 * is there, or bad MARU_TOPOLOGY; -ENOMEM. */
int maru_shared_lock_attach(struct maru_shared_lock **lock, void *memory);
/* The lock stays. */
void maru_shared_lock_detach(struct maru_shared_lock *lock);

/* 0: the lock is held.  -EDEADLK: this thread has it already.
 *
 * -EOWNERDEAD: it is held too, but its last holder died with it.  Mend what it protects, then call
 * maru_shared_lock_consistent.  A release without that makes it -ENOTRECOVERABLE for ever. */
int maru_shared_lock_acquire(struct maru_shared_lock *lock);
/* The same, or -EBUSY.  A free lock is taken even if others are about to be woken for it. */
int maru_shared_lock_try(struct maru_shared_lock *lock);
/* The same, or -ETIMEDOUT; clocks and -EINVAL as maru_lock_acquire_until. */
int maru_shared_lock_acquire_until(struct maru_shared_lock *lock, clockid_t clock,
                                   const struct timespec *deadline);
/* The holder that got -EOWNERDEAD calls it.  -EINVAL: there is nothing to mend. */
int maru_shared_lock_consistent(struct maru_shared_lock *lock);
/* The thread that holds it calls it; else -EPERM.  Linear in the waiters. */
int maru_shared_lock_release(struct maru_shared_lock *lock);
/* The holder calls it.  set_aside and longest_bypass are 0. */
void maru_shared_lock_counts(const struct maru_shared_lock *lock, struct maru_lock_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
