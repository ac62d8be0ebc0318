/* move.h: `maru launch --move NODE=HOST PID`: a node of a job that runs starts on another host
 * (internal to maru-launch).
 *
 * The launcher of a job with checkpoints on several hosts listens on this host, at an abstract
 * socket that is named after the process that was started (watcher.c). Its user may ask, and root;
 * another user is told so. The launcher takes a checkpoint, and all go on from it in a new epoch.
 * That node starts on the host that was asked for, which is one of --hosts.  Once all have joined
 * it is answered.  Where there is no checkpoint, or input that node 0 was given could not be given
 * again, nothing is done, and the answer says why.  Each is answered, or sees the connection's end:
 * the job is over.
 */
#ifndef MARU_DSM_LAUNCH_MOVE_H
#define MARU_DSM_LAUNCH_MOVE_H

#include "hosts.h"

struct mr_move {
  int listener, asker; /* -1: none */
  bool wanted;         /* to be done, and answered */
  bool starts;         /* it starts there */
  unsigned node;
  char host[MR_HOST_NAME];
};

/* Ours is `maru launch`'s end, and so is that of a process that we fork; where we cannot listen a
 * line says so. */
void mr_move_listen(struct mr_move *move);
/* What to poll for. */
struct pollfd mr_move_poll(const struct mr_move *move);
/* It has come; whether there is now a node to move. */
bool mr_move_hear(struct mr_move *move, struct mr_hosts *all, unsigned nodes);
/* With a status, 0: it goes on there. */
void mr_move_answer(struct mr_move *move, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The other end, as main: asks that launcher, and says what it answers; the status. */
int mr_move_ask(const char *wish, const char *launcher);

#endif
