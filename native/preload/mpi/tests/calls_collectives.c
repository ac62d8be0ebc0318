/* calls_collectives.c: the collective operations of mpi_calls. */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

/* Matrices of two by two: the order matters. */
static void multiply(void *in, void *inout, int *length_, MPI_Datatype *type) {
  (void)type;
  unsigned *a = in, *b = inout;
  for (int i = 0; i + 3 < *length_; i += 4, a += 4, b += 4) {
    unsigned c[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                     a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
    memcpy(b, c, sizeof c);
  }
}

void rooted(MPI_Comm comm, int me, int n, int root, int count) {
  int *one = calloc((size_t)count, sizeof(int)), *many = calloc((size_t)(count * n), sizeof(int));
  int counts[16], places[16], total = 0;
  for (int i = 0; i < n; i++) {
    counts[i] = 1 + i % count;
    places[i] = total;
    total += counts[i];
  }
  fill(one, count, me + root);
  dawdle();
  MPI_Bcast(one, count, MPI_INT, root, comm);
  say("bcast %u\n", sum_of(one, count));
  fill(one, count, me);
  memset(many, 0, (size_t)(count * n) * sizeof(int));
  MPI_Gather(one, count, MPI_INT, many, count, MPI_INT, root, comm);
  say("gather %u\n", sum_of(many, count * n));
  memset(many, 0, (size_t)(count * n) * sizeof(int));
  MPI_Gatherv(one, counts[me], MPI_INT, many, counts, places, MPI_INT, root, comm);
  say("gatherv %u\n", sum_of(many, total));
  fill(many, count * n, me * 3);
  MPI_Scatter(many, count, MPI_INT, one, count, MPI_INT, root, comm);
  say("scatter %u\n", sum_of(one, count));
  MPI_Scatterv(many, counts, places, MPI_INT, one, counts[me], MPI_INT, root, comm);
  say("scatterv %u\n", sum_of(one, count));
  fill(one, count, me);
  memset(many, 0, (size_t)(count * n) * sizeof(int));
  MPI_Reduce(one, many, count, MPI_INT, MPI_SUM, root, comm);
  say("reduce %u\n", sum_of(many, count));
  /* In place. */
  fill(many, count * n, me + 5);
  MPI_Gather(me == root ? MPI_IN_PLACE : many + me * count, count, MPI_INT, many, count, MPI_INT,
             root, comm);
  say("gather in place %u\n", sum_of(many, count * n));
  MPI_Scatter(many, count, MPI_INT, me == root ? MPI_IN_PLACE : one, count, MPI_INT, root, comm);
  say("scatter in place %u\n", sum_of(one, count));
  if (count < 100) { /* MPICH 4.0.2 by itself ends by a signal in longer ones */
    MPI_Reduce(me == root ? MPI_IN_PLACE : one, me == root ? one : NULL, count, MPI_INT, MPI_MAX,
               root, comm);
    say("reduce in place %u\n", sum_of(one, count));
  }
  free(one);
  free(many);
}

void to_all(MPI_Comm comm, int me, int n, int count) {
  int *out = calloc((size_t)(count * n), sizeof(int)),
      *in = calloc((size_t)(count * n), sizeof(int));
  int counts[16], places[16], each[16];
  MPI_Datatype types_[16];
  for (int i = 0; i < n; i++) {
    counts[i] = count;
    places[i] = i * count;
    each[i] = i * count * (int)sizeof(int);
    types_[i] = MPI_INT;
  }
  fill(out, count * n, me);
  MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, comm);
  say("allgather %u\n", sum_of(in, count * n));
  MPI_Allgatherv(out, count, MPI_INT, in, counts, places, MPI_INT, comm);
  say("allgatherv %u\n", sum_of(in, count * n));
  dawdle();
  MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, comm);
  say("alltoall %u\n", sum_of(in, count * n));
  MPI_Alltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, comm);
  say("alltoallv %u\n", sum_of(in, count * n));
  MPI_Alltoallw(out, counts, each, types_, in, counts, each, types_, comm);
  say("alltoallw %u\n", sum_of(in, count * n));
  MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, comm);
  say("allreduce %u\n", sum_of(in, count));
  MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_INT, MPI_MAX, comm);
  say("allreduce in place %u\n", sum_of(out, count));
  MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, comm);
  say("reduce_scatter %u\n", sum_of(in, count));
  MPI_Reduce_scatter_block(out, in, count, MPI_INT, MPI_SUM, comm);
  say("reduce_scatter_block %u\n", sum_of(in, count));
  MPI_Scan(out, in, count, MPI_INT, MPI_SUM, comm);
  say("scan %u\n", sum_of(in, count));
  memset(in, 0, (size_t)count * sizeof(int));
  MPI_Exscan(out, in, count, MPI_INT, MPI_SUM, comm);
  say("exscan %u\n", sum_of(in, me == 0 ? 0 : count));
  MPI_Barrier(comm);
  free(out);
  free(in);
}

