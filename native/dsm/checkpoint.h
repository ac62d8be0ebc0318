/* checkpoint.h: checkpoints of a job, the nodes' part (internal to libmaru-dsm).
 *
 * The launcher of a host makes a page that it shares with its nodes, and names it in
 * MARU_DSM_CHECKPOINTS. Where that is not set none of this costs anything.
 *
 * A checkpoint has a number.  The launcher *wants* it.  Each node's program stops at its next
 * operation, when what it wrote is home; or it waits already, and the first wave has it send home
 * what it wrote.  One that still stands for the checkpoint before has to go on first, to its next
 * operation: so each lets the job make progress, however often they come.  In waves each node says
 * whether its core rests, and how many messages it has sent and received (save.h). When two waves
 * say the same, and as many were received as sent, that is the cut. Then each node writes its
 * *image* to files that the launcher holds. When all have written, the launcher commits by one
 * word, and all go on.  It may give up at any time before, and all go on as well.
 *
 * A node's image is its core (save.h) and, behind it, what the program's own part is: ranges of
 * memory at the same addresses (parmacs/image.h).  Their pages are in a file of slots, which all
 * images of the node share (store.h): only those that have changed since the last whole image are
 * written.  The rest is short: two files a node, in turns.
 *
 * The launcher outlives its nodes, so the images do.  A node can spoil the job's images, and
 * nothing else of the launcher's.
 */
#ifndef MARU_DSM_CHECKPOINT_H
#define MARU_DSM_CHECKPOINT_H

#include "../base/futex.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define MR_CHECKPOINT_VERSION 8u
#define MR_CHECKPOINT_NODES 256u
#define MR_CHECKPOINT_WHY 160
#define MR_CHECKPOINT_MAGIC "MARUIMG"

/* A node's, of the page.  Written by the node but for the first two. */
struct mr_checkpoint_line {
  int32_t files[2];         /* the launcher's descriptors; checkpoint n is in files[n % 2] */
  int32_t pages;            /* and of the slots */
  _Atomic uint32_t started; /* the epoch in which the node has joined */
  _Atomic uint32_t ends;    /* the program ends: no more checkpoints */
  _Atomic uint32_t wave;    /* the answer of so many is: */
  _Atomic uint32_t rests;
  _Atomic uint64_t sent, received;
  _Atomic uint32_t done;       /* that image is written, or not: */
  int32_t failed;              /* then `why` says why not; before `done`, as is this: */
  _Atomic uint64_t stretch_ns; /* kept.h; by the program's thread */
  uint64_t bytes, changed;     /* of that image, and what of it was written */
  char why[MR_CHECKPOINT_WHY];
  /* Where only a lost node repeats (replay.h): its journal, the launcher's descriptor; 0: none. How
   * often it was started again in this epoch, and where it listens then: before that.  The
   * checkpoint behind which it wishes for another, and 1; 0: it never did. */
  int32_t journal;
  _Atomic uint32_t again;
  struct sockaddr_storage address;
  _Atomic uint32_t wishes;
  _Atomic uint32_t misses; /* it has lost the connection to node misses - 1, and waits; 0 */
  /* Bytes: all that the journal was given in this epoch; the most that it had at once. */
  _Atomic uint64_t journaled, journal_most;
  _Atomic uint64_t put; /* pages, of all images that it has written or writes */
};

struct mr_checkpoint_page {
  uint32_t version, nodes;
  uint32_t epoch;        /* of the nodes that are started now, from 1 */
  uint32_t restore;      /* they go on from that checkpoint; 0: they begin */
  _Atomic uint32_t bell; /* a futex: one of these has changed */
  _Atomic uint32_t wanted;
  _Atomic uint32_t wave;
  _Atomic uint32_t cut;       /* all rest: write that one */
  _Atomic uint32_t committed; /* the last whole one; stored before: */
  _Atomic uint32_t over;      /* that one is committed, or given up */
  struct mr_checkpoint_line lines[MR_CHECKPOINT_NODES];
};

/* The first bytes of an image.  Offsets are from its beginning. */
struct mr_checkpoint_head {
  char magic[8];
  uint32_t version, number;
  uint16_t nodes, node;
  uint32_t unused;
  uint64_t program; /* sum of the files that the node runs: its libraries, too */
  uint64_t core, core_length;
  /* Of the program's part: what image.h says, with offsets for pointers. */
  uint64_t own, own_length, addresses, ranges, range_count, pieces;
  uint64_t slots, slot_count; /* uint32_t each: the core's pages, then the program's pieces */
};

