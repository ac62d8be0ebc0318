/* world.h: N cores, channels between them and the programs of their computing
 * threads, in one process and without time (for tests).
 *
 * A schedule is a seed: at each step it chooses who goes next, a message at the head of some
 * channel or some node's next instruction. Channels are first in, first out; some are slow. Reads
 * are compared with a reference memory on which each write is done at once. Where conflicting
 * accesses are ordered by synchronisation, both must agree at every read.
 */
#ifndef MARU_DSM_TESTS_WORLD_H
#define MARU_DSM_TESTS_WORLD_H

#include "../core.h"
#include "../diff.h"
#include "../given.h"
#include "../latch.h"
#include "../shown.h"

#include <stdbool.h>

#define WORLD_NODES 8
#define REGISTERS 8

enum code {
  END = 0,
  READ,      /* register ← `length` bytes at `address`; must agree with the reference */
  READ_RACY, /* the same, whatever is there: for programs that have races */
  WRITE,     /* `length` bytes at `address` ← register */
  SET,       /* register ← value */
  ADD,       /* register += value */
  SYNC,      /* mr_core_sync(op, id, value); register ← result; MR_COMPARE_SWAP: of a counter that
                is expected to be as register `address` */
  JUMP_ZERO, /* to instruction `id` if the register is 0 */
  JUMP,
  BRINGS, /* no instruction: a READ or WRITE says beforehand what comes */
  GIVES   /* none either: a page that the node writes is given away */
};

struct instruction {
  uint8_t code;
  uint8_t reg;
  uint8_t length;
  uint8_t op;
  uint32_t id;
  uint32_t address;
  int64_t value;
};

struct program {
  struct instruction *code;
  uint32_t length, capacity;
};

/* Appends; the place of the new instruction. */
uint32_t emit(struct program *program, struct instruction instruction);

static inline struct instruction lock_of(uint32_t id) {
  return (struct instruction){.code = SYNC, .op = MR_LOCK, .id = id, .reg = REGISTERS - 1};
}
static inline struct instruction unlock_of(uint32_t id) {
  return (struct instruction){.code = SYNC, .op = MR_UNLOCK, .id = id, .reg = REGISTERS - 1};
}
static inline struct instruction sync_of(enum mr_op op, uint32_t id, int64_t value) {
  return (struct instruction){
      .code = SYNC, .op = (uint8_t)op, .id = id, .value = value, .reg = REGISTERS - 1};
}
static inline struct instruction read_of(uint8_t reg, uint32_t address, uint8_t length) {
  return (struct instruction){.code = READ, .reg = reg, .address = address, .length = length};
}
static inline struct instruction write_of(uint8_t reg, uint32_t address, uint8_t length) {
  return (struct instruction){.code = WRITE, .reg = reg, .address = address, .length = length};
}
static inline struct instruction set_of(uint8_t reg, int64_t value) {
  return (struct instruction){.code = SET, .reg = reg, .value = value};
}
static inline struct instruction add_of(uint8_t reg, int64_t value) {
  return (struct instruction){.code = ADD, .reg = reg, .value = value};
}
static inline struct instruction jump_zero(uint8_t reg, uint32_t to) {
  return (struct instruction){.code = JUMP_ZERO, .reg = reg, .id = to};
}
static inline struct instruction jump(uint32_t to) {
  return (struct instruction){.code = JUMP, .id = to};
}

struct shape {
  uint16_t nodes;
  uint32_t pages, home_run, objects;
  enum mr_fetch fetch[WORLD_NODES];
  enum mr_homes homes[WORLD_NODES];
  struct mr_fetch_limits limits;
  uint32_t migrate_after, grant_bytes, log_bytes;
  uint32_t log_most;
  const uint32_t *ns_per_kib; /* to and from a node; NULL: a clock that runs as it likes */
  uint32_t bring;  /* one access in so many is told beforehand, with what follows; 0: none */
  bool stale;      /* now and then a message of another epoch or incarnation comes */
  bool prefetch;   /* pages come unasked */
  bool races;      /* the cores look for them; one that is found fails the test */
  uint32_t copies; /* one page in so many is not copied from its home's memory; 0: none is */
  bool looks;      /* node 0 looks now and then whether anybody can go on */
  bool latches;    /* locks are latches, as of nodes that have one memory: READ has no order then */
  bool stumble;    /* a failing core ends the run instead of the test */
  bool survives;   /* world_cut may be called; the last object is its own */
  bool replays;    /* and world_repeat, after that: what happens to each node is kept */
  bool unseen;     /* nodes say what they access, and access it some steps later */
  uint32_t
      cleans; /* at one step in so many a node that waits is to send home what it wrote; 0: none */
};

struct message {
  struct message *next;
  uint16_t from, to;
  size_t length;
  uint8_t bytes[];
};

/* What happened to a node since the last cut, or what it did: message or request, one by one. */
struct happened {
  uint8_t request; /* 0: a message, of or to `node`, whose bytes these are; of none: it cleans; else
                      its code, and with GIVES these are the page */
  uint16_t node;
  uint32_t id;
  uint64_t ran; /* in the instruction of that number */
  int64_t values[2];
  size_t length;
  uint8_t *bytes;
};

