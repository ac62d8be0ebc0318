/* collectives.c: collective operations as their non-blocking forms. */
#include "shim.h"

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
  struct mr_comm *c = mr_started ? mr_comm_of(comm) : NULL;
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
  mr_wait_until(&operation.waiting);
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
