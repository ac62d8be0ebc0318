/* collectives.c: collective operations as their non-blocking forms, where the list has them. */
#include "shim.h"

#include <maru/wait.h>
#include <stdio.h>

/* Which ranks wait for which: all for the last to come, or some for each. */
enum order { TOWARDS_ALL, PAIRWISE };

#define OPERATIONS(X)                                                                              \
  X(Barrier)                                                                                       \
  X(Bcast)                                                                                         \
  X(Gather)                                                                                        \
  X(Gatherv)                                                                                       \
  X(Scatter)                                                                                       \
  X(Scatterv)                                                                                      \
  X(Allgather)                                                                                     \
  X(Allgatherv)                                                                                    \
  X(Alltoall)                                                                                      \
  X(Alltoallv)                                                                                     \
  X(Alltoallw)                                                                                     \
  X(Reduce)                                                                                        \
  X(Allreduce)                                                                                     \
  X(Reduce_scatter)                                                                                \
  X(Reduce_scatter_block)                                                                          \
  X(Scan)                                                                                          \
  X(Exscan)                                                                                        \
  X(Neighbor_allgather)                                                                            \
  X(Neighbor_allgatherv)                                                                           \
  X(Neighbor_alltoall)                                                                             \
  X(Neighbor_alltoallv)                                                                            \
  X(Neighbor_alltoallw)

enum operation {
#define NUMBER(name) DO_##name,
  OPERATIONS(NUMBER)
#undef NUMBER
      DO_OPERATIONS
};

static const char *const names[DO_OPERATIONS] = {
#define NAME(name) #name,
    OPERATIONS(NAME)
#undef NAME
};

/* NULL: it passes.  Written by mr_collectives_start, before threads can call. */
static const struct mr_entry *listed[DO_OPERATIONS];

void mr_collectives_start(void) {
  for (int i = 0; i < DO_OPERATIONS; i++)
    listed[i] = mr_shim_listed(names[i]);
}

struct collective {
  struct mr_waiting waiting; /* first: a question gets its address */
  MPI_Request request;
  struct mr_comm *comm;
  int flag, rc;
};

__attribute__((cold)) static void say_passes(enum operation operation, const char *why) {
  mr_say_once((unsigned)operation, "MPI_%s passes: %s %s", names[operation], why, mr_mpi_name);
}

/* NULL: this operation must pass, or has ended with the error `refused`.  Every rank of the
 * communicator gets the same answer. */
static inline struct mr_comm *replaceable(enum operation operation, MPI_Comm comm, int *refused) {
  struct mr_comm *c = mr_started ? mr_comm_of(comm) : NULL;
  *refused = mr_started && c == NULL ? mr_comm_last.refused : MPI_SUCCESS;
  /* Members that have agreed belong to a job that is whole. */
  if (c == NULL || !c->inside || c->members < 2 || !(c->pact.own || mr_job_whole()))
    return NULL;
  if (listed[operation] == NULL)
    say_passes(operation, "not on the list for");
  else if (c->inter && listed[operation]->shapes & MR_INTRA)
    say_passes(operation, "on an intercommunicator not on the list for");
  else
    return c;
  return NULL;
}

/* Whether the list leaves out what the arguments lack, bits of enum mr_shape. */
static inline bool left_out(enum operation operation, unsigned lacking) {
  if ((listed[operation]->shapes & lacking) == 0)
    return false;
  say_passes(operation, "with an operation of the program's own not on the list for");
  return true;
}

/* A rank that gives none by mistake has its error from the non-blocking form: others may give one.
 */
