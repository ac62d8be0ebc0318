/* membership.h: how a process finds the job that it is a node of, and joins it (internal to
 * libmaru-dsm).  What is wrong ends the process (mr_node_die).
 */
#ifndef MARU_DSM_MEMBERSHIP_H
#define MARU_DSM_MEMBERSHIP_H

#include "launcher.h"
#include "transport.h"

#define MR_FIRST_EPOCH 1u

/* Descriptors that `maru launch` opens for a node. */
enum mr_inherited { MR_INHERITED_LISTENER, MR_INHERITED_SECRET, MR_INHERITED_OVER, MR_INHERITED };

struct mr_membership {
  uint16_t nodes, me;
  enum mr_launcher launcher;   /* another than ours that started it */
  bool met;                    /* by that one's help */
  struct mr_meeting meeting;   /* what that one let us find */
  int seconds;                 /* how long to wait for the others */
  int inherited[MR_INHERITED]; /* 0: none */
  struct mr_job job;           /* as this process joined, where nodes may join again; else empty */
};

struct mr_joining {
  uint32_t epoch;
  uint64_t settings;
  const struct mr_share *share; /* as in struct mr_job */
  bool replays, again;          /* nodes may join again alone; this one does (replay.h) */
};

/* By the environment, or by another launcher's help; a process that nobody started so is the only
 * node.  What the environment says of descriptors goes out of it. A process that takes this one's
 * place has others; programs that this one starts have none. */
void mr_membership_find(struct mr_membership *membership);
/* Moves those above what a program opens. So the files of the process in whose place this one is
 * find their descriptors free. */
void mr_membership_make_room(struct mr_membership *membership);
/* Until it is given up no descriptor that is opened is among the first that a program gets. Where
 * the program is repeated, the library's may be opened in another order.  Nothing is held where few
 * are allowed. */
void mr_membership_hold_room(uint16_t nodes);
void mr_membership_give_room(void);
/* Connects with all other nodes. */
void mr_membership_join(struct mr_membership *membership, const struct mr_joining *how,
                        struct mr_transport **transport, uint32_t *incarnations);

#endif
