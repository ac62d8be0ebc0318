/* ready.h: tells `maru boost` for whom messages lie ready (internal to libmaru-dsm).
 *
 * Nodes wait for descriptors, and the kernel wakes them; how soon they then get to run, beside
 * programs that compute, is another matter.  `maru launch --boost` lends each node two channels on
 * the board of the run, one for each of its threads that may listen.  There they say when they do,
 * and a sender of the same host steps both before it sends.
 *
 * All of this is a hint: a step too many or too few costs a raise, or the lack of one, and no
 * message.  Messages from other hosts are not told of.  NULL: nothing was lent, and all of these do
 * nothing.
 */
#ifndef MARU_DSM_READY_H
#define MARU_DSM_READY_H

#include <stdint.h>

enum mr_listener { MR_PROGRAM_LISTENS, MR_SERVER_LISTENS, MR_LISTENERS };

struct mr_ready;

/* By MARU_DSM_CHANNELS, which names the board, too: MARU_BOARD may be that of a run of the node's
 * own.  NULL too where it is of no use, which is said: the job runs all the same. */
struct mr_ready *mr_ready_open(uint16_t me);
/* Neither thread is attached any more. */
void mr_ready_close(struct mr_ready *ready);

/* The calling thread is that one, from now on or no more.  The lock of serve.h orders these and
 * those below. */
void mr_ready_attach(struct mr_ready *ready, enum mr_listener who);
void mr_ready_detach(struct mr_ready *ready, enum mr_listener who);

/* A message is about to be sent there. */
void mr_ready_sends(struct mr_ready *ready, uint16_t to);
/* That thread listens for the next message, or leaves it to the other. */
void mr_ready_listens(struct mr_ready *ready, enum mr_listener who);
void mr_ready_leaves(struct mr_ready *ready, enum mr_listener who);

#endif
