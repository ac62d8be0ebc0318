/* shim.h: blocking calls of MPI as a non-blocking start and a wait.
 *
 * Compiled once for each MPI.  A wait asks by the MPI_Test that belongs to it until that
 * one completes.  So statuses, error codes, inactive and persistent requests are the
 * MPI's own, and an error handler is called once: MPICH calls it for
 * MPI_Request_get_status, too.  What has no non-blocking form passes, and what the list
 * (list.h) does not have for this MPI.
 *
 * life.c starts and ends, shim.c has what the others share, requests.c waits for requests,
 * messages.c sends and receives, collectives.c has the collective operations.
 */
#ifndef MARU_PRELOAD_MPI_SHIM_H
#define MARU_PRELOAD_MPI_SHIM_H

#include "calm.h"
#include "comm.h"
#include "list.h"
#include "rank.h"

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

/* Between MPI_Init and MPI_Finalize.  Written before threads can call and after they did. */
extern bool mr_started;

/* This MPI and its version, as people write them. */
extern char mr_mpi_name[32];
/* mr_listed for this MPI and its version. */
const struct mr_entry *mr_shim_listed(const char *call);

/* Which MPI this is, and how it waits; from MPI_Init. */
void mr_shim_learn(void);
/* Look up what they need of the list; from MPI_Init. */
void mr_collectives_start(void);
void mr_requests_start(void);
/* A persistent or partitioned request has been started. */
void mr_request_started(void);

/* Whether a blocking call is to be the MPI's own: it is calm (calm.h) and nobody of the job sleeps
 * until what the call may bring about (`ends`, as mr_waiting's needs); or nothing has started. Each
 * rank decides alone, so not for collective operations. */
static inline bool mr_by_itself(unsigned ends) {
  if (!mr_started)
    return true;
  bool own = mr_own_begin(ends);
  if (own)
    mr_count_own();
  return own;
}
/* Follows that call, if it was made; returns `rc`. */
static inline int mr_done_by_itself(int rc) {
  mr_own_end();
  return rc;
}

/* mr_wait, in the way that suits the MPI. */
void mr_wait_until(struct mr_waiting *waiting);

/* A rank of the communicator as its line on the board; NULL: unknown. */
struct mr_rank *mr_line_of(MPI_Comm comm, int rank);
/* Rings the rank, if ranks wait for messages. */
void mr_sent_to(MPI_Comm comm, int rank);
/* Rings all that wait until a message is taken; from whom it came is not always known. */
void mr_received(void);

#define FOR_MESSAGES (1u << MR_NEED_MESSAGE | 1u << MR_NEED_RECEIVER)

/* Waits for one request as MPI_Wait does.  `partner` is the rank that ends the wait; NULL:
 * unknown. */
int mr_wait_one(MPI_Request *request, MPI_Status *status, unsigned needs, struct mr_rank *partner);

#endif
