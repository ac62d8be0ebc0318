/* runs.h: what the tests of the search share: runs of several users, and a daemon that looks for
 * them.
 *
 * All of it in a process namespace of the test's own (apart), so that it looks at nobody else's. */
#ifndef MARU_BOOST_TESTS_RUNS_H
#define MARU_BOOST_TESTS_RUNS_H

#include "boost.h"
#include "task.h"

#include <sys/mount.h>

/* Whose run, in what group besides, and whom its header names. */
struct run {
  uid_t user;
  gid_t group;
  int32_t owner;
};

static inline void make_board(struct maru_board *board, struct maru_wait_table **table) {
  struct maru_channel *channel;
  CHECK_EQUAL(maru_board_create(board, 1 << 20), 0);
  CHECK_EQUAL(maru_channel_register(board, 0, 0, &channel), 0);
  CHECK_EQUAL(maru_wait_table_of(board, table), 0);
}

/* The header's owner, whom nobody may believe: its fourth word. */
static inline void name_owner(struct maru_board *board, int32_t pid) {
  atomic_store(&((_Atomic int32_t *)board->base)[3], pid);
}

/* The calling thread waits for what is there. */
static inline void show_self(struct maru_wait_table *table) {
  struct maru_channel *line = &table->channels[0];
  atomic_store(&line->word, 2);
  atomic_store(&line->want, 2);
  atomic_store(&line->mask, ~1u);
  atomic_store(&line->until_equal, 1);
  atomic_store(&line->start, mr_start_time(getpid()));
  atomic_store(&line->tid, getpid());
  atomic_store(&line->state, MARU_CHANNEL_AWAKE);
}

static inline void one_run(void *argument) {
  const struct run *run = argument;
  struct maru_board board;
  struct maru_wait_table *table;
  CHECK_EQUAL(setgroups(run->group != 0, &run->group), 0);
  CHECK_EQUAL(setgid(run->user), 0);
  CHECK_EQUAL(setuid(run->user), 0);
  prctl(PR_SET_DUMPABLE, 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  make_board(&board, &table);
  name_owner(&board, run->owner);
  show_self(table);
  for (;;)
    usleep(1000);
}

/* A daemon that searches; `which` and `whom`: an option more, or NULL. */
static inline pid_t search_for(const char *program, const char *which, const char *whom) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execl(program, program, "--policy", "pb", "--boost", "fifo", "--period-us", "5000", "--for-ms",
          "60000", "--json", which, whom, NULL);
    _exit(127);
  }
  return pid;
}

static inline bool is_raised(pid_t pid) { return place_of(pid).policy == SCHED_FIFO; }

static inline void end(pid_t pid) {
  kill(pid, SIGKILL);
  CHECK_EQUAL(finish(pid), SIGKILL);
}

static inline void end_search(pid_t daemon) {
  kill(daemon, SIGTERM);
  CHECK_EQUAL(finish(daemon), 0);
}

/* Does `inside` there, and ends with its status. */
static inline _Noreturn void apart(void (*inside)(void *)) {
  need_root();
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
    skip("needs a process namespace of its own");
  int status = finish(start(inside, NULL));
  /* With the namespace gone nothing can be started any more, not by a sanitizer either. */
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* The first that `inside` does. */
static inline void mount_own_proc(void) {
  CHECK_EQUAL(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
  if (mount("proc", "/proc", "proc", 0, NULL) < 0)
    _exit(77);
}

#endif
