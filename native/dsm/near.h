/* near.h: the nodes of one host: messages through shared memory, and pages out of each other's
 * (internal to libmaru-dsm).
 *
 * Each node has a *segment*, a memfd without a name. There is a ring of bytes from each other node,
 * and what the node shows of its pages (shown.h). Nodes find each other's by /proc, on
 * the same host and in the same namespaces of processes and networks. What the card says, and the
 * number that it shares with the segment, come over the authenticated connection. Two nodes are
 * *near* if each has mapped the other's; both say so over that connection, so that they agree.
 *
 * A ring is a stream, as a connection is, and the frames are the same.  Its writer and its reader
 * never wait for each other.  A node that is about to sleep says so in its own segment, looks at
 * its rings once more, and sleeps. Each node that writes then rings its bell, a pipe, once a sleep:
 * another that rings may be stopped before it does.  A writer that finds no room wishes to hear of
 * it, and wishes again each time before it sleeps. The reader takes the wish back, and rings if the
 * writer sleeps: models/dsm-room.pml.
 *
 * A node that is killed anywhere in this leaves whole bytes. Its connection ends, which wakes the
 * others, and they look at all rings.  What a node wrote that was stopped before it rang is found
 * after mr_transport_patience.
 *
 * A node that takes another for dead *fences* its segment, for all that have mapped it. No page
 * that was copied after that counts.
 *
 * Thread-safety: as transport.h, but for mr_near_glance, which any thread may call at any time.
 * Errors are negative errno.
 */
#ifndef MARU_DSM_NEAR_H
#define MARU_DSM_NEAR_H

#include "join.h"

#include <sys/uio.h>

struct mr_near;
struct mr_shown;

/* Makes this node's segment; `card`: how others find it.  -ENOMEM, or what the system said. */
int mr_near_open(struct mr_near **near, const struct mr_job *job, struct mr_card *mine);
/* Maps the others', over `fds` as of mr_join, on which nothing has been said yet.  `why`: the first
 * node of this host that is not near, and the reason, or why no node can be; else empty.
 * -ETIMEDOUT; -ENOMEM. */
int mr_near_connect(struct mr_near *near, const struct mr_card *cards, const int *fds,
                    int64_t deadline, char *why, size_t size);
/* That node is gone, and another process in its place: this node's card for it.  Then
 * mr_near_connect of that one alone. */
void mr_near_renew(struct mr_near *near, uint16_t node, struct mr_card *mine);
void mr_near_close(struct mr_near *near);

/* What rings that node's bell, a descriptor; -1: it is not near. */
int mr_near_bell(const struct mr_near *near, uint16_t node);
bool mr_near_has(const struct mr_near *near, uint16_t node);
/* The connection ended before that node said whether it is near: it is not.  `why` says nothing of
 * it: its end is for the caller to find. */
bool mr_near_ended(const struct mr_near *near, uint16_t node);

/* So many bytes of the frame were written, from its beginning: fewer where the ring is full. */
size_t mr_near_put(struct mr_near *near, uint16_t to, const struct iovec *frame, int parts);
/* So many bytes came.  -EBADMSG: the ring is none. */
ssize_t mr_near_take(struct mr_near *near, uint16_t from, void *bytes, size_t most);
/* Whether bytes wait from there. */
bool mr_near_waits(const struct mr_near *near, uint16_t from);

/* Whether bytes wait from anywhere, or there is room again where there was none. */
bool mr_near_glance(const struct mr_near *near);
/* Readable when that may be so, once mr_near_rest has said 0 after the last other call. */
int mr_near_descriptor(const struct mr_near *near);
/* -EAGAIN: it is so already. */
int mr_near_rest(struct mr_near *near);
/* The caller looks by itself from here on. */
void mr_near_awake(struct mr_near *near);

/* What this node shows; NULL: it shares no memory. */
struct mr_shown *mr_near_shown(const struct mr_near *near);
/* Copies a page that `node` shows.  -ENOENT: it shows none; -EAGAIN; -ESTALE: it is fenced. */
int mr_near_copy(struct mr_near *near, uint16_t node, uint32_t page, void *bytes,
                 uint64_t *version);
/* Maps that of the node, to be read and written, for the caller to unmap.  -ENOENT: it is not near,
 * or shares none; as mr_their_memory. */
int mr_near_map(const struct mr_near *near, uint16_t node, enum mr_share_part part, void **at);
/* The node is dead, or has left: its segment is fenced, and nothing is written there any more. */
void mr_near_forget(struct mr_near *near, uint16_t node);

#endif
