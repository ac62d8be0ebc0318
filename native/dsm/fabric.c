/* How messages go over an endpoint; fabric_open.c has its life. */
#include "fabric_state.h"

#include <errno.h>
#include <maru/wait.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_MAX ((size_t)1 << 30)
#define COMPLETIONS 16
#define LOOKS 20
/* How often a provider is asked that tells when to, and one that does not. */
#define PATIENCE_NS 20000000
#define BLIND_NS 50000
/* A peer whose sends fail has died, and its link will tell; or the fabric has. */
#define BROKEN_NS INT64_C(1000000000)

/* ---- sending ------------------------------------------------------------------- */

static void give_back(struct mr_fabric *f, struct mr_slot *slot) {
  slot->next = f->unused;
  f->unused = slot;
}

static void break_off(struct mr_fabric *f, uint16_t node) {
  struct mr_partner *partner = &f->partners[node];
  if (partner->down || partner->broken_at != 0)
    return;
  partner->broken_at = maru_now_ns();
  f->broken = true;
}

/* As much as the provider takes now. */
static void push(struct mr_fabric *f, uint16_t node) {
  struct mr_partner *partner = &f->partners[node];
  while (partner->out.first != NULL) {
    struct mr_slot *slot = partner->out.first;
    ssize_t rc = fi_send(f->ep, slot->bytes, slot->length, slot->description, partner->address,
                         &slot->context);
    if (rc == -FI_EAGAIN)
      return;
    mr_queue_take(&partner->out);
    if (rc != 0) {
      give_back(f, slot);
      break_off(f, node);
    }
  }
}

static int cut(struct mr_fabric *f, uint16_t to, const uint8_t *bytes, size_t length,
               enum mr_piece_ends ends) {
  struct mr_partner *partner = &f->partners[to];
  if (f->unused == NULL) {
    int rc = mr_fabric_grow(f, false);
    if (rc != 0)
      return rc;
  }
  struct mr_slot *slot = f->unused;
  f->unused = slot->next;
  const struct mr_piece piece = {partner->token, partner->sent++, f->me, (uint16_t)ends};
  memcpy(slot->bytes, &piece, sizeof piece);
  if (length > 0)
    memcpy(slot->bytes + sizeof piece, bytes, length);
  slot->length = (uint32_t)(sizeof piece + length);
  slot->peer = to;
  mr_queue_put(&partner->out, slot);
  return 0;
}

int mr_fabric_send(struct mr_fabric *fabric, uint16_t to, const void *message, size_t length) {
  const uint8_t *at = message;
  size_t room = fabric->piece_size - sizeof(struct mr_piece);
  int rc = 0;
  if (fabric->partners[to].down)
    return 0;
  for (bool last = false; !last && rc == 0;) {
    size_t part = length < room ? length : room;
    last = part == length;
    rc = cut(fabric, to, at, part, last ? MR_ENDS_MESSAGE : MR_ENDS_NOTHING);
    at += part;
    length -= part;
  }
  push(fabric, to);
  return rc;
}

int mr_fabric_farewell(struct mr_fabric *fabric, uint16_t to) {
  int rc = fabric->partners[to].down ? 0 : cut(fabric, to, NULL, 0, MR_ENDS_ALL);
  push(fabric, to);
  return rc;
}

void mr_fabric_forget(struct mr_fabric *fabric, uint16_t node) {
  struct mr_partner *partner = &fabric->partners[node];
  partner->down = true;
  while (partner->out.first != NULL)
    give_back(fabric, mr_queue_take(&partner->out));
}

/* ---- receiving ------------------------------------------------------------------- */

static void post(struct mr_fabric *f) {
  while (f->idle.first != NULL) {
    struct mr_slot *slot = f->idle.first;
    if (fi_recv(f->ep, slot->bytes, f->piece_size, slot->description, FI_ADDR_UNSPEC,
                &slot->context) != 0)
      return; /* tried again with the next look */
    mr_queue_take(&f->idle);
  }
}

static struct mr_piece head(const struct mr_slot *slot) {
  struct mr_piece piece;
  memcpy(&piece, slot->bytes, sizeof piece);
  return piece;
}

/* Nobody else knows the token. */
static bool is_ours(const struct mr_fabric *f, const struct mr_slot *slot) {
  if (slot->length < sizeof(struct mr_piece))
    return false;
  struct mr_piece piece = head(slot);
  return piece.token == f->token && piece.from < f->nodes && piece.from != f->me;
}

static int keep(struct mr_partner *partner, const uint8_t *bytes, size_t length) {
  size_t needed = partner->length + length;
  if (needed > MESSAGE_MAX)
    return -EBADMSG;
  if (needed > partner->capacity) {
    size_t capacity = needed * 2;
    uint8_t *wider = realloc(partner->part, capacity);
    if (wider == NULL)
      return -ENOMEM;
    partner->part = wider;
    partner->capacity = capacity;
  }
  memcpy(partner->part + partner->length, bytes, length);
  partner->length = needed;
  return 0;
}

