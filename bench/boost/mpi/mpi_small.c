/* mpi_small.c: what small operations of an MPI cost, with nothing to compute between them; an
 * ordinary MPI program, built for each MPI.
 *
 *   mpi_small BYTES ROUNDS
 *
 * Prints one line of JSON: microseconds a round for each operation, the median of BLOCKS blocks of
 * ROUNDS rounds, on the rank that took longest.  A ping-pong's round is a message there and one
 * back, between ranks 0 and 1.  A block that is not counted goes before.
 */
#include "arguments.h"
#include "json.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 9
#define MOST_BYTES 65536

static int rank, size, bytes;
static char *out, *in;

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void bcast(void) {
  MPI_Bcast(out, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD); /* else the root runs ahead */
}
static void reduce(void) {
  MPI_Reduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
}
static void allreduce(void) {
  MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
static void allgather(void) {
  MPI_Allgather(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD);
}
static void alltoall(void) {
  MPI_Alltoall(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD);
}
static void pingpong(void) {
  if (rank == 0) {
    MPI_Send(out, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(in, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (rank == 1) {
    MPI_Recv(in, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(out, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  }
}
static void exchange(void) {
  MPI_Sendrecv(out, bytes, MPI_CHAR, (rank + 1) % size, 0, in, bytes, MPI_CHAR,
               (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static const struct {
  const char *name;
  void (*once)(void);
} operations[] = {{"barrier", barrier},     {"bcast", bcast},         {"reduce", reduce},
                  {"allreduce", allreduce}, {"allgather", allgather}, {"alltoall", alltoall},
                  {"pingpong", pingpong},   {"sendrecv", exchange}};

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double block(void (*once)(void), int64_t rounds) {
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  for (int64_t i = 0; i < rounds; i++)
    once();
  double took = (MPI_Wtime() - begin) / (double)rounds * 1e6, most;
  MPI_Allreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return most;
}

static double median_block(void (*once)(void), int64_t rounds) {
  double us[BLOCKS];
  (void)block(once, rounds);
  for (int n = 0; n < BLOCKS; n++)
    us[n] = block(once, rounds);
  qsort(us, BLOCKS, sizeof *us, ascending);
  return us[BLOCKS / 2];
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int64_t asked, rounds;
  const struct mr_option operands[] = {
      {"BYTES", MR_WHOLE, &asked, "bytes", 8, MOST_BYTES},
      {"ROUNDS", MR_WHOLE, &rounds, "rounds", 1, 1e9},
  };
  mr_operands("mpi_small", operands, 2, argc - 1, argv + 1);
  bytes = (int)asked;
  out = calloc((size_t)size, (size_t)bytes);
  in = calloc((size_t)size, (size_t)bytes);
  if (out == NULL || in == NULL)
    MPI_Abort(MPI_COMM_WORLD, 71);
  struct mr_json json = {.out = stdout};
  if (rank == 0) {
    mr_json_object(&json, NULL);
    mr_json_whole(&json, "ranks", (uint64_t)size);
    mr_json_whole(&json, "bytes", (uint64_t)bytes);
  }
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
    double us = median_block(operations[i].once, rounds);
    if (rank == 0)
      mr_json_real(&json, operations[i].name, us, 4);
  }
  if (rank == 0) {
    mr_json_end_object(&json);
    putchar('\n');
    fflush(stdout);
  }
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
