/* maru-launch: starts the nodes of a job and watches them, on behalf of `maru launch`.
 *
 *   maru-launch -n NODES [--hosts FILE] -- COMMAND [ARGUMENT...]
 *       --report-fd FD --reporter MARU: notes there what nodes tell about their pages, and in the
 *       end becomes `MARU report-launch FD STATUS`
 *       --ckpt-every, --ckpt-dir, --resume, --output, --recover, --journal: keep.h
 *       --bare: what nodes write to their standard output is shown without "[NODE] "
 *   maru-launch --agent VERSION         one host's part, started by the first form over ssh
 *   maru-launch --move NODE=HOST PID    asks the launcher PID for that: move.h
 *   maru-launch --providers             those of libfabric that would serve here, or why none does
 *
 * Before:  binds one port per node, on the loopback interface if the job has one host, draws the
 *          job's secret, and tells of them in the environment (MARU_DSM_*).  A node inherits its
 *          own listening socket, so nobody else can take its port meanwhile, and a descriptor from
 *          which it reads the secret.
 * During:  each node is a process group.  Each line of its output appears whole, after "[NODE] ".
 *          Node 0 has our standard input; the others' is empty.  HUP, INT and TERM end the job,
 *          the second of them at once; not a HUP or TERM that was ignored already (nohup).
 * After:   where one node failed, the others are ended (TERM, then KILL after MARU_LAUNCH_GRACE
 *          seconds), and one line says which and how, if no node said why.  No node outlives this
 *          process: the kernel kills them if it dies.
 * With checkpoints all of this is done by a child (watcher.c).
 *
 * Status:  125 maru failed, 126 the command cannot be executed, 127 it was not
 *          found, else that of the first node that failed by itself (128 + the signal that
 *          killed it), or 128 + the signal that this process was sent.
 */
#define _GNU_SOURCE
#include "keep.h"
#include "move.h"

#include "../fabric.h"
#include "arguments.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define USAGE "usage: maru-launch -n NODES [--hosts FILE] -- COMMAND...; 1 to 256 nodes"

struct wish {
  const char *hosts;    /* their file, or NULL */
  const char *reporter; /* what we become in the end, or NULL */
  struct keep_wish keep;
};

static struct wish read_arguments(struct job *job, int count, char **arguments) {
  struct wish wish = {.hosts = NULL};
  int64_t nodes = 0, report = -1;
  const struct mr_option options[] = {
      {"-n", MR_WHOLE, &nodes, "nodes", 1, MR_LAUNCH_NODES},
      {"--hosts", MR_TEXT, &wish.hosts, NULL, 0, 0},
      {"--ckpt-every", MR_TEXT, &wish.keep.every, NULL, 0, 0},
      {"--ckpt-dir", MR_TEXT, &wish.keep.folder, NULL, 0, 0},
      {"--resume", MR_TEXT, &wish.keep.resume, NULL, 0, 0},
      {"--output", MR_TEXT, &wish.keep.output, NULL, 0, 0},
      {"--recover", MR_TEXT, &wish.keep.recover, NULL, 0, 0},
      {"--journal", MR_WHOLE, &wish.keep.journal_mib, "MiB", 1, 1 << 20},
      {"--bare", MR_FLAG, &job->bare, NULL, 0, 0},
      {"--report-fd", MR_WHOLE, &report, "an open descriptor", 3, INT32_MAX},
      {"--reporter", MR_TEXT, &wish.reporter, NULL, 0, 0},
  };
  int at = mr_arguments("maru-launch", options, sizeof options / sizeof *options, count, arguments);
  if (at >= count || nodes == 0)
    mr_launch_fail(STATUS_USAGE, USAGE, "");
  if (mr_keep_asked(&wish.keep) && (report >= 0 || getenv("MARU_LAUNCH_BOOST")))
    mr_launch_fail(STATUS_USAGE,
                   "--ckpt-every, --ckpt-dir and --resume are for jobs without --report, --advise "
                   "and --boost",
                   "");
  if (wish.keep.output != NULL && !mr_keep_asked(&wish.keep))
    mr_launch_fail(STATUS_USAGE, "--output is for jobs with checkpoints: --ckpt-every, --ckpt-dir",
                   "");
  if (wish.keep.recover != NULL && !mr_keep_asked(&wish.keep))
    mr_launch_fail(STATUS_USAGE, "--recover is for jobs with checkpoints: --ckpt-every, --ckpt-dir",
                   "");
  if (wish.keep.journal_mib != 0 &&
      (wish.keep.recover == NULL || strcmp(wish.keep.recover, "lost") != 0))
    mr_launch_fail(STATUS_USAGE, "--journal is for jobs with --recover lost", "");
  job->nodes = (unsigned)nodes;
  job->report = (int)report;
  job->command = arguments + at;
  return wish;
}

