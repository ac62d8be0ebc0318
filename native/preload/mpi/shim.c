/* shim.c: blocking calls of MPI as a non-blocking start and a wait.
 *
 * Compiled once for each MPI.  A wait asks by the MPI_Test that belongs to it until that
 * one completes.  So statuses, error codes, inactive and persistent requests are the
 * MPI's own, and an error handler is called once: MPICH calls it for
 * MPI_Request_get_status, too.  What has no non-blocking form, or must not have one
 * here, passes.
 */
#include "comm.h"
#include "rank.h"

#include <limits.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

/* Between MPI_Init and MPI_Finalize. */
static bool started;

/* Told that there are more ranks than CPUs, Open MPI gives way in each question that
 * finds nothing.  Beside a CPU hog that is a time slice for each step of a collective
 * operation, and without one it is a second turn to ours.  NULL: another MPI. */
extern bool opal_progress_set_yield_when_idle(bool yields) __attribute__((weak));
static bool mpi_gives_way;

static void learn_how_it_waits(void) {
  if (opal_progress_set_yield_when_idle == NULL)
    return;
  mpi_gives_way = opal_progress_set_yield_when_idle(false);
  (void)opal_progress_set_yield_when_idle(mpi_gives_way);
}

/* What passes meanwhile in another thread spins, and a second wait there gives way twice:
 * both until the next wait ends. */
static void wait_until(struct mr_waiting *waiting) {
  if (mpi_gives_way)
    (void)opal_progress_set_yield_when_idle(false);
  mr_wait(waiting);
  if (mpi_gives_way)
    (void)opal_progress_set_yield_when_idle(true);
}

static void start(void) {
  int rank, size;
  if (mr_comm_start() != MPI_SUCCESS || PMPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
      PMPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS)
    return; /* everything passes */
  mr_rank_join(rank, size);
  learn_how_it_waits();
  started = true;
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
  started = false;
  mr_rank_leave();
  mr_comm_stop();
  return PMPI_Finalize();
}

/* ---- whom to ring -------------------------------------------------------- */

/* A rank of the communicator as its line on the board; NULL: unknown. */
static struct mr_rank *line_of(MPI_Comm comm, int rank) {
  struct mr_comm *c = started && rank >= 0 ? mr_comm_of(comm) : NULL;
  return c != NULL && rank < c->peers ? mr_rank_line(c->peer[rank]) : NULL;
}

static void sent_to(MPI_Comm comm, int rank) { mr_ring(line_of(comm, rank), MR_NEED_MESSAGE); }

/* Whoever waits until a message is taken; from whom it came is not always known. */
static void received(void) {
  if (started)
    mr_ring_all(MR_NEED_RECEIVER);
}

/* ---- requests ------------------------------------------------------------ */

#define FOR_MESSAGES (1u << MR_NEED_MESSAGE | 1u << MR_NEED_RECEIVER)

enum how_many { ONE, ALL, ANY, SOME };

struct requests {
  struct mr_waiting waiting; /* first: a question gets its address */
  enum how_many enough;
  int count;
  MPI_Request *request;
  MPI_Status *status;
  int *index;              /* ANY: which one; SOME: how many */
  int *indices;            /* SOME */
  struct mr_rank *partner; /* NULL: several, or unknown */
  int flag, rc;
};

static int test(struct requests *r) {
  int rc;
  switch (r->enough) {
  case ALL:
    return PMPI_Testall(r->count, r->request, &r->flag, r->status);
  case ANY:
    return PMPI_Testany(r->count, r->request, r->index, &r->flag, r->status);
  case SOME:
    rc = PMPI_Testsome(r->count, r->request, r->index, r->indices, r->status);
    r->flag = rc == MPI_SUCCESS && *r->index != 0; /* undefined: none is active */
    return rc;
  default:
    return PMPI_Test(r->request, &r->flag, r->status);
  }
}

