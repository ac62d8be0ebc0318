/* journal.h: what happened to a node since a checkpoint, in their order (internal to libmaru-dsm).
 *
 * A core is a function of what it is asked and told (core.h), and of its own requests a program
 * that is repeated makes the same ones. So a node writes each message that it hears, and that it
 * makes a request, before either takes effect. A new process, from the same checkpoint, does all of
 * it again (replay.h). The journal lies in memory that the launcher holds, and outlives the node.
 *
 * It is a ring, mapped twice in a row, so that each event is in one piece.  What is before the last
 * whole checkpoint is forgotten, and the ring begins anew there: it takes no more memory than
 * happens between two checkpoints.  Where there is no room for an event the journal is *torn*,
 * until the next cut: nobody can do again what is not in it.
 *
 * A node that is killed anywhere in this leaves whole events.  Thread-safety: none; one process at
 * a time.  Errors are negative errno.
 */
#ifndef MARU_DSM_JOURNAL_H
#define MARU_DSM_JOURNAL_H

#include "diff.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_event_kind {
  MR_EVENT_TOLD = 1, /* a message; `node` sent it */
  MR_EVENT_ASKED,    /* a request of the program's */
  MR_EVENT_CLEANED,  /* it stands still: what it wrote goes home, and all hear of it */
  MR_EVENT_GAVE,     /* right after a message: what it gave of a page that it was writing */
  MR_EVENT_CUT       /* a checkpoint may be here */
};

struct mr_event {
  enum mr_event_kind kind;
  uint16_t node;
  const void *bytes; /* 8-byte aligned; until the next event is added */
  size_t length;
};

struct mr_journal;

/* Of the file for a journal of so many bytes: whole pages. */
static inline size_t mr_journal_size(size_t capacity) { return MR_PAGE + capacity; }
/* Of that file, which is all zero at first, and is closed: the program's descriptors come first.
 * -EBADMSG: it is no journal. */
int mr_journal_open(struct mr_journal **journal, int file);
void mr_journal_close(struct mr_journal *journal);
/* Nothing happened. */
void mr_journal_clear(struct mr_journal *journal);

/* False: there is no room, and the journal is torn. Of a cut after which it is whole again: all
 * before is forgotten. */
bool mr_journal_add(struct mr_journal *journal, enum mr_event_kind kind, uint16_t node,
                    const void *bytes, size_t length);
bool mr_journal_torn(const struct mr_journal *journal);
/* How many bytes it has, and how many it can have. */
size_t mr_journal_has(const struct mr_journal *journal);
size_t mr_journal_capacity(const struct mr_journal *journal);

/* Beside the events: how much its node has sent, and a sum of that; written before it leaves. */
struct mr_journal_sent {
  uint64_t count, sum;
};
void mr_journal_sends(struct mr_journal *journal, struct mr_journal_sent sent);
struct mr_journal_sent mr_journal_sent(const struct mr_journal *journal);

/* Places: of its first event; behind its last. */
uint64_t mr_journal_begin(const struct mr_journal *journal);
uint64_t mr_journal_end(const struct mr_journal *journal);
/* The event there, and the place of the next. False: it is the end. */
bool mr_journal_read(const struct mr_journal *journal, uint64_t *at, struct mr_event *event);
/* What is before that place is not needed any more.  The events from there on may have other places
 * then: where they begin. */
uint64_t mr_journal_trim(struct mr_journal *journal, uint64_t at);

#endif
