/* Description: the daemon finds every user's runs, and lets go of those that
 * have ended.
 *
 *     search PROGRAM
 *
 * In a process namespace of its own, so that it looks at nobody else's.  A user
 * with more boards than there is room for shuts nobody out. A board whose header names a
 * process that lives for ever goes with its processes. One that names none is kept. */
#define _GNU_SOURCE
#include "runs.h"

#define CROWD 40

static const char *program;

static void crowd(void *unused) {
  static struct maru_board boards[CROWD];
  struct maru_wait_table *table;
  (void)unused;
  become(OWNER);
  for (unsigned i = 0; i < CROWD; i++)
    make_board(&boards[i], &table);
  for (;;)
    pause();
}

/* How many boards the daemon's worker has mapped. */
static unsigned boards_of(pid_t rescuer) {
  char path[64], line[512];
  unsigned count = 0;
  snprintf(path, sizeof path, "/proc/%d/maps", child_of(rescuer));
  FILE *file = fopen(path, "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    count += strstr(line, "memfd:maru-board ") != NULL;
  if (file != NULL)
    fclose(file);
  return count;
}

static void inside(void *unused) {
  (void)unused;
  mount_own_proc();
  struct run nobody = {.owner = 999999}, first = {.owner = 1};
  pid_t many = start(crowd, NULL);
  usleep(100000);
  pid_t run = start(one_run, &nobody);
  pid_t daemon = search_for(program, NULL, NULL);
  until_policy(run, SCHED_FIFO);
  CHECK(boards_of(daemon) <= 9);
  end(many);
  end(run);
  run = start(one_run, &first);
  until_policy(run, SCHED_FIFO);
  end(run);
  int64_t last = maru_now_ns() + LONG_ENOUGH;
  while (boards_of(daemon) > 0) {
    CHECK(maru_now_ns() < last);
    usleep(10000);
  }
  end_search(daemon);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  program = argv[1];
  apart(inside);
}
