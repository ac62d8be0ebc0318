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
 * Thread-safety: mr_calm_join from one thread, before all else; the others from any.
 */
#ifndef MARU_PRELOAD_MPI_CALM_H
#define MARU_PRELOAD_MPI_CALM_H

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

/* Whether the calling thread may now make an own call of the MPI's; one after which no sleeping
 * rank of the job is to be woken (`ends`, as mr_waiting's needs). */
bool mr_own_begin(unsigned ends);
/* After that call; nothing where none was begun. */
void mr_own_end(void);
/* A blocking call of the calling thread took so long. */
void mr_call_took(int64_t ns);

/* Whether the run has more ranks on this host than CPUs that they may use, as far as is known. */
bool mr_more_ranks_than_cpus(void);

#endif
