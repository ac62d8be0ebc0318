/* fabric_state.h: what an endpoint on a fabric is made of (internal to fabric*.c). */
#ifndef MARU_DSM_FABRIC_STATE_H
#define MARU_DSM_FABRIC_STATE_H

#include "fabric.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

/* In front of each piece of a message. */
struct mr_piece {
  uint64_t token; /* the receiver's */
  uint32_t place; /* in the order of what this sender sends there */
  uint16_t from;
  uint16_t ends; /* enum mr_piece_ends */
};

enum mr_piece_ends { MR_ENDS_NOTHING, MR_ENDS_MESSAGE, MR_ENDS_ALL };

/* So much at a time goes without a rendezvous in most providers; rxm of libfabric 1.17 crashes in
 * one with a peer that dies. Where there is a stream below, it is pieces that cost. The longest
 * batch, 64 pages and what goes with them, is one, which is handed out where it lies. */
#define MR_PIECE 16384u
#define MR_PIECE_OF_STREAM (65u * 4096)

/* A piece's memory.  Belongs to the provider from its posting to its completion. */
struct mr_slot {
  struct fi_context2 context; /* first: the provider gives its address back */
  struct mr_slot *next;
  uint8_t *bytes; /* as many as a piece has at most */
  void *description;
  uint32_t length;
  uint16_t peer;
  bool receives;
};

/* Memory of several slots, registered where the provider wants that. */
struct mr_slots {
  struct mr_slots *next;
  struct fid_mr *registered;
  uint8_t *bytes;
  struct mr_slot slots[];
};

struct mr_queue {
  struct mr_slot *first, **end;
};

struct mr_partner {
  fi_addr_t address;
  uint64_t token;       /* its */
  uint32_t sent, taken; /* pieces */
  struct mr_queue out;  /* the provider has not taken them yet */
  uint8_t *part;        /* of a message whose pieces are coming */
  size_t length, capacity;
  int64_t broken_at; /* a send failed then; 0: none */
  bool left, asked;  /* its farewell has come; and who uses the fabric knows */
  bool spoke;        /* pieces came since somebody asked whether some did */
  bool down;
};

struct mr_fabric {
  struct fi_info *info;
  struct fid_fabric *fabric;
  struct fid_domain *domain;
  struct fid_av *av;
  struct fid_cq *cq;
  struct fid_ep *ep;
  int fds[MR_FABRIC_FDS]; /* of the queue of completions; those that fall silent */
  int fd_count;
  uint16_t nodes, me;
  uint64_t token;      /* mine */
  uint32_t piece_size; /* bytes of a slot: the same at all partners */
  struct mr_slots *memory;
  struct mr_slot *unused; /* to send */
  struct mr_queue idle;   /* to receive, not taken by the provider yet */
  struct mr_queue held;   /* came before their turn */
  bool broken;            /* some partner is */
  unsigned leavers;       /* partners that left and were not asked for */
  struct mr_partner partners[];
};

/* ---- fabric_open.c ---- */

/* More slots, to send or to receive, into `unused` or `idle`.  -ENOMEM, or what the provider said.
 */
int mr_fabric_grow(struct mr_fabric *fabric, bool receives);

/* Their addresses and tokens. */
int mr_fabric_meet(struct mr_fabric *fabric, const struct mr_card *cards);
const char *mr_fabric_error(int error);

static inline void mr_queue_put(struct mr_queue *queue, struct mr_slot *slot) {
  slot->next = NULL;
  *queue->end = slot;
  queue->end = &slot->next;
}

static inline struct mr_slot *mr_queue_take(struct mr_queue *queue) {
  struct mr_slot *slot = queue->first;
  queue->first = slot->next;
  if (queue->first == NULL)
    queue->end = &queue->first;
  return slot;
}

#endif
