/* self.h: this process as a rank, between the files that join a job and those that wait. */
#ifndef MARU_PRELOAD_MPI_SELF_H
#define MARU_PRELOAD_MPI_SELF_H

#include "rank.h"

#include <maru/board.h>
#include <maru/wait.h>
#include <sys/types.h>

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)
#define ADD(word, value) atomic_fetch_add_explicit(&(word), (value), memory_order_relaxed)
#define VALUE_MASK (~MARU_WAIT_ARMED)

/* This process.  One, as MPI_COMM_WORLD is one. */
struct mr_self {
  struct maru_board board;
  struct mr_mpi *section;
  struct mr_rank *line;
  struct mr_job *job;
  uint32_t job_number;
  int size, here;                   /* ranks, and those of them on this host */
  bool alone;                       /* some ranks are on other hosts */
  _Atomic(struct mr_rank *) *peers; /* by world rank; found when first needed */
  int64_t began_ns;
  pid_t pid; /* a forked child is no rank */
  enum maru_wait_kind kind;
  int64_t spin_ns; /* before a sleep; -1: as the policy has it */
};
extern struct mr_self mr_self;

/* Whether ranks of the job sleep until one of these, bits 1u << enum mr_need.  A rank that begins
 * to at this moment may not be seen. */
static inline bool mr_asleep(unsigned needs) {
  uint32_t asleep = 0;
  if (mr_self.job != NULL)
    for (int need = 0; need < MR_NEEDS; need++)
      if (needs & 1u << need)
        asleep |= LOAD(mr_self.job->needs[need]);
  return asleep != 0;
}

/* Counts a blocking call in which the MPI waits by itself. */
static inline void mr_count_own(void) {
  if (mr_self.line != NULL)
    STORE(mr_self.line->own, LOAD(mr_self.line->own) + 1); /* threads may lose one */
}

/* Notes in the ledger that this rank lives. */
void mr_age(void);

#endif