struct past_of {
  struct happened *each;
  size_t count, capacity, next; /* next: so many are repeated */
};

struct node {
  struct world *world;
  uint16_t number;
  struct mr_core *core;
  struct mr_races *races; /* NULL: not looked for */
  uint8_t *memory, *twins;
  struct mr_shown *shown; /* NULL: it shows nothing */
  enum mr_access *mapped; /* what protect said last */
  uint64_t *stamps;       /* of the pages that it saved last, and these: NULL: none yet */
  uint8_t *stamped;
  struct program program;
  uint32_t next;
  bool waits;
  bool ended;
  bool gone;           /* world_lose: it has no core any more */
  bool fenced, parked; /* on the way to a cut: what it wrote is home; it goes no further */
  int64_t registers[REGISTERS];
  int64_t *result; /* where the request's result goes; NULL */
  uint16_t giver;  /* of the lock that it took last */
  bool behind;     /* it came right after that node in the queue */
  enum { APART, QUEUED, FIRST, TOOK, HAS } at_latch; /* with `latches`: on the way to a lock */
  uint32_t latch;                                    /* that one */
  bool retakes;                                      /* after a condition */
  struct past_of told, sent;                         /* with `replays` */
  uint64_t ran;                                      /* instructions since the cut */
  bool repeats;                                      /* it does again what it did since */
  struct mr_given given;                             /* meanwhile */
  uint32_t writes;                                   /* since its last request */
  bool said;                                         /* with `unseen`: what it is at */
};

struct channel {
  struct message *head, **tail;
  uint32_t weight;
};

struct world {
  struct shape shape;
  uint64_t random;
  uint64_t steps, now;
  bool trace, parking;
  uint32_t epoch;
  uint64_t shown; /* pages that were copied so */
  int failure;    /* what a core said; only with `stumble` */
  bool stuck;     /* node 0 said that nobody can go on; fails the test where that is not so */
  struct mr_wait waits[WORLD_NODES]; /* what it said then */
  struct node nodes[WORLD_NODES];
  struct channel channels[WORLD_NODES][WORLD_NODES];
  uint64_t copied[WORLD_NODES][WORLD_NODES]; /* bytes of pages, from and to */
  uint32_t weights[WORLD_NODES];
  uint8_t *reference;
  struct mr_latch *latches; /* NULL: none; one for each object */
};

/* Nodes with empty programs. */
void world_create(struct world *world, const struct shape *shape, uint64_t seed);
void world_destroy(struct world *world);

/* One step of the schedule; false: nobody can go on.  Fails the test where a read
 * differs from the reference, or a core stops. */
bool world_step(struct world *world);

/* Its computing thread waits for another node. */
bool world_waits(const struct node *node);

/* ---- latches, for world.c (latched.c) ---- */

/* The instruction's operation on a lock or condition. */
void latched_begin(struct node *node, const struct instruction *i);
/* Whether the node is on the way to a lock: then it goes on there. */
bool latched_step(struct node *node);
/* The sink's. */
void latched_unlock(void *context, uint32_t id);
bool latched_apart(void *context, struct mr_wait *wait);

/* Steps until nobody can go on; fails the test unless every program has ended. */
void world_run(struct world *world);

/* That node is no more: of what it has sent some comes yet, what was on its way there is lost. */
void world_lose(struct world *world, uint16_t node);

/* What a world was at a cut (save.h). */
struct cut {
  struct saved_node {
    uint8_t *bytes, *pages;
    size_t length, pages_length;
    uint32_t next;
    bool waits, ended;
    int64_t registers[REGISTERS];
    int64_t *result;
  } nodes[WORLD_NODES];
  uint8_t *reference;
};

/* Of a cut's node, mr_saved_page. */
const uint8_t *world_saved_page(void *saved_node, size_t number);
/* Steps until nobody goes on and no message is on its way, and saves all cores. */
void world_cut(struct world *world, struct cut *cut);
void world_cut_free(struct cut *cut);
/* All nodes vanish, and new ones go on from there, in a new epoch. */
void world_restore(struct world *world, struct cut *cut);

/* That node is lost, and a new one does what it did since the cut: exactly that.  Nobody else hears
 * of it.  Fails the test where it does something else, or is another afterwards. */
void world_repeat(struct world *world, struct cut *cut, uint16_t node);
/* ---- repeated.c, for world.c ---- */
void repeated_told(struct node *node, uint16_t from, const void *bytes, size_t length);
void repeated_request(struct node *node, enum code code, uint32_t id, int64_t one, int64_t two);
void repeated_cleans(struct node *node);
const void *repeated_gives(struct node *node, uint32_t page, const void *memory);
/* So many pages it said beforehand; 0: it did not. */
uint32_t repeated_brings(const struct node *node);
void repeated_sends(struct node *node, uint16_t to, const void *bytes, size_t length);
void repeated_forget(struct node *node);
void world_make_core(struct world *world, uint16_t node);
void world_drop_core(struct node *node);
void world_run_instruction(struct node *node);

/* The page's home. */
uint16_t world_home(const struct world *world, uint32_t page);

uint32_t world_random(struct world *world, uint32_t bound);

#endif
