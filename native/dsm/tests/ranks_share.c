/* Description: what a rank has of its host's workers, by what the launcher says of how ranks are
 * spread over hosts. */
#define _GNU_SOURCE
#include "../ranks.h"

#include "check.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned of_host(const char *tasks, const char *host) {
  CHECK(setenv("SLURM_STEP_TASKS_PER_NODE", tasks, 1) == 0);
  CHECK(host == NULL ? unsetenv("SLURM_NODEID") == 0 : setenv("SLURM_NODEID", host, 1) == 0);
  return maru_ranks_share(60);
}

static void slurm(void) {
  CHECK(of_host("2", "0") == 30);
  CHECK(of_host("2,1", "0") == 30);
  CHECK(of_host("2,1", "1") == 60);
  CHECK(of_host("1,3", "1") == 20);
  CHECK(of_host("2(x2),1", "1") == 30);
  CHECK(of_host("2(x2),1", "2") == 60);
  CHECK(of_host("4(x2),3,2(x1000)", "2") == 20);
  CHECK(of_host("4(x2),3,2(x1000)", "1002") == 30);
  CHECK(of_host("64", "0") == 1);
  CHECK(of_host("2,1", NULL) == 30);
  /* What is no list, or has no such host, says nothing. */
  CHECK(of_host("2,1", "2") == 60);
  CHECK(of_host("2(x2,3", "0") == 60);
  CHECK(of_host("", "0") == 60);
  CHECK(of_host("-2,3", "1") == 60);
  CHECK(of_host("many", "0") == 60);
}

int main(void) {
  static const char *const others[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) < 0 ||
      CPU_COUNT(&mine) < sysconf(_SC_NPROCESSORS_ONLN))
    return 77; /* a rank that is bound shares with nobody */
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    CHECK(unsetenv(others[i]) == 0);
  slurm();
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    CHECK(setenv(others[i], "3", 1) == 0);
    CHECK(maru_ranks_share(60) == 20);
    CHECK(unsetenv(others[i]) == 0);
  }
  return 0;
}
