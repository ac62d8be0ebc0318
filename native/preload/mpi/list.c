/* list.c: the tables.  One entry a call; tests/shapes.c holds each of them. */
#include "list.h"

#include <stdio.h>
#include <string.h>

/* What holds in a range of versions whose non-blocking forms were seen to give what the blocking
 * ones give.  Reductions: Open MPI misplaces the temporary buffers of a program's own datatypes,
 * which predefined operations do not take.  Not listed: Neighbor_* (Open MPI, a neighbour twice:
 * data of one side in the other's place); Alltoallw (MPICH, MPI_IN_PLACE with differing datatypes);
 * Alltoallv (Open MPI: equal buffers are taken for MPI_IN_PLACE, though a rank that sends nothing
 * may give them, and it leaves messages behind; MPICH: its schedule in place is Alltoallw's). */
#define SEEN(first, last)                                                                          \
  {"Bcast", first, last, MR_INTRA}, {"Gather", first, last, MR_INTRA},                             \
      {"Gatherv", first, last, MR_INTRA}, {"Scatter", first, last, MR_INTRA},                      \
      {"Scatterv", first, last, MR_INTRA}, {"Allgather", first, last, MR_INTRA},                   \
      {"Allgatherv", first, last, MR_INTRA}, {"Alltoall", first, last, MR_INTRA},                  \
      {"Reduce", first, last, MR_INTRA | MR_PREDEFINED_OP},                                        \
      {"Allreduce", first, last, MR_INTRA | MR_PREDEFINED_OP},                                     \
      {"Reduce_scatter", first, last, MR_INTRA | MR_PREDEFINED_OP},                                \
      {"Reduce_scatter_block", first, last, MR_INTRA | MR_PREDEFINED_OP},                          \
      {"Scan", first, last, MR_INTRA | MR_PREDEFINED_OP}, {                                        \
    "Exscan", first, last, MR_INTRA | MR_PREDEFINED_OP                                             \
  }

/* Barrier, a dissemination without data, is the same in all.  4.1.4 to 4.1.8 have the same sources
 * of libnbc, which makes the others; Debian's 4.1.4 and 5.0.7 are what is tested. */
static const struct mr_entry open_mpi[] = {
    {"Barrier", 0, MR_ANY_VERSION, MR_INTRA},
    {"Waitall", 0, MR_ANY_VERSION, 0},
    SEEN(MR_VERSION(4, 1, 4), MR_VERSION(4, 1, 8)),
    SEEN(MR_VERSION(5, 0, 7), MR_VERSION(5, 0, 7)),
};

/* 4.0.0 to 4.0.3 have the same schedules; Debian's 4.0.2 and 4.2.1 are what is tested.
 * Waitall: MPI_Testall takes a complete persistent collective or partitioned request for an error.
 */
static const struct mr_entry mpich[] = {
    {"Barrier", 0, MR_ANY_VERSION, MR_INTRA},
    {"Waitall", 0, MR_ANY_VERSION, MR_NOT_STARTED},
    SEEN(MR_VERSION(4, 0, 0), MR_VERSION(4, 0, 3)),
    SEEN(MR_VERSION(4, 2, 1), MR_VERSION(4, 2, 1)),
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
