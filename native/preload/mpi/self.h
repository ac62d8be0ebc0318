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
bool mr_asleep(unsigned needs);

/* Notes in the ledger that this rank lives. */
void mr_age(void);

#endif
