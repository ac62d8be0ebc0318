/* Description: the daemon finds every user's runs, and lets go of those that
 * have ended.
 *
 *     search PROGRAM
 *
 * In a process namespace of its own, so that it looks at nobody else's.  A user
 * with more boards than there is room for shuts nobody out; a board whose
 * header names somebody who lives for ever goes with its processes, and one
 * that names nobody is kept. */
#define _GNU_SOURCE
#include "boost.h"

#include "task.h"

#include <sys/mount.h>

#define CROWD 40

static const char *program;

static void make_board(struct maru_board *board, struct maru_wait_table **table) {
  struct maru_channel *channel;
  CHECK_EQUAL(maru_board_create(board, 1 << 20), 0);
  CHECK_EQUAL(maru_channel_register(board, 0, 0, &channel), 0);
  CHECK_EQUAL(maru_wait_table_of(board, table), 0);
}

/* The header's owner, whom nobody may believe: its fourth word. */
static void name_owner(struct maru_board *board, int32_t pid) {
  atomic_store(&((_Atomic int32_t *)board->base)[3], pid);
}

/* The calling thread waits for what is there. */
static void show_self(struct maru_wait_table *table) {
  struct maru_channel *line = &table->channels[0];
  atomic_store(&line->word, 2);
  atomic_store(&line->want, 2);
  atomic_store(&line->mask, ~1u);
  atomic_store(&line->until_equal, 1);
  atomic_store(&line->start, mr_start_time(getpid()));
  atomic_store(&line->tid, getpid());
  atomic_store(&line->state, MARU_CHANNEL_AWAKE);
}

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

static void one_run(void *owner) {
  struct maru_board board;
  struct maru_wait_table *table;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  make_board(&board, &table);
  name_owner(&board, *(int32_t *)owner);
  show_self(table);
  for (;;)
    usleep(1000);
}

static pid_t search(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execl(program, program, "--policy", "pb", "--boost", "fifo", "--period-us", "5000", "--for-ms",
          "60000", "--json", NULL);
    _exit(127);
  }
  return pid;
}

static void until_raised(pid_t pid) {
  int64_t last = maru_now_ns() + LONG_ENOUGH;
  struct mr_sched now = {0};
  while (now.policy != SCHED_FIFO) {
    CHECK(maru_now_ns() < last);
    CHECK_EQUAL(mr_sched_get(pid, &now), 0);
    usleep(500);
  }
}

/* How many boards the daemon's worker has mapped. */
static unsigned boards_of(pid_t guard) {
  char path[64], line[512];
  unsigned count = 0;
  snprintf(path, sizeof path, "/proc/%d/maps", child_of(guard));
  FILE *file = fopen(path, "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    count += strstr(line, "memfd:maru-board ") != NULL;
  if (file != NULL)
    fclose(file);
  return count;
}

static void end(pid_t pid) {
  kill(pid, SIGKILL);
  CHECK_EQUAL(finish(pid), SIGKILL);
}

static void inside(void *unused) {
  (void)unused;
  CHECK_EQUAL(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
  if (mount("proc", "/proc", "proc", 0, NULL) < 0)
    _exit(77);
  int32_t nobody = 999999, first = 1;
  pid_t many = start(crowd, NULL);
  usleep(100000);
  pid_t run = start(one_run, &nobody);
  pid_t daemon = search();
  until_raised(run);
  CHECK(boards_of(daemon) <= 9);
  end(many);
  end(run);
  run = start(one_run, &first);
  until_raised(run);
  end(run);
  int64_t last = maru_now_ns() + LONG_ENOUGH;
  while (boards_of(daemon) > 0) {
    CHECK(maru_now_ns() < last);
    usleep(10000);
  }
  kill(daemon, SIGTERM);
  CHECK_EQUAL(finish(daemon), 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  need_root();
  program = argv[1];
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
    skip("needs a process namespace of its own");
  int status = finish(start(inside, NULL));
  /* With the namespace gone nothing can be started any more, not by a sanitizer either. */
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}