static void on_this_host(struct job *job, const struct keep_wish *keep) {
  if (mr_keep_asked(keep))
    mr_watcher_begin(job, keep);
  mr_launch_catch_signals(job); /* before the first file in memory: ulimit -f */
  mr_launch_secret_draw(job);
  job->here = job->nodes;
  job->signal = mr_launch_signal_nodes;
  mr_keep_begin(job, keep, false);
  mr_launch_bind_here(job);
  /* With checkpoints it has to be known how much of a pipe was read. */
  if (isatty(0) || (job->keep != NULL && lseek(0, 0, SEEK_CUR) < 0))
    mr_launch_input_begin(job);
  mr_launch_start(job);
  mr_launch_watch(job, -1, NULL);
}

/* Does not return where it succeeds. */
static void become_reporter(const struct job *job, const char *reporter) {
  char descriptor[16], status[16];
  snprintf(descriptor, sizeof descriptor, "%d", job->report);
  snprintf(status, sizeof status, "%d", job->status);
  mr_launch_give_signals(job);
  fcntl(job->report, F_SETFD, 0);
  execl(reporter, reporter, "report-launch", descriptor, status, (char *)NULL);
  fprintf(stderr, "maru: launch: no report: %s: %s\n", reporter, strerror(errno));
}

/* What we open would take the place of a closed one.  Writing there is an error still. */
static void take_standard(void) {
  for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;)
    if (fd > STDERR_FILENO) {
      close(fd);
      return;
    }
}

/* For `maru doctor`: one line. */
static int list_providers(void) {
  char names[512], why[256];
  int rc = mr_fabric_list(names, sizeof names, why, sizeof why);
  puts(rc == 0 ? names : why);
  return rc == 0 ? 0 : STATUS_UNAVAILABLE;
}

int main(int count, char **arguments) {
  static struct job job = {.report = -1,
                           .signals = -1,
                           .secret = -1,
                           .over_from = -1,
                           .over_to = -1,
                           .input = {.from = -1, .to = -1}};
  take_standard();
  if (count > 1 && strcmp(arguments[1], "--agent") == 0) {
    if (count != 3 || strcmp(arguments[2], MR_FRAMES_VERSION) != 0)
      mr_launch_fail(STATUS_UNAVAILABLE,
                     "agent: maru is of another version here than where the job was started", "");
    mr_launch_agent(&job);
    return 0;
  }
  if (count == 2 && strcmp(arguments[1], "--providers") == 0)
    return list_providers();
  if (count == 4 && strcmp(arguments[1], "--move") == 0)
    return mr_move_ask(arguments[2], arguments[3]);
  struct wish wish = read_arguments(&job, count, arguments);
  if (job.report >= 0)
    fcntl(job.report, F_SETFD, FD_CLOEXEC);
  if (wish.hosts != NULL)
    mr_launch_on_hosts(&job, wish.hosts, &wish.keep);
  else
    on_this_host(&job, &wish.keep);
  mr_launch_say_why(&job);
  if (wish.reporter != NULL && job.report >= 0)
    become_reporter(&job, wish.reporter);
  return job.status;
}
