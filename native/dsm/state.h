/* state.h: what a core is made of, for the files that are the core: core.c (life, messages in),
 * effects.c (rights, messages out), fetch.c (copies), wanted.c and habits.c (which pages come with
 * one), pages.c (diffs), progress.c (write notices, what all have acquired), sync.c (requests and
 * grants), locks.c (a node's side of the locks), deadlock.c (whether anybody can go on), save.c (as
 * bytes). Internal to them; the contract is core.h.
 */
#ifndef MARU_DSM_STATE_H
#define MARU_DSM_STATE_H

#include "core.h"

#include "diff.h"
#include "history.h"
#include "intervals.h"
#include "message.h"
#include "shown.h"

#include <errno.h>
#include <stdbool.h>

/* All zero is a page that nobody has written: so memory that is never used costs nothing. */
struct page {
  uint64_t version;     /* home: diffs received; elsewhere: what the copy was fetched at */
  uint64_t needed;      /* the newest version that a write notice told of */
  uint16_t home;        /* 0: the first; else 1 more than the node that was it when last heard of */
  uint16_t writer : 11; /* home: 1 more than the node whose diffs alone came last */
  uint16_t read : 5;    /* home: so many more fetches of others came than diffs */
  uint8_t in_row;       /* home: so many diffs of `writer` */
  uint8_t moves;        /* home: how often it has moved, or had another writer again */
  uint8_t beyond : 2;   /* enum mr_access, exclusive or MR_READ */
  bool written : 1;     /* this node changed it when it could the last time */
  bool twin : 1;        /* written since the last interval; listed in `dirty` */
  bool flying : 1;      /* its diff is on the way home */
  bool shared : 1;      /* others write it meanwhile: the next diff bears masks at once */
  bool was_home : 1;    /* this node was its home, and knows a later one */
  uint8_t warm : 2;     /* others changed it so few own intervals ago */
  bool unsteady : 1;    /* home: another node than the first writes it */
  bool known : 1;       /* its access was said since the core was created */
  bool alone : 1;       /* home: nobody else has a copy of this version, see mr_end_alone */
  bool hidden : 1;      /* a history began anew with it, and the shell has not heard of it since */
};
#define MR_WARM 3
#define MR_READ_MOST 31
_Static_assert(MR_NODES_MAX < 1u << 11, "the number of a writer");
_Static_assert(sizeof(struct page) == 24, "one for each page of memory");

/* All zero is a lock that this node has never had. */
struct lock {
  uint64_t *released; /* when this node released it last; NULL: never */
  uint64_t turn;      /* the last that this node had */
  uint16_t next;      /* 1 more than the node that comes after this one's turn, or 0 */
  bool held;          /* now */
  bool keeps;         /* may take it again by itself */
};

enum phase {
  IDLE,
  FETCHING, /* a page is on its way here */
  FLUSHING, /* diffs are on their way home */
  ASKING,   /* the manager has the request */
  CLEANING  /* as before, and diffs are on their way home (mr_core_clean) */
};

/* A wait for a condition is several operations, one after the other. */
enum stage { SINGLE, STANDS, LEAVES, SLEEPS, RETURNS };

struct pending {
  enum phase phase;
  enum stage stage;
  enum mr_op op;
  uint32_t id;
  int64_t argument, expected;
  uint32_t page, next, end; /* FETCHING: what for; pages from `next` to `end` are to come yet, or,
                               unless `all`, those of that number in `wanted` */
  bool write, all;          /* FETCHING: to be written: that page, or all to the end */
  uint64_t since;           /* FETCHING, ASKING for a lock that is told of: when that was */
  uint16_t asked;           /* FETCHING: the home that was asked last */
  uint32_t awaited;         /* FETCHING: pages; FLUSHING, CLEANING: acknowledgements */
  uint32_t condition, lock; /* all stages but SINGLE */
  bool woken;
  bool granted;      /* CLEANING: with that result, and the core's `granted` */
  enum phase before; /* CLEANING: ASKING, or IDLE */
  int64_t result;
};

/* One look at what all have acquired; see core.h. */
struct round {
  uint64_t number;
  uint64_t *least; /* of those that are in it */
  uint64_t *in;    /* a bit per node */
};

/* The quickest answer of a home, of those that were about as long. */
struct quickest {
  uint64_t ns;
  size_t bytes;
};

/* What a node said when it was looked at. */
struct seen {
  struct mr_wait wait;
  uint64_t sent, received;
};

/* See deadlock.c. */
struct look {
  uint64_t number;
  struct seen *first, *second; /* of the two waves; one per node */
  struct mr_wait *waits;       /* scratch: for the sink */
  bool *answered;
  uint16_t awaited; /* answers that are yet to come */
  bool again;       /* this is the second wave */
};