/* Asked once more after the end it must not ask the MPI: the requests are gone. */
static bool enough_complete(struct mr_waiting *waiting) {
  struct requests *r = (struct requests *)waiting;
  if (!r->flag && r->rc == MPI_SUCCESS)
    r->rc = test(r);
  return r->flag || r->rc != MPI_SUCCESS;
}

static void answer_partners(struct mr_waiting *waiting) {
  struct requests *r = (struct requests *)waiting;
  if (r->partner != NULL) {
    mr_ring(r->partner, MR_NEED_MESSAGE);
    mr_ring(r->partner, MR_NEED_RECEIVER);
    return;
  }
  mr_ring_all(MR_NEED_MESSAGE);
  mr_ring_all(MR_NEED_RECEIVER);
}

static int wait_for(struct requests r, unsigned needs) {
  r.waiting = (struct mr_waiting){.needs = needs,
                                  .known = r.partner != NULL,
                                  .done = enough_complete,
                                  .pass_on = answer_partners};
  wait_until(&r.waiting);
  return r.rc;
}

static int wait_one(MPI_Request *request, MPI_Status *status, unsigned needs,
                    struct mr_rank *partner) {
  return wait_for((struct requests){.enough = ONE,
                                    .count = 1,
                                    .request = request,
                                    .status = status,
                                    .partner = partner,
                                    .rc = MPI_SUCCESS},
                  needs);
}

static int wait_many(enum how_many enough, int count, MPI_Request *request, int *index,
                     int *indices, MPI_Status *status) {
  int rc = wait_for((struct requests){.enough = enough,
                                      .count = count,
                                      .request = request,
                                      .status = status,
                                      .index = index,
                                      .indices = indices,
                                      .rc = MPI_SUCCESS},
                    FOR_MESSAGES);
  received();
  return rc;
}

EXPORT int MPI_Wait(MPI_Request *request, MPI_Status *status) {
  if (!started)
    return PMPI_Wait(request, status);
  int rc = wait_one(request, status, FOR_MESSAGES, NULL);
  received();
  return rc;
}

EXPORT int MPI_Waitall(int count, MPI_Request request[], MPI_Status status[]) {
  return started ? wait_many(ALL, count, request, NULL, NULL, status)
                 : PMPI_Waitall(count, request, status);
}

EXPORT int MPI_Waitany(int count, MPI_Request request[], int *index, MPI_Status *status) {
  return started ? wait_many(ANY, count, request, index, NULL, status)
                 : PMPI_Waitany(count, request, index, status);
}

EXPORT int MPI_Waitsome(int count, MPI_Request request[], int *done, int indices[],
                        MPI_Status status[]) {
  return started ? wait_many(SOME, count, request, done, indices, status)
                 : PMPI_Waitsome(count, request, done, indices, status);
}

/* ---- sending ------------------------------------------------------------- */

static int finish_send(MPI_Request *request, MPI_Comm comm, int rank) {
  struct mr_rank *partner = line_of(comm, rank);
  mr_ring(partner, MR_NEED_MESSAGE);
  int rc = wait_one(request, MPI_STATUS_IGNORE, 1u << MR_NEED_RECEIVER, partner);
  mr_ring(partner, MR_NEED_MESSAGE); /* its last piece */
  return rc;
}

#define SEND(name, start)                                                                          \
  EXPORT int MPI_##name(const void *buffer, int count, MPI_Datatype type, int rank, int tag,       \
                        MPI_Comm comm) {                                                           \
    MPI_Request request;                                                                           \
    if (!started)                                                                                  \
      return PMPI_##name(buffer, count, type, rank, tag, comm);                                    \
    int rc = PMPI_##start(buffer, count, type, rank, tag, comm, &request);                         \
    return rc == MPI_SUCCESS ? finish_send(&request, comm, rank) : rc;                             \
  }
SEND(Send, Isend)
SEND(Ssend, Issend)
SEND(Rsend, Irsend)

EXPORT int MPI_Bsend(const void *buffer, int count, MPI_Datatype type, int rank, int tag,
                     MPI_Comm comm) {
  int rc = PMPI_Bsend(buffer, count, type, rank, tag, comm);
  if (rc == MPI_SUCCESS)
    sent_to(comm, rank);
  return rc;
}

