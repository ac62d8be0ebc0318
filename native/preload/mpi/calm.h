/* calm.h: whether nobody waits for a CPU here.
 *
 * While no rank of this host waits for a CPU, there is nobody to give way to: the MPI's own
 * blocking call is made, and costs what it costs without maru.
 *
 * Calm is: the run's ranks on this host are at most as many as the CPUs that they may use, and
 * none of them was kept from running lately (its run delay, /proc/thread-self/schedstat).  Only
 * under `adaptive`, and with a board; all other policies run as themselves.
 *
 * A rank that has been kept waiting says so on the board, for HOLD_LEAST_NS at first, or as long as
 * it has not looked; for longer each time that it turns out to be so again soon after.
 *
 * An MPI's own call has no way out.  So a thread makes none for the next few calls after one that
 * took long, by whichever way it waited.
 *
 * A look at the clock costs as much as a hundredth of a small message, so a row of quick own calls
 * has one a call, at its end: a call's time is then that since the end of the one before.  Where
 * that is more than a few ms, the program may have computed for so long: the row ends, and that
 * call is not taken for long.  But each call after it is timed from its beginning, until as many as
 * the next few were quick.  So of long calls with fewer quick ones between them the first alone is
 * missed.
 *
 * Thread-safety: mr_calm_join from one thread, before all else; the others from any.
 */
#ifndef MARU_PRELOAD_MPI_CALM_H
#define MARU_PRELOAD_MPI_CALM_H

#include "self.h"

#include <stdbool.h>
#include <stdint.h>

/* What a thread has seen of its run delay.  Zero at first. */
struct mr_looks {
  bool begun;
  int64_t last_ns, delay_ns;      /* the last look, and what it saw */
  int64_t kept_ns;                /* kept from running lately */
  int64_t held_until_ns, hold_ns; /* what came of it last */
};

/* Notes a run delay, all of the thread's life, at a time; negative: unknown, so not calm for a
 * while.  Until when it is not calm; 0: nothing new. Pure: a function of its arguments. */
int64_t mr_looks_note(struct mr_looks *looks, int64_t now_ns, int64_t delay_ns);

/* This rank has joined a board.  False: it never finds calm, and always waits by itself. */
bool mr_calm_join(void);

/* Whether it is calm.  A hint that ranks need not share.  Costs a reading of the coarse clock; once
 * in 10 ms a look into /proc. */
bool mr_calm(void);

/* What calm.c keeps of a thread.  Zero at first. */
struct mr_mood {
  bool quick;        /* in a row of quick own calls; then it was calm at seen_ns */
  int64_t seen_ns;   /* the end of the last own call */
  int64_t begin_ns;  /* of this one, or seen_ns in a row; 0: in none */
  int kept_from_own; /* calls */
  int timed;         /* quick calls to be timed from their beginning before a row begins */
  struct mr_looks looks;
};
extern _Thread_local struct mr_mood mr_mood;
/* Whether the ranks were more than the CPUs when this process last looked. */
extern _Atomic bool mr_crowded;

/* mr_own_begin with a look at the clock. */
bool mr_own_begin_timed(unsigned ends);

/* Whether the calling thread may now make an own call of the MPI's; one after which no sleeping
 * rank of the job is to be woken (`ends`, as mr_waiting's needs). */
static inline bool mr_own_begin(unsigned ends) {
  /* By name, not by address: gcc 14 with UBSan takes the address of such a variable for null. */
  if (!mr_mood.quick || LOAD(mr_crowded) ||
      mr_mood.seen_ns < LOAD(mr_self.section->busy_until_ns) || mr_asleep(ends))
    return mr_own_begin_timed(ends);
  mr_mood.begin_ns = mr_mood.seen_ns;
  return true;
}

/* After that call; nothing where none was begun. */
void mr_own_end(void);
/* A blocking call of the calling thread took so long. */
void mr_call_took(int64_t ns);

/* Whether the run has more ranks on this host than CPUs that they may use, as far as is known. */
bool mr_more_ranks_than_cpus(void);

#endif