static unsigned own_op(MPI_Op op) {
  static const MPI_Op known[] = {MPI_SUM,    MPI_MAX,    MPI_MIN,    MPI_PROD, MPI_LAND,
                                 MPI_BAND,   MPI_LOR,    MPI_BOR,    MPI_LXOR, MPI_BXOR,
                                 MPI_MINLOC, MPI_MAXLOC, MPI_OP_NULL};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (op == known[i])
      return 0;
  return MR_PREDEFINED_OP;
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

static int finish_collective(struct mr_comm *c, MPI_Request request, enum order order) {
  struct collective operation = {.waiting = {.needs = 1u << MR_NEED_COLLECTIVE,
                                             .known = true,
                                             .done = collective_complete,
                                             .pass_on = step_members},
                                 .request = request,
                                 .comm = c,
                                 .rc = MPI_SUCCESS};
  mr_enter(c->hash, c->count);
  if (order == PAIRWISE || all_entered(c))
    ring_members(c);
  mr_wait_until(&operation.waiting);
  ring_members(c);
  return operation.rc;
}

/* ---- the MPI's own, while it is calm --------------------------------------- */

/* Blocking operations do not match non-blocking ones: the members must change from one to the other
 * at the same operation.  So they agree, by a reduction of their own, before an operation whose
 * number they know alike.  Only one in which all wait for all anyway: a program may rely on a
 * broadcast's root not waiting. */
#define PACT_LEAST 4u
#define PACT_MOST 128u
#define PACT_SHIM 32u             /* at least, while all wait by the shim: nothing hurries then */
#define PACT_NS INT64_C(2000000)  /* between two agreements, about */
#define PACT_LASTS 4u             /* times what it was made for; then all wait by the shim */
#define QUICK_NS INT64_C(1000000) /* an operation and the time before it; else all use the shim */

static int largest_of_all(struct mr_comm *c, MPI_Comm comm, const long long own[2],
                          long long all[2]) {
  if (c->pact.own)
    return PMPI_Allreduce(own, all, 2, MPI_LONG_LONG, MPI_MAX, comm);
  MPI_Request request;
  int rc = PMPI_Iallreduce(own, all, 2, MPI_LONG_LONG, MPI_MAX, comm, &request);
  return rc == MPI_SUCCESS ? finish_collective(c, request, TOWARDS_ALL) : rc;
}

__attribute__((noinline)) static void agree(struct mr_comm *c, MPI_Comm comm) {
  int64_t now_ns = maru_now_ns();
  long long own[2] = {!mr_calm(), now_ns - c->pact.since_ns}, all[2] = {1, 0};
  bool agreed = largest_of_all(c, comm, own, all) == MPI_SUCCESS;
  uint32_t made = c->count - (c->pact.next - c->pact.every);
  double each_ns = c->pact.every > 0 ? (double)all[1] / made : QUICK_NS;
  bool own_ones = agreed && all[0] == 0 && each_ns < QUICK_NS;
  double wanted = each_ns * PACT_MOST > PACT_NS ? PACT_NS / each_ns : PACT_MOST;
  uint32_t every = (uint32_t)wanted, least = own_ones ? PACT_LEAST : PACT_SHIM;
  c->pact =
      (struct mr_pact){.own = own_ones, .every = every > least ? every : least, .since_ns = now_ns};
  c->pact.next = ++c->count + c->pact.every;
}

static inline bool mpi_waits(struct mr_comm *c, MPI_Comm comm, enum order order) {
  if ((int32_t)(c->count - c->pact.next) >= 0 && order == TOWARDS_ALL &&
      listed[DO_Allreduce] != NULL && mr_job_agrees())
    agree(c, comm);
  c->count++;
  bool own =
      c->pact.own && (int32_t)(c->count - c->pact.next) < (int32_t)(PACT_LASTS * c->pact.every);
  if (own)
    mr_count_own();
  return own;
}

/* Open MPI 4 has the second name. */
extern int PMPI_Barrier_init(MPI_Comm comm, MPI_Info info, MPI_Request *request)
    __attribute__((weak));
extern int PMPIX_Barrier_init(MPI_Comm comm, MPI_Info info, MPI_Request *request)
    __attribute__((weak));

/* Non-blocking operations match by their number at each rank.  One whose start fails for this
 * rank's own arguments takes none, and no later one would match those of ranks that did not fail.
 * Making a persistent operation takes the number, and sends nothing. */
__attribute__((cold)) static int take_number(MPI_Comm comm, int rc) {
  MPI_Request request;
  int (*make)(MPI_Comm, MPI_Info, MPI_Request *) =
      PMPI_Barrier_init != NULL ? PMPI_Barrier_init : PMPIX_Barrier_init;
  if (make != NULL && make(comm, MPI_INFO_NULL, &request) == MPI_SUCCESS)
    (void)PMPI_Request_free(&request);
  return rc;
}

#define COLLECTIVE(name, start, order, lacking, formal, ...)                                       \
  EXPORT int MPI_##name formal {                                                                   \
    int refused;                                                                                   \
    struct mr_comm *kept = replaceable(DO_##name, comm, &refused);                                 \
    if (refused != MPI_SUCCESS)                                                                    \
      return refused;                                                                              \
    if (kept == NULL || left_out(DO_##name, lacking) || mpi_waits(kept, comm, order))              \
      return PMPI_##name(__VA_ARGS__);                                                             \
    MPI_Request request;                                                                           \
    int rc = PMPI_##start(__VA_ARGS__, &request);                                                  \
    return rc == MPI_SUCCESS ? finish_collective(kept, request, order) : take_number(comm, rc);    \
  }

COLLECTIVE(Barrier, Ibarrier, TOWARDS_ALL, 0, (MPI_Comm comm), comm)
COLLECTIVE(Bcast, Ibcast, PAIRWISE, 0,
           (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm), buffer, count,
           type, root, comm)
COLLECTIVE(Gather, Igather, PAIRWISE, 0,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
            MPI_Datatype in_type, int root, MPI_Comm comm),
           out, out_count, out_type, in, in_count, in_type, root, comm)
COLLECTIVE(Gatherv, Igatherv, PAIRWISE, 0,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, const int in_counts[],
            const int in_places[], MPI_Datatype in_type, int root, MPI_Comm comm),
           out, out_count, out_type, in, in_counts, in_places, in_type, root, comm)
COLLECTIVE(Scatter, Iscatter, PAIRWISE, 0,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
            MPI_Datatype in_type, int root, MPI_Comm comm),
           out, out_count, out_type, in, in_count, in_type, root, comm)