#define START_SEND(name)                                                                           \
  EXPORT int MPI_##name(const void *buffer, int count, MPI_Datatype type, int rank, int tag,       \
                        MPI_Comm comm, MPI_Request *request) {                                     \
    int rc = PMPI_##name(buffer, count, type, rank, tag, comm, request);                           \
    if (rc == MPI_SUCCESS)                                                                         \
      sent_to(comm, rank);                                                                         \
    return rc;                                                                                     \
  }
START_SEND(Isend)
START_SEND(Ibsend)
START_SEND(Issend)
START_SEND(Irsend)

/* Persistent requests do not say whom they are for. */
EXPORT int MPI_Start(MPI_Request *request) {
  int rc = PMPI_Start(request);
  if (started)
    mr_ring_all(MR_NEED_MESSAGE);
  received();
  return rc;
}

EXPORT int MPI_Startall(int count, MPI_Request request[]) {
  int rc = PMPI_Startall(count, request);
  if (started)
    mr_ring_all(MR_NEED_MESSAGE);
  received();
  return rc;
}

/* ---- receiving ----------------------------------------------------------- */

static int finish_receive(MPI_Request *request, MPI_Comm comm, int rank, MPI_Status *status) {
  struct mr_rank *partner = line_of(comm, rank);
  mr_ring(partner, MR_NEED_RECEIVER);
  int rc = wait_one(request, status, 1u << MR_NEED_MESSAGE, partner);
  received();
  return rc;
}

/* From MPI_PROC_NULL: a request would lose the source. */
EXPORT int MPI_Recv(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
                    MPI_Status *status) {
  MPI_Request request;
  if (!started || rank == MPI_PROC_NULL)
    return PMPI_Recv(buffer, count, type, rank, tag, comm, status);
  int rc = PMPI_Irecv(buffer, count, type, rank, tag, comm, &request);
  return rc == MPI_SUCCESS ? finish_receive(&request, comm, rank, status) : rc;
}

EXPORT int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
                     MPI_Request *request) {
  int rc = PMPI_Irecv(buffer, count, type, rank, tag, comm, request);
  received();
  return rc;
}

EXPORT int MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message,
                     MPI_Status *status) {
  MPI_Request request;
  if (!started || message == NULL || *message == MPI_MESSAGE_NO_PROC)
    return PMPI_Mrecv(buffer, count, type, message, status);
  int rc = PMPI_Imrecv(buffer, count, type, message, &request);
  if (rc != MPI_SUCCESS)
    return rc;
  received();
  rc = wait_one(&request, status, 1u << MR_NEED_MESSAGE, NULL);
  received();
  return rc;
}

struct probe {
  struct mr_waiting waiting; /* first: a question gets its address */
  int rank, tag;
  MPI_Comm comm;
  MPI_Message *message; /* NULL: none is taken */
  MPI_Status *status;
  int flag, rc;
};

static bool probed(struct mr_waiting *waiting) {
  struct probe *p = (struct probe *)waiting;
  if (!p->flag && p->rc == MPI_SUCCESS)
    p->rc = p->message == NULL
                ? PMPI_Iprobe(p->rank, p->tag, p->comm, &p->flag, p->status)
                : PMPI_Improbe(p->rank, p->tag, p->comm, &p->flag, p->message, p->status);
  return p->flag || p->rc != MPI_SUCCESS;
}

static int probe(int rank, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
  struct mr_rank *partner = line_of(comm, rank);
  struct probe p = {
      .waiting = {.needs = 1u << MR_NEED_MESSAGE, .known = partner != NULL, .done = probed},
      .rank = rank,
      .tag = tag,
      .comm = comm,
      .message = message,
      .status = status,
      .rc = MPI_SUCCESS};
  wait_until(&p.waiting);
  return p.rc;
}

EXPORT int MPI_Probe(int rank, int tag, MPI_Comm comm, MPI_Status *status) {
  return started ? probe(rank, tag, comm, NULL, status) : PMPI_Probe(rank, tag, comm, status);
}

