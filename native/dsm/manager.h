/* manager.h: locks, barriers, semaphores, flags, counters, conditions: their
 * state at the node that manages them (internal to libmaru-dsm).
 *
 * A lock goes from node to node in *turns*, which have numbers from 1.  The manager knows the last
 * turn and whose it is.  A free lock is granted; else the node of the last turn hears who comes
 * next, and gives the lock there by itself (locks.c).  A node that takes a free lock which it had
 * last may *keep* it: then it takes it again without a request.  A node that tries a kept lock
 * waits until its keeper has answered.  A release that crosses the next one's name changes nothing:
 * the next gets the lock from that node.  models/dsm-locks.pml has all this.
 *
 * An object is a *slot*; what kind it is its first use decides.  A request
 * changes the state and may grant requests, its own or waiting ones, in the
 * order in which they came.  Each node has at most one request waiting.  The
 * manager knows nothing of pages: with each object it keeps a vector time, which
 * its caller joins and reads.
 *
 * Pure: no I/O, no clock, no allocation after creation.  Thread-safety: none.
 */
#ifndef MARU_DSM_MANAGER_H
#define MARU_DSM_MANAGER_H

#include <stdint.h>

enum mr_op {
  MR_LOCK = 1,
  MR_UNLOCK,
  MR_BARRIER,    /* argument: how many nodes meet; result: 1 at one of them, else 0.  Both nodes of
                    two meet without a manager: mr_meets */
  MR_WAIT,       /* semaphore: takes 1, waits for it */
  MR_POST,       /* semaphore: gives `argument` */
  MR_FLAG_AWAIT, /* until the flag has the value `argument` */
  MR_FLAG_SET,
  MR_FETCH_ADD,       /* result: the counter before */
  MR_COMPARE_SWAP,    /* counter: becomes `argument` if it is `expected`; result: as before */
  MR_CONDITION,       /* stands in the condition's queue: granted at once, and
                         again, as MR_SIGNAL, when it is signalled */
  MR_SIGNAL,          /* the first that stands in it */
  MR_BROADCAST,       /* all */
  MR_TRY,             /* lock: takes it if nobody has it; result: whether */
  MR_ASKED,           /* the first that no program asks for */
  MR_HELD = MR_ASKED, /* lock: the node that was asked for it holds it; argument: its turn */
  MR_NEXT,            /* only granted: of a lock; see mr_granted */
  MR_OPS
};

struct mr_request {
  uint16_t from;
  uint8_t op; /* enum mr_op */
  uint32_t slot;
  int64_t argument, expected;
};

/* With MR_NEXT: nobody comes next, but the lock is asked back from its keeper. */
#define MR_NOBODY UINT16_MAX

/* What a grant of a lock says, also by MR_TRY, where 0 is no grant. */
#define MR_KEEPS INT64_C(1)  /* the node may keep it */
#define MR_BEHIND INT64_C(2) /* the node waited right after its giver in the queue */
#define MR_TURN INT64_C(4)   /* times the turn's number */
/* With MR_NEXT: times the turn's number; the next node is below. */
#define MR_NEXT_TURN (INT64_C(1) << 16)

struct mr_manager;

/* Called within mr_manager_step: `to`'s request `op` for `slot` is granted.  It may make a step on
 * another object, and with MR_NEXT on this one.  MR_NEXT: `to` has the lock's turn before the last;
 * result: that turn's number * MR_NEXT_TURN + the node that comes next, or MR_NOBODY. */
typedef void mr_granted(void *context, uint16_t to, enum mr_op op, uint32_t slot, int64_t result);

/* `slots` objects for `nodes` nodes; -ENOMEM. */
int mr_manager_create(struct mr_manager **manager, uint16_t nodes, uint32_t slots);
void mr_manager_destroy(struct mr_manager *manager);

/* 0; or, with nothing changed: -EPERM: unlocked by a node that cannot hold it;
 * -EINVAL: no such operation or slot, an object of another kind, a barrier
 * of another size or none; -EBUSY: that node waits already, or holds that lock. */
int mr_manager_step(struct mr_manager *manager, const struct mr_request *request,
                    mr_granted *granted, void *context);

struct mr_writer;
struct mr_reader;

/* Objects, and who waits for them, as bytes; the vector times are left out.  And into a manager
 * that is new, of so many nodes and slots: -EBADMSG: those bytes are none of it. */
void mr_manager_save(const struct mr_manager *manager, struct mr_writer *out);
int mr_manager_load(struct mr_manager *manager, struct mr_reader *in);

/* The object's vector time, one number per node; zero at first. */
uint64_t *mr_manager_time(struct mr_manager *manager, uint32_t slot);

#endif
