/* link.h: a slower network than there is, for experiments (internal to libmaru-dsm).
 *
 * MARU_DSM_LINK=LATENCY_NS,PS_PER_BYTE, the same on all nodes. A message leaves its node when that
 * node's card is free, occupies it so long for each byte, and is seen the latency later. It is sent
 * at once and says when it is due; its receiver keeps it until then. So no thread and no wake-up
 * comes on top of what the transport takes, but all nodes must be on one host and in one time
 * namespace, as they compare clocks. Others refuse each other (settings.c).
 *
 * Thread-safety: calls exclude each other, which is the owner's business.
 */
#ifndef MARU_DSM_LINK_H
#define MARU_DSM_LINK_H

#include <stddef.h>
#include <stdint.h>

struct mr_link;

typedef void mr_link_see(void *context, uint16_t from, const void *message, size_t length);

/* NULL where MARU_DSM_LINK is not set.  -EINVAL: it is no such pair of numbers; -ENOMEM. */
int mr_link_create(struct mr_link **link);
void mr_link_destroy(struct mr_link *link);

/* A message of that length leaves now: when it is due. */
int64_t mr_link_leave(struct mr_link *link, size_t length);
/* Keeps a copy until `due`.  -ENOMEM. */
int mr_link_keep(struct mr_link *link, int64_t due, uint16_t from, const void *message,
                 size_t length);
/* When the next one is due; INT64_MAX: none is kept. */
int64_t mr_link_due(const struct mr_link *link);
/* Hands out what is due by then, in that order; how many. */
int mr_link_serve(struct mr_link *link, int64_t now, mr_link_see *see, void *context);

#endif
