/* shapes.c: an MPI program made of random calls, an ordinary one.  Every rank draws the same plan
 * from the seed: call, communicator, root, how much; and draws by itself what MPI leaves to it:
 * datatypes of the same signature, MPI_IN_PLACE at the root, empty parts, when it comes.
 * Rank 0 prints a line a step: the call, where, and what all ranks hold afterwards.
 *
 * mpi_shapes SEED STEPS b: blocking calls; i: the listed ones, as their non-blocking forms; l:
 * these, blocking.  What i and l print must be the same; so must b with a shim and without.
 */
#define _GNU_SOURCE
#include "../list.h"
#include "draw.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_RANKS 16
#define MOST_INTS 40000 /* a rank's part */
#define WIDTH 16        /* bytes that an int may take in a buffer */

static bool nonblocking, only_listed;
static int rank, size;
static mr_version version;
static uint64_t plan, own; /* states of the two generators */

static int draw(int below) { return (int)(draw_from(&plan) % (uint64_t)below); }
static int draw_own(int below) { return (int)(draw_from(&own) % (uint64_t)below); }

/* ---- communicators ------------------------------------------------------- */

enum where { WORLD, COPY, BACKWARDS, HALF, BETWEEN, RING, TORUS, TWICE, WHERES };
static const char *const where_names[WHERES] = {"world",   "copy", "backwards", "half",
                                                "between", "ring", "torus",     "twice"};

static struct place {
  MPI_Comm comm;
  int me, members, others; /* others: of the remote group, 0 if there is none */
} places[WHERES];

static void know(enum where where, MPI_Comm comm) {
  struct place *p = &places[where];
  int inter;
  p->comm = comm;
  MPI_Comm_rank(comm, &p->me);
  MPI_Comm_size(comm, &p->members);
  MPI_Comm_test_inter(comm, &inter);
  if (inter)
    MPI_Comm_remote_size(comm, &p->others);
}

static void make_places(void) {
  MPI_Comm comm, half;
  int upper = rank >= size / 2, periods[2] = {1, 1}, dims[2] = {size % 2 == 0 ? 2 : size, 0};
  int from[2] = {(rank + size - 1) % size, (rank + size - 1) % size};
  int to[2] = {(rank + 1) % size, (rank + 1) % size}, weights[2] = {1, 1};
  know(WORLD, MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  know(COPY, comm);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
  know(BACKWARDS, comm);
  MPI_Comm_split(MPI_COMM_WORLD, upper, rank, &half);
  know(HALF, half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : size / 2, 1, &comm);
  know(BETWEEN, comm);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, periods, 0, &comm);
  know(RING, comm);
  dims[1] = size / dims[0];
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &comm);
  know(TORUS, comm);
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, weights, 2, to, weights, MPI_INFO_NULL, 0,
                                 &comm);
  know(TWICE, comm);
}

/* ---- data ---------------------------------------------------------------- */

static char *out_room, *in_room;
static size_t room; /* bytes of each */

enum form { PLAIN, PAIRS, SPREAD, SHIFTED, FORMS };
static MPI_Datatype forms[FORMS];
static const int units[FORMS] = {1, 2, 2, 1};

static void make_forms(void) {
  MPI_Datatype raw;
  int one = 1, at = 2;
  forms[PLAIN] = MPI_INT;
  MPI_Type_contiguous(2, MPI_INT, &forms[PAIRS]);
  MPI_Type_vector(2, 1, 2, MPI_INT, &raw);
  MPI_Type_create_resized(raw, 0, 16, &forms[SPREAD]);
  MPI_Type_indexed(1, &one, &at, MPI_INT, &raw);
  MPI_Type_create_resized(raw, 0, 16, &forms[SHIFTED]);
  for (int i = PAIRS; i < FORMS; i++)
    MPI_Type_commit(&forms[i]);
}

/* How a rank says so many ints; a part of a rank's buffer. */
struct said {
  MPI_Datatype type;
  int count;
};

static struct said say(int ints) {
  enum form form = (enum form)draw_own(FORMS);
  if (ints % units[form] != 0)
    form = PLAIN;
  return (struct said){forms[form], ints / units[form]};
}

