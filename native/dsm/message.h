/* message.h: the messages between cores, as bytes (internal to libmaru-dsm).
 *
 * A header, then a body that the type defines.  Numbers are in host order: a
 * job runs on one architecture.  Readers trust nothing: a short body ends in
 * mr_reader.bad, never in a read beyond it.
 */
#ifndef MARU_DSM_MESSAGE_H
#define MARU_DSM_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MR_MESSAGE_VERSION 6u

enum mr_message_type {
  MR_FETCH = 1,  /* subject: the first page; value: the node that asks, where it is passed on
                    another than the sender; detail: ns that 1024 bytes take from this home, 0:
                    not known; body: for each page its number and the copy's version */
  MR_PAGE_COPY,  /* subject: the first page; body: for each in ascending order: number,
                    version, length, then the page (length MR_PAGE) or a packed diff of it */
  MR_DIFF,       /* subject: page; value: version of the copy; detail: the writer, as with MR_FETCH;
                    body: a packed diff; before it, where races are looked for, the number of the
                    writer's interval and its time */
  MR_DIFF_KEPT,  /* subject: page; value: version since; detail: bit 0: others write it, bit 1:
                    the writer is its home from now on, from bit 2 on: how often it has moved */
  MR_DIFF_AGAIN, /* subject: page: send it with masks */
  MR_SYNC,       /* subject: object; detail: operation; value: argument;
                    body: vector time, progress, with MR_COMPARE_SWAP what is expected, write
                    notices */
  MR_GRANT,      /* subject: object; detail: operation; value: result, or what manager.h says of
                    locks;
                    body: vector time, progress, write notices */
  MR_REFUSED,    /* subject: object; detail: operation; value: errno */
  MR_NEWS,       /* body: vector time, progress, write notices */
  MR_NEWS_HEARD, /* body: vector time, progress */
  MR_LOOK,       /* value: its number */
  MR_SEEN,       /* value: the look's number; subject, detail: object and operation that the node
                    waits for; body: 1 if it waits, messages sent, messages received */
  MR_NAMES_NEXT, /* subject: lock; value: a turn; detail: the node whose turn is the next, or
                    MR_NOBODY: the lock is asked back */
  MR_HOLDS,      /* subject: lock; value: its turn: the answer where it is held */
  MR_MEET,       /* subject: barrier of both nodes: the sender is there; body: as MR_NEWS */
  MR_MESSAGE_TYPES
};
/* As reports call it. */
const char *mr_message_name(enum mr_message_type type);

/* A sum that goes on with that message, which went to that node: of all that a node sends, in their
 * order. Without what it measured of the way, which is another each time. */
uint64_t mr_message_sum(uint64_t sum, uint16_t to, const void *message, size_t length);

/* Progress: what all have acquired; the number of the sender's round, the nodes in it (a bit per
 * node, in whole words); what those have acquired at least (core.h). */

struct mr_header {
  uint8_t version;
  uint8_t type;
  uint16_t from;
  uint32_t epoch;
  uint32_t incarnation; /* the sender's */
  uint32_t subject;
  int64_t value;
  uint32_t detail;
  uint32_t length; /* of the body, in bytes */
};

struct mr_reader {
  const uint8_t *at;
  size_t left;
  bool bad;
};

/* Copies the next `size` bytes; zeros, and bad, where there are not so many. */
static inline void mr_take(struct mr_reader *reader, void *to, size_t size) {
  if (size > reader->left) {
    memset(to, 0, size);
    reader->bad = true;
    reader->left = 0;
    return;
  }
  memcpy(to, reader->at, size);
  reader->at += size;
  reader->left -= size;
}

/* A message under construction; grows.  `failed` once memory was refused. */
struct mr_writer {
  uint8_t *bytes;
  size_t length, capacity;
  bool failed;
};

/* Room for `size` more bytes, counted as written; NULL when memory is refused. */
void *mr_put_room(struct mr_writer *writer, size_t size);

static inline void mr_put(struct mr_writer *writer, const void *from, size_t size) {
  void *room = mr_put_room(writer, size);
  if (room != NULL)
    memcpy(room, from, size);
}

#endif
