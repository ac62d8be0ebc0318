/* app.c: an MPI program for the documents' commands: ranks add their numbers up, a thousand times.
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  int rank, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 1000; i++)
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    printf("the sum is %d\n", sum);
  return MPI_Finalize();
}
