/* transport.h: messages between the nodes of a job (internal to libmaru-dsm).
 *
 * Each pair of nodes has one TCP connection.  Joining is authenticated, both ways: each proves that
 * it knows the job's secret and sends none of it (handshake.h).  Messages go over that connection
 * (`tcp`), or over a provider of libfabric (`ofi:PROVIDER`, fabric.h). With `shm+` before it nodes
 * of one host talk through shared memory (near.h) where they can. With `shm` all do, or the job
 * does not begin.  The connection tells of a peer's death all the same: nothing else can be relied
 * on for that. Messages arrive in order, once each, until the peer says farewell, behind all of
 * them, or is lost.  Not encrypted: the network is trusted with the data.
 *
 * A peer that dies is noticed at once, one whose host or cable is gone within about MR_LOST_MS
 * (alive.h).  One that is stopped is waited for, without end or for as long as the job says.
 *
 * Thread-safety: calls exclude each other, which is the owner's business; but for
 * mr_transport_descriptor and mr_transport_tells_of_sends, which always say the same, and
 * mr_transport_patience.
 * Errors are negative errno.
 */
#ifndef MARU_DSM_TRANSPORT_H
#define MARU_DSM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define MR_SECRET 32
#define MR_LOST_MS 3000
#define MR_TRANSPORT_NAME 64

/* Memory that nodes of the same host may copy pages from: two memfds of so many pages each.  And
 * one with a struct mr_commons; -1: none. */
struct mr_share {
  uint32_t pages;
  int memory, twins, commons;
};
enum mr_share_part { MR_SHARED_MEMORY, MR_SHARED_COMMONS };

struct mr_job {
  uint16_t nodes, me;
  int listener; /* bound and listening at addresses[me]; owned by join */
  const struct sockaddr_storage *addresses;
  uint32_t epoch;
  uint32_t incarnation;  /* this process's */
  uint64_t settings;     /* whatever has to be the same on all nodes */
  const char *transport; /* "tcp", "ofi:PROVIDER", "shm+" and one of them, or "shm"; shorter than
                            MR_TRANSPORT_NAME */
  const struct mr_share *share; /* with shm; NULL: none.  The caller's, until the join is done */
  uint8_t secret[MR_SECRET];
  /* Seconds, the same on all nodes: a peer of which nothing comes for so long is lost, whatever
   * the reason. Its first word may take the time of the join beside. 0: its silence alone is
   * none. */
  unsigned lost_after;
  /* That node was lost, and joins again: all others call it, whatever its number, and each other
   * not. */
  bool again;
  uint16_t lost;
  /* Where a join that times out says which node is missing, and why if that is known; NULL:
   * nowhere. */
  char *missing;
};
#define MR_MISSING 192

struct mr_transport_sink {
  void (*message)(void *context, uint16_t from, const void *message, size_t length);
  /* No more comes from it; `farewell`: it said so. */
  void (*down)(void *context, uint16_t from, bool farewell);
};

struct mr_transport;
struct mr_link;

/* Connects with all other nodes and fills in their incarnations.
 * -ETIMEDOUT: not all were there in `seconds`, see `missing`; -EPROTO: one has other settings;
 * -EPROTOTYPE: one has another transport; -ENOMEM; or what the system said.  Where the transport
 * itself is the reason (libfabric or its provider is missing, say), `why` says it, else it is
 * empty.  With 0: `why` says why a node of this host is reached otherwise than by shared memory. */
int mr_transport_join(struct mr_transport **transport, const struct mr_job *job,
                      uint32_t *incarnations, int seconds, char *why, size_t size);
/* `job->lost` has gone down, and another process is in its place: connects with that, as in the
 * job's beginning. Called by the sink's `down` as well.  Errors as mr_transport_join's; then it is
 * down still. Not with libfabric: -ENOTSUP. */
int mr_transport_rejoin(struct mr_transport *transport, const struct mr_job *job, int seconds,
                        char *why, size_t size);
/* Why a peer went down: it was silent, and its process may be there still. */
bool mr_transport_was_silent(const struct mr_transport *transport, uint16_t node);
#define MR_LINK_FDS 2
/* What is open for that node alone; how many. */
unsigned mr_transport_link_descriptors(const struct mr_transport *transport, uint16_t node,
                                       int fds[MR_LINK_FDS]);
void mr_transport_close(struct mr_transport *transport);
/* From now on messages are as late as on that network (link.h), there and here; the transport's.
 * Before anything is sent, and on all nodes or on none. */
void mr_transport_slow(struct mr_transport *transport, struct mr_link *link);
/* In a child process, where nothing else may be called: while it holds the connections too, nobody
 * notices that this node has died. */
void mr_transport_abandon(const struct mr_transport *transport);

/* What this node shows of its pages to nodes of its host (shown.h), one each; NULL: nothing. */
struct mr_shown *mr_transport_shown(const struct mr_transport *transport);
/* Copies a page that `node` shows.  Negative errno: it has to be asked for. */
int mr_transport_copy(struct mr_transport *transport, uint16_t node, uint32_t page, void *bytes,
                      uint64_t *version);

/* As mr_near_map; -ENOENT: nobody is near. */
int mr_transport_map(const struct mr_transport *transport, uint16_t node, enum mr_share_part part,
                     void **at);

/* Sends, or keeps a copy to send.  To a peer that is down: nothing.  -ENOMEM;
 * -EMSGSIZE: more than 1 GiB. */
int mr_transport_send(struct mr_transport *transport, uint16_t to, const void *message,
                      size_t length);
/* Tells every peer that nothing more will come. */
int mr_transport_farewell(struct mr_transport *transport);

/* Receives and sends what is possible now.  How many messages, pieces of messages and ends came
 * (on a slower network: messages that are due, and ends); -ENOMEM. */
int mr_transport_serve(struct mr_transport *transport, const struct mr_transport_sink *sink,
                       void *context);

/* Whether something is there to be served, at a glance and without the lock: 1, 0; -1: only the
 * descriptor says that. */
int mr_transport_glance(const struct mr_transport *transport);
/* Is readable when there is something to serve, once mr_transport_rest has said 0 after the last
 * other call. */
int mr_transport_descriptor(const struct mr_transport *transport);
/* Whether it is so when something has been sent, too. */
bool mr_transport_tells_of_sends(const struct mr_transport *transport);
/* The caller serves from here on, and need not be told until mr_transport_rest.  Whether the
 * descriptor is silent meanwhile: of messages, at least of short ones. */
bool mr_transport_awake(struct mr_transport *transport);
/* -EAGAIN: something is there to be served already. */
int mr_transport_rest(struct mr_transport *transport);
/* How long one may rely on the descriptor from now on, in ns: then it is to be served, whatever
 * that says, as a look at silent peers is due.  What comes meanwhile does not put that off. */
int64_t mr_transport_patience(const struct mr_transport *transport);
/* When a message that the descriptor has told of is to be served; INT64_MAX: there is none. */
int64_t mr_transport_due(const struct mr_transport *transport);

#endif
