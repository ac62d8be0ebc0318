/* calls.c: an ordinary MPI program that makes every call which the shims replace, and
 * prints what came of it: statuses, errors, data.  With a shim and without it the
 * output must be the same, whatever the number of ranks.
 *
 * Each rank says its lines to rank 0, which prints them in order.
 */
#define _GNU_SOURCE
#include "calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BIG (1 << 20)

int rank, size, next, before;
static char said[1 << 16];
static size_t length;

void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(said + length, sizeof said - length, format, arguments);
  va_end(arguments);
  if (n > 0 && length + (size_t)n < sizeof said)
    length += (size_t)n;
}

void say_status(const char *what, MPI_Status *s, MPI_Datatype type) {
  int count;
  MPI_Get_count(s, type, &count);
  say("%s: source %s%d tag %s%d count %d\n", what, s->MPI_SOURCE == MPI_PROC_NULL ? "null " : "",
      s->MPI_SOURCE == MPI_PROC_NULL ? 0 : s->MPI_SOURCE, s->MPI_TAG == MPI_ANY_TAG ? "any " : "",
      s->MPI_TAG == MPI_ANY_TAG ? 0 : s->MPI_TAG, count);
}

unsigned sum_of(const int *values, int count) {
  unsigned sum = 2166136261u;
  for (int i = 0; i < count; i++)
    sum = (sum ^ (unsigned)values[i]) * 16777619u;
  return sum;
}

void fill(int *values, int count, int seed) {
  for (int i = 0; i < count; i++)
    values[i] = seed * 1000003 + i;
}

void dawdle(void) {
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
