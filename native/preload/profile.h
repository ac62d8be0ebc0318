/* profile.h: records who waits for which mutex where in a program (internal).
 *
 * What is exact: counts, waits, and the holds after a wait.  Of acquisitions that found the mutex
 * free each is counted, in the thread's row for the mutex and the place. The clock is read for one
 * in N of them, by chance; maru/lockprof.h says for how many such a hold counts.
 *
 * A thread writes to memory of its own only, with four exceptions. It writes elsewhere when it is
 * the first to come with a mutex or site, and when it had to wait. It does so once a millisecond
 * for a mutex that a thread has waited for. Holding the mutex, it does so while another waits or
 * when it comes from another socket. Nothing here waits or fails: what finds no room is counted
 * (maru/lockprof.h).
 *
 * A signal handler that interrupts a thread here and locks mutexes, which POSIX does not allow,
 * may spoil a figure of that thread, nothing else. */
#ifndef MARU_PRELOAD_PROFILE_H
#define MARU_PRELOAD_PROFILE_H

#include "../lock/place.h"
#include "clock.h"
#include "figures.h"
#include "records.h"
#include <maru/overlay.h>

#include <pthread.h>
#include <stddef.h>

struct mr_profile {
  struct mr_records records;
  struct maru_overlay_waits *waits; /* NULL: none */
  const struct mr_place *place;     /* NULL: there is one socket, or nobody knows */
  struct mr_clock clock;
  uint64_t cost_plain_ps, cost_profiled_ps; /* for the list of processes, as the next */
  uint32_t sockets;
  /* The process's place in the list + 1; 0 in a child of a fork, until somebody asks.  Behind it
   * its number, or 0: then the kernel is asked. */
  _Atomic uint32_t *process;
  pthread_key_t key;
};

/* ---- what a thread knows --------------------------------------------------------- */

/* Where acquisitions of a mutex at a site are counted. */
struct mr_profile_at {
  struct maru_lockprof_row *row;      /* NULL: nowhere */
  struct maru_lockprof_mutex *record; /* of several mutexes: one that says nothing */
};

#define MR_PROFILE_PAIRS 64u /* a power of two */
#define MR_PROFILE_HOLDS 16u

struct mr_profile_pair {
  const void *mutex, *site;
  struct mr_profile_at at;
};

/* One that is timed. */
struct mr_profile_hold {
  const void *mutex;
  struct maru_lockprof_row *row;
  uint64_t since_ns;
  uint32_t weight;
};

/* The calling thread's; all zero: it is not known. */
struct mr_profile_thread {
  struct maru_lockprof_thread *slot;
  uint32_t process; /* that the slot is of */
  int32_t tid;
  bool busy; /* what is called from here comes back to us: nothing is made for it */
  /* The `left`th acquisition from here on is timed; `accounted` is what `left` was when those
   * before were counted. */
  int32_t left, accounted;
  uint32_t bits;  /* one in 2^bits is timed */
  uint32_t drawn; /* what `left` was at first */
  uint32_t held;
  uint64_t unpublished; /* acquisitions that are not in "lockwaits" yet */
  uint64_t published_at, timed_at, now_ns;
  struct mr_profile_hold holds[MR_PROFILE_HOLDS];
  /* What was used last, by hash. */
  struct mr_profile_pair pairs[MR_PROFILE_PAIRS];
};

extern _Thread_local struct mr_profile_thread mr_own __attribute__((visibility("hidden")));

/* It is attached, if it can be: it has a slot. */
bool mr_profile_attach(struct mr_profile *profile);
/* The calling thread ends: the next may go on with its slot. */
void mr_profile_leave(struct mr_profile *profile);

/* Once all but `key` is set: threads that end leave it by themselves, by a key of theirs. Where
 * there is none, they leave it as after the next. */
void mr_profile_init(struct mr_profile *profile);
/* Gives its key back, for the program wants one more.  False: it had none, or threads are busy with
 * it.  From then on threads publish each acquisition, and a slot is free once its thread is gone,
 * whenever that came.  What a thread leaves behind unpublished the next in its slot publishes. */
bool mr_profile_give_key(struct mr_profile *profile);

/* ---- acquisitions ------------------------------------------------------------------ */

static inline struct mr_profile_pair *mr_profile_pair(const void *mutex, const void *site) {
  uint64_t hash = ((uintptr_t)mutex + 8 * (uintptr_t)site) * UINT64_C(0x9e3779b97f4a7c15);
  return &mr_own.pairs[hash / (UINT64_MAX / MR_PROFILE_PAIRS + 1)];
}

struct mr_profile_at mr_profile_find_slowly(struct mr_profile *profile, const void *mutex,
                                            const void *site, int kind);

/* Before the mutex is asked for.  `kind` is glibc's. */
static inline struct mr_profile_at mr_profile_find(struct mr_profile *profile, const void *mutex,
                                                   const void *site, int kind) {
  const struct mr_profile_pair *pair = mr_profile_pair(mutex, site);
  /* Relaxed: within a process it changes once, from 0. */
  if (__builtin_expect(pair->mutex == mutex && pair->site == site &&
                           MR_LOAD(*profile->process) == mr_own.process,
                       1))
    return pair->at;
  return mr_profile_find_slowly(profile, mutex, site, kind);
}

void mr_profile_got_slowly(struct mr_profile *profile, struct mr_profile_at at, const void *mutex,
                           uint64_t count);
void mr_profile_got_watched(struct mr_profile *profile, struct mr_profile_at at);

/* It was free.  By the holder, as is the next. */
static inline void mr_profile_got(struct mr_profile *profile, struct mr_profile_at at,
                                  const void *mutex) {
  if (at.row == NULL)
    return;
  uint64_t count = MR_LOAD(at.row->acquisitions) + 1;
  MR_STORE(at.row->acquisitions, count);
  if (__builtin_expect(--mr_own.left <= 0 || mr_own.held != 0 || count <= MARU_LOCKPROF_ALL, 0))
    mr_profile_got_slowly(profile, at, mutex, count);
  if (MR_LOAD(at.record->fairness) != 0)
    mr_profile_got_watched(profile, at);
}
/* A condition variable has given it back. */
void mr_profile_returned(struct mr_profile *profile, struct mr_profile_at at, const void *mutex);

/* It was taken: around the wait, whose result is glibc's. */
struct mr_profile_wait {
  struct mr_profile_at at;
  const void *mutex;
  uint64_t since_ns, passes;
  uint32_t ahead;
};
void mr_profile_wait(struct mr_profile *profile, struct mr_profile_wait *wait);
void mr_profile_waited(struct mr_profile *profile, const struct mr_profile_wait *wait, int rc);

/* ---- releases ---------------------------------------------------------------------- */

/* The calling thread has holds that are timed: it should say what it releases. */
static inline bool mr_profile_holds(void) { return mr_own.held != 0; }

/* A release, in two steps: before, by the holder, and after.  If the second does not come, it was
 * not released after all. */
struct mr_profile_release {
  struct mr_profile_hold *hold; /* NULL: not timed */
  uint64_t until_ns;
};
struct mr_profile_release mr_profile_release(const struct mr_profile *profile, const void *mutex);
void mr_profile_released(const struct mr_profile *profile,
                         const struct mr_profile_release *release);

#endif
