/* core.h: the protocol of the shared memory, as a function from events to
 * actions (internal to libmaru-dsm).
 *
 * Home-based lazy release consistency.  Each page has a *home* node, whose
 * copy receives everybody's changes.  A node that writes makes a twin first;
 * where it releases, its *interval* ends (or where a checkpoint is taken and it waits: save.h). The
 * diffs of what it wrote go home, and only when every home has acknowledged them does the release
 * go on. So a node that hears of an interval finds its changes at the homes, and a fetch never
 * waits there. A second acknowledgement (a backup's) is one more to count. Where a node acquires,
 * it learns the write notices of the intervals that happened before. The pages they name become
 * invalid, unless its copy is as new.  Programs whose conflicting accesses are all ordered by the
 * operations below see sequential consistency.
 *
 * A home is *alone* with a page from a release on, until it gives the page away or tells in a diff
 * what changed. Nobody then has a copy of that version. All who have an older one will hear that it
 * is old, before they hear of any later release of the home. So what an alone home writes needs no
 * twin, no diff and no write notice. A node without others is alone with all.
 *
 * A page's *version* is how many diffs its home has received.  A copy knows the
 * version it was fetched at, and is what the home had then, without what the home itself had
 * not released.  So a fetch may bring just what changed since (history.h); whether it
 * does is the home's policy (enum mr_fetch).  A diff goes home with its copy's version.  Others'
 * changes may have come to the home since, or the home itself may be writing the page. Then the
 * home asks for the diff again with byte masks. The writer sends them at once from then on until it
 * is alone again.
 *
 * Locks and the like live at their managers: object `id` at node id % nodes.
 * A release carries the write notices that the manager lacks, a grant those
 * that the acquirer lacks.  A lock for which others wait goes straight from its holder to the next,
 * with those. A node that takes a lock twice in a row keeps it, and then takes it without
 * a message until another wants it (manager.h, locks.c).
 *
 * Where both nodes of two meet at a barrier, each tells the other, with what it lacks. So a barrier
 * takes one way and no answer, and as many messages as by a manager.  More nodes meet at the
 * manager: telling each other takes them n log n messages in place of 2 (n - 1).
 *
 * Intervals that every node has acquired (the *floor*) are dropped.  How far all are, they find in
 * rounds that travel on requests and grants. A round is the set of the nodes that are in it and the
 * least that those had acquired when they entered. A node that hears of one enters it; a node that
 * finds all in it raises the floor and begins the next.  So the floor rises while every node hears,
 * by whatever way, from every other: at a barrier, or where only neighbours ever meet.  Where some
 * node synchronises with nobody, or only posts and is never answered, a log would grow. So a node
 * acts that has ended `log_most` / 2 intervals and still holds more than `log_most`, or as many
 * bytes. It sends them to all. They acquire them there and then (to acquire more, or earlier, is
 * always allowed) and answer. Cost: such a message has three numbers a node, and its work grows as
 * the nodes, not faster.
 *
 * Where a home's memory is within reach (a node of the same host), a fetch is no message. The home
 * shows where the page lies and which version that is (shown.h). The node copies it. So a copy
 * is what an answer would have brought. What the home is writing without a twin it does not show.
 *
 * A node that reads pages in their order fetches several at once, from the third on twice as many
 * each time, up to a limit. It asks each home once.  With a page that it writes a node may get
 * others to write that are here (wanted.c). What it does not change there is an empty diff.
 *
 * Pages may come unasked with one that is asked for, if this node used them after it in the stretch
 * between two acquires of the last time (habits.c). Such a page is a copy as any other. The shell
 * hears of it at once, but now and then only when the program uses it.
 *
 * A page's home may move (enum mr_homes), to a writer whose diff has just come and whose copy
 * therefore is the home's. The acknowledgement says so, and has all there is to know, the version.
 * A former home passes on what comes for the page; as channels are in order, that comes after the
 * acknowledgement. From former home to former home each step leads to a later home, so what is
 * passed on arrives. The answer goes to the node that asked, which from then on asks there.
 *
 * One thread of a node computes: a node has at most one request at a time.
 * Events are the functions below; actions are calls of the sink, made before the
 * function returns, in the order in which they take effect.  A sink must not call
 * back into the core. No I/O, no clock but the sink's. Memory is allocated at creation; while
 * running only for write notices, longer messages and what a home knows of its pages' past. A core
 * is a value: it may be dropped between any two events.
 *
 * Channels between two nodes deliver in order, once each, or not at all.  Every
 * message bears the sender's epoch and incarnation; one of another epoch or
 * incarnation than expected is dropped.  Thread-safety: none; the owner calls
 * one function at a time.
 */
