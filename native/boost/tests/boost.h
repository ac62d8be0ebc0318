/* boost.h: what the tests of the daemon share: it is started with a pipe for its
 * report, and always ended. */
#ifndef MARU_BOOST_TESTS_BOOST_H
#define MARU_BOOST_TESTS_BOOST_H

#include "check.h"
#include "priority.h"

#include <grp.h>
#include <maru/board.h>
#include <maru/wait.h>
#include <sched.h>
#include <sys/prctl.h>

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
/* The daemon's search has the processor time that is left, and rests nine times as long. */
#define LONG_ENOUGH (120 * SECOND)

struct daemon {
  pid_t rescuer;
  pid_t worker;
  int output;
};

#define OWNER 65533 /* an ordinary user */

/* For a child of root's: it goes when its parent goes. */
static inline void become(uid_t user) {
  CHECK_EQUAL(setgroups(0, NULL), 0);
  CHECK_EQUAL(setgid(user), 0);
  CHECK_EQUAL(setuid(user), 0);
  /* Both are lost on a change of user. */
  prctl(PR_SET_DUMPABLE, 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static inline pid_t child_of(pid_t pid) {
  char path[64], text[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
  FILE *file = fopen(path, "re");
  pid_t child = 0;
  if (file != NULL && fgets(text, sizeof text, file) != NULL)
    child = atoi(text);
  if (file != NULL)
    fclose(file);
  return child;
}

static inline struct mr_sched place_of(pid_t pid) {
  struct mr_sched now;
  CHECK_EQUAL(mr_sched_get(pid, &now), 0);
  return now;
}

/* Where it is then.  It sleeps between its looks: above all others it would keep a core from the
 * daemon, and from all tests beside this one. */
static inline struct mr_sched until_policy(pid_t pid, uint32_t policy) {
  int64_t end = maru_now_ns() + LONG_ENOUGH;
  struct mr_sched now;
  while ((now = place_of(pid)).policy != policy) {
    CHECK(maru_now_ns() < end);
    usleep(100);
  }
  return now;
}

/* Runs MARU_BOOST (the program's path) on that board, which has a channel. */
static inline struct daemon start_daemon_by(const char *program, const struct maru_board *board,
                                            const char *policy, const char *how,
                                            const char *period_us) {
  char path[64];
  int ends[2];
  struct maru_wait_table *table;
  CHECK_EQUAL(maru_wait_table_of(board, &table), 0);
  int64_t before = atomic_load(&table->heartbeat_ns);
  snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), board->fd);
  CHECK_EQUAL(pipe(ends), 0);
  struct daemon d = {.output = ends[0]};
  d.rescuer = fork();
  CHECK(d.rescuer >= 0);
  if (d.rescuer == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl(program, program, "--board", path, "--policy", policy, "--period-us", period_us,
          "--for-ms", "60000", "--json", how != NULL ? "--boost" : NULL, how, NULL);
    _exit(127);
  }
  close(ends[1]);
  /* Before its first tick its child may be another than the worker. */
  int64_t end = maru_now_ns() + LONG_ENOUGH;
  while (atomic_load(&table->heartbeat_ns) == before || (d.worker = child_of(d.rescuer)) == 0) {
    CHECK(maru_now_ns() < end);
    usleep(100);
  }
  return d;
}

static inline struct daemon start_daemon(const char *program, const struct maru_board *board,
                                         const char *policy, const char *period_us) {
  return start_daemon_by(program, board, policy, "fifo", period_us);
}

static inline long long field(const char *report, const char *name) {
  char key[32];
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *at = strstr(report, key);
  CHECK(at != NULL);
  return atoll(at + strlen(key));
}

/* Ends it; its report (empty if it was killed) is in `report`. */
static inline int end_daemon(struct daemon *d, char *report, size_t size) {
  kill(d->rescuer, SIGTERM);
  int status = finish(d->rescuer);
  ssize_t got = read(d->output, report, size - 1);
  report[got > 0 ? got : 0] = '\0';
  close(d->output);
  return status;
}

static inline void give_way(void) {
  CHECK_EQUAL(mr_sched_set(0, &(struct mr_sched){.policy = SCHED_OTHER}), 0);
}

/* From here to its end the test is above whatever is raised.  Not at its exit: there a sanitizer
 * waits in a loop for a thread of its own, which is an ordinary one. */
static inline void outrank(void) {
  struct mr_sched above = {.policy = SCHED_FIFO, .priority = 95, .on_fork = 1};
  CHECK_EQUAL(mr_sched_set(0, &above), 0);
  CHECK_EQUAL(atexit(give_way), 0);
}

/* The test goes on in an ordinary place, not in its caller's: children inherit a nice value. */
static inline void need_root(void) {
  struct mr_sched fifo = {.policy = SCHED_FIFO, .priority = 1}, ordinary = {.policy = SCHED_OTHER};
  if (getuid() != 0 || mr_sched_set(0, &fifo) < 0)
    skip("needs root and the right to SCHED_FIFO");
  CHECK_EQUAL(mr_sched_set(0, &ordinary), 0);
}

#endif