EXPORT int MPI_Mprobe(int rank, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
  return started && message != NULL ? probe(rank, tag, comm, message, status)
                                    : PMPI_Mprobe(rank, tag, comm, message, status);
}

/* ---- both ---------------------------------------------------------------- */

static void withdraw(MPI_Request *receive) {
  PMPI_Cancel(receive);
  PMPI_Wait(receive, MPI_STATUS_IGNORE);
}

static int finish_both(MPI_Request request[2], MPI_Comm comm, int to, MPI_Status *status) {
  sent_to(comm, to);
  /* Each question makes progress for both. */
  int received_rc = wait_one(&request[0], status, FOR_MESSAGES, NULL);
  received();
  int sent_rc = wait_one(&request[1], MPI_STATUS_IGNORE, FOR_MESSAGES, NULL);
  sent_to(comm, to);
  return received_rc != MPI_SUCCESS ? received_rc : sent_rc;
}

EXPORT int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag,
                        void *in, int in_count, MPI_Datatype in_type, int from, int in_tag,
                        MPI_Comm comm, MPI_Status *status) {
  MPI_Request request[2];
  if (!started || to == MPI_PROC_NULL || from == MPI_PROC_NULL)
    goto pass;
  int rc = PMPI_Irecv(in, in_count, in_type, from, in_tag, comm, &request[0]);
  if (rc != MPI_SUCCESS)
    return rc;
  rc = PMPI_Isend(out, out_count, out_type, to, out_tag, comm, &request[1]);
  if (rc == MPI_SUCCESS)
    return finish_both(request, comm, to, status);
  withdraw(&request[0]);
  return rc;
pass:
  rc = PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag,
                     comm, status);
  if (rc == MPI_SUCCESS)
    sent_to(comm, to);
  return rc;
}

/* The message as it was, for the buffer is received into; NULL: no memory, too large, or
 * wrong arguments. */
static void *packed(const void *buffer, int count, MPI_Datatype type, MPI_Comm comm, int *size) {
  int room, used = 0, bytes;
  /* MPI_Pack counts in int. */
  if (PMPI_Type_size(type, &bytes) != MPI_SUCCESS || bytes < 0 ||
      (long long)bytes * count > INT_MAX / 2)
    return NULL;
  if (PMPI_Pack_size(count, type, comm, &room) != MPI_SUCCESS)
    return NULL;
  void *copy = malloc((size_t)room + 1);
  if (copy != NULL && PMPI_Pack(buffer, count, type, copy, room, &used, comm) != MPI_SUCCESS) {
    free(copy);
    return NULL;
  }
  *size = used;
  return copy;
}

static int replace(void *buffer, int count, MPI_Datatype type, int to, int out_tag, int from,
                   int in_tag, MPI_Comm comm, MPI_Status *status, void *copy, int size) {
  MPI_Request request[2];
  int rc = PMPI_Irecv(buffer, count, type, from, in_tag, comm, &request[0]);
  if (rc != MPI_SUCCESS)
    return rc;
  rc = PMPI_Isend(copy, size, MPI_PACKED, to, out_tag, comm, &request[1]);
  if (rc == MPI_SUCCESS)
    return finish_both(request, comm, to, status);
  withdraw(&request[0]);
  return rc;
}

EXPORT int MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int to, int out_tag,
                                int from, int in_tag, MPI_Comm comm, MPI_Status *status) {
  int size;
  void *copy = NULL;
  /* MPICH does not pack from MPI_BOTTOM. */
  if (started && buffer != MPI_BOTTOM && to >= 0 && (from >= 0 || from == MPI_ANY_SOURCE) &&
      count >= 0 && type != MPI_DATATYPE_NULL && mr_comm_of(comm) != NULL)
    copy = packed(buffer, count, type, comm, &size);
  if (copy == NULL)
    return PMPI_Sendrecv_replace(buffer, count, type, to, out_tag, from, in_tag, comm, status);
  int rc = replace(buffer, count, type, to, out_tag, from, in_tag, comm, status, copy, size);
  free(copy);
  return rc;
}