/* Of two nodes, what the other said where it came to a barrier of both, until this node does, too.
 */
struct meeting {
  bool heard;
  uint32_t id;
  uint64_t time[2];
};

/* A node that goes on in order faults next at `expected`; so many faults were in order. */
struct order {
  uint32_t expected, count;
};

enum size { SHORT, LONG, SIZES };

/* What the way to a peer costs.  As a home: what it said, and what it was sent last. */
struct way {
  struct quickest best[SIZES], last[SIZES]; /* of this window and of the one before; ns 0: none */
  uint32_t samples;                         /* of this window */
  uint32_t ns_per_kib;                      /* 0: not known */
  uint32_t told;                            /* the same, as the peer says */
  bool parts;                               /* the last went in part */
  uint32_t row;                             /* so many in a row went as the last */
};

struct mr_habits;

struct mr_core {
  struct mr_core_config config;
  const struct mr_diff_code *code;
  void (*flushed)(struct mr_core *core); /* mr_flushed: pages.c calls it when diffs are home */
  /* mr_tell_manager, mr_lock_is_held: locks.c calls them. */
  void (*tell_manager)(struct mr_core *core, enum mr_op op, uint32_t id, int64_t argument,
                       const uint64_t *time);
  void (*lock_is_held)(struct mr_core *core, uint32_t id, uint64_t turn);
  uint32_t *incarnations;
  struct page *pages;
  struct pending pending;
  struct mr_manager *manager;
  struct lock *locks;        /* one per object */
  struct released *released; /* all that they point to */
  struct mr_intervals *log;
  struct mr_history *history; /* of the pages whose home this is */
  struct way *ways;           /* one per node */

  struct mr_habits *habits;      /* NULL: no page comes unasked */
  uint32_t wanted[MR_BATCH_MAX]; /* with the page of a fault; by homes, each in ascending order */
  uint32_t wanted_count;
  uint32_t batch[MR_BATCH_MAX]; /* pages that are on their way here */
  uint32_t batch_count;
  struct order reads, writes;
  struct {
    uint32_t page, count;
    uint8_t access;
  } settling; /* what protect has yet to say */

  uint64_t *time;    /* what this node has acquired */
  uint64_t *floor;   /* what every node is known to have acquired */
  uint64_t *held;    /* nodes × nodes: what each one's log holds at least, the floor aside */
  uint64_t *later;   /* what to acquire when the fetch is done, or another request */
  uint64_t *granted; /* what to acquire when all is home */
  bool has_later;
  uint64_t told_all;                     /* own intervals; where it stood still (mr_core_clean) */
  uint64_t since_news, bytes_since_news; /* own intervals */
  struct round round;
  struct round heard;      /* scratch, of a message that is read */
  uint64_t sent, received; /* messages, but those of looks; waits beside the core: both */
  bool locks_apart;
  struct look look;
  struct meeting meeting;
  uint64_t *told, *lowest; /* scratch: its time and its floor */

  uint32_t *dirty; /* pages that have twins */
  uint32_t dirty_count;
  struct mr_notice *notices; /* of the interval that is ending */
  uint32_t notice_count;
  struct mr_writer carried;   /* diffs of those */
  struct mr_notice *incoming; /* scratch: of a record that is read */
  struct mr_writer came;      /* scratch: diffs of those */

  struct mr_writer out;
  struct mr_diff diff, own;             /* scratch */
  _Alignas(64) uint8_t copied[MR_PAGE]; /* scratch: before it is known whether it counts */
  struct mr_core_counters counters;
  bool stopped;
  char why[120];
};

/* ---- small things ---------------------------------------------------------- */

static inline uint16_t first_home(const struct mr_core *core, uint32_t page) {
  return (uint16_t)(page / core->config.home_run % core->config.nodes);
}

static inline uint16_t home_of(const struct mr_core *core, uint32_t page) {
  uint16_t moved = core->pages[page].home;
  return moved != 0 ? (uint16_t)(moved - 1) : first_home(core, page);
}

static inline bool at_home(const struct mr_core *core, uint32_t page) {
  return home_of(core, page) == core->config.me;
}

static inline enum mr_access access_of(const struct mr_core *core, uint32_t page) {
  return (enum mr_access)(core->pages[page].beyond ^ MR_READ);
}

static inline uint8_t *memory_of(const struct mr_core *core, uint32_t page) {
  return core->config.memory + (size_t)page * MR_PAGE;
}

static inline uint8_t *twin_of(const struct mr_core *core, uint32_t page) {
  return core->config.twins + (size_t)page * MR_PAGE;
}

static inline uint64_t *row(const struct mr_core *core, uint64_t *table, uint16_t node) {
  return table + (size_t)node * core->config.nodes;
}