#ifndef MARU_DSM_CORE_H
#define MARU_DSM_CORE_H

#include "manager.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_NODES_MAX 1024u
#define MR_PAGES_MAX (UINT32_MAX / 2)
#define MR_OBJECTS_MAX (UINT32_MAX / 2)

/* What the computing thread may do with a page without asking. */
enum mr_access { MR_NONE, MR_READ, MR_READ_WRITE };

/* How a home answers who has an older copy of a page.  Nodes may differ. */
enum mr_fetch {
  MR_FETCH_ADAPTIVE, /* what is least to send, if that pays: see mr_fetch_limits */
  MR_FETCH_PAGE,     /* the page */
  MR_FETCH_RANGE,    /* what the diffs since changed, as the paper has it (seed 3) */
  MR_FETCH_STAMP,    /* the lines of 64 bytes that changed since, if they are less than the page */
  MR_FETCH_POLICIES
};

/* Where the home of a page is, at first a matter of its number.  Each home decides by itself. */
enum mr_homes {
  MR_HOMES_STAY,
  MR_HOMES_FIRST_WRITER, /* moves to the first that writes the page */
  MR_HOMES_MIGRATE, /* moves to who alone wrote it `migrate_after` times in a row, unless others
                       fetched it more often; after each move, and each change of its
                            writer but the first, it takes twice as many */
};

struct mr_fetch_limits {
  /* MR_FETCH_RANGE: the page is sent if what changed is more bytes, or more diffs.
   * MR_FETCH_ADAPTIVE searches as many diffs before it takes the stamps. */
  uint32_t range_bytes, range_gap;
  /* A fetch brings as many pages at most, 1 to MR_BATCH_MAX, where pages are asked for in
   * their order. */
  uint32_t batch;
  /* MR_FETCH_ADAPTIVE: what it costs to find, make and apply a part of a page, in ns.  A
   * part pays where sending the rest would take longer. */
  uint32_t part_ns;
};

/* What a release changed in pages that nodes write in turns goes with its write notices, wherever
 * they go. It goes page by page, packed, as long as it is so few bytes in all. A node that has the
 * version before need not fetch the page.  Not from a barrier, where all would get what few read.
 */
#define MR_MESSAGE_KINDS 16u /* of messages */
#define MR_GRANT_BYTES 256u
#define MR_GRANT_BYTES_MAX 32768u

#define MR_LOG_MOST 1024u
#define MR_LOG_BYTES (16u << 20)
#define MR_RANGE_BYTES 2048u
#define MR_RANGE_GAP 16u
#define MR_RANGE_GAP_MAX 1024u
#define MR_BATCH 16u
#define MR_BATCH_MAX 64u
#define MR_PART_NS 200u
#define MR_MIGRATE_AFTER 3u
#define MR_MIGRATE_AFTER_MAX 7u
#define MR_MIGRATE_DOUBLINGS 5u

/* "adaptive", "page", "range", "stamp". */
const char *mr_fetch_name(enum mr_fetch fetch);

/* Said of the object that a program uses as it must not. */
#define MR_MISUSED "a lock, barrier or the like is misused by this node: object"

struct mr_races;
struct mr_shown;

/* What the computing thread of a node waits for. */
struct mr_wait {
  enum mr_op op; /* 0: a page, if it waits */
  uint32_t id;
  bool waits;
};