/* Its turn has come.  Whether it is of a message. */
static int fabric_take(struct mr_fabric *f, struct mr_slot *slot,
                       const struct mr_transport_sink *sink, void *context) {
  struct mr_piece piece = head(slot);
  struct mr_partner *partner = &f->partners[piece.from];
  const uint8_t *bytes = slot->bytes + sizeof piece;
  size_t length = slot->length - sizeof piece;
  partner->taken++;
  partner->spoke = true;
  if (piece.ends == MR_ENDS_ALL) {
    f->leavers += !partner->left;
    partner->left = true;
    return 0;
  }
  if (piece.ends == MR_ENDS_MESSAGE && partner->length == 0) {
    if (length > 0)
      sink->message(context, piece.from, bytes, length);
    return length > 0;
  }
  int rc = keep(partner, bytes, length);
  if (rc < 0 || piece.ends == MR_ENDS_NOTHING)
    return rc < 0 ? rc : 1;
  length = partner->length;
  partner->length = 0;
  sink->message(context, piece.from, partner->part, length);
  return 1;
}

/* A provider keeps the order in which messages are sent, not that in which it is done with
 * them.  How many pieces of messages; those whose turn has not come are held. */
static int take_held(struct mr_fabric *f, const struct mr_transport_sink *sink, void *context) {
  int came = 0;
  for (bool any = true; any && came >= 0;) {
    any = false;
    struct mr_queue rest = {NULL, &rest.first};
    while (f->held.first != NULL && came >= 0) {
      struct mr_slot *slot = mr_queue_take(&f->held);
      struct mr_piece piece = head(slot);
      if (piece.place != f->partners[piece.from].taken) {
        mr_queue_put(&rest, slot);
        continue;
      }
      int rc = fabric_take(f, slot, sink, context);
      came = rc < 0 ? rc : came + rc;
      any = true;
      mr_queue_put(&f->idle, slot);
    }
    while (rest.first != NULL)
      mr_queue_put(&f->held, mr_queue_take(&rest));
  }
  return came;
}

static void completed(struct mr_fabric *f, struct mr_slot *slot, size_t length) {
  if (!slot->receives) {
    give_back(f, slot);
    return;
  }
  slot->length = (uint32_t)length;
  struct mr_partner *partner = is_ours(f, slot) ? &f->partners[head(slot).from] : NULL;
  /* Older than its turn: nobody sends it twice. */
  if (partner != NULL && (int32_t)(head(slot).place - partner->taken) >= 0)
    mr_queue_put(&f->held, slot);
  else
    mr_queue_put(&f->idle, slot);
}

static void failed(struct mr_fabric *f) {
  struct fi_cq_err_entry error = {0};
  if (fi_cq_readerr(f->cq, &error, 0) != 1 || error.op_context == NULL)
    return;
  struct mr_slot *slot = error.op_context;
  if (slot->receives) {
    mr_queue_put(&f->idle, slot);
    return;
  }
  break_off(f, slot->peer);
  give_back(f, slot);
}

/* What the provider is done with; whether there may be more. */
static int collect(struct mr_fabric *f) {
  struct fi_cq_msg_entry entries[COMPLETIONS];
  ssize_t count = fi_cq_read(f->cq, entries, COMPLETIONS);
  if (count == -FI_EAGAIN)
    return 0;
  if (count == -FI_EAVAIL) {
    failed(f);
    return 1;
  }
  for (ssize_t i = 0; i < count; i++)
    completed(f, entries[i].op_context, entries[i].len);
  return count < 0 ? (int)count : count == COMPLETIONS;
}

/* A peer that lives cannot be reached any more. */
static int check_broken(struct mr_fabric *f) {
  f->broken = false;
  for (uint16_t node = 0; node < f->nodes; node++) {
    const struct mr_partner *partner = &f->partners[node];
    if (partner->broken_at == 0 || partner->down)
      continue;
    if (maru_now_ns() - partner->broken_at > BROKEN_NS)
      return -ECONNABORTED;
    f->broken = true;
  }
  return 0;
}

int mr_fabric_serve(struct mr_fabric *fabric, const struct mr_transport_sink *sink, void *context) {
  int more, came;
  while ((more = collect(fabric)) > 0)
    ;
  came = more < 0 ? more : fabric->held.first != NULL ? take_held(fabric, sink, context) : 0;
  post(fabric);
  for (uint16_t node = 0; node < fabric->nodes; node++)
    if (fabric->partners[node].out.first != NULL)
      push(fabric, node);
  int rc = fabric->broken ? check_broken(fabric) : 0;
  return rc < 0 ? rc : came;
}

