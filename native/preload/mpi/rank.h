/* rank.h: what a shim knows without knowing an MPI: this process as a rank of a
 * job, the bells of the job's ranks on this host, and the wait.
 *
 * Thread-safety: mr_rank_join and mr_rank_leave from one thread; all else from any.
 * Without a board (or with a full one) there are no bells: waits then look by
 * themselves, after 50 us to 1 ms.
 */
#ifndef MARU_PRELOAD_MPI_RANK_H
#define MARU_PRELOAD_MPI_RANK_H

#include "section.h"

#include <stdbool.h>

/* After MPI_Init.  Says on the board what is missing. */
void mr_rank_join(int rank, int size);
/* Before MPI_Finalize, when no thread waits any more: the ledger is closed, the line given
 * back. */
void mr_rank_leave(void);

/* Whether every rank of MPI_COMM_WORLD is on this host and comes through this
 * library: only then may a collective operation be replaced by its non-blocking
 * form, for these two do not match each other.  All ranks are told the same.  May
 * wait up to 5 s for ranks that have not come, once in a job. */
bool mr_job_whole(void);

/* Whether each of them finds out whether it is calm (calm.h), too: then they may agree on that. All
 * ranks are told the same. */
bool mr_job_agrees(void);

/* Says a line on the board, once in a job for each number below 32.  Without a board: not at all.
 */
#define MR_SAY_WAITALL 31u
void mr_say_once(unsigned number, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The line of a rank of MPI_COMM_WORLD; NULL: not on this host, or unknown. */
struct mr_rank *mr_rank_line(int world_rank);

/* Wakes the rank if it waits for that. `line` may be NULL.  What was done before is
 * seen by the rank's next look. */
void mr_ring(struct mr_rank *line, enum mr_need need);
/* The same for all ranks of the job: for who does not know whom. */
void mr_ring_all(enum mr_need need);

/* mr_asleep (self.h), after something was done that may end their waits: none is missed. */
bool mr_to_wake(unsigned needs);

/* Notes that this rank has entered operation number `count` of a communicator. */
void mr_enter(uint32_t comm, uint32_t count);
/* Whether that rank has entered it.  A guess: no, where another communicator came
 * between. */
bool mr_entered(const struct mr_rank *line, uint32_t comm, uint32_t count);

/* One wait.  The owner embeds it. */
struct mr_waiting {
  unsigned needs; /* bits 1u << enum mr_need */
  bool known;     /* whoever ends this wait will ring */
  /* Asks the MPI, which makes progress meanwhile. */
  bool (*done)(struct mr_waiting *self);
  /* Others may go on by what the last look did; may be NULL. */
  void (*pass_on)(struct mr_waiting *self);
};

/* Returns once done() says so. */
void mr_wait(struct mr_waiting *self);

#endif
