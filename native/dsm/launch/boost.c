#define _GNU_SOURCE
#include "launch.h"

#include "../../base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <maru/board.h>
#include <maru/wait.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASKED "MARU_LAUNCH_BOOST"
#define LENT "MARU_DSM_CHANNELS"
#define CHANNELS 2u /* a node's threads that listen; ready.h */
#define ENDS_MS 5000

static void do_without(const char *what, int error) {
  fprintf(stderr, "maru: launch: %s: %s; the job runs without --boost\n", what, strerror(error));
}

/* That of the run that we are part of; else ours, as on another host. */
static int find_board(const struct job *job, struct maru_board *board) {
  if (job->teller == NULL && maru_board_open_env(board) == 0)
    return 0;
  int rc = maru_board_open(board, job->board);
  if (rc < 0)
    return rc;
  maru_board_forget_fd(board);
  setenv(MARU_BOARD_ENV, job->board, 1);
  return 0;
}

/* Their numbers and their board, for the nodes: the MARU_BOARD of one that runs under `maru run` is
 * another. */
static int lend(const struct job *job) {
  static struct maru_channel *channels[MR_LAUNCH_NODES * CHANNELS];
  char text[16 + sizeof channels + PATH_MAX], *at = text;
  struct maru_wait_table *table;
  struct maru_board board;
  int rc = find_board(job, &board);
  if (rc == 0)
    rc = maru_channels_register(&board, (uint32_t)getpid(), MARU_CHANNEL_WORKING, channels,
                                job->here * CHANNELS);
  if (rc == 0)
    rc = maru_wait_table_of(&board, &table);
  if (rc < 0)
    return rc;
  at += sprintf(at, "%u", job->first);
  for (unsigned i = 0; i < job->here * CHANNELS; i++)
    at += sprintf(at, "%c%u", i == 0 ? ':' : ',', (unsigned)(channels[i] - table->channels));
  snprintf(at, sizeof text - (size_t)(at - text), "@%s", getenv(MARU_BOARD_ENV));
  setenv(LENT, text, 1);
  return 0;
}

/* Its standard input ends when we do, however that comes. */
static _Noreturn void become_booster(const struct job *job, const char *maru, int life) {
  setpgid(0, 0); /* the terminal's signals are for us */
  mr_launch_give_signals(job);
  if (dup2(life, STDIN_FILENO) == STDIN_FILENO)
    execl(maru, maru, "boost", "--beside", (char *)NULL);
  do_without(maru, errno);
  _exit(STATUS_NOT_FOUND);
}

static void start(struct job *job, const char *maru) {
  int life[2];
  if (pipe2(life, O_CLOEXEC) < 0) {
    do_without("cannot start maru boost", errno);
    return;
  }
  job->booster = fork();
  if (job->booster == 0)
    become_booster(job, maru, life[0]);
  if (job->booster < 0) {
    do_without("cannot start maru boost", errno);
    job->booster = 0;
  }
  close(life[0]);
  job->boosted = life[1];
}

void mr_launch_boost(struct job *job) {
  const char *asked = getenv(ASKED);
  char *maru = asked != NULL ? strdup(asked) : NULL;
  /* Neither is for jobs that a node starts. */
  unsetenv(ASKED);
  unsetenv(LENT);
  job->boosted = -1;
  if (maru == NULL)
    return;
  int rc = lend(job);
  if (rc < 0)
    do_without("no channels for the nodes", -rc);
  else
    start(job, maru);
  free(maru);
}

void mr_launch_boost_end(struct job *job) {
  struct maru_death death;
  if (job->boosted >= 0)
    close(job->boosted);
  job->boosted = -1;
  if (job->booster == 0)
    return;
  int pidfd = maru_pidfd_open(job->booster);
  if (maru_reap_wait(job->booster, pidfd, ENDS_MS, &death) == 0)
    fprintf(stderr, "maru: launch: maru boost, process %d, does not end\n", (int)job->booster);
  if (pidfd >= 0)
    close(pidfd);
  job->booster = 0;
}