int mr_fabric_leaver(struct mr_fabric *fabric) {
  for (uint16_t node = 0; node < fabric->nodes && fabric->leavers > 0; node++)
    if (fabric->partners[node].left && !fabric->partners[node].asked) {
      fabric->partners[node].asked = true;
      fabric->leavers--;
      return node;
    }
  return -1;
}

bool mr_fabric_spoke(struct mr_fabric *fabric, uint16_t node) {
  bool spoke = fabric->partners[node].spoke;
  fabric->partners[node].spoke = false;
  return spoke;
}

/* ---- waiting ------------------------------------------------------------------------ */

int mr_fabric_descriptors(const struct mr_fabric *fabric, int fds[MR_FABRIC_FDS]) {
  memcpy(fds, fabric->fds, sizeof fabric->fds);
  return fabric->fd_count;
}

int mr_fabric_rest(struct mr_fabric *fabric) {
  struct fid *fids[] = {&fabric->cq->fid};
  return fabric->fd_count > 0 && fi_trywait(fabric->fabric, fids, 1) == -FI_EAGAIN ? -EAGAIN : 0;
}

int64_t mr_fabric_patience(const struct mr_fabric *fabric) {
  return fabric->fd_count > 0 ? PATIENCE_NS : BLIND_NS;
}

/* ---- the first messages ---------------------------------------------------------------- */

/* Nothing is handed out before all have met. */
static bool all_met(const struct mr_fabric *f, uint16_t *missing) {
  for (uint16_t node = 0; node < f->nodes; node++) {
    bool met = node == f->me;
    for (const struct mr_slot *slot = f->held.first; slot != NULL && !met; slot = slot->next)
      met = head(slot).from == node && head(slot).place == 0;
    *missing = node;
    if (!met)
      return false;
  }
  return true;
}

/* Keeps the descriptors that are silent when nothing comes.  One that net has in libfabric 1.17
 * tells of completions, and is readable for ever after the first; its other tells of bytes. */
static void keep_silent(struct mr_fabric *f) {
  struct pollfd polled[MR_FABRIC_FDS];
  bool silent[MR_FABRIC_FDS] = {false};
  int kept = 0;
  for (int i = 0; i < f->fd_count; i++)
    polled[i] = (struct pollfd){.fd = f->fds[i], .events = POLLIN};
  for (int look = 0; look < LOOKS && kept < f->fd_count; look++) {
    while (collect(f) > 0)
      ;
    if (mr_fabric_rest(f) == 0 && poll(polled, (nfds_t)f->fd_count, 0) >= 0)
      for (int i = 0; i < f->fd_count; i++) {
        kept += !silent[i] && polled[i].revents == 0;
        silent[i] |= polled[i].revents == 0;
      }
    poll(NULL, 0, 1);
  }
  for (int i = 0, at = 0; i < f->fd_count; i++)
    if (silent[i])
      f->fds[at++] = f->fds[i];
  f->fd_count = kept;
}

static unsigned length_of(const struct mr_queue *queue) {
  unsigned length = 0;
  for (const struct mr_slot *slot = queue->first; slot != NULL; slot = slot->next)
    length++;
  return length;
}

/* A node that has met all sends more, which stays held: for the first message of another there is
 * room all the same.  `more`: slots beyond the two for each partner. */
static int make_room(struct mr_fabric *f, unsigned *more) {
  int rc = 0;
  while (rc == 0 && length_of(&f->held) > f->nodes + *more) {
    unsigned before = length_of(&f->idle);
    rc = mr_fabric_grow(f, true);
    *more += length_of(&f->idle) - before;
  }
  post(f);
  return rc;
}

/* An empty message proves the way there; those that come stay held until the first look. */
int mr_fabric_connect(struct mr_fabric *fabric, const struct mr_card *cards, int64_t deadline,
                      char *why, size_t size) {
  uint16_t missing = 0;
  unsigned grown = 0;
  int rc = mr_fabric_meet(fabric, cards), more = 0;
  post(fabric);
  for (uint16_t node = 0; node < fabric->nodes && rc == 0; node++)
    if (node != fabric->me)
      rc = mr_fabric_send(fabric, node, "", 0);
  while (rc == 0 && !all_met(fabric, &missing) && maru_now_ns() < deadline) {
    while ((more = collect(fabric)) > 0)
      ;
    rc = more < 0 ? more : make_room(fabric, &grown);
    for (uint16_t node = 0; node < fabric->nodes; node++)
      push(fabric, node);
    poll(NULL, 0, 1);
  }
  if (rc == 0 && !all_met(fabric, &missing))
    rc = -ETIMEDOUT;
  if (rc == 0)
    keep_silent(fabric);
  if (rc == -ETIMEDOUT)
    snprintf(why, size, "libfabric's provider '%s' does not reach node %u",
             fabric->info->fabric_attr->prov_name, missing);
  else if (rc != 0)
    snprintf(why, size, "libfabric's provider '%s' cannot be used: %s",
             fabric->info->fabric_attr->prov_name, mr_fabric_error(rc));
  return rc;
}
