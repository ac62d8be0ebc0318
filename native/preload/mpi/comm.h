/* comm.h: what a shim keeps of each communicator, as an attribute of it. */
#ifndef MARU_PRELOAD_MPI_COMM_H
#define MARU_PRELOAD_MPI_COMM_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
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

/* What a thread found last: a look into the attributes costs as much as a small message. */
struct mr_comm_last {
  struct mr_comm *found;
  MPI_Comm comm;
  uint32_t freed;
  int refused; /* where nothing was found: what the MPI said of the handle; its handler was called
                */
};
extern _Thread_local struct mr_comm_last mr_comm_last;
/* Communicators that were freed: what was kept of them may stand for others by now. */
extern _Atomic uint32_t mr_comms_freed;

/* mr_comm_of by the attributes. */
struct mr_comm *mr_comm_look_up(MPI_Comm comm);

/* NULL: unknown, go by the original function, unless mr_comm_last.refused is an error.  Lives as
 * long as the communicator. */
static inline struct mr_comm *mr_comm_of(MPI_Comm comm) {
  struct mr_comm_last *last = &mr_comm_last;
  /* Relaxed: a thread that uses the handle again does so after the freeing, by its own order. */
  bool known = last->found != NULL && last->comm == comm &&
               last->freed == atomic_load_explicit(&mr_comms_freed, memory_order_relaxed);
  return known ? last->found : mr_comm_look_up(comm);
}

#endif
