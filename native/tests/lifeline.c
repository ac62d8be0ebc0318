/* Description: a coordinator's death kills its workers, those too that were stopped at their first
 * instruction; one worker's end leaves the others alone. */
#define _GNU_SOURCE
#include "check.h"
#include "watch.h"

#include <fcntl.h>
#include <sys/prctl.h>

enum { WORKERS = 5, DEADLINE_MS = 20000 };

/* Forked in turn: each later one has copies of the writing ends of those before it. */
static pid_t fork_stopped(int *line) {
  int reading = maru_lifeline_open();
  CHECK(reading >= 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0)
    for (;;)
      raise(SIGSTOP);
  *line = maru_lifeline_tie(reading, pid);
  CHECK(*line >= 0);
  CHECK(fcntl(reading, F_GETFD) < 0 && errno == EBADF);
  int status;
  CHECK_EQUAL(waitpid(pid, &status, WUNTRACED), pid);
  CHECK(WIFSTOPPED(status));
  return pid;
}

static void coordinator(void *last) {
  int lines[WORKERS];
  for (int i = 0; i < WORKERS; i++)
    fork_stopped(&lines[i]);
  /* With a part of the lines closed, as of workers that were replaced. */
  if (*(bool *)last)
    close(lines[0]);
  raise(SIGKILL);
}

/* Of the next child that ends; 0: none does. */
static pid_t reap(int *status) {
  for (int ms = 0; ms < DEADLINE_MS; ms++) {
    pid_t pid = waitpid(-1, status, WNOHANG);
    if (pid != 0)
      return pid;
    usleep(1000);
  }
  return 0;
}

static void die_with(bool last) {
  pid_t parent = start(coordinator, &last);
  for (int ended = 0; ended < 1 + WORKERS; ended++) {
    int status;
    pid_t pid = reap(&status);
    snprintf(check_note, sizeof check_note, "(%d of %d have ended, coordinator %d)", ended,
             1 + WORKERS, (int)parent);
    CHECK(pid > 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  CHECK(waitpid(-1, NULL, 0) < 0 && errno == ECHILD);
}

static void end_alone(void) {
  int lines[3], status;
  pid_t workers[3];
  for (int i = 0; i < 3; i++)
    workers[i] = fork_stopped(&lines[i]);
  /* The youngest: no process has a copy of its line. */
  close(lines[2]);
  CHECK_EQUAL(reap(&status), workers[2]);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  kill(workers[0], SIGKILL);
  CHECK_EQUAL(finish(workers[0]), SIGKILL);
  close(lines[0]);
  usleep(100000);
  CHECK_EQUAL(waitpid(workers[1], &status, WNOHANG), 0);
  close(lines[1]);
  CHECK_EQUAL(finish(workers[1]), SIGKILL);
}

int main(void) {
  CHECK_EQUAL(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  end_alone();
  die_with(false);
  die_with(true);
  return 0;
}
