#define _GNU_SOURCE
#include "launch.h"

#include <maru/board.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BOARD_ROOM ((size_t)4 << 20) /* as of `maru run` */

/* Ours stays open: nodes, `maru boost` and `maru top` find it here. */
void mr_launch_board(struct job *job) {
  struct maru_board board;
  job->board[0] = '\0';
  unsetenv("MARU_DSM_BOARD"); /* of a job that this one is part of */
  int rc = maru_board_create(&board, BOARD_ROOM);
  if (rc < 0) {
    fprintf(stderr, "maru: launch: no board: %s; 'maru top' does not show this job\n",
            strerror(-rc));
    return;
  }
  snprintf(job->board, sizeof job->board, "/proc/%d/fd/%d", (int)getpid(), board.fd);
  setenv("MARU_DSM_BOARD", job->board, 1);
}
