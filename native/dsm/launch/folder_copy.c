/* folder_copy.c: the process that copies checkpoints to a folder, beside the job (keep.h). A disk
 * may keep it for as long as it likes, so nobody may wait for what it has open.
 */
#define _GNU_SOURCE
#include "keep.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOKS_MS 20

/* ---- that process ---------------------------------------------------------------------- */

static int compare(const void *one, const void *other) {
  int a = *(const int *)one, b = *(const int *)other;
  return (a > b) - (a < b);
}

/* Leaves it what it needs.  Node 0's input ends when all have closed it, an agent lives as long as
 * its connection, and who reads the job's output waits for its end. */
static void close_others(const struct job *job) {
  static int needed[4 + 2 * MR_LAUNCH_NODES];
  const struct keep *keep = job->keep;
  unsigned count = 0, from = 0;
  needed[count++] = STDERR_FILENO;
  needed[count++] = keep->dir;
  needed[count++] = keep->lock; /* the folder is taken until this process is gone, too */
  needed[count++] = job->mourned;
  for (unsigned node = 0; node < job->nodes; node++) {
    needed[count++] = keep->page->lines[node].files[keep->writing % 2];
    needed[count++] = keep->page->lines[node].pages;
  }
  qsort(needed, count, sizeof *needed, compare);
  for (unsigned i = 0; i < count; i++) {
    unsigned fd = (unsigned)needed[i];
    if (fd > from)
      close_range(from, fd - 1, 0);
    from = fd + 1;
  }
  close_range(from, ~0u, 0);
}

static int be_writer(const struct job *job, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    return STATUS_MARU_FAILED;
  close_others(job);
  return mr_folder_write(job->keep, job->nodes);
}

/* ---- the launcher ------------------------------------------------------------------------ */

void mr_folder_copy(struct job *job) {
  struct keep *keep = job->keep;
  pid_t parent = getpid();
  if (keep->folder == NULL || keep->writer != 0 || keep->written == keep->committed)
    return;
  keep->writing = keep->committed;
  keep->slow = false;
  keep->writer = fork();
  if (keep->writer == 0)
    _exit(be_writer(job, parent));
  if (keep->writer < 0) {
    fprintf(stderr, "maru: launch: checkpoint %u is not in %s: %s\n", keep->writing, keep->folder,
            strerror(errno));
    keep->writer = 0;
  }
}

void mr_folder_name_slow(struct job *job) {
  struct keep *keep = job->keep;
  if (keep->writer == 0 || keep->slow)
    return;
  keep->slow = true;
  fprintf(stderr, "maru: launch: %s: checkpoint %u is still being copied to %s\n",
          job->alive > 0 ? "no checkpoint yet" : "all nodes have ended", keep->writing,
          keep->folder);
}

void mr_folder_reaped(struct job *job, pid_t pid, int status) {
  struct keep *keep = job->keep;
  if (keep == NULL || pid != keep->writer)
    return;
  keep->writer = 0;
  if (status == 0)
    keep->written = keep->writing;
  else if (WIFSIGNALED(status))
    fprintf(stderr, "maru: launch: checkpoint %u may not be in %s: its writer was killed\n",
            keep->writing, keep->folder);
}

void mr_folder_await(struct job *job) {
  struct keep *keep = job->keep;
  struct pollfd signals = {.fd = job->signals, .events = POLLIN};
  const int64_t slow_at = mr_launch_now() + MR_KEEP_LONG_MS;
  int status = SIGKILL;
  pid_t ended = 0;
  keep->slow = false; /* that no checkpoint was taken is another thing */
  while (keep->writer > 0 && (ended = waitpid(keep->writer, &status, WNOHANG)) == 0) {
    if (job->interrupted && mr_launch_patience(job) >= 0 && job->killed) {
      /* It may hang in the file system: nobody waits for that. */
      kill(keep->writer, SIGKILL);
      status = SIGKILL;
      break;
    }
    if (mr_launch_now() >= slow_at)
      mr_folder_name_slow(job);
    poll(&signals, 1, LOOKS_MS);
    mr_launch_read_signals(job);
  }
  if (keep->writer > 0)
    mr_folder_reaped(job, keep->writer, status);
}
