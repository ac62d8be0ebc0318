/* fabric.h: messages over a provider of libfabric (internal to libmaru-dsm).
 *
 * libfabric is loaded when it is asked for. Any provider of reliable datagram endpoints (FI_EP_RDM,
 * FI_MSG) serves, by the same code: those over TCP, verbs, EFA and so on. Messages are cut into
 * pieces. Each begins with its place in order, and with a number that its receiver drew. The
 * receiver told its partners the number over the authenticated connection, so that nobody else on
 * the fabric can speak for them.  A farewell is such a piece, behind all others.  The provider is
 * not asked whether peers live: the connections of transport.c know.
 *
 * Thread-safety: as transport.h.  Errors are negative errno.
 */
#ifndef MARU_DSM_FABRIC_H
#define MARU_DSM_FABRIC_H

#include "join.h"

struct mr_fabric;

/* "PROVIDER" of "ofi:PROVIDER"; NULL: not libfabric's. */
const char *mr_fabric_provider(const char *transport);

/* Opens an endpoint at this node's address; `card`: how others reach it. -ENOSYS: built without
 * libfabric, or it is not installed. -ENODATA: it has no such provider here; `why` says it. */
int mr_fabric_open(struct mr_fabric **fabric, const char *provider, const struct mr_job *job,
                   struct mr_card *card, char *why, size_t size);
/* Exchanges a first message with everyone.  -ETIMEDOUT: not with all by `deadline`; what the
 * provider said; `why` says it. */
int mr_fabric_connect(struct mr_fabric *fabric, const struct mr_card *cards, int64_t deadline,
                      char *why, size_t size);
void mr_fabric_close(struct mr_fabric *fabric);

/* As the calls of transport.h.  -ECONNABORTED: the provider has failed for a peer that lives. */
int mr_fabric_send(struct mr_fabric *fabric, uint16_t to, const void *message, size_t length);
int mr_fabric_farewell(struct mr_fabric *fabric, uint16_t to);
int mr_fabric_serve(struct mr_fabric *fabric, const struct mr_transport_sink *sink, void *context);
/* A peer whose farewell has come, each once; -1: none. */
int mr_fabric_leaver(struct mr_fabric *fabric);
/* Whether pieces of it have come since that was asked last. */
bool mr_fabric_spoke(struct mr_fabric *fabric, uint16_t node);
/* The peer's link is down: nothing is sent there any more. */
void mr_fabric_forget(struct mr_fabric *fabric, uint16_t node);
#define MR_FABRIC_FDS 4
/* How many; 0: the provider has none. */
int mr_fabric_descriptors(const struct mr_fabric *fabric, int fds[MR_FABRIC_FDS]);
int mr_fabric_rest(struct mr_fabric *fabric);
int64_t mr_fabric_patience(const struct mr_fabric *fabric);

/* The providers that would serve here, separated by ", ".  Errors as mr_fabric_open's. */
int mr_fabric_list(char *names, size_t size, char *why, size_t why_size);

#endif
