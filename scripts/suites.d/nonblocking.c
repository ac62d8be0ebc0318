/* Blocking collective operations by their non-blocking ones and PMPI_Wait, for any MPI: what a
 * program meets that maru has no part in.  Preloaded by scripts/suites. */
#include <mpi.h>

#define BY(call)                                                                                   \
  MPI_Request request;                                                                             \
  int error = PMPI_I##call;                                                                        \
  return error == MPI_SUCCESS ? PMPI_Wait(&request, MPI_STATUS_IGNORE) : error

#define ONE_TYPE void *to, int count, MPI_Datatype type, MPI_Op op
#define FROM_TO                                                                                    \
  const void *from, int sent, MPI_Datatype sends, void *to, int received, MPI_Datatype receives
#define EACH_FROM_TO                                                                               \
  const void *from, const int *sent, const int *starts, MPI_Datatype sends, void *to,              \
      const int *received, const int *places, MPI_Datatype receives
#define TYPES_FROM_TO                                                                              \
  const void *from, const int *sent, const int *starts, const MPI_Datatype *sends, void *to,       \
      const int *received, const int *places, const MPI_Datatype *receives

int MPI_Barrier(MPI_Comm comm) { BY(barrier(comm, &request)); }
int MPI_Bcast(void *to, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  BY(bcast(to, count, type, root, comm, &request));
}
int MPI_Reduce(const void *from, ONE_TYPE, int root, MPI_Comm comm) {
  BY(reduce(from, to, count, type, op, root, comm, &request));
}
int MPI_Allreduce(const void *from, ONE_TYPE, MPI_Comm comm) {
  BY(allreduce(from, to, count, type, op, comm, &request));
}
int MPI_Scan(const void *from, ONE_TYPE, MPI_Comm comm) {
  BY(scan(from, to, count, type, op, comm, &request));
}
int MPI_Exscan(const void *from, ONE_TYPE, MPI_Comm comm) {
  BY(exscan(from, to, count, type, op, comm, &request));
}
int MPI_Reduce_scatter_block(const void *from, ONE_TYPE, MPI_Comm comm) {
  BY(reduce_scatter_block(from, to, count, type, op, comm, &request));
}
int MPI_Reduce_scatter(const void *from, void *to, const int counts[], MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm) {
  BY(reduce_scatter(from, to, counts, type, op, comm, &request));
}
int MPI_Gather(FROM_TO, int root, MPI_Comm comm) {
  BY(gather(from, sent, sends, to, received, receives, root, comm, &request));
}
int MPI_Scatter(FROM_TO, int root, MPI_Comm comm) {
  BY(scatter(from, sent, sends, to, received, receives, root, comm, &request));
}
int MPI_Gatherv(const void *from, int sent, MPI_Datatype sends, void *to, const int *received,
                const int *places, MPI_Datatype receives, int root, MPI_Comm comm) {
  BY(gatherv(from, sent, sends, to, received, places, receives, root, comm, &request));
}
int MPI_Scatterv(const void *from, const int *sent, const int *starts, MPI_Datatype sends, void *to,
                 int received, MPI_Datatype receives, int root, MPI_Comm comm) {
  BY(scatterv(from, sent, starts, sends, to, received, receives, root, comm, &request));
}
int MPI_Allgather(FROM_TO, MPI_Comm comm) {
  BY(allgather(from, sent, sends, to, received, receives, comm, &request));
}
int MPI_Allgatherv(const void *from, int sent, MPI_Datatype sends, void *to, const int *received,
                   const int *places, MPI_Datatype receives, MPI_Comm comm) {
  BY(allgatherv(from, sent, sends, to, received, places, receives, comm, &request));
}
int MPI_Alltoall(FROM_TO, MPI_Comm comm) {
  BY(alltoall(from, sent, sends, to, received, receives, comm, &request));
}
int MPI_Alltoallv(EACH_FROM_TO, MPI_Comm comm) {
  BY(alltoallv(from, sent, starts, sends, to, received, places, receives, comm, &request));
}
int MPI_Alltoallw(TYPES_FROM_TO, MPI_Comm comm) {
  BY(alltoallw(from, sent, starts, sends, to, received, places, receives, comm, &request));
}
int MPI_Neighbor_allgather(FROM_TO, MPI_Comm comm) {
  BY(neighbor_allgather(from, sent, sends, to, received, receives, comm, &request));
}
int MPI_Neighbor_alltoall(FROM_TO, MPI_Comm comm) {
  BY(neighbor_alltoall(from, sent, sends, to, received, receives, comm, &request));
}
int MPI_Neighbor_alltoallv(EACH_FROM_TO, MPI_Comm comm) {
  BY(neighbor_alltoallv(from, sent, starts, sends, to, received, places, receives, comm, &request));
}
