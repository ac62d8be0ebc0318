/* life.c: the start and the end of an MPI's shim. */
#include "shim.h"

static void start(void) {
  int rank, size;
  if (mr_comm_start() != MPI_SUCCESS || PMPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
      PMPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS)
    return; /* everything passes */
  mr_rank_join(rank, size);
  mr_shim_learn();
  mr_collectives_start();
  mr_requests_start();
  mr_started = true;
}

EXPORT int MPI_Init(int *argc, char ***argv) {
  int rc = PMPI_Init(argc, argv);
  if (rc == MPI_SUCCESS)
    start();
  return rc;
}

EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  int rc = PMPI_Init_thread(argc, argv, required, provided);
  if (rc == MPI_SUCCESS)
    start();
  return rc;
}

EXPORT int MPI_Finalize(void) {
  mr_started = false;
  mr_rank_leave();
  mr_comm_stop();
  return PMPI_Finalize();
}