struct mr_core_sink {
  /* `message` is valid during the call.  `to` is another node. */
  void (*send)(void *context, uint16_t to, const void *message, size_t length);
  /* From now on the computing thread may do that much with `count` pages, and no more. */
  void (*protect)(void *context, uint32_t page, uint32_t count, enum mr_access access);
  /* The node's request is done. */
  void (*done)(void *context, int64_t result);
  /* The core has stopped: a program's error or a broken promise of a
   * peer.  `why` is one line, valid as long as the core. */
  void (*failed)(void *context, int error, const char *why);
  /* Nanoseconds since whenever; NULL: MR_FETCH_ADAPTIVE does not learn what links cost. */
  uint64_t (*now)(void *context);
  /* Every node waits, and nobody can end that: for what, one per node.  NULL where nobody calls
   * mr_core_look. */
  void (*stuck)(void *context, const struct mr_wait *waits);
  /* Copies MR_PAGE bytes of what `home` shows of the page (shown.h), and says of which version; 0:
   * the home lived after the copy.  Else the page is asked for.  `bytes` is aligned to 64.  NULL:
   * every page is asked for. */
  int (*copy)(void *context, uint16_t home, uint32_t page, void *bytes, uint64_t *version);
  /* MR_PAGE bytes to give of a page that the computing thread may be writing: what is
   * there at some moment. They are used before the next call. NULL: the core reads them itself. */
  const void *(*gives)(void *context, uint32_t page, const void *memory);
  /* This node took a lock: `giver` gave it, this node itself where that took no message.  `behind`:
   * this node came right after it in the queue, and waited for its turn and perhaps for others
   * before that; all that lasted `ns`.  NULL: nobody wants to know, or there is no clock. */
  void (*locked)(void *context, uint32_t id, uint16_t giver, bool behind, uint64_t ns);
  /* Gives a lock that this node holds beside the core (mr_core_locks_apart). */
  void (*unlock)(void *context, uint32_t id);
  /* Whether the computing thread waits beside the core, and another node's alone can end that: for
   * what.  NULL: it never does. */
  bool (*apart)(void *context, struct mr_wait *wait);
};

struct mr_core_config {
  uint16_t nodes, me;
  uint32_t pages;
  uint32_t home_run; /* so many pages in a row have one home; then the next node's turn */
  uint32_t objects;  /* ids below it */
  uint32_t epoch;
  const uint32_t *incarnations; /* one per node */
  enum mr_fetch fetch;
  enum mr_homes homes;
  uint32_t migrate_after;        /* diffs; 0: MR_MIGRATE_AFTER */
  struct mr_fetch_limits limits; /* each 0: as MR_RANGE_BYTES and so on */
  bool prefetch;                 /* with a page come those that were used after it the last time */
  uint32_t grant_bytes;          /* 0: MR_GRANT_BYTES; 1: none, as no diff is so short */
  uint32_t log_most;             /* intervals; 0: MR_LOG_MOST */
  uint32_t log_bytes;            /* the same in memory; 0: MR_LOG_BYTES */
  /* `protect` compares memory and twin where writing ends: a home that is alone with its page has a
   * twin as well, in which only this node's changes are missing. */
  bool compares;
  /* What the computing thread may access changes in its own requests alone, so that it makes the
   * same ones if it is repeated (journal.h).  So a home that is alone with a page and writes it
   * goes on where the page is fetched: what it gives is the twin from then on. */
  bool replays;
  /* `protect` stops nobody: the program has said what it writes, and does so some time later.  So
   * such a home goes on in the same way. */
  bool unseen;
  /* pages × 4096 bytes each, all zero, 64-byte aligned; the caller's, until the
   * core is destroyed.  `memory` is what protect speaks of; the core
   * reads and writes it whatever the computing thread may.  `twins` is used only where
   * a page is being written: sparse memory will do. */
  uint8_t *memory, *twins;
  /* Looks for races, on all nodes or on none, where homes stay: what a home knows of a page's diffs
   * would not move with it.  The caller's.  NULL: not looked for. */
  struct mr_races *races;
  /* What this node shows of the pages that it is the home of: one per page, all zero, the caller's;
   * NULL: nobody copies them. */
  struct mr_shown *shown;
  const struct mr_core_sink *sink;
  void *context;
};

