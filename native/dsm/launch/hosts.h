/* hosts.h: which nodes are on which host (internal to maru-launch).
 *
 * A table of hosts in the order of their nodes: node 0 is on the first, and each has nodes that
 * follow each other.  One without nodes is to spare.  A host may have several rows of lines, with
 * an agent each.
 */
#ifndef MARU_DSM_LAUNCH_HOSTS_H
#define MARU_DSM_LAUNCH_HOSTS_H

#include "frames.h"

#define MR_HOST_NAME 256

struct host {
  char name[MR_HOST_NAME];
  unsigned slots; /* nodes at a time, as the file says */
  unsigned first, here, alive;
  struct sockaddr_storage address;
  pid_t pid;
  int to, from;                /* -1: ended */
  struct mr_frame_queue queue; /* what is on its way to it */
  struct mr_frame_part *part;  /* what comes from it; NULL: nothing does */
  int64_t heard;               /* ms: something came from it */
  bool told;                   /* all that its nodes wrote has come, and they have ended */
  bool lost;                   /* it ended before that */
  bool failed;                 /* no agent could be started there since the last loss */
};

struct mr_hosts {
  struct host host[MR_LAUNCH_NODES];
  unsigned count;
};

/* As mr_launch_fail, of a line with two words. */
_Noreturn void mr_hosts_refuse(int status, const char *format, const char *a, const char *b);
/* Those that the file names, and so many nodes on them; ends the process where that cannot be. */
void mr_hosts_read(struct mr_hosts *all, const char *file, unsigned nodes);
/* The lost host's nodes are to start on another, which a line names.  False: there is none, and a
 * line says that. */
bool mr_hosts_replace(struct mr_hosts *all, struct host *lost);
/* Whether a host of that name is left. */
bool mr_hosts_has(const struct mr_hosts *all, const char *name);
/* Where that node is, or will be. */
struct host *mr_hosts_of(struct mr_hosts *all, unsigned node);
/* While no agent runs: the node is to start there.  What it leaves is to spare.  False: that host
 * was lost meanwhile, or the table is full. */
bool mr_hosts_move(struct mr_hosts *all, unsigned nodes, unsigned node, const char *name);

#endif