COLLECTIVE(Scatterv, Iscatterv, PAIRWISE, 0,
           (const void *out, const int out_counts[], const int out_places[], MPI_Datatype out_type,
            void *in, int in_count, MPI_Datatype in_type, int root, MPI_Comm comm),
           out, out_counts, out_places, out_type, in, in_count, in_type, root, comm)
COLLECTIVE(Allgather, Iallgather, TOWARDS_ALL, 0,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
            MPI_Datatype in_type, MPI_Comm comm),
           out, out_count, out_type, in, in_count, in_type, comm)
COLLECTIVE(Allgatherv, Iallgatherv, TOWARDS_ALL, 0,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, const int in_counts[],
            const int in_places[], MPI_Datatype in_type, MPI_Comm comm),
           out, out_count, out_type, in, in_counts, in_places, in_type, comm)
COLLECTIVE(Alltoall, Ialltoall, TOWARDS_ALL, 0,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
            MPI_Datatype in_type, MPI_Comm comm),
           out, out_count, out_type, in, in_count, in_type, comm)
COLLECTIVE(Alltoallv, Ialltoallv, TOWARDS_ALL, 0,
           (const void *out, const int out_counts[], const int out_places[], MPI_Datatype out_type,
            void *in, const int in_counts[], const int in_places[], MPI_Datatype in_type,
            MPI_Comm comm),
           out, out_counts, out_places, out_type, in, in_counts, in_places, in_type, comm)
COLLECTIVE(Alltoallw, Ialltoallw, TOWARDS_ALL, 0,
           (const void *out, const int out_counts[], const int out_places[],
            const MPI_Datatype out_types[], void *in, const int in_counts[], const int in_places[],
            const MPI_Datatype in_types[], MPI_Comm comm),
           out, out_counts, out_places, out_types, in, in_counts, in_places, in_types, comm)
COLLECTIVE(Reduce, Ireduce, PAIRWISE, own_op(op),
           (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, int root,
            MPI_Comm comm),
           out, in, count, type, op, root, comm)
COLLECTIVE(Allreduce, Iallreduce, TOWARDS_ALL, own_op(op),
           (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), out,
           in, count, type, op, comm)
COLLECTIVE(Reduce_scatter, Ireduce_scatter, TOWARDS_ALL, own_op(op),
           (const void *out, void *in, const int in_counts[], MPI_Datatype type, MPI_Op op,
            MPI_Comm comm),
           out, in, in_counts, type, op, comm)
COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, TOWARDS_ALL, own_op(op),
           (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), out,
           in, count, type, op, comm)
COLLECTIVE(Scan, Iscan, PAIRWISE, own_op(op),
           (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), out,
           in, count, type, op, comm)
COLLECTIVE(Exscan, Iexscan, PAIRWISE, own_op(op),
           (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), out,
           in, count, type, op, comm)
COLLECTIVE(Neighbor_allgather, Ineighbor_allgather, PAIRWISE, 0,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
            MPI_Datatype in_type, MPI_Comm comm),
           out, out_count, out_type, in, in_count, in_type, comm)
COLLECTIVE(Neighbor_allgatherv, Ineighbor_allgatherv, PAIRWISE, 0,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, const int in_counts[],
            const int in_places[], MPI_Datatype in_type, MPI_Comm comm),
           out, out_count, out_type, in, in_counts, in_places, in_type, comm)
COLLECTIVE(Neighbor_alltoall, Ineighbor_alltoall, PAIRWISE, 0,
           (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
            MPI_Datatype in_type, MPI_Comm comm),
           out, out_count, out_type, in, in_count, in_type, comm)
COLLECTIVE(Neighbor_alltoallv, Ineighbor_alltoallv, PAIRWISE, 0,
           (const void *out, const int out_counts[], const int out_places[], MPI_Datatype out_type,
            void *in, const int in_counts[], const int in_places[], MPI_Datatype in_type,
            MPI_Comm comm),
           out, out_counts, out_places, out_type, in, in_counts, in_places, in_type, comm)
COLLECTIVE(Neighbor_alltoallw, Ineighbor_alltoallw, PAIRWISE, 0,
           (const void *out, const int out_counts[], const MPI_Aint out_places[],
            const MPI_Datatype out_types[], void *in, const int in_counts[],
            const MPI_Aint in_places[], const MPI_Datatype in_types[], MPI_Comm comm),
           out, out_counts, out_places, out_types, in, in_counts, in_places, in_types, comm)
