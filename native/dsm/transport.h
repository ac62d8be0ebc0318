/* transport.h: messages between the nodes of a job, over TCP (internal to
 * libmaru-dsm).
 *
 * Each pair of nodes has one connection; messages arrive in order, once each, until
 * the peer says farewell or is lost.  Joining is authenticated by the job's secret, both
 * ways; who does not know it is turned away and does not disturb.  Not encrypted: the
 * network is trusted with the data.
 *
 * Thread-safety: one thread waits and serves; others may send.  All but
 * mr_transport_wait exclude each other: that is the owner's business.
 * Errors are negative errno.
 */
#ifndef MARU_DSM_TRANSPORT_H
#define MARU_DSM_TRANSPORT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_SECRET 32

struct mr_job {
  uint16_t nodes, me;
  int listener; /* bound and listening at addresses[me]; owned by join */
  const struct sockaddr_in *addresses;
  uint32_t epoch;
  uint32_t incarnation; /* this process's */
  uint64_t settings;    /* whatever has to be the same on all nodes */
  uint8_t secret[MR_SECRET];
};

struct mr_transport_sink {
  void (*message)(void *context, uint16_t from, const void *message, size_t length);
  /* No more comes from it; `farewell`: it said so. */
  void (*down)(void *context, uint16_t from, bool farewell);
};

struct mr_transport;

/* Connects with all other nodes and fills in their incarnations.
 * -ETIMEDOUT: not all were there in `seconds`; -EPROTO: one has other settings; -ENOMEM; or what
 * the system said. */
int mr_transport_join(struct mr_transport **transport, const struct mr_job *job,
                      uint32_t *incarnations, int seconds);
void mr_transport_close(struct mr_transport *transport);

/* Sends, or keeps a copy to send.  To a peer that is down: nothing.  -ENOMEM;
 * -EMSGSIZE: more than 1 GiB. */
int mr_transport_send(struct mr_transport *transport, uint16_t to, const void *message,
                      size_t length);
/* Tells every peer that nothing more will come. */
int mr_transport_farewell(struct mr_transport *transport);

/* How long mr_transport_wait keeps its processor before it sleeps, where the last wait was no
 * longer; 0, as at first: not at all.  Before others use the transport. */
void mr_transport_spin(struct mr_transport *transport, int64_t ns);

/* Waits until some peer has sent something, or can be sent what was kept. */
void mr_transport_wait(struct mr_transport *transport);
/* Receives and sends what is possible now.  -ENOMEM. */
int mr_transport_serve(struct mr_transport *transport, const struct mr_transport_sink *sink,
                       void *context);

#endif
