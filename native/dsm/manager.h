/* manager.h: locks, barriers, semaphores, flags, counters, conditions: their
 * state at the node that manages them (internal to libmaru-dsm).
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
  MR_BARRIER,    /* argument: how many nodes meet; result: 1 at the last to come, else 0 */
  MR_WAIT,       /* semaphore: takes 1, waits for it */
  MR_POST,       /* semaphore: gives `argument` */
  MR_FLAG_AWAIT, /* until the flag has the value `argument` */
  MR_FLAG_SET,
  MR_FETCH_ADD, /* result: the counter before */
  MR_CONDITION, /* stands in the condition's queue: granted at once, and
                   again, as MR_SIGNAL, when it is signalled */
  MR_SIGNAL,    /* the first that stands in it */
  MR_BROADCAST, /* all */
  MR_TRY,       /* lock: takes it if nobody has it; result: whether */
  MR_OPS
};

struct mr_request {
  uint16_t from;
  uint8_t op; /* enum mr_op */
  uint32_t slot;
  int64_t argument;
};

struct mr_manager;

/* Called within mr_manager_step: `to`'s request `op` for `slot` is granted.  It may make a
 * step on another object. */
typedef void mr_granted(void *context, uint16_t to, enum mr_op op, uint32_t slot, int64_t result);

/* `slots` objects for `nodes` nodes; -ENOMEM. */
int mr_manager_create(struct mr_manager **manager, uint16_t nodes, uint32_t slots);
void mr_manager_destroy(struct mr_manager *manager);

/* 0; or, with nothing changed: -EPERM: unlocked by a node that does not hold it;
 * -EINVAL: no such operation or slot, an object of another kind, a barrier
 * of another size or none; -EBUSY: that node waits already, or holds that lock. */
int mr_manager_step(struct mr_manager *manager, const struct mr_request *request,
                    mr_granted *granted, void *context);

/* The object's vector time, one number per node; zero at first. */
uint64_t *mr_manager_time(struct mr_manager *manager, uint32_t slot);

#endif
