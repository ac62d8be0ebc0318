/* join.h: how the nodes of a job find and know each other (internal to libmaru-dsm).
 *
 * Each node calls those of lower numbers and listens for the others, all at once.  Any other
 * process that connects (a stranger) learns a nonce at most (handshake.h) and is heard beside all
 * others. It goes when it says something wrong, after MR_STRANGER_MS, or as the oldest where
 * MR_STRANGERS are held and another comes. So strangers delay a node, and do not keep it out.
 */
#ifndef MARU_DSM_JOIN_H
#define MARU_DSM_JOIN_H

#include "handshake.h"

#define MR_STRANGERS 256
#define MR_STRANGER_MS 2000

/* One connection with every other node, to fds (-1 at the own place; non-blocking); their cards and
 * incarnations.  Errors as mr_transport_join's; then no connection is left open.  Job's listener
 * stays the caller's, and becomes non-blocking. */
int mr_join(const struct mr_job *job, const struct mr_card *mine, int *fds, struct mr_card *cards,
            uint32_t *incarnations, int seconds);

#endif