static inline int ready(const struct mr_core *core, uint32_t page) {
  if (core->stopped)
    return -ECANCELED;
  if (page >= core->config.pages)
    return -EINVAL;
  return core->pending.phase != IDLE ? -EBUSY : 0;
}

static inline size_t words_of(const struct mr_core *core) {
  return (core->config.nodes + 63u) / 64;
}

/* ---- effects.c ------------------------------------------------------------------ */

/* Stops the core; -ECANCELED. */
int mr_fail(struct mr_core *core, int error, const char *what, uint64_t subject);
/* What a call returns whose work is done, unless the core stopped meanwhile. */
int mr_unless_stopped(const struct mr_core *core);
/* The core alone hears of it. */
static inline void mr_mark_access(struct mr_core *core, uint32_t page, enum mr_access access) {
  core->pages[page].beyond = (access ^ MR_READ) & 3u;
  core->pages[page].known = true;
}
/* Takes effect with mr_settle or mr_finish: what is told of pages in a row is told at once. */
void mr_set_access(struct mr_core *core, uint32_t page, enum mr_access access);
void mr_settle(struct mr_core *core);
struct mr_writer *mr_compose(struct mr_core *core, enum mr_message_type type, uint32_t subject,
                             int64_t value, uint32_t detail);
void mr_dispatch(struct mr_core *core, uint16_t to);
void mr_send_short(struct mr_core *core, uint16_t to, enum mr_message_type type, uint32_t subject,
                   int64_t value, uint32_t detail);
void mr_put_time(struct mr_core *core, const uint64_t *time);

/* ---- fetch.c ------------------------------------------------------------------- */

int mr_on_fetch(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader);
int mr_on_page_copy(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader);

/* `home` answered for the page: it was its home then. */
static inline void mr_note_home(struct mr_core *core, uint32_t page, uint16_t home) {
  core->pages[page].home = (uint16_t)(home + 1);
}

/* ---- wanted.c ------------------------------------------------------------------- */

/* How many pages from this one on will be read, or written, by the order of those before. */
uint32_t mr_window_from(struct mr_core *core, uint32_t page, bool write);
/* The page is written, and others that are here may be. Those are the next ones in order, and those
 * beside it that were written the last time.  That costs a twin where it is wrong, and spares a
 * fault where it is right. */
void mr_write_with(struct mr_core *core, uint32_t page);
/* The page is read, and those beside it may be that are as hidden. */
void mr_show_with(struct mr_core *core, uint32_t page);
/* Sets `wanted` for a page that is asked for. */
void mr_want_with(struct mr_core *core, uint32_t page);

/* ---- habits.c ------------------------------------------------------------------- */

/* For so many pages; -ENOMEM.  free() destroys it. */
int mr_habits_create(struct mr_habits **habits, uint32_t pages);
/* This node has acquired: another stretch begins.  NULL: none. */
void mr_habits_part(struct mr_habits *habits);
/* Up to `most` pages that are next in the row of faults that this one, which is asked for, goes on
 * with. Called once for each fault. */
uint32_t mr_habits_row(struct mr_core *core, uint32_t page, uint32_t *pages, uint32_t most);
/* Up to `most` pages that are to be brought with that one, which is asked for; one may be among
 * them twice. */
uint32_t mr_habits_follow(struct mr_core *core, uint32_t page, uint32_t *pages, uint32_t most);
/* One of them is brought. */
void mr_habits_bring(struct mr_habits *habits, uint32_t page);
/* The page was asked for, or is used that was brought. */
void mr_habits_used(struct mr_habits *habits, uint32_t page);
/* It was brought, and is old now. */
void mr_habits_unused(struct mr_habits *habits, uint32_t page);
/* Whether it was brought, and not used yet.  NULL: no. */
bool mr_habits_brought(const struct mr_habits *habits, uint32_t page);
/* As bytes; none where there are no habits.  In proportion to the pages of the node. */
void mr_habits_save(const struct mr_habits *habits, uint32_t pages, struct mr_writer *out);
/* Into new ones, or none: all that is left to read, which may be nothing.  False: it is not what
 * was saved of so many pages. */
bool mr_habits_load(struct mr_habits *habits, uint32_t pages, struct mr_reader *in);

/* ---- pages.c ------------------------------------------------------------------- */

