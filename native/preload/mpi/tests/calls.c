/* calls.c: an ordinary MPI program that makes every call which the shims replace, and
 * prints what came of it: statuses, errors, data.  With a shim and without it the
 * output must be the same, whatever the number of ranks.
 *
 * Each rank says its lines to rank 0, which prints them in order.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BIG (1 << 20)

static int rank, size, next, before;
static char said[1 << 16];
static size_t length;

static void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(said + length, sizeof said - length, format, arguments);
  va_end(arguments);
  if (n > 0 && length + (size_t)n < sizeof said)
    length += (size_t)n;
}

static void say_status(const char *what, MPI_Status *s, MPI_Datatype type) {
  int count;
  MPI_Get_count(s, type, &count);
  say("%s: source %s%d tag %s%d count %d\n", what, s->MPI_SOURCE == MPI_PROC_NULL ? "null " : "",
      s->MPI_SOURCE == MPI_PROC_NULL ? 0 : s->MPI_SOURCE, s->MPI_TAG == MPI_ANY_TAG ? "any " : "",
      s->MPI_TAG == MPI_ANY_TAG ? 0 : s->MPI_TAG, count);
}

static unsigned sum_of(const int *values, int count) {
  unsigned sum = 2166136261u;
  for (int i = 0; i < count; i++)
    sum = (sum ^ (unsigned)values[i]) * 16777619u;
  return sum;
}

static void fill(int *values, int count, int seed) {
  for (int i = 0; i < count; i++)
    values[i] = seed * 1000003 + i;
}

/* Ranks do not come to a call together. */
static void dawdle(void) {
  struct timespec pause = {.tv_nsec = 200000L * ((rank * 7 + 3) % 5)};
  nanosleep(&pause, NULL);
}

static int class_of(int code) {
  int class;
  MPI_Error_class(code, &class);
  return class;
}

static const char *name_of(int code) {
  static const struct {
    int class;
    const char *name;
  } names[] = {{MPI_SUCCESS, "success"},     {MPI_ERR_TRUNCATE, "truncate"},
               {MPI_ERR_RANK, "rank"},       {MPI_ERR_TAG, "tag"},
               {MPI_ERR_COUNT, "count"},     {MPI_ERR_TYPE, "type"},
               {MPI_ERR_COMM, "comm"},       {MPI_ERR_ROOT, "root"},
               {MPI_ERR_OP, "op"},           {MPI_ERR_IN_STATUS, "in status"},
               {MPI_ERR_REQUEST, "request"}, {MPI_ERR_BUFFER, "buffer"},
               {MPI_ERR_PENDING, "pending"}, {MPI_ERR_ARG, "arg"}};
  int class = class_of(code);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].class == class)
      return names[i].name;
  return "other";
}

/* ---- messages ------------------------------------------------------------ */

