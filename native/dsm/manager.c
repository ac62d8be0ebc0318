#include "manager.h"

#include "message.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define NOBODY MR_NOBODY

enum kind { UNUSED, LOCK, BARRIER, SEMAPHORE, FLAG, COUNTER, CONDITION };

struct object {
  uint8_t kind;
  bool free, kept;      /* lock: nobody has its last turn any more; its node may keep it */
  uint16_t asked;       /* lock: the node that is asked for it, and has not answered; NOBODY */
  uint16_t tail;        /* lock: whose the last turn is or was */
  uint16_t first, last; /* of those that wait */
  uint16_t arrived;     /* barrier */
  int64_t value;        /* semaphore, flag, counter; barrier: how many meet; lock: the last turn */
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

/* The next turn is that node's. */
static void begin_turn(struct step *s, uint16_t node, bool keeps) {
  s->object->value++;
  s->object->tail = node;
  s->object->free = false;
  s->object->kept = keeps;
}

static void grant_lock(struct step *s, uint16_t to, enum mr_op op, bool keeps) {
  begin_turn(s, to, keeps);
  grant(s, to, op, s->object->value * MR_TURN + (keeps ? MR_KEEPS : 0));
}

/* Tells the node of that turn. */
static void name_next(struct step *s, uint16_t node, int64_t turn, uint16_t next) {
  grant(s, node, MR_NEXT, turn * MR_NEXT_TURN + next);
}

static int lock(struct step *s) {
  struct object *object = s->object;
  uint16_t from = s->request->from, before = object->tail;
  if (object->free) {
    grant_lock(s, from, MR_LOCK, before == from);
    return 0;
  }
  if (before == from)
    return -EBUSY;
  begin_turn(s, from, false);
  name_next(s, before, object->value - 1, from);
  return 0;
}

static int try_lock(struct step *s) {
  struct object *object = s->object;
  uint16_t from = s->request->from;
  if (object->free) {
    grant_lock(s, from, MR_TRY, object->tail == from);
  } else if (!object->kept && object->asked == NOBODY) {
    grant(s, from, MR_TRY, 0);
  } else {
    enqueue(s);
    if (object->asked == NOBODY) {
      object->asked = object->tail;
      name_next(s, object->tail, object->value, NOBODY);
    }
  }
  return 0;
}

/* The node has answered: the first that tries gets what is free. */
static void answer_trials(struct step *s) {
  if (s->object->asked != s->request->from)
    return;
  s->object->asked = NOBODY;
  for (uint16_t node; (node = dequeue(s)) != NOBODY;)
    if (s->object->free)
      grant_lock(s, node, MR_TRY, false);
    else
      grant(s, node, MR_TRY, 0);
}

static int unlock(struct step *s) {
  struct object *object = s->object;
  bool last = object->tail == s->request->from;
  if (object->tail == NOBODY || (last && object->free))
    return -EPERM;
  object->free |= last;
  answer_trials(s);
  return 0;
}

static int held(struct step *s) {
  struct object *object = s->object;
  if (object->asked != s->request->from)
    return -EPERM;
  if (object->value == s->request->argument)
    object->kept = false;
  answer_trials(s);
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

static int compare_swap(struct step *s) {
  int64_t before = s->object->value;
  if (before == s->request->expected)
    s->object->value = s->request->argument;
  grant(s, s->request->from, MR_COMPARE_SWAP, before);
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
    [MR_TRY] = {LOCK, true, try_lock},
    [MR_HELD] = {LOCK, false, held},
    [MR_COMPARE_SWAP] = {COUNTER, false, compare_swap},
};

int mr_manager_step(struct mr_manager *manager, const struct mr_request *request,
                    mr_granted *granted, void *context) {
  if (request->op == 0 || request->op >= MR_OPS || steps[request->op].run == NULL ||
      request->slot >= manager->slots)
    return -EINVAL;
  struct object *object = &manager->objects[request->slot];
  if (object->kind != UNUSED && object->kind != steps[request->op].kind)
    return -EINVAL;
  if (steps[request->op].may_wait && manager->waiters[request->from].waits)
    return -EBUSY;
  if (object->kind == UNUSED)
    *object = (struct object){
        .free = true, .asked = NOBODY, .tail = NOBODY, .first = NOBODY, .last = NOBODY};
  struct step step = {manager, object, request, granted, context};
  uint8_t before = object->kind;
  object->kind = steps[request->op].kind;
  int rc = steps[request->op].run(&step);
  if (rc < 0)
    object->kind = before;
  return rc;
}

/* ---- as bytes ---------------------------------------------------------------------- */

/* Of an object; so many waiting nodes follow. */
struct saved {
  uint32_t slot;
  uint16_t asked, tail, arrived, waiting;
  uint8_t kind, free, kept, unused;
  int64_t value;
};
struct saved_waiter {
  int64_t argument;
  uint64_t node;
};

static void save_object(const struct mr_manager *m, uint32_t slot, struct mr_writer *out) {
  const struct object *object = &m->objects[slot];
  struct saved saved = {.slot = slot,
                        .asked = object->asked,
                        .tail = object->tail,
                        .arrived = object->arrived,
                        .kind = object->kind,
                        .free = object->free,
                        .kept = object->kept,
                        .value = object->value};
  for (uint16_t node = object->first; node != NOBODY; node = m->waiters[node].next)
    saved.waiting++;
  mr_put(out, &saved, sizeof saved);
  for (uint16_t node = object->first; node != NOBODY; node = m->waiters[node].next) {
    struct saved_waiter waiter = {m->waiters[node].argument, node};
    mr_put(out, &waiter, sizeof waiter);
  }
}

void mr_manager_save(const struct mr_manager *manager, struct mr_writer *out) {
  for (uint32_t slot = 0; slot < manager->slots; slot++)
    if (manager->objects[slot].kind != UNUSED)
      save_object(manager, slot, out);
}

static bool is_node(const struct mr_manager *m, uint16_t node) {
  return node == NOBODY || node < m->nodes;
}

/* What such an object can be; its queue is looked at apart. */
static bool can_be(const struct mr_manager *m, const struct saved *s) {
  bool known = s->kind > UNUSED && s->kind <= CONDITION && s->free <= 1 && s->kept <= 1;
  if (!known || s->slot >= m->slots || m->objects[s->slot].kind != UNUSED ||
      !is_node(m, s->asked) || !is_node(m, s->tail) || s->waiting > m->nodes)
    return false;
  if (s->kind == LOCK)
    return s->value >= 0 && s->value < INT64_MAX / MR_NEXT_TURN && s->arrived == 0 &&
           (s->tail != NOBODY || (s->free == 1 && s->value == 0)) &&
           (s->asked == NOBODY || s->asked == s->tail);
  if (s->kind == BARRIER)
    return s->arrived == s->waiting && (s->arrived == 0 || s->value > s->arrived) &&
           s->value <= m->nodes;
  return s->arrived == 0 && (s->kind != SEMAPHORE || s->value == 0 || s->waiting == 0);
}

static int load_waiter(struct mr_manager *m, struct object *object, struct mr_reader *in) {
  struct saved_waiter waiter;
  mr_take(in, &waiter, sizeof waiter);
  if (in->bad || waiter.node >= m->nodes || m->waiters[waiter.node].waits)
    return -EBADMSG;
  uint16_t node = (uint16_t)waiter.node;
  m->waiters[node] = (struct waiter){.waits = true, .next = NOBODY, .argument = waiter.argument};
  if (object->first == NOBODY)
    object->first = node;
  else
    m->waiters[object->last].next = node;
  object->last = node;
  return 0;
}

int mr_manager_load(struct mr_manager *manager, struct mr_reader *in) {
  while (in->left > 0) {
    struct saved saved;
    mr_take(in, &saved, sizeof saved);
    if (in->bad || !can_be(manager, &saved))
      return -EBADMSG;
    struct object *object = &manager->objects[saved.slot];
    *object = (struct object){.kind = saved.kind,
                              .free = saved.free == 1,
                              .kept = saved.kept == 1,
                              .asked = saved.asked,
                              .tail = saved.tail,
                              .first = NOBODY,
                              .last = NOBODY,
                              .arrived = saved.arrived,
                              .value = saved.value};
    for (uint16_t i = 0; i < saved.waiting; i++)
      if (load_waiter(manager, object, in) < 0)
        return -EBADMSG;
  }
  return 0;
}
