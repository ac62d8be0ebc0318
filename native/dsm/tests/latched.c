/* The way to a latch as node.c has it, in steps of a world.  A node tries, asks for the protocol's
 * lock, takes the latch as the first, and gives the protocol's lock. */
#include "world.h"

#include "check.h"

static struct mr_latch *latch_of(const struct node *node) {
  return &node->world->latches[node->latch];
}

static void ask(struct node *node, enum mr_op op) {
  node->waits = true;
  node->result = NULL;
  CHECK_EQUAL(mr_core_sync(node->core, op, node->latch, 0), 0);
}

static void take(struct node *node, uint32_t id) {
  node->latch = id;
  if (mr_latch_try(latch_of(node), node->number))
    return;
  node->at_latch = QUEUED;
  ask(node, MR_LOCK);
}

void latched_begin(struct node *node, const struct instruction *i) {
  struct mr_latch *latch = &node->world->latches[i->id];
  if (i->op == MR_LOCK) {
    take(node, i->id);
  } else if (i->op == MR_UNLOCK) {
    CHECK_EQUAL(mr_latch_give(latch, node->number), 0);
  } else if (i->op == MR_TRY) {
    node->registers[i->reg] = mr_latch_try(latch, node->number);
  } else {
    node->latch = (uint32_t)i->value;
    node->retakes = node->waits = true;
    node->result = NULL;
    CHECK_EQUAL(mr_core_sync(node->core, MR_CONDITION, i->id, i->value), 0);
  }
}

bool latched_step(struct node *node) {
  if (node->retakes) {
    node->retakes = false;
    take(node, node->latch);
    return true;
  }
  switch (node->at_latch) {
  case APART:
    return false;
  case QUEUED:
    node->at_latch = FIRST;
    /* Its patience may have an end. */
    atomic_store(&latch_of(node)->impatient, world_random(node->world, 2));
    break;
  case FIRST: /* it is free: this does not wait */
    mr_latch_take(latch_of(node), node->number, NULL);
    node->at_latch = TOOK;
    break;
  case TOOK:
    mr_core_went_on(node->core);
    node->at_latch = HAS;
    ask(node, MR_UNLOCK);
    break;
  case HAS:
    node->at_latch = APART;
  }
  return true;
}

void latched_unlock(void *context, uint32_t id) {
  struct node *node = context;
  CHECK_EQUAL(mr_latch_give(&node->world->latches[id], node->number), 0);
}

bool latched_apart(void *context, struct mr_wait *wait) {
  const struct node *node = context;
  if ((node->at_latch != FIRST && node->at_latch != TOOK) ||
      !mr_latch_waits(latch_of(node), node->number))
    return false;
  *wait = (struct mr_wait){.op = MR_LOCK, .id = node->latch, .waits = true};
  return true;
}

bool world_waits(const struct node *node) {
  return node->waits ||
         (node->at_latch == FIRST && mr_latch_holder(latch_of(node)) != MR_LATCH_NOBODY);
}
