/* section.h: the section "mpi" of a run's board: which ranks of this host are in
 * which job, what each waits for, and what waiting has cost.
 *
 * A hint and a ledger, never a message: whatever is wrong in here (a rank that was
 * killed, two jobs taken for one) costs time, bounded by the sleepers' slices, and
 * changes no result.  The one exception is `whole`, which all ranks of a job must
 * read alike: it is decided once, by a compare-and-swap.
 *
 * Maru.Cli.Room.Wait.MpiSection decodes the ledger; it knows this layout.
 */
#ifndef MARU_PRELOAD_MPI_SECTION_H
#define MARU_PRELOAD_MPI_SECTION_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MR_MPI_SECTION "mpi"
#define MR_MPI_VERSION 1u
#define MR_MPI_RANKS 512u
#define MR_MPI_JOBS 64u
#define MR_MPI_COMMS 16u
#define MR_MPI_CPUS 256u
#define MR_MPI_CPU_WORDS 16

/* What a rank that waits needs others for. */
enum mr_need {
  MR_NEED_MESSAGE,    /* somebody's send */
  MR_NEED_RECEIVER,   /* somebody's receive: a large or synchronous send */
  MR_NEED_COLLECTIVE, /* the others of a collective operation */
  MR_NEEDS
};

/* What waiting has cost.  Nanoseconds of CLOCK_MONOTONIC and of the threads' CPU
 * clocks; added relaxed, by the rank that the line belongs to. */
struct mr_cost {
  _Atomic uint64_t ranks;
  _Atomic uint64_t
      life_ns; /* from the end of MPI_Init to the last wait's end, or to MPI_Finalize */
  _Atomic uint64_t waited_ns; /* of it in a wait that was not over at once */
  _Atomic uint64_t cpu_ns;    /* CPU time spent in these */
  _Atomic uint64_t waits;
  _Atomic uint64_t sleeps; /* how often one went to sleep */
};

/* One rank of this host. */
struct mr_rank {
  alignas(64) struct mr_cost cost; /* not yet in the section's own */
  /* Process and, below, the low half of its start time (/proc/PID/stat field 22):
   * one word, so that a line is taken in one step.  0: nobody's. */
  _Atomic uint64_t holder;
  _Atomic int32_t rank; /* in MPI_COMM_WORLD */
  _Atomic uint32_t job; /* index + 1; stored last, with release order */
  alignas(64) _Atomic uint32_t bell;
  _Atomic uint32_t needs[MR_NEEDS]; /* how many threads sleep until that */
  /* Blocking calls in which the MPI waited by itself; as the cost, not yet in the section's. */
  _Atomic uint64_t own;
  _Atomic uint32_t asleep; /* its part of the section's */
  /* Collective operations entered: what the communicator's members hash to above,
   * how many below.  Two communicators may share a slot. */
  alignas(64) _Atomic uint64_t entered[MR_MPI_COMMS];
};

enum mr_whole { MR_UNDECIDED = 0, MR_WHOLE, MR_PARTLY };

/* One MPI_COMM_WORLD. */
struct mr_job {
  alignas(64) _Atomic uint64_t key; /* 0: nobody's */
  _Atomic int32_t launcher;         /* the process above the ranks, and its start */
  _Atomic uint64_t launcher_start;
  _Atomic uint32_t arrived;         /* a maru_wait word that counts ranks */
  _Atomic uint32_t whole;           /* enum mr_whole: all ranks are here and shimmed */
  _Atomic uint32_t left;            /* ranks */
  _Atomic uint32_t needs[MR_NEEDS]; /* sums over the ranks */
  _Atomic uint32_t said;            /* bits: lines that a rank has said for all */
  _Atomic uint32_t firm;            /* ranks that never find calm (calm.h); before `arrived` */
};

struct mr_mpi {
  struct mr_cost ended;  /* of the ranks that have left */
  _Atomic uint32_t used; /* lines below were taken at least once */
  _Atomic uint64_t own;  /* of the ranks that have left */
  alignas(64) struct mr_rank ranks[MR_MPI_RANKS];
  struct mr_job jobs[MR_MPI_JOBS];
  /* By CPU (modulo): until then who waits there sleeps, for giving way was slow. */
  _Atomic int64_t crowded_until_ns[MR_MPI_CPUS];
  /* Until then ranks wait for CPUs (calm.h). */
  alignas(64) _Atomic int64_t busy_until_ns;
  _Atomic uint32_t present; /* lines that are held; those of killed ranks until one joins */
  _Atomic uint32_t asleep;  /* threads of them in a wait's sleep */
  _Atomic uint64_t cpus[MR_MPI_CPU_WORDS]; /* bits: those that ranks may use */
};

/* What the decoder knows. */
_Static_assert(sizeof(struct mr_cost) == 48, "figures");
_Static_assert(sizeof(struct mr_rank) == 256, "a rank");
_Static_assert(offsetof(struct mr_rank, own) == 80, "its own calls");
_Static_assert(offsetof(struct mr_mpi, own) == 56, "own calls");

#endif
