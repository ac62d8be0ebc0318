/* list.c: versions that are known get their entries, others what holds for all.  `test_mpi_list
 * table` prints the list as docs/wait.md has it. */
#include "list.h"

#include "check.h"

static const char *const calls[] = {"Barrier",
                                    "Bcast",
                                    "Gather",
                                    "Gatherv",
                                    "Scatter",
                                    "Scatterv",
                                    "Allgather",
                                    "Allgatherv",
                                    "Alltoall",
                                    "Reduce",
                                    "Allreduce",
                                    "Reduce_scatter",
                                    "Reduce_scatter_block",
                                    "Scan",
                                    "Exscan",
                                    "Waitall"};
#define CALLS (sizeof calls / sizeof *calls)

static void versions(void) {
  CHECK_EQUAL(mr_version_in("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"),
              MR_VERSION(4, 1, 4));
  CHECK_EQUAL(mr_version_in("Open MPI v5.0.0rc1"), MR_VERSION(5, 0, 0));
  CHECK_EQUAL(mr_version_in("MPICH Version:\t4.0.2\nMPICH Release date:\tThu"),
              MR_VERSION(4, 0, 2));
  CHECK_EQUAL(mr_version_in("MPICH Version:      4.1\n"), MR_VERSION(4, 1, 0));
  CHECK_EQUAL(mr_version_in("Intel(R) MPI Library 2021.9"), 0);
  CHECK_EQUAL(mr_version_in("Open MPI v4.100.1"), 0);
  CHECK_EQUAL(mr_version_in(""), 0);
}

static bool is_listed(enum mr_mpi_kind kind, mr_version version, const char *call) {
  return mr_listed(kind, version, call) != NULL;
}

/* The ranges of versions that were seen, in the order of docs/wait.md. */
#define RANGES 2
static const mr_version seen[MR_MPI_KINDS][RANGES][2] = {
    [MR_OPEN_MPI] = {{40104, 40108}, {50007, 50007}},
    [MR_MPICH] = {{40000, 40003}, {40201, 40201}}};

static bool in_range(int kind, mr_version version) {
  for (int i = 0; i < RANGES; i++)
    if (version >= seen[kind][i][0] && version <= seen[kind][i][1])
      return true;
  return false;
}

static void bounds(void) {
  for (int kind = 0; kind < MR_MPI_KINDS; kind++)
    for (int r = 0; r < RANGES; r++) {
      const mr_version *range = seen[kind][r];
      const mr_version asked[] = {0, range[0] - 1, range[0], range[1], range[1] + 1, 50000, 999999};
      for (size_t j = 0; j < sizeof asked / sizeof *asked; j++) {
        for (size_t i = 0; i < CALLS; i++) {
          bool always = strcmp(calls[i], "Barrier") == 0 || strcmp(calls[i], "Waitall") == 0;
          CHECK_EQUAL(is_listed(kind, asked[j], calls[i]), always || in_range(kind, asked[j]));
        }
        /* What errs is in no version. */
        CHECK(!is_listed(kind, asked[j], "Alltoallw"));
        CHECK(!is_listed(kind, asked[j], "Neighbor_alltoall"));
      }
    }
}

/* Nothing on the list may hang on what ranks do not know alike. */
static void shapes(void) {
  for (int kind = 0; kind < MR_MPI_KINDS; kind++)
    for (size_t j = 0; j < CALLS * RANGES; j++) {
      size_t i = j / RANGES;
      const struct mr_entry *e = mr_listed(kind, seen[kind][j % RANGES][0], calls[i]);
      CHECK(((e->shapes & MR_INTRA) != 0) == (strcmp(calls[i], "Waitall") != 0));
      bool reduces = strstr(calls[i], "educe") != NULL || strstr(calls[i], "can") != NULL;
      CHECK(((e->shapes & MR_PREDEFINED_OP) != 0) == reduces);
    }
}

static void print_versions(int kind, const char *call) {
  for (int r = 0; r < RANGES; r++) {
    const struct mr_entry *e = mr_listed(kind, seen[kind][r][0], call);
    if (e->last == MR_ANY_VERSION) {
      printf(" all |");
      return;
    }
    printf("%s %u.%u.%u", r > 0 ? "," : "", e->first / 10000, e->first / 100 % 100, e->first % 100);
    if (e->last > e->first)
      printf(" to %u.%u.%u", e->last / 10000, e->last / 100 % 100, e->last % 100);
  }
  printf(" |");
}

static void print_table(void) {
  for (size_t i = 0; i < CALLS; i++) {
    unsigned asked = mr_listed(MR_OPEN_MPI, seen[MR_OPEN_MPI][0][0], calls[i])->shapes |
                     mr_listed(MR_MPICH, seen[MR_MPICH][0][0], calls[i])->shapes;
    printf("| `MPI_%s` |", calls[i]);
    print_versions(MR_OPEN_MPI, calls[i]);
    print_versions(MR_MPICH, calls[i]);
    printf("%s%s%s |\n", asked & MR_INTRA ? " intracommunicators" : "",
           asked & MR_PREDEFINED_OP ? ", MPI's own operations" : "",
           asked & MR_NOT_STARTED ? " on MPICH: no persistent request started before" : "");
  }
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "table") == 0) {
    print_table();
    return 0;
  }
  versions();
  bounds();
  shapes();
  return 0;
}
