/* join.h: how the nodes of a job find and know each other (internal to libmaru-dsm). */
#ifndef MARU_DSM_JOIN_H
#define MARU_DSM_JOIN_H

#include "transport.h"

/* What a node tells another of its way to be reached by the transport. */
#define MR_CARD 256
struct mr_card {
  uint8_t bytes[MR_CARD];
};

/* One connection with every other node, to fds (-1 at the own place); their cards and
 * incarnations.  Errors as mr_transport_join's; then no connection is left open. */
int mr_join(const struct mr_job *job, const struct mr_card *mine, int *fds, struct mr_card *cards,
            uint32_t *incarnations, int seconds);

#endif