/* How much of what; for reports and for what a protocol should cost. */
struct mr_core_counters {
  uint64_t fetches, diffs, masked;
  uint64_t pages, parts;           /* sent as a home: whole, in part */
  uint64_t page_bytes, part_bytes; /* how much that was */
  uint64_t searched;               /* diffs looked at for it */
  uint64_t foreseen, unused;       /* pages that came unasked; that became old without a use */
  uint64_t copied;                 /* pages that this node copied from their homes' memory */
  uint64_t moved, passed_on; /* homes that left here; messages for pages whose home has left */
  uint64_t caught; /* pages that were fetched while their home wrote them alone, and went on */
  uint64_t carried, spared; /* diffs that left with notices here; that made a copy new here */
  uint64_t given, retaken;  /* locks: straight to the next; without a message */
  uint64_t cleaned, kept;   /* it sent changes home while it waited; answers that came meanwhile */
  uint64_t intervals, notices, requests;
  uint64_t messages, bytes; /* sent */
  struct {
    uint64_t messages, bytes;
  } kinds[MR_MESSAGE_KINDS]; /* the same by enum mr_message_type */
};

struct mr_core;

/* -EINVAL: a value is out of its range, or homes move where races are looked for; -ENOMEM. */
int mr_core_create(struct mr_core **core, const struct mr_core_config *config);
void mr_core_destroy(struct mr_core *core);

/* The computing thread needs to read, or to write, a page.  0: done has been or
 * will be called.  Here and below: -EBUSY: the last request is not done;
 * -EINVAL: no such page, operation or object; -ECANCELED: the core has stopped, before or in
 * this very call: done is not called any more. */
int mr_core_read(struct mr_core *core, uint32_t page);
int mr_core_write(struct mr_core *core, uint32_t page);
/* The program will read, or write, `count` pages from `page` on: brings those that are not here,
 * as many at a time as MR_BATCH_MAX. -EINVAL: none, or not so many pages. */
int mr_core_bring(struct mr_core *core, uint32_t page, uint32_t count, bool write);

/* A synchronisation operation on object `id`, of those before MR_ASKED.  MR_CONDITION: `argument`
 * is the id of a lock that this node holds; done when the node has been signalled and holds the
 * lock again. */
int mr_core_sync(struct mr_core *core, enum mr_op op, uint32_t id, int64_t argument);
/* MR_COMPARE_SWAP, which mr_core_sync refuses. */
int mr_core_swap(struct mr_core *core, uint32_t id, int64_t expected, int64_t value);

/* From now on programs' locks are beside the core, on all nodes.  With MR_CONDITION the core gives
 * the lock by sink.unlock.  It is done when the node has been signalled, without the lock. */
void mr_core_locks_apart(struct mr_core *core);
/* A wait of the computing thread beside the core is over. */
void mr_core_went_on(struct mr_core *core);

/* Looks whether every node waits so that none can ever go on (deadlock.c). If that is so,
 * sink.stuck is called, here or when the answers have come. Nothing is done while an earlier
 * look is under way. 0; -ECANCELED. */
int mr_core_look(struct mr_core *core);

/* Not all answers to a look that is under way will come: it is given up. */
void mr_core_look_over(struct mr_core *core);
/* Whether that message only looks: no core is another after it. */
bool mr_core_is_look(const void *message, size_t length);

/* A message arrived from node `from`. 0, or -ESTALE: of another epoch or incarnation, dropped.
 * -EBADMSG: not a message of this protocol, nothing changed. -ECANCELED: as above. */
int mr_core_message(struct mr_core *core, uint16_t from, const void *message, size_t length);

/* What the computing thread may do with `page` now. */
enum mr_access mr_core_access(const struct mr_core *core, uint32_t page);
/* The page's home, as far as this node knows; a home knows. */
uint16_t mr_core_home(const struct mr_core *core, uint32_t page);
bool mr_core_is_home(const struct mr_core *core, uint32_t page); /* this node is */
/* A copy of some version was here, other than the zeros of the beginning. */
bool mr_core_was_here(const struct mr_core *core, uint32_t page);
const struct mr_core_counters *mr_core_counters(const struct mr_core *core);
/* Intervals in the log now. */
uint64_t mr_core_log_length(const struct mr_core *core);
uint64_t mr_core_log_bytes(const struct mr_core *core);

#endif