static void fill(void) {
  int *out = (int *)(void *)out_room;
  int salt = draw(1 << 20);
  for (size_t i = 0; i < room / sizeof *out; i++)
    out[i] = ((int)i * 7 + rank * 100003 + salt) % 1000 - 500;
  memset(in_room, 0x5a, room);
}

/* ---- operations ---------------------------------------------------------- */

/* 2 x 2 matrices modulo 101: no commutation. */
static void multiply(void *left, void *right, int *count, MPI_Datatype *type) {
  int *a = left, *b = right, c[4];
  (void)type;
  for (int i = 0; i < *count; i++, a += 4, b += 4) {
    c[0] = (a[0] * b[0] + a[1] * b[2]) % 101, c[1] = (a[0] * b[1] + a[1] * b[3]) % 101;
    c[2] = (a[2] * b[0] + a[3] * b[2]) % 101, c[3] = (a[2] * b[1] + a[3] * b[3]) % 101;
    memcpy(b, c, sizeof c);
  }
}

struct reduction {
  MPI_Op op;
  MPI_Datatype type;
  bool own;
};

static struct reduction reduction(void) {
  static struct reduction known[7];
  if (known[0].type == 0) {
    MPI_Datatype matrix;
    MPI_Op product;
    MPI_Type_contiguous(4, MPI_INT, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Op_create(multiply, 0, &product);
    known[0] = (struct reduction){MPI_SUM, MPI_INT, false};
    known[1] = (struct reduction){MPI_MAX, MPI_INT, false};
    known[2] = (struct reduction){MPI_MIN, MPI_SHORT, false};
    known[3] = (struct reduction){MPI_BXOR, MPI_UNSIGNED, false};
    known[4] = (struct reduction){MPI_MINLOC, MPI_2INT, false};
    known[5] = (struct reduction){MPI_LOR, MPI_INT, false};
    known[6] = (struct reduction){product, matrix, true};
  }
  return known[draw(7)];
}

/* ---- a step -------------------------------------------------------------- */

/* DO(Bcast, Ibcast, arguments...) in the form of this run. */
#define DO(name, start, ...)                                                                       \
  do {                                                                                             \
    if (nonblocking) {                                                                             \
      MPI_Request request_;                                                                        \
      MPI_##start(__VA_ARGS__, &request_);                                                         \
      MPI_Wait(&request_, MPI_STATUS_IGNORE);                                                      \
    } else {                                                                                       \
      MPI_##name(__VA_ARGS__);                                                                     \
    }                                                                                              \
  } while (0)

enum call {
  BARRIER,
  BCAST,
  GATHER,
  GATHERV,
  SCATTER,
  SCATTERV,
  ALLGATHER,
  ALLGATHERV,
  ALLTOALL,
  ALLTOALLV,
  ALLTOALLW,
  REDUCE,
  ALLREDUCE,
  REDUCE_SCATTER,
  REDUCE_SCATTER_BLOCK,
  SCAN,
  EXSCAN,
  NEIGHBOR,
  CALLS
};
static const char *const call_names[CALLS] = {
    "barrier",   "bcast",     "gather",     "gatherv",        "scatter",
    "scatterv",  "allgather", "allgatherv", "alltoall",       "alltoallv",
    "alltoallw", "reduce",    "allreduce",  "reduce_scatter", "reduce_scatter_block",
    "scan",      "exscan",    "neighbor"};

struct step {
  enum call call;
  struct place *at;
  int ints, root;
  bool in_place;         /* where MPI has all ranks say so */
  int parts[MOST_RANKS]; /* of the v forms */
  struct reduction by;
};

#ifdef OPEN_MPI
static const enum mr_mpi_kind kind = MR_OPEN_MPI;
#else
static const enum mr_mpi_kind kind = MR_MPICH;
#endif

/* By the list itself; b and l differ by this alone. */
static bool listed(const struct step *s) {
  char name[32];
  snprintf(name, sizeof name, "%c%s", call_names[s->call][0] - 'a' + 'A', call_names[s->call] + 1);
  const struct mr_entry *entry = mr_listed(kind, version, name);
  if (entry == NULL || s->at->others > 0)
    return false;
  return !(entry->shapes & MR_PREDEFINED_OP && s->call >= REDUCE && s->call <= EXSCAN && s->by.own);
}

static void places_of(const int *parts, int members, int unit, int *counts, int *offsets) {
  for (int i = 0, sum = 0; i < members; sum += counts[i++]) {
    counts[i] = parts[i] / unit;
    offsets[i] = sum;
  }
}

static void rooted(const struct step *s) {
  MPI_Comm comm = s->at->comm;
  int me = s->at->me, n = s->at->members, root = s->root;
  int counts[MOST_RANKS], offsets[MOST_RANKS];
  bool there = me == root, in_place = there && draw_own(3) == 0;
#ifndef OPEN_MPI /* MPICH 4.0.2: its MPI_Reduce ends by SIGSEGV in place at another root than 0 */
  if (s->call == REDUCE && root != 0)
    in_place = false;
#endif
  struct said a = say(s->ints), b = say(s->ints);
  void *aside = draw_own(2) ? out_room : in_room; /* where a buffer does not count */
  switch (s->call) {
  case GATHER: {
    void *from = in_place ? MPI_IN_PLACE : out_room;
    DO(Gather, Igather, from, in_place ? 77 : a.count, a.type, there ? (void *)in_room : aside,
       b.count, b.type, root, comm);
    break;
  }
  case SCATTER:
    DO(Scatter, Iscatter, out_room, b.count, b.type, in_place ? MPI_IN_PLACE : in_room,
       in_place ? 77 : a.count, a.type, root, comm);
    break;
  case GATHERV:
    places_of(s->parts, n, 1, counts, offsets);
    DO(Gatherv, Igatherv, in_place ? MPI_IN_PLACE : out_room, s->parts[me], MPI_INT,
       there ? (void *)in_room : aside, counts, offsets, MPI_INT, root, comm);
    break;
  case SCATTERV:
    places_of(s->parts, n, 1, counts, offsets);
    DO(Scatterv, Iscatterv, out_room, counts, offsets, MPI_INT, in_place ? MPI_IN_PLACE : in_room,
       s->parts[me], MPI_INT, root, comm);
    break;
  default:
    if (in_place)
      memcpy(in_room, out_room, room);
    /* Elsewhere than at the root the second buffer may be the first one. */
    DO(Reduce, Ireduce, in_place ? MPI_IN_PLACE : out_room, there ? (void *)in_room : aside,
       s->ints, s->by.type, s->by.op, root, comm);
  }
}

static void to_all(const struct step *s) {
  MPI_Comm comm = s->at->comm;
  int me = s->at->me, n = s->at->members;
  int counts[MOST_RANKS], offsets[MOST_RANKS], in_counts[MOST_RANKS], in_offsets[MOST_RANKS];
  MPI_Datatype types[MOST_RANKS];
  struct said a = say(s->ints), b = say(s->ints);
  void *from = s->in_place ? MPI_IN_PLACE : out_room;
  if (s->in_place)
    memcpy(in_room, out_room, room);
  switch (s->call) {
  case ALLGATHER:
    DO(Allgather, Iallgather, from, a.count, a.type, in_room, b.count, b.type, comm);
    break;
  case ALLGATHERV:
    places_of(s->parts, n, 1, counts, offsets);
    DO(Allgatherv, Iallgatherv, from, s->parts[me], MPI_INT, in_room, counts, offsets, MPI_INT,
       comm);
    break;
  case ALLTOALL:
    DO(Alltoall, Ialltoall, from, a.count, a.type, in_room, b.count, b.type, comm);
    break;
  case ALLTOALLV: /* from i to j: the parts of both; in place that is the same both ways */
  case ALLTOALLW:
    for (int i = 0; i < n; i++)
      in_counts[i] = (s->parts[i] + s->parts[me]) % 50, counts[i] = in_counts[i],
      types[i] = MPI_INT;
    places_of(counts, n, 1, in_counts, in_offsets);
    memcpy(offsets, in_offsets, sizeof offsets);
    if (s->call == ALLTOALLV) {
      DO(Alltoallv, Ialltoallv, from, counts, offsets, MPI_INT, in_room, in_counts, in_offsets,
         MPI_INT, comm);
      break;
    }
    for (int i = 0; i < n; i++) {
      offsets[i] = in_offsets[i] *= 4;
      MPI_Type_contiguous(counts[i], MPI_INT, &types[i]);
      MPI_Type_commit(&types[i]);
      counts[i] = in_counts[i] = 1;
    }
    DO(Alltoallw, Ialltoallw, from, counts, offsets, types, in_room, in_counts, in_offsets, types,
       comm);
    for (int i = 0; i < n; i++)
      MPI_Type_free(&types[i]);
    break;
  case ALLREDUCE:
    DO(Allreduce, Iallreduce, from, in_room, s->ints, s->by.type, s->by.op, comm);
    break;
  case REDUCE_SCATTER:
    DO(Reduce_scatter, Ireduce_scatter, from, in_room, s->parts, s->by.type, s->by.op, comm);
    break;
  case REDUCE_SCATTER_BLOCK:
    DO(Reduce_scatter_block, Ireduce_scatter_block, from, in_room, s->ints, s->by.type, s->by.op,
       comm);
    break;
  case SCAN:
    DO(Scan, Iscan, from, in_room, s->ints, s->by.type, s->by.op, comm);
    break;
  default:
    DO(Exscan, Iexscan, from, in_room, s->ints, s->by.type, s->by.op, comm);
  }
}

/* From one group to the other; the lower group has the root in every other step. */
static void between(const struct step *s) {
  const struct place *at = s->at;
  bool sends = (rank >= size / 2) == (s->root % 2);
  int root = !sends ? 0 : at->me == 0 ? MPI_ROOT : MPI_PROC_NULL;
  int ints = root == MPI_PROC_NULL ? 0 : s->ints; /* it does not count there */
  if (s->call == BCAST)
    DO(Bcast, Ibcast, root == MPI_ROOT ? out_room : in_room, ints, MPI_INT, root, at->comm);
  else if (s->call == REDUCE)
    DO(Reduce, Ireduce, out_room, in_room, ints, MPI_INT, MPI_SUM, root, at->comm);
  else if (s->call == ALLREDUCE)
    DO(Allreduce, Iallreduce, out_room, in_room, s->ints, MPI_INT, MPI_SUM, at->comm);
  else
    DO(Allgather, Iallgather, out_room, s->ints, MPI_INT, in_room, s->ints, MPI_INT, at->comm);
}

/* Not listed anywhere: blocking alone. */
static void neighbours(const struct step *s) {
  MPI_Comm comm = s->at->comm;
  int counts[4], offsets[4], n = s->ints;
  MPI_Aint bytes[4];
  MPI_Datatype types[4];
  for (int i = 0; i < 4; i++)
    counts[i] = n, offsets[i] = i * n, bytes[i] = (MPI_Aint)i * n * 4, types[i] = MPI_INT;
    /* MPICH 4.0.2 takes one side's data for the other's, where these are one rank. */
#ifdef OPEN_MPI
  const int forms_ = 5;
#else
  const int forms_ = 3;
#endif
  switch (s->root % forms_) {
  case 0:
    MPI_Neighbor_allgather(out_room, n, MPI_INT, in_room, n, MPI_INT, comm);
    break;
  case 1:
    MPI_Neighbor_allgatherv(out_room, n, MPI_INT, in_room, counts, offsets, MPI_INT, comm);
    break;
  case 2:
    MPI_Neighbor_alltoall(out_room, n, MPI_INT, in_room, n, MPI_INT, comm);
    break;
  case 3:
    MPI_Neighbor_alltoallv(out_room, counts, offsets, MPI_INT, in_room, counts, offsets, MPI_INT,
                           comm);
    break;
  default:
    MPI_Neighbor_alltoallw(out_room, counts, bytes, types, in_room, counts, bytes, types, comm);
  }
}

static void broadcast(const struct step *s) {
  struct said a = say(s->ints);
  DO(Bcast, Ibcast, s->at->me == s->root ? out_room : in_room, a.count, a.type, s->root,
     s->at->comm);
}

static void make(const struct step *s) {
  if (s->at->others > 0)
    between(s);
  else if (s->call == BARRIER)
    DO(Barrier, Ibarrier, s->at->comm);
  else if (s->call == BCAST)
    broadcast(s);
  else if (s->call == NEIGHBOR)
    neighbours(s);
  else if (s->call <= SCATTERV || s->call == REDUCE)
    rooted(s);
  else
    to_all(s);
}

/* Whether what the rank holds is told by MPI: not what a rank has drawn by itself. */
static bool tells(const struct step *s) {
  bool there = s->at->me == s->root;
  switch (s->call) {
  case GATHER:
  case GATHERV:
  case REDUCE:
    return there || s->at->others > 0;
  case EXSCAN:
    return s->at->me > 0;
  case SCATTER:
  case SCATTERV:
    return !there;
  default:
    return true;
  }
}

static struct step next_step(void) {
  static const int amounts[] = {0, 1, 2, 3, 6, 64, 500, 6000, MOST_INTS};
  struct step s = {.call = (enum call)draw(CALLS), .root = draw(1 << 20), .in_place = draw(4) == 0};
  s.at = &places[draw(WHERES)];
  s.ints = amounts[draw(s.call == BCAST || s.call == REDUCE || s.call == ALLREDUCE ? 9 : 7)];
  s.by = reduction();
  for (int i = 0; i < MOST_RANKS; i++)
    s.parts[i] = draw(3) == 0 ? 0 : draw(300);
  if (s.call == NEIGHBOR && s.at < &places[RING])
    s.at = &places[RING + draw(WHERES - RING)];
  if (s.at->others > 0) {
    static const enum call four[] = {BCAST, REDUCE, ALLREDUCE, ALLGATHER};
    s.call = four[draw(4)];
  } else if (s.call != NEIGHBOR) {
    s.root %= s.at->members;
  }
  return s;
}

/* What all ranks hold, in line by rank 0; by messages, for these are what they are in any form. */
static void tell(int number, const struct step *s) {
  uint64_t sum = tells(s) ? hash(in_room, room, 14695981039346656037u) : 0, all = 0, one;
  if (rank != 0) {
    MPI_Send(&sum, 1, MPI_UINT64_T, 0, 9, MPI_COMM_WORLD);
    return;
  }
  for (int i = 0; i < size; i++) {
    one = sum;
    if (i > 0)
      MPI_Recv(&one, 1, MPI_UINT64_T, i, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    all = hash(&one, sizeof one, all);
  }
  printf("%d %s on %s, %d ints, root %d%s%s: %016llx\n", number, call_names[s->call],
         where_names[s->at - places], s->ints, s->root, s->in_place ? ", in place" : "",
         s->by.own ? ", own operation" : "", (unsigned long long)all);
  fflush(stdout);
}

static void dawdle(void) {
  struct timespec pause = {.tv_nsec = draw_own(4) == 0 ? draw_own(300000) : 0};
  if (pause.tv_nsec > 0)
    nanosleep(&pause, NULL);
}

int main(int argc, char **argv) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Get_library_version(text, &length);
  version = mr_version_in(text);
  if (argc == 2 && strcmp(argv[1], "known") == 0) /* are this version's operations listed? */
    return mr_listed(kind, version, "Bcast") == NULL;
  if (argc != 4 || strchr("bil", argv[3][0]) == NULL)
    return 64;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  nonblocking = argv[3][0] == 'i', only_listed = argv[3][0] != 'b';
  plan = strtoull(argv[1], NULL, 10);
  own = plan * 1000 + (uint64_t)rank;
  room = (size_t)MOST_INTS * WIDTH + 64;
  if (size < 2 || size > MOST_RANKS || (out_room = malloc(room)) == NULL ||
      (in_room = malloc(room)) == NULL)
    MPI_Abort(MPI_COMM_WORLD, 64);
  make_forms();
  make_places();
  for (int number = 0, steps = atoi(argv[2]); number < steps; number++) {
    struct step s = next_step();
    fill();
    dawdle();
    if (only_listed && !listed(&s))
      continue;
    make(&s);
    tell(number, &s);
  }
  MPI_Finalize();
  return 0;
}
