/* comm.h: what a shim keeps of each communicator, as an attribute of it. */
#ifndef MARU_PRELOAD_MPI_COMM_H
#define MARU_PRELOAD_MPI_COMM_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

struct mr_comm {
  int peers;   /* ranks that a message can go to: the remote group if there is one */
  int members; /* all ranks of both groups */
  bool inter;
  bool inside;        /* all members belong to this MPI_COMM_WORLD */
  uint32_t hash;      /* of the members */
  uint32_t count;     /* collective operations begun; MPI forbids two at a time */
  struct mr_pact {    /* what the members have agreed on; the same at all of them */
    bool own;         /* the MPI's blocking operations are made */
    uint32_t next;    /* operation number at which they agree again */
    uint32_t every;   /* operations between */
    int64_t since_ns; /* own clock */
  } pact;
  int *peer, *member; /* their ranks in MPI_COMM_WORLD; MPI_UNDEFINED: of another one */
};

/* After MPI_Init, before MPI_Finalize.  An MPI error code. */
int mr_comm_start(void);
void mr_comm_stop(void);

/* NULL: unknown, go by the original function.  Lives as long as the communicator. */
struct mr_comm *mr_comm_of(MPI_Comm comm);

#endif