/* Whether a request may have begun at that node. */
bool mr_is_origin(const struct mr_core *core, int64_t node);
/* Whether this node is or was the page's home. */
bool mr_answers_for(const struct mr_core *core, uint32_t page);
/* The computing thread may write the page from now on. */
void mr_make_writable(struct mr_core *core, uint32_t page);
/* As a home: shows the page as it is now. */
void mr_show(struct mr_core *core, uint32_t page);
/* As a home: that node fetches the page. */
static inline void mr_note_reader(struct mr_core *core, uint32_t page, uint16_t reader) {
  struct page *p = &core->pages[page];
  p->read += p->writer != reader + 1 && p->read < MR_READ_MOST;
}
/* As a home: another node gets the page. */
void mr_end_alone(struct mr_core *core, uint32_t page);
void mr_invalidate(struct mr_core *core, const struct mr_notice *notice);
/* Whether the copy here became as new as the notice says, by the diff that came with it. */
bool mr_renew(struct mr_core *core, const struct mr_notice *notice, const uint8_t *diff);
/* Ends the interval for every page that was written; whether diffs are on their way now. */
bool mr_flush(struct mr_core *core);
int mr_on_diff(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader);
int mr_on_diff_again(struct mr_core *core, const struct mr_header *header,
                     struct mr_reader *reader);
int mr_on_diff_kept(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader);

/* ---- progress.c ----------------------------------------------------------------- */

void mr_put_intervals(struct mr_core *core, uint16_t to, const uint64_t *time);
int mr_read_intervals(struct mr_core *core, uint16_t from, struct mr_reader *reader);
bool mr_covered(const struct mr_core *core, const uint64_t *time);
void mr_enter_round(struct mr_core *core, uint64_t number);
void mr_close_round(struct mr_core *core);
void mr_put_progress(struct mr_core *core);
void mr_take_progress(struct mr_core *core, struct mr_reader *reader);
int mr_check_progress(struct mr_core *core, uint16_t from);
void mr_hear_progress(struct mr_core *core);

/* To all nodes, if the log has become too long. */
void mr_spread_news(struct mr_core *core);
void mr_send_news(struct mr_core *core, uint16_t to, enum mr_message_type type);
/* Now. */
void mr_news_to_all(struct mr_core *core);

/* ---- acquire.c ------------------------------------------------------------------- */

/* Everything that happened before `time` has happened before what this node
 * does from now on. */
int mr_acquire(struct mr_core *core, const uint64_t *time);
/* What it was told of while that could not be. */
int mr_acquire_later(struct mr_core *core);

/* ---- sync.c ---------------------------------------------------------------------- */

/* What the program's thread waits for is done. */
void mr_finish(struct mr_core *core, int64_t result);
int mr_on_news(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader);
/* Every home has this node's changes: others may hear of them. */
void mr_flushed(struct mr_core *core);
int mr_on_sync(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader);
int mr_on_grant(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader);
int mr_on_refused(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader);
int mr_on_holds(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader);
int mr_on_meet(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader);
/* Whether that is a barrier of both nodes of two: each tells the other, and no manager hears. */
static inline bool mr_meets(const struct mr_core *core, enum mr_op op, int64_t parties) {
  return core->config.nodes == 2 && op == MR_BARRIER && parties == 2;
}
/* A request that releases up to `time`, or nothing where it is NULL; `expected` of the pending
 * operation goes with it. */
void mr_tell_manager(struct mr_core *core, enum mr_op op, uint32_t id, int64_t argument,
                     const uint64_t *time);
/* The manager asked for a lock: this node holds it, in that turn. */
void mr_lock_is_held(struct mr_core *core, uint32_t id, uint64_t turn);

/* ---- locks.c ---------------------------------------------------------------------- */

void mr_locks_destroy(struct mr_core *core);
/* Takes a lock that this node keeps. */
bool mr_lock_retake(struct mr_core *core, uint32_t id);
/* A grant came, which says that (manager.h).  0; -ECANCELED: not what it can say. */
int mr_lock_taken(struct mr_core *core, uint32_t id, int64_t says);
/* Everything before is home. */
void mr_lock_release(struct mr_core *core, uint32_t id);
/* The manager says who comes after that turn of this node; MR_NOBODY: asks the lock back. */
int mr_lock_next(struct mr_core *core, uint32_t id, uint64_t turn, uint16_t next);
/* Of a new core: the lock is as saved, but for its time. */
int mr_lock_load(struct mr_core *core, uint32_t id, const struct lock *saved);
int mr_on_names_next(struct mr_core *core, const struct mr_header *header,
                     struct mr_reader *reader);

/* ---- deadlock.c ------------------------------------------------------------------- */

int mr_look_create(struct look *look, uint16_t nodes);
void mr_look_destroy(struct look *look);
int mr_on_look(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader);
int mr_on_seen(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader);
/* Whether such messages say what nodes wait for, and are not counted. */
static inline bool mr_looks(uint8_t type) { return type == MR_LOOK || type == MR_SEEN; }

#endif