struct mr_checkpoints;
struct mr_store;

/* What the node does for it, by a thread of its own. */
struct mr_checkpoint_calls {
  /* Whether the core rests and the program is stopped for that checkpoint, or waits; counts of
   * messages. */
  bool (*rests)(uint32_t number, uint64_t *sent, uint64_t *received);
  /* One is wanted: how many pages this node's will have, at least.  False: it takes none yet. */
  bool (*expect)(size_t *pages);
  /* Writes this node's image, and its pages to the store; negative errno, then `why` says it. */
  int (*write)(int file, struct mr_store *store, struct mr_checkpoint_head *head, char *why,
               size_t size);
  /* That one, which this node has written, is whole. */
  void (*committed)(uint32_t number);
};

/* NULL: nobody asked for checkpoints.  Ends the process where the page cannot be used.  Leaves no
 * descriptor open: the program's come first. */
struct mr_checkpoints *mr_checkpoints_open(uint16_t nodes, uint16_t me);
/* Before that: whether anybody asked; what mr_checkpoints_restore will say; 0 also where there is
 * no such page. */
bool mr_checkpoints_asked(void);
uint32_t mr_checkpoints_expected(void);
uint32_t mr_checkpoints_epoch(const struct mr_checkpoints *all);
/* The checkpoint that this process goes on from; 0: none. */
uint32_t mr_checkpoints_restore(const struct mr_checkpoints *all);
/* That node's image in it, read-only; stays mapped.  Ends the process where it is none. */
const struct mr_checkpoint_head *mr_checkpoints_map(const struct mr_checkpoints *all, uint16_t node,
                                                    size_t *length);
/* This node's pages.  Ends the process where they cannot be had. */
struct mr_store *mr_checkpoints_store(struct mr_checkpoints *all);
/* Starts the thread.  Negative errno. */
int mr_checkpoints_start(struct mr_checkpoints *all, const struct mr_checkpoint_calls *calls);
/* No checkpoint is taken from here on; returns when none is being taken. */
void mr_checkpoints_end(struct mr_checkpoints *all);

/* The one that is wanted, for which the program is to stop; 0: none.  Two loads. */
uint32_t mr_checkpoints_wanted(const struct mr_checkpoints *all);
/* The program's thread leaves the runtime; comes to it again, which may take a checkpoint there. */
void mr_checkpoints_leave(struct mr_checkpoints *all);
void mr_checkpoints_come(struct mr_checkpoints *all);
/* Until that one is over.  Another may be wanted by then: the program goes on all the same, to its
 * next operation.  Else one that gets its processor late would stand still for ever.  Whenever it
 * is woken meanwhile it `pauses`, unless that is NULL. */
void mr_checkpoints_await(struct mr_checkpoints *all, uint32_t number, void (*pauses)(void));
/* Wakes it, and all others of this host. */
void mr_checkpoints_wake(struct mr_checkpoints *all);

/* ---- for replay.c ---- */

/* A descriptor of this node's journal; -1: it is to keep none. Ends the process where it cannot be
 * had. */
int mr_checkpoints_journal(const struct mr_checkpoints *all);
/* The last that all have come to; 0: none in this epoch. */
uint32_t mr_checkpoints_cut(const struct mr_checkpoints *all);
/* How often that node was started again in this epoch. */
uint32_t mr_checkpoints_again(const struct mr_checkpoints *all, uint16_t node);
/* The same, once it is more than `known`, and where it listens; 0: it was not in `seconds`. */
uint32_t mr_checkpoints_await_again(const struct mr_checkpoints *all, uint16_t node, uint32_t known,
                                    int seconds, struct sockaddr_storage *address);
/* This node is as if it had never been lost. */
void mr_checkpoints_started(struct mr_checkpoints *all);
/* The last whole one. */
uint32_t mr_checkpoints_committed(const struct mr_checkpoints *all);
/* This node wishes for another one behind that: where a later one is whole by now, no more. */
void mr_checkpoints_wish(struct mr_checkpoints *all, uint32_t committed);
/* Its journal was given so many bytes, and has that many now; to be seen. */
void mr_checkpoints_journaled(struct mr_checkpoints *all, size_t given, size_t has);

/* For the launcher as well: changes the bell. */
static inline void mr_checkpoint_ring(struct mr_checkpoint_page *page) {
  /* Release: a reader that sees it sees what changed before. */
  atomic_fetch_add_explicit(&page->bell, 1, memory_order_release);
  mr_futex_wake_all(&page->bell);
}

#endif
