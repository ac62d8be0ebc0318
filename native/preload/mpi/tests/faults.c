/* faults.c: calls whose non-blocking form errs, in Open MPI 4.1.4 or MPICH 4.0.2: an ordinary
 * program. `mpi_faults CASE` ends with 0 and says "right", or says what is wrong and ends with 1; a
 * rank that waits for ever is the test's to notice.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, wrong;

static void expect(const char *what, int index, int found, int wanted) {
  if (found == wanted)
    return;
  if (wrong++ < 3)
    fprintf(stderr, "rank %d: %s, at %d: %d instead of %d\n", rank, what, index, found, wanted);
}

/* A dimension of one or two: a rank is its neighbour's neighbour on both sides. */
static void both_sides(const char *form) {
  MPI_Comm ring;
  int periodic = 1, me, out[2], in[2], counts[2] = {1, 1}, offsets[2] = {0, 1};
  MPI_Aint bytes[2] = {0, sizeof(int)};
  MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
  MPI_Comm_rank(ring, &me);
  out[0] = 10 * me, out[1] = 10 * me + 1;
  if (*form == 'v')
    MPI_Neighbor_alltoallv(out, counts, offsets, MPI_INT, in, counts, offsets, MPI_INT, ring);
  else if (*form == 'w')
    MPI_Neighbor_alltoallw(out, counts, bytes, types, in, counts, bytes, types, ring);
  else
    MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring);
  expect("from below", 0, in[0], 10 * ((me + size - 1) % size) + 1);
  expect("from above", 1, in[1], 10 * ((me + 1) % size));
}

static MPI_Comm between(MPI_Comm *own, int *lower) {
  MPI_Comm comm;
  *lower = rank < size / 2;
  MPI_Comm_split(MPI_COMM_WORLD, *lower, rank, own);
  MPI_Intercomm_create(*own, 0, MPI_COMM_WORLD, *lower ? size / 2 : 0, 1, &comm);
  return comm;
}

/* A count that does not count (at MPI_PROC_NULL) is zero. */
static void across(int reduces) {
  MPI_Comm own, comm;
  int lower, me, value, sum;
  comm = between(&own, &lower);
  MPI_Comm_rank(own, &me);
  for (int round = 0; round < 5; round++)
    for (int side = 0; side < 2; side++) {
      int root = lower != side ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL;
      int count = root == MPI_PROC_NULL ? 0 : 1, others = lower ? size - size / 2 : size / 2;
      value = root == MPI_ROOT || reduces ? 100 * round + side : -1;
      if (reduces)
        MPI_Reduce(&value, &sum, count, MPI_INT, MPI_SUM, root, comm);
      else
        MPI_Bcast(&value, count, MPI_INT, root, comm);
      if (reduces && root == MPI_ROOT)
        expect("sum", round, sum, others * (100 * round + side));
      if (!reduces && root == 0)
        expect("value", round, value, 100 * round + side);
    }
}

/* One datatype for each partner, each with a size of its own. */
static void exchange_in_place(void) {
  int counts[64], offsets[64], *data = malloc((size_t)size * 2 * (size_t)size * sizeof *data);
  MPI_Datatype types[64];
  if (size > 64 || data == NULL)
    MPI_Abort(MPI_COMM_WORLD, 64);
  for (int i = 0; i < size; i++) {
    counts[i] = 1, offsets[i] = i * 2 * size * (int)sizeof *data;
    MPI_Type_contiguous(i + rank, MPI_INT, &types[i]);
    MPI_Type_commit(&types[i]);
    for (int j = 0; j < i + rank; j++)
      data[i * 2 * size + j] = 1000 * rank + 50 * i + j;
  }
  MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, data, counts, offsets, types, MPI_COMM_WORLD);
  for (int i = 0; i < size; i++)
    for (int j = 0; j < i + rank; j++)
      expect("exchanged", i, data[i * 2 * size + j], 1000 * i + 50 * rank + j);
  free(data);
}

/* Started in another order by each rank, complete together. */
static void persistent(void) {
#if MPI_VERSION >= 4
  MPI_Request request[2];
  int value = -1;
  MPI_Bcast_init(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request[0]);
  MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request[1]);
  for (int round = 0; round < 3; round++) {
    value = rank == 0 ? 42 + round : -1;
    MPI_Start(&request[rank == 0 ? 0 : 1]);
    MPI_Start(&request[rank == 0 ? 1 : 0]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    expect("persistent", round, value, 42 + round);
  }
  MPI_Request_free(&request[0]);
  MPI_Request_free(&request[1]);
#endif
}