/* ---- collective operations ----------------------------------------------- */

/* Who waits for whom: everybody for the last to come, or some for each. */
enum shape { TOWARDS_ALL, PAIRWISE };

struct collective {
  struct mr_waiting waiting; /* first: a question gets its address */
  MPI_Request request;
  struct mr_comm *comm;
  int flag, rc;
};

/* NULL: this operation must pass. */
static struct mr_comm *replaceable(MPI_Comm comm) {
  struct mr_comm *c = started ? mr_comm_of(comm) : NULL;
  return c != NULL && c->inside && c->members > 1 && mr_job_whole() ? c : NULL;
}

static bool collective_complete(struct mr_waiting *waiting) {
  struct collective *c = (struct collective *)waiting;
  if (!c->flag && c->rc == MPI_SUCCESS)
    c->rc = PMPI_Test(&c->request, &c->flag, MPI_STATUS_IGNORE);
  return c->flag || c->rc != MPI_SUCCESS;
}

static void ring_members(const struct mr_comm *c) {
  for (int i = 0; i < c->members; i++)
    mr_ring(mr_rank_line(c->member[i]), MR_NEED_COLLECTIVE);
}

static void step_members(struct mr_waiting *waiting) {
  ring_members(((struct collective *)waiting)->comm);
}

static bool all_entered(const struct mr_comm *c) {
  for (int i = 0; i < c->members; i++) {
    const struct mr_rank *line = mr_rank_line(c->member[i]);
    if (line == NULL || !mr_entered(line, c->hash, c->count))
      return false;
  }
  return true;
}

static int finish_collective(struct mr_comm *c, MPI_Request request, enum shape shape) {
  struct collective operation = {.waiting = {.needs = 1u << MR_NEED_COLLECTIVE,
                                             .known = true,
                                             .done = collective_complete,
                                             .pass_on = step_members},
                                 .request = request,
                                 .comm = c,
                                 .rc = MPI_SUCCESS};
  mr_enter(c->hash, ++c->count);
  if (shape == PAIRWISE || all_entered(c))
    ring_members(c);
  wait_until(&operation.waiting);
  ring_members(c);
  return operation.rc;
}

#define COLLECTIVE(name, start, shape, formal, ...)                                                \
  EXPORT int MPI_##name formal {                                                                   \
    struct mr_comm *kept = replaceable(comm);                                                      \
    if (kept == NULL)                                                                              \
      return PMPI_##name(__VA_ARGS__);                                                             \
    MPI_Request request;                                                                           \
    int rc = PMPI_##start(__VA_ARGS__, &request);                                                  \
    return rc == MPI_SUCCESS ? finish_collective(kept, request, shape) : rc;                       \
  }

COLLECTIVE(Barrier, Ibarrier, TOWARDS_ALL, (MPI_Comm comm), comm)
COLLECTIVE(Bcast, Ibcast, PAIRWISE,
           (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm), buffer, count,
           type, root, comm)
COLLECTIVE(Gather, Igather, PAIRWISE,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
            MPI_Datatype in_type, int root, MPI_Comm comm),
           out, out_count, out_type, in, in_count, in_type, root, comm)
COLLECTIVE(Gatherv, Igatherv, PAIRWISE,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, const int in_counts[],
            const int in_places[], MPI_Datatype in_type, int root, MPI_Comm comm),
           out, out_count, out_type, in, in_counts, in_places, in_type, root, comm)
COLLECTIVE(Scatter, Iscatter, PAIRWISE,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
            MPI_Datatype in_type, int root, MPI_Comm comm),
           out, out_count, out_type, in, in_count, in_type, root, comm)
COLLECTIVE(Scatterv, Iscatterv, PAIRWISE,
           (const void *out, const int out_counts[], const int out_places[], MPI_Datatype out_type,
            void *in, int in_count, MPI_Datatype in_type, int root, MPI_Comm comm),
           out, out_counts, out_places, out_type, in, in_count, in_type, root, comm)
