/* calls.h: the functions of MPI that are replaced, with their numbers of arguments.
 * All else of an MPI is left alone. */
#ifndef MARU_PRELOAD_MPI_CALLS_H
#define MARU_PRELOAD_MPI_CALLS_H

#define MR_MPI_CALLS(X)                                                                            \
  X(Init, 2)                                                                                       \
  X(Init_thread, 4)                                                                                \
  X(Finalize, 0)                                                                                   \
  X(Send, 6)                                                                                       \
  X(Bsend, 6)                                                                                      \
  X(Ssend, 6)                                                                                      \
  X(Rsend, 6)                                                                                      \
  X(Isend, 7)                                                                                      \
  X(Ibsend, 7)                                                                                     \
  X(Issend, 7)                                                                                     \
  X(Irsend, 7)                                                                                     \
  X(Start, 1)                                                                                      \
  X(Startall, 2)                                                                                   \
  X(Recv, 7)                                                                                       \
  X(Irecv, 7)                                                                                      \
  X(Mrecv, 5)                                                                                      \
  X(Probe, 4)                                                                                      \
  X(Mprobe, 5)                                                                                     \
  X(Sendrecv, 12)                                                                                  \
  X(Sendrecv_replace, 9)                                                                           \
  X(Wait, 2)                                                                                       \
  X(Waitall, 3)                                                                                    \
  X(Waitany, 4)                                                                                    \
  X(Waitsome, 5)                                                                                   \
  X(Barrier, 1)                                                                                    \
  X(Bcast, 5)                                                                                      \
  X(Gather, 8)                                                                                     \
  X(Gatherv, 9)                                                                                    \
  X(Scatter, 8)                                                                                    \
  X(Scatterv, 9)                                                                                   \
  X(Allgather, 7)                                                                                  \
  X(Allgatherv, 8)                                                                                 \
  X(Alltoall, 7)                                                                                   \
  X(Alltoallv, 9)                                                                                  \
  X(Alltoallw, 9)                                                                                  \
  X(Reduce, 7)                                                                                     \
  X(Allreduce, 6)                                                                                  \
  X(Reduce_scatter, 6)                                                                             \
  X(Reduce_scatter_block, 6)                                                                       \
  X(Scan, 6)                                                                                       \
  X(Exscan, 6)                                                                                     \
  X(Neighbor_allgather, 7)                                                                         \
  X(Neighbor_allgatherv, 8)                                                                        \
  X(Neighbor_alltoall, 7)                                                                          \
  X(Neighbor_alltoallv, 9)                                                                         \
  X(Neighbor_alltoallw, 9)

#endif
