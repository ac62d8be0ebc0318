/* outbox.h: messages that reach a node once each, in order, also where it is started again
 * (internal to libmaru-dsm).
 *
 * Messages to a node have numbers.  Each also says up to which number its sender has *kept* the
 * messages that came the other way: they are in its journal.  What is not kept yet stays in the
 * outbox.  Where a node is lost and begins again, both ends of each connection greet: they say what
 * they have kept, and send the rest.  A node that does again what it did sends all of it again;
 * what the others have kept is not sent.
 *
 * After Elnozahy, Alvisi, Wang and Johnson, A Survey of Rollback-Recovery Protocols, ACM Computing
 * Surveys 34 (2002), section 4.1 (pessimistic logging).  Memory: what is sent between two words of
 * what was kept; a receiver says one each MR_OUTBOX_TELLS bytes at the latest.
 *
 * Thread-safety: none.  Errors are negative errno.
 */
#ifndef MARU_DSM_OUTBOX_H
#define MARU_DSM_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_OUTBOX_TELLS 65536u

struct mr_outbox;

/* `send` takes what goes over the network; below 0: what it returned goes to the caller. */
typedef int mr_outbox_send_call(void *context, uint16_t to, const void *bytes, size_t length);

int mr_outbox_create(struct mr_outbox **outbox, uint16_t nodes, mr_outbox_send_call *send,
                     void *context);
void mr_outbox_destroy(struct mr_outbox *outbox);

/* `mark` goes with it. */
int mr_outbox_send(struct mr_outbox *outbox, uint16_t to, uint32_t mark, const void *message,
                   size_t length);
/* It may be lost with a node. */
int mr_outbox_send_once(struct mr_outbox *outbox, uint16_t to, const void *message, size_t length);

/* What came from there.  One that counts is to be kept, and then mr_outbox_kept to be called,
 * before the next call. */
struct mr_outbox_message {
  const void *bytes;
  size_t length; /* 0: there is none */
  uint32_t mark;
  bool counts;
  bool greets; /* the first since mr_outbox_part: what was sent once meanwhile is lost */
};
/* -EBADMSG: nothing that this sends. */
int mr_outbox_hear(struct mr_outbox *outbox, uint16_t from, const void *bytes, size_t size,
                   struct mr_outbox_message *message);
int mr_outbox_kept(struct mr_outbox *outbox, uint16_t from, size_t length);

/* The connection is another from here on, or this process is: nothing is sent there before it has
 * greeted. */
void mr_outbox_part(struct mr_outbox *outbox, uint16_t node);
int mr_outbox_greet(struct mr_outbox *outbox, uint16_t node);

/* How many messages were sent there, and kept from there. */
struct mr_outbox_counts {
  uint64_t sent, kept;
};
struct mr_outbox_counts mr_outbox_counts(const struct mr_outbox *outbox, uint16_t node);
/* Of one from which nothing was sent yet. */
void mr_outbox_resume(struct mr_outbox *outbox, uint16_t node, struct mr_outbox_counts counts);

#endif