COLLECTIVE(Allgather, Iallgather, TOWARDS_ALL,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
            MPI_Datatype in_type, MPI_Comm comm),
           out, out_count, out_type, in, in_count, in_type, comm)
COLLECTIVE(Allgatherv, Iallgatherv, TOWARDS_ALL,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, const int in_counts[],
            const int in_places[], MPI_Datatype in_type, MPI_Comm comm),
           out, out_count, out_type, in, in_counts, in_places, in_type, comm)
COLLECTIVE(Alltoall, Ialltoall, TOWARDS_ALL,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
            MPI_Datatype in_type, MPI_Comm comm),
           out, out_count, out_type, in, in_count, in_type, comm)
COLLECTIVE(Alltoallv, Ialltoallv, TOWARDS_ALL,
           (const void *out, const int out_counts[], const int out_places[], MPI_Datatype out_type,
            void *in, const int in_counts[], const int in_places[], MPI_Datatype in_type,
            MPI_Comm comm),
           out, out_counts, out_places, out_type, in, in_counts, in_places, in_type, comm)
COLLECTIVE(Alltoallw, Ialltoallw, TOWARDS_ALL,
           (const void *out, const int out_counts[], const int out_places[],
            const MPI_Datatype out_types[], void *in, const int in_counts[], const int in_places[],
            const MPI_Datatype in_types[], MPI_Comm comm),
           out, out_counts, out_places, out_types, in, in_counts, in_places, in_types, comm)
COLLECTIVE(Reduce, Ireduce, PAIRWISE,
           (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, int root,
            MPI_Comm comm),
           out, in, count, type, op, root, comm)
COLLECTIVE(Allreduce, Iallreduce, TOWARDS_ALL,
           (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), out,
           in, count, type, op, comm)
COLLECTIVE(Reduce_scatter, Ireduce_scatter, TOWARDS_ALL,
           (const void *out, void *in, const int in_counts[], MPI_Datatype type, MPI_Op op,
            MPI_Comm comm),
           out, in, in_counts, type, op, comm)
COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, TOWARDS_ALL,
           (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), out,
           in, count, type, op, comm)
COLLECTIVE(Scan, Iscan, PAIRWISE,
           (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), out,
           in, count, type, op, comm)
COLLECTIVE(Exscan, Iexscan, PAIRWISE,
           (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), out,
           in, count, type, op, comm)
COLLECTIVE(Neighbor_allgather, Ineighbor_allgather, PAIRWISE,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
            MPI_Datatype in_type, MPI_Comm comm),
           out, out_count, out_type, in, in_count, in_type, comm)
COLLECTIVE(Neighbor_allgatherv, Ineighbor_allgatherv, PAIRWISE,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, const int in_counts[],
            const int in_places[], MPI_Datatype in_type, MPI_Comm comm),
           out, out_count, out_type, in, in_counts, in_places, in_type, comm)
COLLECTIVE(Neighbor_alltoall, Ineighbor_alltoall, PAIRWISE,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
            MPI_Datatype in_type, MPI_Comm comm),
           out, out_count, out_type, in, in_count, in_type, comm)
COLLECTIVE(Neighbor_alltoallv, Ineighbor_alltoallv, PAIRWISE,
           (const void *out, const int out_counts[], const int out_places[], MPI_Datatype out_type,
            void *in, const int in_counts[], const int in_places[], MPI_Datatype in_type,
            MPI_Comm comm),
           out, out_counts, out_places, out_type, in, in_counts, in_places, in_type, comm)
COLLECTIVE(Neighbor_alltoallw, Ineighbor_alltoallw, PAIRWISE,
           (const void *out, const int out_counts[], const MPI_Aint out_places[],
            const MPI_Datatype out_types[], void *in, const int in_counts[],
            const MPI_Aint in_places[], const MPI_Datatype in_types[], MPI_Comm comm),
           out, out_counts, out_places, out_types, in, in_counts, in_places, in_types, comm)
