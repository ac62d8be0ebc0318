/* maru-boost: wakes, restores and raises those whose message is there.
 *
 *   maru-boost [--policy P] [--boost gently|fifo|nice|none] [--period-us N] [--cap PERCENT]
 *              [--for-ms N] [--board PATH]... [--users N,...] [--groups N,...]
 *              [--until-input-ends] [--dry-run] [--json]
 *
 * Written by a planner (`maru boost`), strict.  Without --board it looks after all
 * runs of its user; as root, of everybody, or of the users and groups that are named.
 * As root it raises gently unless --boost says otherwise.  Policies:
 *   auto     wakes, restores; raises what has lain ready for a period and did not run
 *   wake     wakes, no more: needs no right
 *   restore  wakes, restores
 *   pb       the published scheme: each period raises one with a message on each CPU
 *   pb+lower the same, restores the lowered
 *   gang     one job after the other is raised, for a slot of the period's length
 * --period-us 0: 5 ms to 250 us as needed, 50 ms while nobody waits.
 * --until-input-ends: our starter holds the other end of standard input.
 *
 * Two processes: the rescuer starts the worker, which does all of the above, and
 * watches it. Something may end the worker, or stop it: 200 ms without a beat, then it is killed.
 * The rescuer then puts every thread back that was raised or is lowered, and ends. If the rescuer
 * is killed the worker puts them back and ends. If both are killed at once, each thread finds the
 * daemon's heartbeat stale when it waits next, and puts itself back.
 *
 * Status: 0 ended as asked (--for-ms, SIGTERM, SIGINT, its input), 64 usage, 69 a board cannot be
 * used or standard output not written, 70 the worker failed. The line says how, and how many
 * threads could not be put back.
 */
#define _GNU_SOURCE
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* One that was killed just now may still be on its way out. */
static int lock_board(struct boost_board *one) {
  static const struct timespec pause = {.tv_nsec = 10000000};
  int rc = boost_board_lock(one);
  for (int again = 0; rc == -EBUSY && again < 20; again++) {
    nanosleep(&pause, NULL);
    rc = boost_board_lock(one);
  }
  return rc;
}

/* One daemon a board. */
static int lock_boards(struct daemon *self) {
  int rc = 0;
  for (unsigned i = 0; i < BOOST_BOARDS && !self->dry_run && rc == 0; i++)
    if (self->boards.slots[i] != NULL)
      rc = lock_board(self->boards.slots[i]);
  if (rc == -EBUSY)
    fprintf(stderr, "maru-boost: another daemon looks after this board\n");
  else if (rc < 0)
    fprintf(stderr, "maru-boost: cannot lock this board: %s\n", strerror(-rc));
  return rc < 0 ? -EBUSY : 0;
}

static void free_boards(struct daemon *self) {
  for (unsigned i = 0; i < BOOST_BOARDS; i++)
    if (self->boards.slots[i] != NULL)
      boost_board_free(self->boards.slots[i]);
}

/* Those that are closed stay so: else one of ours takes the number, and the report goes there. */
static void hold_standard_descriptors(void) {
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      (void)!open("/", O_PATH | O_CLOEXEC);
}

int main(int argc, char **argv) {
  struct daemon self = {.until_ns = INT64_MAX, .rules = {.cap_percent = 90}};
  sigset_t requests, signals;
  hold_standard_descriptors();
  enum boost_how means = boost_means();
  self.how = means;
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  self.rules.cpus = cpus < 1 ? 1 : cpus > MARU_WAIT_CPUS ? MARU_WAIT_CPUS : (uint32_t)cpus;
  self.shared = mmap(NULL, sizeof *self.shared, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  self.stirs = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (self.shared == MAP_FAILED || self.stirs < 0) {
    fprintf(stderr, "maru-boost: no memory, or no descriptor\n");
    return 69;
  }
  self.boards.subjects = self.shared->subjects;
  (void)boost_read_policy(&self, "auto");
  int rc = boost_read_options(&self, argc, argv);
  if (rc == 0)
    rc = lock_boards(&self);
  if (rc < 0) {
    free_boards(&self);
    return rc == -EINVAL ? 64 : 69;
  }
  bool wants_rights = self.rules.raises || self.rules.restores || self.rules.slots;
  if (wants_rights && means == BOOST_BY_NOTHING)
    fprintf(stderr, "maru-boost: no right to raise priorities (root or CAP_SYS_NICE): sleepers are "
                    "woken, nobody is restored or boosted\n");
  sigemptyset(&requests);
  sigaddset(&requests, SIGTERM);
  sigaddset(&requests, SIGINT);
  sigaddset(&requests, SIGHUP);
  signals = requests;
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  signal(SIGCHLD, SIG_DFL);
  signal(SIGTSTP, SIG_IGN); /* a terminal must not stop what holds others raised */
  pid_t parent = getpid(), worker = fork();
  if (worker < 0) {
    fprintf(stderr, "maru-boost: cannot fork: %s\n", strerror(errno));
    return 69;
  }
  if (worker == 0)
    /* At once: the clerk still runs. */
    _exit(boost_work(&self, parent, &requests));
  struct boost_end end = boost_rescuer(&self, worker, &signals);
  bool done = WIFEXITED(end.status) && WEXITSTATUS(end.status) != 70;
  int status = done ? WEXITSTATUS(end.status) : boost_after_death(&self, end);
  boost_step_down();
  free_boards(&self);
  return status;
}
