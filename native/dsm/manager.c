#include "manager.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define NOBODY UINT16_MAX

enum kind { UNUSED, LOCK, BARRIER, SEMAPHORE, FLAG, COUNTER, CONDITION };

struct object {
  uint8_t kind;
  uint16_t holder;      /* lock */
  uint16_t first, last; /* of those that wait */
  uint16_t arrived;     /* barrier */
  int64_t value;        /* semaphore, flag, counter; barrier: how many meet */
};

struct waiter {
  bool waits;
  uint16_t next;
  int64_t argument;
};

struct mr_manager {
  uint16_t nodes;
  uint32_t slots;
  struct waiter *waiters; /* one per node */
  struct object *objects;
  uint64_t *times;
};

/* What a step is about. */
struct step {
  struct mr_manager *manager;
  struct object *object;
  const struct mr_request *request;
  mr_granted *granted;
  void *context;
};

int mr_manager_create(struct mr_manager **manager, uint16_t nodes, uint32_t slots) {
  struct mr_manager *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  *m = (struct mr_manager){.nodes = nodes, .slots = slots};
  m->waiters = calloc(nodes, sizeof *m->waiters);
  m->objects = calloc(slots != 0 ? slots : 1, sizeof *m->objects);
  m->times = calloc(slots != 0 ? slots : 1, nodes * sizeof *m->times);
  if (m->waiters == NULL || m->objects == NULL || m->times == NULL) {
    mr_manager_destroy(m);
    return -ENOMEM;
  }
  *manager = m;
  return 0;
}

void mr_manager_destroy(struct mr_manager *manager) {
  free(manager->times);
  free(manager->objects);
  free(manager->waiters);
  free(manager);
}

uint64_t *mr_manager_time(struct mr_manager *manager, uint32_t slot) {
  return &manager->times[(uint64_t)slot * manager->nodes];
}

/* ---- who waits ------------------------------------------------------------ */

static void enqueue(struct step *s) {
  uint16_t node = s->request->from;
  s->manager->waiters[node] =
      (struct waiter){.waits = true, .next = NOBODY, .argument = s->request->argument};
  if (s->object->first == NOBODY)
    s->object->first = node;
  else
    s->manager->waiters[s->object->last].next = node;
  s->object->last = node;
}

static uint16_t dequeue(struct step *s) {
  uint16_t node = s->object->first;
  if (node != NOBODY) {
    s->object->first = s->manager->waiters[node].next;
    s->manager->waiters[node].waits = false;
  }
  return node;
}

static void grant(struct step *s, uint16_t to, enum mr_op op, int64_t result) {
  s->granted(s->context, to, op, s->request->slot, result);
}

/* ---- one function a kind -------------------------------------------------- */

static int lock(struct step *s) {
  if (s->object->holder == s->request->from)
    return -EBUSY;
  if (s->object->holder != NOBODY) {
    enqueue(s);
    return 0;
  }
  s->object->holder = s->request->from;
  grant(s, s->request->from, MR_LOCK, 0);
  return 0;
}

static int try_lock(struct step *s) {
  bool free = s->object->holder == NOBODY;
  if (free)
    s->object->holder = s->request->from;
  grant(s, s->request->from, MR_TRY, free);
  return 0;
}

static int unlock(struct step *s) {
  if (s->object->holder != s->request->from)
    return -EPERM;
  s->object->holder = dequeue(s);
  if (s->object->holder != NOBODY)
    grant(s, s->object->holder, MR_LOCK, 0);
  return 0;
}

static int barrier(struct step *s) {
  int64_t parties = s->request->argument;
  if (parties < 1 || parties > s->manager->nodes ||
      (s->object->arrived > 0 && s->object->value != parties))
    return -EINVAL;
  s->object->value = parties;
  s->object->arrived++;
  enqueue(s);
  if (s->object->arrived < parties)
    return 0;
  s->object->arrived = 0;
  for (uint16_t node; (node = dequeue(s)) != NOBODY;)
    grant(s, node, MR_BARRIER, node == s->request->from);
  return 0;
}