/* The second message comes long after the first, whose status is not to be lost meanwhile. */
static void one_late(void) {
  int data[2] = {1, 2}, count;
  MPI_Request request[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Status status[3];
  if (rank == 1) {
    MPI_Send(data, 2, MPI_INT, 0, 4, MPI_COMM_WORLD);
    usleep(300000);
    MPI_Send(data, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
  }
  if (rank != 0)
    return;
  MPI_Recv_init(data, 2, MPI_INT, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &request[0]);
  MPI_Start(&request[0]);
  MPI_Irecv(data, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &request[2]);
  expect("waiting for both", 0, MPI_Waitall(3, request, status), MPI_SUCCESS);
  for (int i = 0; i < 3; i++) {
    static const int counts[] = {2, 0, 1};
    MPI_Get_count(&status[i], MPI_INT, &count);
    expect("count", i, count, counts[i]);
    expect("tag", i, status[i].MPI_TAG, i == 1 ? MPI_ANY_TAG : 4 + i / 2);
    expect("source", i, status[i].MPI_SOURCE, i == 1 ? MPI_ANY_SOURCE : 1);
  }
  MPI_Request_free(&request[0]);
}

/* One message is too long; the other's sender waits for what comes after MPI_Waitall. */
static void one_fails(void) {
  int room[2] = {0, 0}, data[2] = {1, 2}, class;
  MPI_Request request[2];
  MPI_Status status[2];
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank == 1) {
    MPI_Send(data, 2, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Recv(data, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(data, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
  }
  if (rank != 0)
    return;
  MPI_Irecv(&room[0], 1, MPI_INT, 1, 3, MPI_COMM_WORLD, &request[0]);
  MPI_Irecv(&room[1], 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request[1]);
  MPI_Error_class(MPI_Waitall(2, request, status), &class);
  expect("class of waiting", 0, class, MPI_ERR_IN_STATUS);
  MPI_Error_class(status[0].MPI_ERROR, &class);
  expect("class of what has not come", 0, class, MPI_ERR_PENDING);
  MPI_Error_class(status[1].MPI_ERROR, &class);
  expect("class of what was too long", 0, class, MPI_ERR_TRUNCATE);
  MPI_Send(data, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
  MPI_Wait(&request[0], MPI_STATUS_IGNORE);
  expect("what has come later", 0, room[0], 1);
}

static int handled;
static void count_handled(MPI_Comm *comm, int *code, ...) {
  (void)comm, (void)code;
  handled++;
}

/* A datatype that was not committed. */
static void handler_once(void) {
  MPI_Errhandler handler;
  MPI_Datatype pair;
  int values[2] = {0, 0}, class;
  MPI_Comm_create_errhandler(count_handled, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Error_class(
      MPI_Sendrecv_replace(values, 1, pair, rank, 0, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
      &class);
  expect("class of an exchange", 0, class, MPI_ERR_TYPE);
  expect("calls of the handler", 0, handled, 1);
}

/* Each MPI's MPI_Waitsome says so to the handler. */
static void wrong_waits(void) {
  MPI_Errhandler handler;
  MPI_Request request = MPI_REQUEST_NULL;
  int done, index;
  MPI_Comm_create_errhandler(count_handled, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
  MPI_Waitsome(-1, &request, &done, &index, MPI_STATUSES_IGNORE);
  expect("calls after a wrong count", 0, handled, 1);
  MPI_Waitsome(1, &request, NULL, &index, MPI_STATUSES_IGNORE);
  expect("calls without a place for the number", 0, handled, 2);
  MPI_Waitsome(1, &request, &done, NULL, MPI_STATUSES_IGNORE);
  expect("calls without places for the indices", 0, handled, 3);
}

/* What is in the status' MPI_ERROR afterwards is each MPI's own. */
static void exchange_status(void) {
  int value[2] = {rank, rank}, class, before = 4711;
  MPI_Status status = {.MPI_ERROR = before};
#ifndef OPEN_MPI
  before = MPI_SUCCESS;
#endif
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Sendrecv_replace(value, 1, MPI_INT, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD, &status);
  expect("exchanged", 0, value[0], 1 - rank);
  expect("the status' error", 0, status.MPI_ERROR, before);
  int rc = MPI_Sendrecv_replace(value, 1 + rank, MPI_INT, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD,
                                &status);
  MPI_Error_class(rc, &class);
  expect("class of what was too long", 0, class, rank == 0 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
#ifndef OPEN_MPI
  MPI_Error_class(status.MPI_ERROR, &class);
  expect("the same in the status", 0, class, rank == 0 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
#endif
}

static void expect_refused(const char *what, int code) {
  int class;
  MPI_Error_class(code, &class);
  expect(what, 0, class, MPI_ERR_COMM);
  expect(what, 1, handled, 1);
  handled = 0;
}

/* MPICH refuses the handle of a communicator that was freed; Open MPI reads freed memory. */
static void freed_communicator(void) {
  MPI_Errhandler handler;
  MPI_Comm comm, freed;
  int value = 0, sum;
  MPI_Comm_create_errhandler(count_handled, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  freed = comm;
  MPI_Comm_free(&comm);
  expect_refused("barrier", MPI_Barrier(freed));
  expect_refused("sum", MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, freed));
  expect_refused("probe", MPI_Probe(0, 0, freed, MPI_STATUS_IGNORE));
  expect_refused("exchange", MPI_Sendrecv_replace(&value, 1, MPI_INT, rank, 0, rank, 0, freed,
                                                  MPI_STATUS_IGNORE));
  expect_refused("barrier of none", MPI_Barrier(MPI_COMM_NULL));
  MPI_Barrier(MPI_COMM_WORLD);
  expect("calls of the handler after it", 0, handled, 0);
}

/* Wrong arguments at one rank: the others' part of the operation goes on, and so do all later ones.
 */
static void at_one_rank(void) {
  int *all = calloc((size_t)size, sizeof *all), class, sum, one = 1;
  if (all == NULL)
    MPI_Abort(MPI_COMM_WORLD, 64);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int round = 0; round < 3; round++) {
    MPI_Error_class(
        MPI_Gather(&rank, 1, MPI_INT, all, rank == 0 ? -1 : 1, MPI_INT, 0, MPI_COMM_WORLD), &class);
    expect("class of a gathering", round, class, rank == 0 ? MPI_ERR_COUNT : MPI_SUCCESS);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect("sum after it", round, sum, size);
    MPI_Error_class(
        MPI_Reduce(&one, &sum, 1, MPI_INT, rank == 0 ? MPI_OP_NULL : MPI_SUM, 0, MPI_COMM_WORLD),
        &class);
    expect("class of a reduction", round, class, rank == 0 ? MPI_ERR_OP : MPI_SUCCESS);
    MPI_Error_class(MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_OP_NULL, 0, MPI_COMM_WORLD), &class);
    expect("class of one at all ranks", round, class, MPI_ERR_OP);
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
      expect("gathered after it", i, all[i], i);
  }
  free(all);
}

int main(int argc, char **argv) {
  int all;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char *asked = argc > 1 ? argv[1] : "";
  if (strncmp(asked, "neighbours-", 11) == 0)
    both_sides(asked + 11);
  else if (strcmp(asked, "across-bcast") == 0)
    across(0);
  else if (strcmp(asked, "across-reduce") == 0)
    across(1);
  else if (strcmp(asked, "alltoallw") == 0)
    exchange_in_place();
  else if (strcmp(asked, "persistent") == 0)
    persistent();
  else if (strcmp(asked, "one-late") == 0)
    one_late();
  else if (strcmp(asked, "one-fails") == 0)
    one_fails();
  else if (strcmp(asked, "at-one-rank") == 0)
    at_one_rank();
  else if (strcmp(asked, "handler-once") == 0)
    handler_once();
  else if (strcmp(asked, "wrong-waits") == 0)
    wrong_waits();
  else if (strcmp(asked, "exchange-status") == 0)
    exchange_status();
  else if (strcmp(asked, "freed-communicator") == 0)
    freed_communicator();
  else
    MPI_Abort(MPI_COMM_WORLD, 64);
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0)
    puts("right");
  MPI_Finalize();
  return all != 0;
}
