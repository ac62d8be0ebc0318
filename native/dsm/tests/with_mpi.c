/* with_mpi: a program that is MPI's and shares memory; "late": MPI begins last and ends first.
 * Compiled by scripts/test.d/47-dsm-launchers, with either MPI. */
#include <maru/dsm.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments) {
  int late = strcmp(arguments[count - 1], "late") == 0, one = 1, sum = 0;
  if (!late)
    MPI_Init(&count, &arguments);
  maru_dsm_init();
  if (late)
    MPI_Init(&count, &arguments);
  long *counter = maru_dsm_alloc(sizeof *counter);
  maru_dsm_lock(1);
  ++*counter;
  maru_dsm_unlock(1);
  maru_dsm_barrier(1);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (*counter == sum && sum == (int)maru_dsm_nodes())
    printf("mixed\n");
  if (late)
    MPI_Finalize();
  maru_dsm_exit();
  if (!late)
    MPI_Finalize();
  return 0;
}