static void ring(void) {
  int token = 1;
  MPI_Status status;
  for (int round = 0; round < 3; round++) {
    if (rank == 0) {
      MPI_Send(&token, 1, MPI_INT, next, round, MPI_COMM_WORLD);
      MPI_Recv(&token, 1, MPI_INT, before, round, MPI_COMM_WORLD, &status);
    } else {
      MPI_Recv(&token, 1, MPI_INT, before, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      token = token * 3 + rank;
      MPI_Send(&token, 1, MPI_INT, next, round, MPI_COMM_WORLD);
    }
    say_status("ring", &status, MPI_INT);
    say("ring token %d\n", token);
  }
}

static void modes(void) {
  int *out = calloc(BIG, sizeof *out), *in = calloc(BIG, sizeof *in);
  static char room[1 << 16];
  MPI_Buffer_attach(room, sizeof room);
  for (int count = 1; count <= BIG; count *= 1024) {
    MPI_Request request;
    MPI_Status status;
    fill(out, count, rank + count);
    MPI_Irecv(in, count, MPI_INT, before, 5, MPI_COMM_WORLD, &request);
    dawdle();
    MPI_Ssend(out, count, MPI_INT, next, 5, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    say_status("ssend", &status, MPI_INT);
    say("ssend %u, request %s\n", sum_of(in, count), request == MPI_REQUEST_NULL ? "null" : "kept");
    if (rank % 2 == 0) {
      MPI_Send(out, count, MPI_INT, next, 6, MPI_COMM_WORLD);
      MPI_Recv(in, count, MPI_INT, before, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(in, count, MPI_INT, before, 6, MPI_COMM_WORLD, &status);
      MPI_Send(out, count, MPI_INT, next, 6, MPI_COMM_WORLD);
    }
    say("send %u\n", sum_of(in, count));
    MPI_Sendrecv(out, count, MPI_INT, next, 7, in, count, MPI_INT, before, 7, MPI_COMM_WORLD,
                 &status);
    say_status("sendrecv", &status, MPI_INT);
    say("sendrecv %u\n", sum_of(in, count));
    MPI_Sendrecv_replace(in, count, MPI_INT, next, 8, before, 8, MPI_COMM_WORLD, &status);
    say_status("replace", &status, MPI_INT);
    say("replace %u\n", sum_of(in, count));
    MPI_Isend(out, count, MPI_INT, next, 9, MPI_COMM_WORLD, &request);
    MPI_Probe(before, 9, MPI_COMM_WORLD, &status);
    say_status("probe", &status, MPI_INT);
    MPI_Recv(in, count, MPI_INT, before, 9, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("probed %u\n", sum_of(in, count));
    MPI_Message message;
    MPI_Issend(out, count, MPI_INT, next, 10, MPI_COMM_WORLD, &request);
    MPI_Mprobe(before, 10, MPI_COMM_WORLD, &message, &status);
    say_status("mprobe", &status, MPI_INT);
    MPI_Mrecv(in, count, MPI_INT, &message, &status);
    say("mrecv %u\n", sum_of(in, count));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Bsend(out, 10, MPI_INT, next, 11, MPI_COMM_WORLD);
  MPI_Recv(in, 10, MPI_INT, before, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  say("bsend %u\n", sum_of(in, 10));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Request request;
  MPI_Irecv(in, 10, MPI_INT, before, 12, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD); /* all receives are there */
  MPI_Rsend(out, 10, MPI_INT, next, 12, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  say("rsend %u\n", sum_of(in, 10));
  void *back;
  int bytes;
  MPI_Buffer_detach(&back, &bytes);
  free(out);
  free(in);
}

static void nobody(void) {
  int value = 7, other = 8;
  MPI_Status status;
  MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
  say_status("recv null", &status, MPI_INT);
  MPI_Probe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
  say_status("probe null", &status, MPI_INT);
  MPI_Message message;
  MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status);
  MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
  say_status("mrecv null", &status, MPI_INT);
  MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, &other, 1, MPI_INT, MPI_PROC_NULL, 0,
               MPI_COMM_WORLD, &status);
  say_status("sendrecv null", &status, MPI_INT);
  MPI_Sendrecv(&value, 1, MPI_INT, rank + 1 < size ? next : MPI_PROC_NULL, 1, &other, 1, MPI_INT,
               rank > 0 ? before : MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
  say_status("line", &status, MPI_INT);
  MPI_Sendrecv_replace(&value, 1, MPI_INT, rank + 1 < size ? next : MPI_PROC_NULL, 2,
                       rank > 0 ? before : MPI_PROC_NULL, 2, MPI_COMM_WORLD, &status);
  say_status("line replace", &status, MPI_INT);
  MPI_Sendrecv(&value, 1, MPI_INT, rank, 3, &other, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &status);
  say_status("myself", &status, MPI_INT);
  MPI_Request none = MPI_REQUEST_NULL;
  MPI_Wait(&none, &status);
  say_status("wait null", &status, MPI_INT);
  int index, done;
  MPI_Waitany(1, &none, &index, &status);
  say("waitany null: %s\n", index == MPI_UNDEFINED ? "undefined" : "defined");
  MPI_Waitsome(1, &none, &done, &index, &status);
  say("waitsome null: %s\n", done == MPI_UNDEFINED ? "undefined" : "defined");
}

/* From any source with any tag; which comes first is not the program's. */
static void anybody(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) {
    dawdle();
    int value = rank * rank;
    MPI_Send(&value, 1, MPI_INT, 0, 100 + rank, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD); /* any other message would do for rank 0, too */
    return;
  }
  int seen = 0, sum = 0;
  for (int i = 1; i < size; i++) {
    int value;
    MPI_Status status;
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    if (status.MPI_TAG == 100 + status.MPI_SOURCE && value == status.MPI_SOURCE * status.MPI_SOURCE)
      seen |= 1 << status.MPI_SOURCE;
    sum += value;
  }
  say("anybody: seen %x, sum %d\n", seen, sum);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void requests(void) {
  enum { EACH = 4 };
  MPI_Request request[16 * EACH];
  MPI_Status status[16 * EACH];
  int in[16][EACH], out[EACH], n = 0, index, indices[16 * EACH];
  memset(in, 0, sizeof in);
  for (int i = 0; i < EACH; i++)
    out[i] = rank * 10 + i;
  for (int from = 0; from < size; from++)
    for (int i = 0; i < EACH; i++)
      MPI_Irecv(&in[from][i], 1, MPI_INT, from, 20 + i, MPI_COMM_WORLD, &request[n++]);
  for (int to = 0; to < size; to++)
    for (int i = 0; i < EACH; i++) {
      MPI_Request send;
      MPI_Isend(&out[i], 1, MPI_INT, to, 20 + i, MPI_COMM_WORLD, &send);
      MPI_Request_free(&send);
    }
  for (int done = 0; done < size; done++) {
    MPI_Waitany(n, request, &index, &status[0]);
    if (request[index] != MPI_REQUEST_NULL)
      say("waitany left a request\n");
  }
  for (int left = n - size; left > n / 2;) {
    int done;
    MPI_Waitsome(n, request, &done, indices, status);
    for (int i = 0; i < done; i++)
      if (status[i].MPI_SOURCE != indices[i] / EACH || status[i].MPI_TAG != 20 + indices[i] % EACH)
        say("waitsome: wrong status\n");
    left -= done;
  }
  MPI_Waitall(n, request, status);
  for (int from = 0; from < size; from++)
    say("from %d: %u\n", from, sum_of(in[from], EACH));
  MPI_Request kept[2];
  int to_keep = rank, came = -1;
  MPI_Send_init(&to_keep, 1, MPI_INT, next, 30, MPI_COMM_WORLD, &kept[0]);
  MPI_Recv_init(&came, 1, MPI_INT, before, 30, MPI_COMM_WORLD, &kept[1]);
  for (int round = 0; round < 3; round++) {
    to_keep = rank + 100 * round;
    if (round == 1) {
      MPI_Start(&kept[1]);
      MPI_Start(&kept[0]);
    } else {
      MPI_Startall(2, kept);
    }
    MPI_Waitall(2, kept, status);
    say_status("persistent", &status[1], MPI_INT);
    say("persistent %d, kept %d\n", came, kept[0] != MPI_REQUEST_NULL);
  }
  MPI_Waitany(2, kept, &index, MPI_STATUS_IGNORE);
  say("inactive: %s\n", index == MPI_UNDEFINED ? "undefined" : "defined");
  /* One that is inactive, one that will complete. */
  for (int round = 0; round < 2; round++) {
    MPI_Request send;
    int done;
    MPI_Start(&kept[1]);
    dawdle();
    MPI_Isend(&rank, 1, MPI_INT, next, 30, MPI_COMM_WORLD, &send);
    if (round == 0)
      MPI_Waitany(2, kept, &index, &status[0]);
    else
      MPI_Waitsome(2, kept, &done, &index, &status[0]);
    say_status("half inactive", &status[0], MPI_INT);
    say("half inactive: %d, %d\n", index, came);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&kept[0]);
  MPI_Request_free(&kept[1]);
  int cancelled;
  MPI_Irecv(&came, 1, MPI_INT, rank, 31, MPI_COMM_WORLD, &kept[0]);
  MPI_Cancel(&kept[0]);
  MPI_Wait(&kept[0], &status[0]);
  MPI_Test_cancelled(&status[0], &cancelled);
  say("cancelled %d\n", cancelled);
}

static void types(void) {
  MPI_Datatype column, pair;
  int matrix[8][8], back[8][8], line[8];
  memset(back, 0, sizeof back);
  fill(&matrix[0][0], 64, rank);
  MPI_Type_vector(8, 1, 8, MPI_INT, &column);
  MPI_Type_commit(&column);
  MPI_Sendrecv(&matrix[0][2], 1, column, next, 40, line, 8, MPI_INT, before, 40, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  say("column %u\n", sum_of(line, 8));
  MPI_Sendrecv(line, 8, MPI_INT, next, 41, &back[0][5], 1, column, before, 41, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  say("back %u\n", sum_of(&back[0][0], 64));
  MPI_Sendrecv_replace(&matrix[0][1], 1, column, next, 42, before, 42, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
  say("replaced %u\n", sum_of(&matrix[0][0], 64));
  struct {
    double real;
    int whole;
  } mixed = {0.5 + rank, rank}, all[16];
  MPI_Aint places[] = {0, sizeof(double)};
  MPI_Datatype parts[] = {MPI_DOUBLE, MPI_INT}, bare;
  MPI_Type_create_struct(2, (int[]){1, 1}, places, parts, &bare);
  MPI_Type_create_resized(bare, 0, sizeof mixed, &pair);
  MPI_Type_commit(&pair);
  MPI_Allgather(&mixed, 1, pair, all, 1, pair, MPI_COMM_WORLD);
  for (int i = 0; i < size; i++)
    say("mixed %.2f %d\n", all[i].real, all[i].whole);
  MPI_Bcast(&matrix[0][3], 1, column, size - 1, MPI_COMM_WORLD);
  say("bcast column %u\n", sum_of(&matrix[0][0], 64));
  MPI_Type_free(&column);
  MPI_Type_free(&bare);
  MPI_Type_free(&pair);
}

/* ---- collective operations ----------------------------------------------- */

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

static void rooted(MPI_Comm comm, int me, int n, int root, int count) {
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

static void to_all(MPI_Comm comm, int me, int n, int count) {
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
static void in_place(void) {
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

static void in_order(void) {
  MPI_Op op;
  unsigned own[4] = {1u + (unsigned)rank, 2, 3, 5u + (unsigned)rank}, product[4];
  MPI_Op_create(multiply, 0, &op);
  MPI_Allreduce(own, product, 4, MPI_UNSIGNED, op, MPI_COMM_WORLD);
  say("product %u %u %u %u\n", product[0], product[1], product[2], product[3]);
  MPI_Op_free(&op);
}

static void splits(void) {
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

static void neighbours(void) {
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

static void many(void) {
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

/* ---- errors -------------------------------------------------------------- */

static int handled;

static void count_error(MPI_Comm *comm, int *code, ...) {
  (void)comm, (void)code;
  handled++;
}

/* A handler of the program's is called as often as without us. */
static void handlers(void) {
  int value[4] = {1, 2, 3, 4}, in, index, done;
  MPI_Request receive, send;
  MPI_Status status;
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(count_error, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  for (int way = 0; way < 5; way++) { /* a message longer than its buffer */
    MPI_Isend(value, 4, MPI_INT, rank, 73, MPI_COMM_WORLD, &send);
    handled = 0;
    if (way > 0)
      MPI_Irecv(&in, 1, MPI_INT, rank, 73, MPI_COMM_WORLD, &receive);
    int rc = way == 0   ? MPI_Recv(&in, 1, MPI_INT, rank, 73, MPI_COMM_WORLD, &status)
             : way == 1 ? MPI_Wait(&receive, &status)
             : way == 2 ? MPI_Waitall(1, &receive, &status)
             : way == 3 ? MPI_Waitany(1, &receive, &index, &status)
                        : MPI_Waitsome(1, &receive, &done, &index, &status);
    say("handled: %s, %d times\n", name_of(rc), handled);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&handler);
}

static void errors(void) {
  int value[4] = {1, 2, 3, 4}, in[4];
  MPI_Request request[2];
  MPI_Status status[2];
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  say("rank: %s\n", name_of(MPI_Send(value, 1, MPI_INT, size + 3, 0, MPI_COMM_WORLD)));
  say("tag: %s\n", name_of(MPI_Send(value, 1, MPI_INT, next, -20, MPI_COMM_WORLD)));
  say("count: %s\n", name_of(MPI_Recv(value, -1, MPI_INT, before, 0, MPI_COMM_WORLD, &status[0])));
  say("type: %s\n", name_of(MPI_Send(value, 1, MPI_DATATYPE_NULL, next, 0, MPI_COMM_WORLD)));
  say("root: %s\n", name_of(MPI_Bcast(value, 1, MPI_INT, size + 1, MPI_COMM_WORLD)));
  say("sendrecv: %s\n", name_of(MPI_Sendrecv(value, 1, MPI_INT, size + 1, 0, in, 1, MPI_INT, before,
                                             77, MPI_COMM_WORLD, &status[0])));
  /* A message longer than its buffer, to oneself. */
  MPI_Isend(value, 4, MPI_INT, rank, 70, MPI_COMM_WORLD, &request[0]);
  say("truncate: %s\n", name_of(MPI_Recv(in, 2, MPI_INT, rank, 70, MPI_COMM_WORLD, &status[0])));
  MPI_Wait(&request[0], MPI_STATUS_IGNORE);
  MPI_Irecv(in, 2, MPI_INT, rank, 71, MPI_COMM_WORLD, &request[0]);
  MPI_Isend(value, 4, MPI_INT, rank, 71, MPI_COMM_WORLD, &request[1]);
  say("wait: %s\n", name_of(MPI_Wait(&request[0], &status[0])));
  MPI_Wait(&request[1], MPI_STATUS_IGNORE);
  MPI_Irecv(in, 2, MPI_INT, rank, 72, MPI_COMM_WORLD, &request[0]);
  MPI_Isend(value, 4, MPI_INT, rank, 72, MPI_COMM_WORLD, &request[1]);
  int rc = MPI_Waitall(2, request, status);
  say("waitall: %s, first %s\n", name_of(rc), name_of(status[0].MPI_ERROR));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* One-sided operations are left alone; they go on while ranks sleep. */
static void windows(void) {
  static int base[1024];
  MPI_Win window;
  MPI_Win_create(base, sizeof base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  MPI_Put(&rank, 1, MPI_INT, next, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  say("put %d\n", *base);
  MPI_Win_free(&window);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "threads") == 0) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  } else {
    MPI_Init(&argc, &argv);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  next = (rank + 1) % size;
  before = (rank + size - 1) % size;
  if (argc > 1 && strcmp(argv[1], "hang") == 0) { /* somebody is killed meanwhile */
    if (rank != 1)
      MPI_Barrier(MPI_COMM_WORLD);
    else
      for (;;)
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
  }
  ring();
  modes();
  nobody();
  anybody();
  requests();
  types();
  rooted(MPI_COMM_WORLD, rank, size, 0, 5);
  rooted(MPI_COMM_WORLD, rank, size, size - 1, 30000);
  to_all(MPI_COMM_WORLD, rank, size, 3);
  to_all(MPI_COMM_WORLD, rank, size, 20000);
  in_place();
  in_order();
  splits();
  neighbours();
  many();
  windows();
  errors();
  handlers();
  if (rank != 0)
    MPI_Send(said, (int)length, MPI_CHAR, 0, 99, MPI_COMM_WORLD);
  else
    for (int from = 0; from < size; from++) {
      int count = (int)length;
      MPI_Status status;
      if (from > 0) {
        MPI_Probe(from, 99, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_CHAR, &count);
        MPI_Recv(said, count, MPI_CHAR, from, 99, MPI_COMM_WORLD, &status);
      }
      printf("rank %d of %d\n%.*s", from, size, count, said);
    }
  MPI_Finalize();
  return 0;
}
