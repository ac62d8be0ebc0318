/* replay.h: a node that was lost does again what it did, alone (internal to libmaru-dsm).
 *
 * For jobs whose launcher was asked to (`--recover lost`).  Each node keeps a journal of what
 * happens to it (journal.h), and what others have not kept yet (outbox.h). Where a node is lost the
 * launcher starts another in its place, from the last checkpoint or from the beginning. The others
 * wait until that has joined, and then go on. The new one does again what its journal has, with the
 * same messages between the same requests of its program. Meanwhile it keeps in its journal what
 * they send. What it sends they have heard already, up to a number, and from there on it is new.
 *
 * At each cut every core begins a history anew (save.h), as a new process does that goes on from
 * there.
 *
 * A program that does something else than it did cannot be repeated. Of all that the node sends it
 * keeps a sum, and compares it at each request.  Where it differs, or the journal is torn, the node
 * is lost once more, and all go back to the checkpoint.
 *
 * Thread-safety: with the node's lock held, but where it is said.  What fails ends the process.
 */
#ifndef MARU_DSM_REPLAY_H
#define MARU_DSM_REPLAY_H

#include "transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_call {
  MR_CALL_READ,
  MR_CALL_WRITE,
  MR_CALL_BRING,
  MR_CALL_SYNC,
  MR_CALL_SWAP,
  MR_CALL_STOP, /* what it wrote goes home, for a checkpoint */
  MR_CALL_CLOCK /* what: which; one: what it said, two: how often it had said the same as before */
};

/* A request of the program's. */
struct mr_asked {
  uint32_t call, what; /* a page, or the object */
  int64_t one, two;
};

struct mr_replay;

/* Before the node joins. NULL: nobody asked for a journal. */
struct mr_replay *mr_replay_open(void);
/* Whether this process does again what another did. */
bool mr_replay_repeats(const struct mr_replay *replay);
/* The core is there, and all have joined with `job`, of which what it needs is copied. */
void mr_replay_begin(struct mr_replay *replay, const struct mr_job *job);
/* After that: a word for the stack protector, which each process in this place has alike. */
uint64_t mr_replay_guard_word(const struct mr_replay *replay);
/* Every peer has left, or this node leaves. */
void mr_replay_close(struct mr_replay *replay);

/* The program makes that request now. */
void mr_replay_asks(struct mr_replay *replay, const struct mr_asked *asked);
/* The program comes to the runtime, with a request or to be stopped: whether it was stopped here
 * for a checkpoint, and so stops again. */
bool mr_replay_stops(struct mr_replay *replay, bool asks);
/* The core is asked to clean now (save.h). */
void mr_replay_cleans(struct mr_replay *replay);
/* The core gives that page, which the program may be writing: the bytes to give. They are kept. */
const void *mr_replay_gives(struct mr_replay *replay, uint32_t page, const void *memory);
/* Until *done, or nothing is left to be done again. */
void mr_replay_goes_on(struct mr_replay *replay, const bool *done);

/* The program looks at that clock, which says `now`, in ns: what it is to see. A repeated program
 * sees what it saw, as often. So that a loop that waits does not fill the journal, a clock goes on
 * in steps of 10 us. Takes the lock, now and then. */
int64_t mr_replay_clock(struct mr_replay *replay, int clock, int64_t now);

/* The core sends; -ENOMEM and so on. */
int mr_replay_sends(struct mr_replay *replay, uint16_t to, const void *message, size_t length);
/* The transport heard that. */
void mr_replay_hears(struct mr_replay *replay, uint16_t from, const void *bytes, size_t length);
/* That peer is lost: waits until another is in its place.  False: none comes. */
bool mr_replay_lost(struct mr_replay *replay, uint16_t node);

/* This node's image of a checkpoint is written, or it has stood still for it: if all did, its
 * history begins anew. */
void mr_replay_cut(struct mr_replay *replay);
/* What it has sent and received is looked at now: all count from the last cut that is over. Where
 * that was given up before a node that waits wrote an image, nothing else may have told it. */
void mr_replay_counts(struct mr_replay *replay);
/* That checkpoint is whole; takes the lock. */
void mr_replay_committed(struct mr_replay *replay, uint32_t number);

#endif
