/* shim.c: what the parts of an MPI's shim share: which MPI it is, how it waits, whom to ring. */
#include "shim.h"

#include <stdio.h>

bool mr_started;

/* Told that there are more ranks than CPUs, Open MPI gives way in each question that
 * finds nothing.  Beside a CPU hog that is a time slice for each step of a collective
 * operation, and without one it is a second turn to ours.  NULL: another MPI. */
extern bool opal_progress_set_yield_when_idle(bool yields) __attribute__((weak));
static bool mpi_gives_way;

static void learn_how_it_waits(void) {
  if (opal_progress_set_yield_when_idle == NULL)
    return;
  mpi_gives_way = opal_progress_set_yield_when_idle(false);
  (void)opal_progress_set_yield_when_idle(mpi_gives_way);
}

/* What passes meanwhile in another thread spins, and a second wait there gives way twice:
 * both until the next wait ends. */
void mr_wait_until(struct mr_waiting *waiting) {
  if (mpi_gives_way)
    (void)opal_progress_set_yield_when_idle(false);
  mr_wait(waiting);
  if (mpi_gives_way)
    (void)opal_progress_set_yield_when_idle(true);
}

/* ---- which MPI ----------------------------------------------------------- */

#ifdef OPEN_MPI
#define KIND MR_OPEN_MPI
#define KIND_NAME "Open MPI"
#else
#define KIND MR_MPICH
#define KIND_NAME "MPICH"
#endif

char mr_mpi_name[32] = KIND_NAME;
static mr_version version;

/* The library's, not that of the headers: it may be another one. */
static void learn_version(void) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  version = PMPI_Get_library_version(text, &length) == MPI_SUCCESS ? mr_version_in(text) : 0;
  if (version != 0)
    snprintf(mr_mpi_name, sizeof mr_mpi_name, KIND_NAME " %u.%u.%u", version / 10000,
             version / 100 % 100, version % 100);
  else
    snprintf(mr_mpi_name, sizeof mr_mpi_name, "this version of " KIND_NAME);
}

void mr_shim_learn(void) {
  learn_how_it_waits();
  learn_version();
}

const struct mr_entry *mr_shim_listed(const char *call) { return mr_listed(KIND, version, call); }

/* ---- whom to ring -------------------------------------------------------- */

struct mr_rank *mr_line_of(MPI_Comm comm, int rank) {
  struct mr_comm *c = mr_started && rank >= 0 ? mr_comm_of(comm) : NULL;
  return c != NULL && rank < c->peers ? mr_rank_line(c->peer[rank]) : NULL;
}

void mr_sent_to(MPI_Comm comm, int rank) {
  if (mr_to_wake(1u << MR_NEED_MESSAGE))
    mr_ring(mr_line_of(comm, rank), MR_NEED_MESSAGE);
}

void mr_received(void) {
  if (mr_started)
    mr_ring_all(MR_NEED_RECEIVER);
}
