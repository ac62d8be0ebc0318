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

static void bounds(void) {
  static const mr_version inside[MR_MPI_KINDS][2] = {{40104, 40108}, {40000, 40003}};
  for (int kind = 0; kind < MR_MPI_KINDS; kind++) {
    const mr_version others[] = {0, inside[kind][0] - 1, inside[kind][1] + 1, 50000, 999999};
    for (size_t i = 0; i < CALLS; i++) {
      bool always = strcmp(calls[i], "Barrier") == 0 || strcmp(calls[i], "Waitall") == 0;
      CHECK(is_listed(kind, inside[kind][0], calls[i]) &&
            is_listed(kind, inside[kind][1], calls[i]));
      for (size_t j = 0; j < sizeof others / sizeof *others; j++)
        CHECK(is_listed(kind, others[j], calls[i]) == always);
    }
    /* What errs is in no version. */
    CHECK(!is_listed(kind, inside[kind][0], "Alltoallw"));
    CHECK(!is_listed(kind, inside[kind][0], "Neighbor_alltoall"));
  }
}

/* Nothing on the list may hang on what ranks do not know alike. */
static void shapes(void) {
  for (int kind = 0; kind < MR_MPI_KINDS; kind++)
    for (size_t i = 0; i < CALLS; i++) {
      const struct mr_entry *e = mr_listed(kind, kind == MR_OPEN_MPI ? 40104 : 40002, calls[i]);
      CHECK(((e->shapes & MR_INTRA) != 0) == (strcmp(calls[i], "Waitall") != 0));
      bool reduces = strstr(calls[i], "educe") != NULL || strstr(calls[i], "can") != NULL;
      CHECK(((e->shapes & MR_PREDEFINED_OP) != 0) == reduces);
    }
}

static void print_versions(const struct mr_entry *e) {
  if (e->last == MR_ANY_VERSION)
    printf(" all |");
  else
    printf(" %u.%u.%u to %u.%u.%u |", e->first / 10000, e->first / 100 % 100, e->first % 100,
           e->last / 10000, e->last / 100 % 100, e->last % 100);
}

static void print_table(void) {
  for (size_t i = 0; i < CALLS; i++) {
    const struct mr_entry *open = mr_listed(MR_OPEN_MPI, 40104, calls[i]);
    const struct mr_entry *mpich = mr_listed(MR_MPICH, 40002, calls[i]);
    unsigned asked = open->shapes | mpich->shapes;
    printf("| `MPI_%s` |", calls[i]);
    print_versions(open);
    print_versions(mpich);
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
