/* profile.h: records who waits for which mutex where in a program (internal).
 *
 * A thread writes to memory of its own only, with four exceptions: when it is the first to come
 * with a mutex or site; when it had to wait; once a millisecond for a mutex that somebody has
 * waited for; and, holding the mutex, while somebody waits or when it comes from another socket.
 * Nothing here waits or fails: what finds no room is counted (maru/lockprof.h).
 *
 * A signal handler that interrupts a thread here and locks mutexes, which POSIX does not allow,
 * may spoil a figure of that thread, nothing else. */
#ifndef MARU_PRELOAD_PROFILE_H
#define MARU_PRELOAD_PROFILE_H

#include "../lock/place.h"
#include "clock.h"
#include <maru/lockprof.h>
#include <maru/overlay.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Where an address lies: MARU_LOCKPROF_PLACE, or 0 if in no file. */
typedef uint64_t mr_profile_locate(struct maru_lockprof *board, const void *address);

struct mr_profile {
  struct maru_lockprof *board;      /* NULL: nothing is recorded */
  struct maru_overlay_waits *waits; /* NULL: none */
  const struct mr_place *place;     /* NULL: there is one socket, or nobody knows */
  mr_profile_locate *locate;
  struct mr_clock clock;
  uint64_t cost_plain_ps, cost_profiled_ps; /* for the list of processes, as the next */
  uint32_t sockets;
  /* The process's place in the list + 1; 0 in a child of a fork, until somebody asks. */
  _Atomic uint32_t *process;
  pthread_key_t key;
};

/* One acquisition, from its request on. */
struct mr_profile_request {
  struct maru_lockprof_thread *thread; /* NULL: not recorded */
  struct maru_lockprof_row *row;
  const void *mutex;
  uint64_t since_ns, passes; /* of who waits */
  uint32_t ahead;
};

/* Once all but `key` is set.  0 or a negative errno. */
int mr_profile_init(struct mr_profile *profile);
/* The calling thread's slot; NULL: there is none. */
struct maru_lockprof_thread *mr_profile_thread(struct mr_profile *profile);
/* The calling thread ends: the next may go on with its slot. */
void mr_profile_leave(struct mr_profile *profile);

/* Before the mutex is asked for.  `kind` is glibc's. */
void mr_profile_ask(struct mr_profile *profile, struct mr_profile_request *request,
                    const void *mutex, const void *site, int kind);
/* It was free.  By the holder, as are the next two. */
void mr_profile_got(struct mr_profile *profile, struct mr_profile_request *request);
/* A condition variable has given it back. */
void mr_profile_returned(struct mr_profile *profile, struct mr_profile_request *request);
/* It was taken: around the wait, whose result is glibc's. */
void mr_profile_wait(struct mr_profile *profile, struct mr_profile_request *request);
void mr_profile_waited(struct mr_profile *profile, struct mr_profile_request *request, int rc);
void mr_profile_refused(struct mr_profile_request *request);
/* As far as it is known. */
bool mr_profile_holds(struct mr_profile *profile, const void *mutex);
/* The calling thread holds it already and takes it once more; false: it does not. */
bool mr_profile_reentered(struct mr_profile *profile, const void *mutex, const void *site);

/* A release, in two steps: before, by the holder, and after.  If the second does not come, it was
 * not released after all. */
struct mr_profile_release {
  struct maru_lockprof_thread *thread;
  struct maru_lockprof_held *held; /* NULL: nothing to record */
  uint64_t until_ns;
};
struct mr_profile_release mr_profile_release(struct mr_profile *profile, const void *mutex);
void mr_profile_released(struct mr_profile *profile, const struct mr_profile_release *release);
/* It was released and is held again, at a moment that is not known. */
void mr_profile_kept(struct mr_profile *profile, const void *mutex);

#endif
