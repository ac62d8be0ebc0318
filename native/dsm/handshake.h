/* handshake.h: how two nodes prove to each other that they belong to the job (internal to
 * libmaru-dsm).  From bytes to bytes, without I/O and clock; join.c carries them.
 *
 *     caller -> listener   opening: a fresh nonce
 *     listener -> caller   opening: a fresh nonce
 *     caller -> listener   introduction, with a proof
 *     listener -> caller   introduction, with a proof
 *     caller -> listener   nod: a proof as well, of the listener's introduction
 *
 * A proof is the HMAC-SHA-256, by the job's secret, of the prover's role, both nonces and an
 * introduction, which names both nodes. So the secret itself is never sent. A proof says nothing in
 * another connection, in the other direction or to another node. The listener says nothing of
 * itself before the caller has proved that it knows the secret.
 *
 * The caller has met with its nod, the listener when that comes.  A listener that has seen the
 * proof waits for the nod as long as the connection stands. Else it could give up what the caller
 * counts on. A caller that gives up closes the connection, and never after its nod.
 *
 * Not proved: what comes afterwards.  A process that can write into the connection can speak for a
 * node.
 */
#ifndef MARU_DSM_HANDSHAKE_H
#define MARU_DSM_HANDSHAKE_H

#include "hmac.h"
#include "transport.h"

#define MR_NONCE 32

/* What a node tells another of its way to be reached by the transport. */
#define MR_CARD 256
#define MR_NEAR_CARD 96
struct mr_card {
  uint8_t bytes[MR_CARD];
  uint8_t near[MR_NEAR_CARD]; /* what nodes of the same host need (near.h) */
};

/* Without padding: it is sent as it lies, in host order, as a job runs on one architecture. */
struct mr_introduction {
  uint16_t from, to, nodes, zero;
  uint32_t epoch, incarnation;
  uint64_t settings;
  char transport[MR_TRANSPORT_NAME];
  struct mr_card card;
  uint8_t proof[MR_HMAC];
};

enum mr_role { MR_LISTENER = 1, MR_CALLER, MR_NODS };

enum mr_stage {
  MR_OPENING,      /* waits for the other's nonce */
  MR_INTRODUCTION, /* for its introduction */
  MR_NOD,          /* a listener: the other has proved itself */
  MR_MET,
  MR_STRANGER, /* what came is not a node's of this job */
};

struct mr_handshake {
  const struct mr_job *job;
  const struct mr_card *card;
  enum mr_role role;
  enum mr_stage stage;
  uint16_t to;                  /* a caller: whom it calls */
  uint8_t nonces[2][MR_NONCE];  /* the caller's, the listener's */
  struct mr_introduction other; /* from MR_NOD on, and for a caller that has met */
  uint8_t nod[MR_HMAC];         /* what a caller says at last, and a listener waits for */
  uint8_t in[sizeof(struct mr_introduction)];
  size_t came;
  uint8_t out[sizeof(struct mr_introduction) + MR_NONCE + MR_HMAC + 4]; /* to be sent */
  size_t left;
};

/* Whether the job's node `job->me` is called by that one, which then joins it. */
bool mr_is_called_by(const struct mr_job *job, uint16_t node);

/* `nonce` is MR_NONCE fresh random bytes, `to` the node that a caller calls.  The job and the card
 * stay the caller's, and live as long. */
void mr_handshake_begin(struct mr_handshake *h, const struct mr_job *job,
                        const struct mr_card *card, enum mr_role role, uint16_t to,
                        const uint8_t *nonce);
/* How many bytes it may hear now; 0: none, it waits for nothing. */
size_t mr_handshake_wants(const struct mr_handshake *h);
/* So many bytes came, at most as many as it wants.  What is to be sent is in `out`. */
void mr_handshake_hear(struct mr_handshake *h, const void *bytes, size_t length);
/* So many of `out` were sent. */
void mr_handshake_sent(struct mr_handshake *h, size_t length);

#endif