/* What a rank does not need it need not give; in place, all that can be. */
void in_place(void) {
  int buffer[32], counts[16], places[16], bytes[16];
  MPI_Datatype types_[16];
  bool root = rank == 0;
  for (int i = 0; i < 16; i++) {
    counts[i] = 2;
    places[i] = 2 * i;
    bytes[i] = places[i] * (int)sizeof(int);
    types_[i] = MPI_INT;
  }
#define IN_PLACE(call, count)                                                                      \
  fill(buffer, 32, rank);                                                                          \
  call;                                                                                            \
  say("in place %u\n", sum_of(buffer, count))
  IN_PLACE(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, 2, MPI_INT, MPI_COMM_WORLD),
           2 * size);
  IN_PLACE(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, counts, places, MPI_INT,
                          MPI_COMM_WORLD),
           2 * size);
  IN_PLACE(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, 2, MPI_INT, MPI_COMM_WORLD),
           2 * size);
  IN_PLACE(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, buffer, counts, places,
                         MPI_INT, MPI_COMM_WORLD),
           2 * size);
  IN_PLACE(
      MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, buffer, counts, bytes, types_, MPI_COMM_WORLD),
      2 * size);
  IN_PLACE(MPI_Reduce_scatter(MPI_IN_PLACE, buffer, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD), 2);
  IN_PLACE(MPI_Reduce_scatter_block(MPI_IN_PLACE, buffer, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD), 2);
  IN_PLACE(MPI_Scan(MPI_IN_PLACE, buffer, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD), 2);
  IN_PLACE(MPI_Exscan(MPI_IN_PLACE, buffer, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD), root ? 0 : 2);
  IN_PLACE(MPI_Gatherv(root ? MPI_IN_PLACE : buffer, root ? 0 : 2,
                       root ? MPI_DATATYPE_NULL : MPI_INT, root ? buffer : NULL,
                       root ? counts : NULL, root ? places : NULL,
                       root ? MPI_INT : MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD),
           2 * size);
  IN_PLACE(MPI_Scatterv(root ? buffer : NULL, root ? counts : NULL, root ? places : NULL,
                        root ? MPI_INT : MPI_DATATYPE_NULL, root ? MPI_IN_PLACE : buffer,
                        root ? 0 : 2, root ? MPI_DATATYPE_NULL : MPI_INT, 0, MPI_COMM_WORLD),
           2 * size);
#undef IN_PLACE
  MPI_Datatype somewhere;
  MPI_Aint address;
  MPI_Get_address(buffer, &address);
  MPI_Type_create_hindexed(1, (int[]){1}, &address, MPI_INT, &somewhere);
  MPI_Type_commit(&somewhere);
  fill(buffer, 32, rank);
  MPI_Bcast(MPI_BOTTOM, 1, somewhere, size - 1, MPI_COMM_WORLD);
  say("bottom %d\n", *buffer);
  *buffer = rank;
  MPI_Sendrecv_replace(MPI_BOTTOM, 1, somewhere, next, 43, before, 43, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
  say("bottom %d\n", *buffer);
  MPI_Type_free(&somewhere);
  MPI_Allreduce(NULL, buffer, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD);
}

void in_order(void) {
  MPI_Op op;
  unsigned own[4] = {1u + (unsigned)rank, 2, 3, 5u + (unsigned)rank}, product[4];
  MPI_Op_create(multiply, 0, &op);
  MPI_Allreduce(own, product, 4, MPI_UNSIGNED, op, MPI_COMM_WORLD);
  say("product %u %u %u %u\n", product[0], product[1], product[2], product[3]);
  MPI_Op_free(&op);
}

void splits(void) {
  MPI_Comm half, turned, copy;
  int me, n;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Comm_rank(half, &me);
  MPI_Comm_size(half, &n);
  rooted(half, me, n, n - 1, 17);
  to_all(half, me, n, 17);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
  MPI_Comm_dup(turned, &copy);
  MPI_Comm_rank(copy, &me);
  rooted(copy, me, size, 0, 3);
  int out = me, in;
  MPI_Status status;
  MPI_Sendrecv(&out, 1, MPI_INT, (me + 1) % size, 50, &in, 1, MPI_INT, MPI_ANY_SOURCE, 50, copy,
               &status);
  say_status("turned", &status, MPI_INT);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&turned);
  /* Between the halves. */
  if (size > 1) {
    MPI_Comm between;
    int others, sum = -1, value = rank, all[16];
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 == 0 ? 1 : 0, 60, &between);
    MPI_Comm_remote_size(between, &others);
    MPI_Comm_rank(half, &me);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, between);
    say("between: sum %d\n", sum);
    memset(all, 0, sizeof all);
    MPI_Allgather(&value, 1, MPI_INT, all, 1, MPI_INT, between);
    say("between: all %u\n", sum_of(all, others));
    value = 1000 + rank;
    MPI_Bcast(&value, 1, MPI_INT, rank % 2 == 1 ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL, between);
    say("between: bcast %d\n", value);
    MPI_Barrier(between);
    if (rank < 2) {
      MPI_Sendrecv(&rank, 1, MPI_INT, 0, 61, &value, 1, MPI_INT, 0, 61, between, &status);
      say_status("between", &status, MPI_INT);
    }
    MPI_Comm_free(&between);
  }
  MPI_Comm_free(&half);
}

void neighbours(void) {
  MPI_Comm torus;
  int out[2] = {rank, rank + 100}, in[4] = {-1, -1, -1, -1}, period = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &period, 0, &torus);
  MPI_Neighbor_allgather(out, 1, MPI_INT, in, 1, MPI_INT, torus);
  say("neighbours %d %d\n", in[0], in[1]);
  MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, torus);
  /* With two ranks both neighbours are the same one. */
  say("neighbours' %d\n", in[0] + in[1]);
  MPI_Comm_free(&torus);
}

void many(void) {
  int sum = 0;
  for (int i = 0; i < 20; i++) {
    int value = i + rank, found;
    if (i % 7 == rank % 7)
      dawdle();
    MPI_Allreduce(&value, &found, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    sum += found;
    MPI_Bcast(&sum, 1, MPI_INT, i % size, MPI_COMM_WORLD);
    MPI_Reduce(&value, &found, 1, MPI_INT, MPI_MIN, i % size, MPI_COMM_WORLD);
    if (i % 10 == 0)
      MPI_Barrier(MPI_COMM_WORLD);
  }
  say("many %d\n", sum);
}
