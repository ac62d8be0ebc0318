/* frames.h: what the launcher of a job on several hosts and its agents tell each other (internal to
 * maru-launch).
 *
 * A frame is a head and `length` bytes.  In host order: a job runs on one architecture.
 */
#ifndef MARU_DSM_LAUNCH_FRAMES_H
#define MARU_DSM_LAUNCH_FRAMES_H

#include "launch.h"

/* Of what they say: an agent of another does not begin.  To be raised with each change here. */
#define MR_FRAMES_VERSION "1"

enum mr_frame_kind {
  FRAME_BEGIN = 1, /* to the agent; node: the first; value: how many; strings: secret, address,
                      folder, number of nodes, "1" where there are checkpoints, MiB of journals or
                      "0", environment, "", command */
  FRAME_ADDRESSES, /* to the agent: a string */
  FRAME_SIGNAL,    /* to the agent; value */
  FRAME_INPUT,     /* to the agent: bytes for node 0; none: the end */
  FRAME_PORTS,     /* from it: a uint16_t per node */
  FRAME_LINE,      /* from it; value: 1 or 2 */
  FRAME_PIECE,     /* the same, of a line without its end */
  FRAME_TAKEN,     /* from it; value: so many bytes of the input; below 0: node 0 takes no more */
  FRAME_ENDED,     /* from it; value: status */
  FRAME_OVER,      /* from it; node: its first; value: the program's status */
  FRAME_TOLD,      /* from it; node: its first; the last: its nodes have ended, and wrote no more */
  FRAME_BEAT,      /* from it; node: its first; now and then, and means nothing */
  /* Of checkpoints; mirror.c. */
  FRAME_WORDS, /* to the agent: what the launcher says to nodes */
  FRAME_STAND, /* from it; node: what that one says */
  FRAME_IMAGE, /* either way; node; value: which of its files; a place there, and bytes */
  FRAME_BEGUN, /* either way; node: the line that it had begun at the cut */
  FRAME_ALONE, /* to the agent; node: it is to be started again alone, soon */
  FRAME_PLACE, /* from it; node; value: the port where that will listen */
  FRAME_AGAIN, /* to the agent; node: it is started now; value: how often it was; where it listens
                */
};

struct mr_frame {
  uint32_t kind, node, length;
  int32_t value;
};

#define MR_FRAME_MAX (MR_LAUNCH_LINE + 1u)

/* Waits until all is written. To who does not read any more it goes nowhere: reading from there
 * will tell. */
void mr_frame_send(struct job *job, int fd, enum mr_frame_kind kind, unsigned node, int value,
                   const void *body, size_t length);
/* Frames to who may not read now.  Each is whole behind the one before, whatever is put meanwhile.
 */
struct mr_frame_queue {
  char *bytes;
  size_t length, room;
};

/* False: there is no memory. */
bool mr_frame_put(struct mr_frame_queue *queue, enum mr_frame_kind kind, unsigned node, int value,
                  const void *body, size_t length);
/* Writes what finds room there, and waits for nothing. To who does not read any more as above. */
void mr_frame_flush(struct mr_frame_queue *queue, int fd);
void mr_frame_drop(struct mr_frame_queue *queue);

/* Waits for the next one; the body, of less than `most` bytes, ends with a zero that is not
 * counted. False: there is none, or patience is over. */
bool mr_frame_read(struct job *job, int fd, struct mr_frame *frame, char *body, size_t most);

/* A frame that comes piece by piece. */
struct mr_frame_part {
  struct mr_frame head;
  size_t have; /* of the head and the body */
  char body[MR_FRAME_MAX];
};

enum mr_frame_come {
  COME_PART,  /* more is to come */
  COME_WHOLE, /* it is there, and its body ends as above, until the next call */
  COME_GONE   /* there is none: the connection has ended, or brings something else */
};

/* Reads what is there of one frame, and waits for nothing. */
enum mr_frame_come mr_frame_come(struct mr_frame_part *part, int fd);

#endif
