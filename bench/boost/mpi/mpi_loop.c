/* mpi_loop.c: an ordinary MPI program, built for each MPI: computes and communicates
 * in turn.
 *
 *   mpi_loop ring|allreduce|halo COMPUTE-US ROUNDS [LIMIT-S]
 *
 * ring: 4 KiB to the next rank, from the one before. halo: COMPUTE-US is a mean: each rank computes
 * for another part of it in each round (1/4 to 7/4). It exchanges 1 KiB with both neighbours
 * without blocking and reduces a number to all in every fourth round. Prints one line of JSON: wall
 * seconds between two barriers, and what computing alone would take on so many CPUs as this process
 * may use. After LIMIT-S seconds (default 20) it says how far it came and ends the job: `rounds` is
 * then smaller than what was asked for.
 */
#define _GNU_SOURCE
#include "arguments.h"
#include "json.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES 4096

static double thread_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* CPU time, so that whoever is pushed aside computes as long as the others. */
static void compute(double seconds) {
  double end = thread_seconds() + seconds;
  while (thread_seconds() < end)
    continue;
}

static int cpus(void) {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

static void ring(int rank, int size) {
  static char out[BYTES], in[BYTES];
  MPI_Sendrecv(out, BYTES, MPI_CHAR, (rank + 1) % size, 0, in, BYTES, MPI_CHAR,
               (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void all_reduce(void) {
  double own = 1, sum;
  MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void halo(int rank, int size, int round) {
  static char out[2][BYTES / 4], in[2][BYTES / 4];
  MPI_Request requests[4];
  MPI_Status statuses[4];
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Irecv(in[0], sizeof in[0], MPI_CHAR, left, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(in[1], sizeof in[1], MPI_CHAR, right, 2, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(out[0], sizeof out[0], MPI_CHAR, right, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(out[1], sizeof out[1], MPI_CHAR, left, 2, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, statuses);
  if (round % 4 == 3)
    all_reduce();
}

/* 1/4 to 7/4; neighbours differ, and after seven rounds a rank has had each. */
static double part(int rank, int round) { return (double)((rank * 3 + round) % 7 + 1) / 4; }

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char *shape;
  int64_t asked, done = 0;
  double compute_us, limit = 20;
  const struct mr_option operands[] = {
      {"ring|allreduce|halo", MR_TEXT, &shape, NULL, 0, 0},
      {"COMPUTE-US", MR_REAL, &compute_us, "microseconds", 0, 1e9},
      {"ROUNDS", MR_WHOLE, &asked, "rounds", 0, 1e9},
      {"LIMIT-S", MR_REAL, &limit, "seconds", 0, 86400},
  };
  mr_operands("mpi_loop", operands, argc == 4 ? 3 : 4, argc - 1, argv + 1);
  bool reduce = strcmp(shape, "allreduce") == 0, both = strcmp(shape, "halo") == 0;
  double step = compute_us * 1e-6;
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  while (done < asked && MPI_Wtime() - begin < limit) {
    compute(both ? step * part(rank, (int)done) : step);
    if (both)
      halo(rank, size, (int)done);
    else if (reduce)
      all_reduce();
    else
      ring(rank, size);
    done++;
  }
  if (done == asked)
    MPI_Barrier(MPI_COMM_WORLD);
  double wall = MPI_Wtime() - begin, parts = 0;
  for (int round = 0; round < (int)done; round++)
    for (int other = 0; other < size; other++)
      parts += both ? part(other, round) : 1;
  double ideal = step * parts / cpus();
  if (rank == 0 || done < asked) {
    struct mr_json json = {.out = stdout};
    mr_json_object(&json, NULL);
    mr_json_real(&json, "wall_s", wall, 6);
    mr_json_real(&json, "ideal_s", ideal, 6);
    mr_json_whole(&json, "rounds", (uint64_t)done);
    mr_json_real(&json, "times_ideal", wall / ideal, 4);
    mr_json_end_object(&json);
    putchar('\n');
    fflush(stdout);
  }
  if (done < asked) /* the others may wait for this rank */
    MPI_Abort(MPI_COMM_WORLD, 75);
  MPI_Finalize();
  return 0;
}
