#include "outbox.h"

#include "buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Before each message.  Number 0: it has none, and is lost with a node; or there is no message. */
struct letter {
  uint64_t number, kept;
  uint32_t mark, unused;
};

struct peer {
  uint64_t sent, heard; /* the last number; up to which it was kept there */
  uint64_t kept, told;  /* the last of its that is kept here; what it was told of that */
  size_t untold;        /* bytes that came since */
  bool greeted;
  struct mr_buffer waiting; /* frames of heard + 1 to sent: a length, a letter, the message */
};

struct mr_outbox {
  uint16_t nodes;
  mr_outbox_send_call *send;
  void *context;
  struct peer peers[];
};

int mr_outbox_create(struct mr_outbox **outbox, uint16_t nodes, mr_outbox_send_call *send,
                     void *context) {
  struct mr_outbox *o = calloc(1, sizeof *o + nodes * sizeof(struct peer));
  if (o == NULL)
    return -ENOMEM;
  o->nodes = nodes;
  o->send = send;
  o->context = context;
  for (uint16_t i = 0; i < nodes; i++)
    o->peers[i].greeted = true;
  *outbox = o;
  return 0;
}

void mr_outbox_destroy(struct mr_outbox *outbox) {
  for (uint16_t i = 0; i < outbox->nodes; i++)
    free(outbox->peers[i].waiting.bytes);
  free(outbox);
}

/* ---- sending --------------------------------------------------------------------- */

static void told(struct peer *peer) {
  peer->told = peer->kept;
  peer->untold = 0;
}

static int put(struct peer *peer, const struct letter *letter, const void *message, size_t length) {
  struct mr_buffer *to = &peer->waiting;
  size_t size = sizeof *letter + length;
  if (mr_buffer_reserve(to, sizeof size + size) < 0)
    return -ENOMEM;
  mr_buffer_append(to, &size, sizeof size);
  mr_buffer_append(to, letter, sizeof *letter);
  return mr_buffer_append(to, message, length);
}

int mr_outbox_send(struct mr_outbox *outbox, uint16_t to, uint32_t mark, const void *message,
                   size_t length) {
  struct peer *peer = &outbox->peers[to];
  const struct letter letter = {.number = peer->sent + 1, .kept = peer->kept, .mark = mark};
  if (peer->sent < peer->heard) {
    peer->sent++;
    return 0;
  }
  if (put(peer, &letter, message, length) < 0)
    return -ENOMEM;
  peer->sent++;
  if (!peer->greeted)
    return 0;
  told(peer);
  size_t size = sizeof letter + length;
  return outbox->send(outbox->context, to, peer->waiting.bytes + peer->waiting.end - size, size);
}

int mr_outbox_send_once(struct mr_outbox *outbox, uint16_t to, const void *message, size_t length) {
  struct peer *peer = &outbox->peers[to];
  const struct letter letter = {.kept = peer->kept};
  uint8_t bytes[sizeof letter + 256];
  if (length > sizeof bytes - sizeof letter)
    return -EMSGSIZE;
  if (!peer->greeted)
    return 0;
  told(peer);
  memcpy(bytes, &letter, sizeof letter);
  if (length > 0)
    memcpy(bytes + sizeof letter, message, length);
  return outbox->send(outbox->context, to, bytes, sizeof letter + length);
}

/* ---- hearing --------------------------------------------------------------------- */

static size_t first_size(const struct peer *peer) {
  size_t size;
  memcpy(&size, peer->waiting.bytes + peer->waiting.begin, sizeof size);
  return size;
}

/* False: it cannot have kept so many.  Of a node that does again what it did it may have kept more
 * than that has sent yet. */
static bool heard(struct peer *peer, uint64_t number) {
  if (number > peer->sent && number > peer->heard)
    return false;
  for (; peer->heard < number; peer->heard++)
    peer->waiting.begin += sizeof(size_t) + first_size(peer);
  return true;
}

/* All that was not kept there. */
static int send_waiting(struct mr_outbox *outbox, uint16_t to) {
  struct peer *peer = &outbox->peers[to];
  int rc = 0;
  told(peer);
  for (size_t at = peer->waiting.begin, size; at < peer->waiting.end && rc >= 0;
       at += sizeof size + size) {
    memcpy(&size, peer->waiting.bytes + at, sizeof size);
    struct letter letter;
    uint8_t *bytes = peer->waiting.bytes + at + sizeof size;
    memcpy(&letter, bytes, sizeof letter);
    letter.kept = peer->kept;
    memcpy(bytes, &letter, sizeof letter);
    rc = outbox->send(outbox->context, to, bytes, size);
  }
  return rc;
}

static int greeted(struct mr_outbox *outbox, uint16_t from, uint64_t kept) {
  struct peer *peer = &outbox->peers[from];
  peer->greeted = true;
  if (kept > peer->sent) {
    peer->heard = kept;
    peer->waiting.begin = peer->waiting.end = 0;
  }
  return heard(peer, kept) ? send_waiting(outbox, from) : -EBADMSG;
}

int mr_outbox_hear(struct mr_outbox *outbox, uint16_t from, const void *bytes, size_t size,
                   struct mr_outbox_message *message) {
  struct peer *peer = &outbox->peers[from];
  struct letter letter;
  if (size < sizeof letter)
    return -EBADMSG;
  memcpy(&letter, bytes, sizeof letter);
  *message = (struct mr_outbox_message){.bytes = (const uint8_t *)bytes + sizeof letter,
                                        .length = size - sizeof letter,
                                        .mark = letter.mark,
                                        .counts = letter.number != 0,
                                        .greets = !peer->greeted};
  if (message->counts && (letter.number != peer->kept + 1 || message->length == 0))
    return -EBADMSG;
  if (message->greets)
    return greeted(outbox, from, letter.kept);
  return heard(peer, letter.kept) ? 0 : -EBADMSG;
}

int mr_outbox_kept(struct mr_outbox *outbox, uint16_t from, size_t length) {
  struct peer *peer = &outbox->peers[from];
  peer->kept++;
  peer->untold += length;
  return peer->untold >= MR_OUTBOX_TELLS ? mr_outbox_send_once(outbox, from, NULL, 0) : 0;
}

/* ---- another process --------------------------------------------------------------- */

void mr_outbox_part(struct mr_outbox *outbox, uint16_t node) {
  outbox->peers[node].greeted = false;
}

int mr_outbox_greet(struct mr_outbox *outbox, uint16_t node) {
  const struct letter letter = {.kept = outbox->peers[node].kept};
  told(&outbox->peers[node]);
  return outbox->send(outbox->context, node, &letter, sizeof letter);
}

struct mr_outbox_counts mr_outbox_counts(const struct mr_outbox *outbox, uint16_t node) {
  return (struct mr_outbox_counts){outbox->peers[node].sent, outbox->peers[node].kept};
}

void mr_outbox_resume(struct mr_outbox *outbox, uint16_t node, struct mr_outbox_counts counts) {
  struct peer *peer = &outbox->peers[node];
  peer->sent = peer->heard = counts.sent;
  peer->kept = peer->told = counts.kept;
}
