/* list.c: the tables.  One entry a call; tests/shapes.c holds each of them. */
#include "list.h"

#include <stdio.h>
#include <string.h>

/* Open MPI.  Barrier, a dissemination without data, is the same in all.  4.1.4 to 4.1.8 have the
 * same sources of libnbc, which makes the others; Debian's 4.1.4 is what is tested. Reductions: the
 * temporary buffers of a program's own datatypes are misplaced, which predefined operations do not
 * take. Not listed: Neighbor_* (a neighbour twice: data of one side in the other's place);
 * Alltoallv and Alltoallw (equal buffers are taken for MPI_IN_PLACE, though a rank that sends
 * nothing may give them: it leaves messages behind). */
#define OPEN_MPI MR_VERSION(4, 1, 4), MR_VERSION(4, 1, 8)
static const struct mr_entry open_mpi[] = {
    {"Barrier", 0, MR_ANY_VERSION, MR_INTRA},
    {"Waitall", 0, MR_ANY_VERSION, 0},
    {"Bcast", OPEN_MPI, MR_INTRA},
    {"Gather", OPEN_MPI, MR_INTRA},
    {"Gatherv", OPEN_MPI, MR_INTRA},
    {"Scatter", OPEN_MPI, MR_INTRA},
    {"Scatterv", OPEN_MPI, MR_INTRA},
    {"Allgather", OPEN_MPI, MR_INTRA},
    {"Allgatherv", OPEN_MPI, MR_INTRA},
    {"Alltoall", OPEN_MPI, MR_INTRA},
    {"Reduce", OPEN_MPI, MR_INTRA | MR_PREDEFINED_OP},
    {"Allreduce", OPEN_MPI, MR_INTRA | MR_PREDEFINED_OP},
    {"Reduce_scatter", OPEN_MPI, MR_INTRA | MR_PREDEFINED_OP},
    {"Reduce_scatter_block", OPEN_MPI, MR_INTRA | MR_PREDEFINED_OP},
    {"Scan", OPEN_MPI, MR_INTRA | MR_PREDEFINED_OP},
    {"Exscan", OPEN_MPI, MR_INTRA | MR_PREDEFINED_OP},
};

/* MPICH.  4.0.0 to 4.0.3 have the same schedules; Debian's 4.0.2 is what is tested.
 * Waitall: MPI_Testall takes a complete persistent collective or partitioned request for an error.
 * Not listed: Alltoallw (MPI_IN_PLACE with differing datatypes), Alltoallv (its schedule in place
 * is the same one), Neighbor_*. */
#define MPICH MR_VERSION(4, 0, 0), MR_VERSION(4, 0, 3)
static const struct mr_entry mpich[] = {
    {"Barrier", 0, MR_ANY_VERSION, MR_INTRA},
    {"Waitall", 0, MR_ANY_VERSION, MR_NOT_STARTED},
    {"Bcast", MPICH, MR_INTRA},
    {"Gather", MPICH, MR_INTRA},
    {"Gatherv", MPICH, MR_INTRA},
    {"Scatter", MPICH, MR_INTRA},
    {"Scatterv", MPICH, MR_INTRA},
    {"Allgather", MPICH, MR_INTRA},
    {"Allgatherv", MPICH, MR_INTRA},
    {"Alltoall", MPICH, MR_INTRA},
    {"Reduce", MPICH, MR_INTRA | MR_PREDEFINED_OP},
    {"Allreduce", MPICH, MR_INTRA | MR_PREDEFINED_OP},
    {"Reduce_scatter", MPICH, MR_INTRA | MR_PREDEFINED_OP},
    {"Reduce_scatter_block", MPICH, MR_INTRA | MR_PREDEFINED_OP},
    {"Scan", MPICH, MR_INTRA | MR_PREDEFINED_OP},
    {"Exscan", MPICH, MR_INTRA | MR_PREDEFINED_OP},
};

static const struct {
  const struct mr_entry *entries;
  size_t count;
} lists[MR_MPI_KINDS] = {
    [MR_OPEN_MPI] = {open_mpi, sizeof open_mpi / sizeof *open_mpi},
    [MR_MPICH] = {mpich, sizeof mpich / sizeof *mpich},
};

const struct mr_entry *mr_listed(enum mr_mpi_kind kind, mr_version version, const char *call) {
  for (size_t i = 0; i < lists[kind].count; i++) {
    const struct mr_entry *entry = &lists[kind].entries[i];
    if (version >= entry->first && version <= entry->last && strcmp(entry->call, call) == 0)
      return entry;
  }
  return NULL;
}

mr_version mr_version_in(const char *text) {
  unsigned major, minor, patch = 0;
  /* "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\n...". */
  if (sscanf(text, "Open MPI v%u.%u.%u", &major, &minor, &patch) < 2 &&
      sscanf(text, "MPICH Version: %u.%u.%u", &major, &minor, &patch) < 2)
    return 0;
  return minor < 100 && patch < 100 && major < 1000 ? MR_VERSION(major, minor, patch) : 0;
}
