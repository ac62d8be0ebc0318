/* A node's side of the locks: those that it holds, keeps, or has had (manager.h).
 *
 * The manager names the next node, and the turn after which it comes.  If that turn of this node is
 * over, the lock goes there at once. Else it goes when the turn ends, which may not have begun here
 * yet.  So each turn has one that gives the lock away: this node, to the next, or the manager,
 * whom this node's release reaches before anybody else asks.  With the lock goes what happened
 * before its last release here, and nothing that this node did later.
 */
#include "state.h"

#include <stdlib.h>

/* A time of so many numbers as there are nodes. */
struct released {
  struct released *older;
  uint64_t time[];
};

void mr_locks_destroy(struct mr_core *core) {
  for (struct released *each = core->released, *older; each != NULL; each = older) {
    older = each->older;
    free(each);
  }
  free(core->locks);
}

static bool note_release(struct mr_core *core, struct lock *lock) {
  size_t bytes = core->config.nodes * sizeof(uint64_t);
  if (lock->released == NULL) {
    struct released *released = malloc(sizeof *released + bytes);
    if (released == NULL) {
      mr_fail(core, -ENOMEM, "no memory for the time of a release, of nodes", core->config.nodes);
      return false;
    }
    released->older = core->released;
    core->released = released;
    lock->released = released->time;
  }
  memcpy(lock->released, core->time, bytes);
  return true;
}

int mr_lock_load(struct mr_core *core, uint32_t id, const struct lock *saved) {
  struct lock *lock = &core->locks[id];
  *lock = *saved;
  lock->released = NULL;
  /* Of the beginning: before it all is home, and everybody has heard of it. */
  return note_release(core, lock) ? 0 : -ENOMEM;
}

/* It is the node of the next turn, and waited `behind` this one. */
static void give(struct mr_core *core, uint32_t id, struct lock *lock, uint16_t to, bool behind) {
  int64_t says = (int64_t)(lock->turn + 1) * MR_TURN + (behind ? MR_BEHIND : 0);
  lock->keeps = false;
  core->counters.given++;
  mr_compose(core, MR_GRANT, id, says, MR_LOCK);
  mr_put_time(core, lock->released);
  mr_put_progress(core);
  mr_put_intervals(core, to, lock->released);
  mr_dispatch(core, to);
}

static void give_back(struct mr_core *core, uint32_t id, const struct lock *lock) {
  core->counters.requests++;
  core->tell_manager(core, MR_UNLOCK, id, 0, lock->released);
}

/* ---- the program's side ------------------------------------------------------------ */

bool mr_lock_retake(struct mr_core *core, uint32_t id) {
  struct lock *lock = &core->locks[id];
  if (lock->held || !lock->keeps)
    return false;
  lock->held = true;
  core->counters.retaken++;
  return true;
}

int mr_lock_taken(struct mr_core *core, uint32_t id, int64_t says) {
  struct lock *lock = &core->locks[id];
  uint64_t turn = (uint64_t)(says / MR_TURN);
  if (says < MR_TURN || lock->held || lock->keeps || turn <= lock->turn)
    return mr_fail(core, -EPROTO, "a turn of a lock comes out of its order, of object", id);
  lock->held = true;
  lock->keeps = (says & MR_KEEPS) != 0;
  lock->turn = turn;
  return 0;
}

void mr_lock_release(struct mr_core *core, uint32_t id) {
  struct lock *lock = &core->locks[id];
  lock->held = false;
  if (!note_release(core, lock))
    return;
  if (lock->next != 0) {
    uint16_t next = (uint16_t)(lock->next - 1);
    lock->next = 0;
    give(core, id, lock, next, true);
  } else if (!lock->keeps) {
    give_back(core, id, lock);
  }
}

/* ---- the manager's word -------------------------------------------------------------- */

static int asked_back(struct mr_core *core, uint32_t id, struct lock *lock) {
  if (!lock->keeps)
    return mr_fail(core, -EPROTO, "a lock is asked back that this node does not keep, object", id);
  lock->keeps = false;
  if (lock->held)
    core->lock_is_held(core, id, lock->turn);
  else
    give_back(core, id, lock);
  return mr_unless_stopped(core);
}

int mr_lock_next(struct mr_core *core, uint32_t id, uint64_t turn, uint16_t next) {
  struct lock *lock = &core->locks[id];
  if (turn < lock->turn || lock->next != 0)
    return mr_fail(core, -EPROTO, "the next of a turn that is over is named, of object", id);
  if (next == MR_NOBODY)
    return asked_back(core, id, lock);
  if (turn == lock->turn && !lock->held)
    give(core, id, lock, next, false);
  else
    lock->next = (uint16_t)(next + 1);
  return mr_unless_stopped(core);
}

int mr_on_names_next(struct mr_core *core, const struct mr_header *header,
                     struct mr_reader *reader) {
  uint16_t nodes = core->config.nodes;
  bool nobody = header->detail == MR_NOBODY;
  if (reader->left != 0 || header->subject >= core->config.objects ||
      header->subject % nodes != header->from || header->value < 1 ||
      header->value > INT64_MAX / MR_TURN - 1 ||
      (!nobody && (header->detail >= nodes || header->detail == core->config.me)))
    return -EBADMSG;
  return mr_lock_next(core, header->subject, (uint64_t)header->value, (uint16_t)header->detail);
}