static int post(struct step *s) {
  if (s->request->argument < 1 || s->request->argument > INT64_MAX - s->object->value)
    return -EINVAL;
  s->object->value += s->request->argument;
  while (s->object->value > 0 && s->object->first != NOBODY) {
    s->object->value--;
    grant(s, dequeue(s), MR_WAIT, 0);
  }
  return 0;
}

static int manager_take(struct step *s) {
  if (s->object->value == 0) {
    enqueue(s);
    return 0;
  }
  s->object->value--;
  grant(s, s->request->from, MR_WAIT, 0);
  return 0;
}

static int await_flag(struct step *s) {
  if (s->object->value == s->request->argument)
    grant(s, s->request->from, MR_FLAG_AWAIT, 0);
  else
    enqueue(s);
  return 0;
}

/* Those that wait for another value stay, in their order. */
static int set_flag(struct step *s) {
  s->object->value = s->request->argument;
  uint16_t *link = &s->object->first, kept = NOBODY;
  while (*link != NOBODY) {
    uint16_t node = *link;
    struct waiter *waiter = &s->manager->waiters[node];
    if (waiter->argument == s->object->value) {
      waiter->waits = false;
      *link = waiter->next;
      grant(s, node, MR_FLAG_AWAIT, 0);
    } else {
      kept = node;
      link = &waiter->next;
    }
  }
  s->object->last = kept;
  return 0;
}

static int fetch_add(struct step *s) {
  int64_t before = s->object->value;
  /* Wraps, as the hardware's does. */
  s->object->value = (int64_t)((uint64_t)before + (uint64_t)s->request->argument);
  grant(s, s->request->from, MR_FETCH_ADD, before);
  return 0;
}

static int condition(struct step *s) {
  enqueue(s);
  grant(s, s->request->from, MR_CONDITION, 0);
  return 0;
}

static int signal_one(struct step *s) {
  if (s->object->first != NOBODY)
    grant(s, dequeue(s), MR_SIGNAL, 0);
  return 0;
}

static int signal_all(struct step *s) {
  while (s->object->first != NOBODY)
    signal_one(s);
  return 0;
}

static const struct {
  uint8_t kind;
  bool may_wait;
  int (*run)(struct step *);
} steps[MR_OPS] = {
    [MR_LOCK] = {LOCK, true, lock},
    [MR_UNLOCK] = {LOCK, false, unlock},
    [MR_BARRIER] = {BARRIER, true, barrier},
    [MR_WAIT] = {SEMAPHORE, true, manager_take},
    [MR_POST] = {SEMAPHORE, false, post},
    [MR_FLAG_AWAIT] = {FLAG, true, await_flag},
    [MR_FLAG_SET] = {FLAG, false, set_flag},
    [MR_FETCH_ADD] = {COUNTER, false, fetch_add},
    [MR_CONDITION] = {CONDITION, true, condition},
    [MR_SIGNAL] = {CONDITION, false, signal_one},
    [MR_BROADCAST] = {CONDITION, false, signal_all},
    [MR_TRY] = {LOCK, false, try_lock},
};

int mr_manager_step(struct mr_manager *manager, const struct mr_request *request,
                    mr_granted *granted, void *context) {
  if (request->op == 0 || request->op >= MR_OPS || request->slot >= manager->slots)
    return -EINVAL;
  struct object *object = &manager->objects[request->slot];
  if (object->kind != UNUSED && object->kind != steps[request->op].kind)
    return -EINVAL;
  if (steps[request->op].may_wait && manager->waiters[request->from].waits)
    return -EBUSY;
  if (object->kind == UNUSED)
    *object = (struct object){.holder = NOBODY, .first = NOBODY, .last = NOBODY};
  struct step step = {manager, object, request, granted, context};
  int rc = steps[request->op].run(&step);
  if (rc == 0)
    object->kind = steps[request->op].kind;
  return rc;
}
