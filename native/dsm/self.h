/* self.h: this process's node: the one object that node.c, node_core.c, node_image.c and
 * node_start.c share (internal to libmaru-dsm, and to them).
 *
 * There is one node in a process, as there is one set of signal handlers and one fixed address:
 * hence the one static object.  One mutex guards core and transport.  A fault cannot come while
 * this thread holds it: neither core nor transport touch the program's view.
 */
#ifndef MARU_DSM_SELF_H
#define MARU_DSM_SELF_H

#include "access.h"
#include "checkpoint.h"
#include "commons.h"
#include "core.h"
#include "heat.h"
#include "hold.h"
#include "membership.h"
#include "node.h"
#include "races.h"
#include "replay.h"
#include "serve.h"
#include "stand.h"
#include "watch.h"

#include <pthread.h>
#include <stdbool.h>
#include <ucontext.h>

struct mr_self {
  pthread_mutex_t lock;
  struct mr_core *core;
  struct mr_core_sink sink;
  struct mr_area *area;
  struct mr_transport *transport; /* NULL: the only node */
  struct mr_server *server;
  struct mr_ready *ready; /* NULL: nobody asked for a daemon beside the job */
  struct mr_watch *watch; /* node 0's, and where there is a stand */
  bool asking;            /* the program's thread makes a request; under the lock, as are those: */
  bool done;              /* it */
  uint64_t requests;      /* so many */
  int64_t result;
  uint16_t nodes, me, up;  /* up: peers that have not left */
  bool leaving, unwatched; /* unwatched: the program says what it accesses */
  bool lone;               /* nobody has to know what it accesses: alone, or all use one memory */
  char slower[160];        /* why accesses are seen by a slower way; empty: by none */
  struct mr_membership job;
  size_t used, size; /* bytes of shared memory to be given out */
  uint32_t pages;    /* with those of globals */
  uint8_t *twins;
  int twins_fd;
  struct mr_stand *stand; /* NULL: nowhere to show it */
  struct mr_stand_counts counts;
  struct mr_heat *heat;   /* NULL: nobody asked */
  struct mr_races *races; /* the same */
  unsigned races_said;
  struct mr_checkpoints *checkpoints; /* NULL: nobody asked for any */
  uint32_t parked;                    /* the program's thread stands still for that one; 0: none */
  struct mr_replay *replay;           /* NULL: where a node is lost all go back */
  _Atomic bool inside;                /* the program's thread is in this library; by it alone */
  const struct mr_part *part;         /* the program's part of them; NULL: there is none */
  /* Where a request was begun that an image is taken in; how a process goes on from there. */
  ucontext_t here;
  bool captures;
  struct mr_hold hold; /* of the program's thread, which handles signals, while it is written */
  enum { ANEW, PARKED, WAITING } resumed;
  void (*on_return)(void); /* NULL, or due behind a request that an image was taken in */
  void (*advise)(char *words, size_t size); /* NULL, or what to do where every node waits */
  bool returns;   /* it is due; under the lock until the request is done */
  bool restoring; /* its core goes on from a checkpoint, its program does not yet; under the lock */
  /* What nodes that have one memory share beside it, and how the program's thread waits for them;
   * NULL: the protocol has them. */
  struct mr_commons *commons;
  int commons_fd;
  struct maru_wait_policy awake, asleep;
  int64_t spin_ns;
  /* Whether it waits there, and for what: a lock, or that turn of a barrier; under the lock. */
  struct {
    bool waits;
    enum mr_op op;
    uint32_t object, turn;
  } apart;
};
extern struct mr_self mr_self;

/* ---- node.c ---- */

/* An access of the program's that is not allowed (access.h). */
int mr_self_fault(void *context, uint32_t page, bool write);

/* ---- node_core.c ---- */

/* The core, by what this node knows of itself; `config` has the settings.  Dies where it fails. */
void mr_self_create_core(struct mr_core_config *config, const uint32_t *incarnations);
/* Says it on stderr (races.h). */
void mr_self_race(void *context, uint32_t page, uint32_t first, uint32_t last, uint16_t one,
                  uint16_t other);
/* Gives the latch of that lock, or dies where this node does not hold it. */
void mr_self_give_latch(uint32_t id);
/* Every node waits, and nobody can end that; `what` names the nodes and what each waits for. */
_Noreturn void mr_self_stuck(const char *what);
/* Dies, as where the core says so of that object. */
_Noreturn void mr_self_misuse(uint32_t object, int error);

/* ---- node_image.c ---- */

/* Where somebody asked for checkpoints; and once there is a core, and others may ask for one. */
void mr_self_open_checkpoints(void);
void mr_self_start_checkpoints(void);
/* The program's thread waits. */
void mr_self_pauses(void);
/* The core goes on from the checkpoint that mr_node_restores speaks of: before anything of the
 * others is heard. */
void mr_self_load_core(void);
/* The job's, which losses count up. */
uint32_t mr_self_epoch(void);

#endif
