#include "state.h"

static bool releases(enum mr_op op) {
  return op == MR_UNLOCK || op == MR_BARRIER || op == MR_POST || op == MR_FLAG_SET ||
         op == MR_FETCH_ADD || op == MR_COMPARE_SWAP;
}

static bool acquires(enum mr_op op) {
  return op == MR_LOCK || op == MR_BARRIER || op == MR_WAIT || op == MR_FLAG_AWAIT ||
         op == MR_FETCH_ADD || op == MR_COMPARE_SWAP || op == MR_TRY;
}

/* Whether the manager answers the request itself. */
static bool answered(enum mr_op op) { return acquires(op) || op == MR_CONDITION; }

void mr_finish(struct mr_core *core, int64_t result) {
  core->pending.phase = IDLE;
  if (mr_acquire_later(core) < 0)
    return;
  mr_settle(core);
  core->config.sink->done(core->config.context, result);
}

/* ---- requests to managers -------------------------------------------------------- */

static void ask(struct mr_core *core);
static void next_stage(struct mr_core *core, int64_t result);
static void wait_on(struct mr_core *core);

static bool takes(enum mr_op op) { return op == MR_LOCK || op == MR_TRY; }

static void tell_of_lock(struct mr_core *core, uint16_t giver, bool behind, uint64_t ns) {
  if (core->config.sink->locked != NULL)
    core->config.sink->locked(core->config.context, core->pending.id, giver, behind, ns);
}

/* What this node knows of a lock without its manager: a mistake, or that it has the lock. Whether
 * the operation is done. */
static bool lock_here(struct mr_core *core, enum mr_op op, uint32_t id) {
  bool held = core->locks[id].held;
  if ((op == MR_LOCK && held) || (op == MR_UNLOCK && !held)) {
    mr_fail(core, op == MR_LOCK ? -EBUSY : -EPERM, MR_MISUSED, id);
    return true;
  }
  if (op == MR_TRY && held) {
    next_stage(core, 0);
    return true;
  }
  if (!takes(op) || !mr_lock_retake(core, id))
    return false;
  tell_of_lock(core, core->config.me, false, 0);
  next_stage(core, op == MR_TRY);
  return true;
}

static void sync_begin(struct mr_core *core, enum mr_op op, uint32_t id, int64_t argument) {
  core->pending.op = op;
  core->pending.id = id;
  core->pending.argument = argument;
  if (lock_here(core, op, id))
    return;
  if (!releases(op)) {
    ask(core);
    return;
  }
  core->pending.phase = FLUSHING;
  if (!mr_flush(core))
    mr_flushed(core);
}

void mr_flushed(struct mr_core *core) {
  uint16_t me = core->config.me;
  if (core->notice_count > 0) {
    int rc = mr_intervals_add(core->log, me, core->time[me] + 1, core->notices, core->notice_count,
                              core->carried.bytes);
    if (rc < 0) {
      mr_fail(core, rc, "no memory for the write notices of interval", core->time[me] + 1);
      return;
    }
    core->time[me]++;
    core->counters.intervals++;
  }
  /* A node alone hears of nobody. */
  mr_close_round(core);
  if (core->notice_count > 0)
    mr_spread_news(core);
  if (core->pending.phase == CLEANING)
    wait_on(core);
  else
    ask(core);
}

static void manage(struct mr_core *core, const struct mr_request *request, const uint64_t *time);

void mr_tell_manager(struct mr_core *core, enum mr_op op, uint32_t id, int64_t argument,
                     const uint64_t *time) {
  uint16_t nodes = core->config.nodes, manager = (uint16_t)(id % nodes);
  int64_t expected = core->pending.expected;
  if (manager == core->config.me) {
    struct mr_request request = {manager, (uint8_t)op, id / nodes, argument, expected};
    manage(core, &request, time);
    return;
  }
  mr_compose(core, MR_SYNC, id, argument, op);
  mr_put_time(core, time);
  mr_put_progress(core);
  if (op == MR_COMPARE_SWAP)
    mr_put(&core->out, &expected, sizeof expected);
  if (releases(op))
    mr_put_intervals(core, manager, time);
  mr_dispatch(core, manager);
}

/* What others wrote is known up to that time, and a stretch of use ends. */
static int acquire(struct mr_core *core, const uint64_t *time) {
  if (mr_acquire(core, time) < 0)
    return -ECANCELED;
  mr_habits_part(core->habits);
  return 0;
}

/* Goes on if both nodes are at the barrier. */
static void meet(struct mr_core *core) {
  const struct pending *pending = &core->pending;
  struct meeting *meeting = &core->meeting;
  if (pending->phase != ASKING || !mr_meets(core, pending->op, pending->argument) ||
      !meeting->heard || meeting->id != pending->id)
    return;
  meeting->heard = false;
  if (acquire(core, meeting->time) < 0)
    return;
  next_stage(core, core->config.me == 0);
}

static void tell_other(struct mr_core *core) {
  uint16_t other = (uint16_t)(1 - core->config.me);
  mr_compose(core, MR_MEET, core->pending.id, 0, 0);
  mr_put_time(core, core->time);
  mr_put_progress(core);
  mr_put_intervals(core, other, core->time);
  mr_dispatch(core, other);
}

static void ask(struct mr_core *core) {
  struct pending *pending = &core->pending;
  enum mr_op op = pending->op;
  pending->phase = ASKING;
  if (mr_meets(core, op, pending->argument)) {
    core->counters.requests++;
    tell_other(core);
    meet(core);
    return;
  }
  if (op == MR_UNLOCK) {
    mr_lock_release(core, pending->id);
  } else {
    core->counters.requests++;
    if (takes(op) && core->config.sink->locked != NULL)
      pending->since = core->config.sink->now(core->config.context);
    mr_tell_manager(core, op, pending->id, pending->argument, core->time);
  }
  if (!answered(op) && !core->stopped)
    next_stage(core, 0);
}

static int begin(struct mr_core *core, enum mr_op op, uint32_t id, int64_t argument,
                 int64_t expected) {
  int rc = ready(core, 0);
  if (rc < 0)
    return rc;
  bool condition = op == MR_CONDITION;
  if (op < MR_LOCK || op >= MR_ASKED || id >= core->config.objects ||
      (condition && (argument < 0 || argument >= core->config.objects)))
    return -EINVAL;
  core->pending = (struct pending){.stage = condition ? STANDS : SINGLE,
                                   .expected = expected,
                                   .condition = id,
                                   .lock = (uint32_t)argument};
  sync_begin(core, op, id, argument);
  return mr_unless_stopped(core);
}

int mr_core_sync(struct mr_core *core, enum mr_op op, uint32_t id, int64_t argument) {
  return op == MR_COMPARE_SWAP ? -EINVAL : begin(core, op, id, argument, 0);
}

int mr_core_swap(struct mr_core *core, uint32_t id, int64_t expected, int64_t value) {
  return begin(core, MR_COMPARE_SWAP, id, value, expected);
}

void mr_core_locks_apart(struct mr_core *core) { core->locks_apart = true; }

/* An operation is done.  A node that waits for a condition stands in its queue
 * before it gives the lock away, so that no signal is lost between. */
static void next_stage(struct mr_core *core, int64_t result) {
  struct pending *pending = &core->pending;
  switch (pending->stage) {
  case STANDS:
    pending->stage = LEAVES;
    if (!core->locks_apart) {
      sync_begin(core, MR_UNLOCK, pending->lock, 0);
      return;
    }
    core->config.sink->unlock(core->config.context, pending->lock);
    /* fall through */
  case LEAVES:
    pending->stage = SLEEPS;
    if (!pending->woken)
      return;
    /* fall through */
  case SLEEPS:
    pending->stage = RETURNS;
    if (!core->locks_apart) {
      sync_begin(core, MR_LOCK, pending->lock, 0);
      return;
    }
    /* fall through */
  case SINGLE:
  case RETURNS:
    mr_finish(core, result);
  }
}

/* ---- grants ------------------------------------------------------------------------ */

static int signalled(struct mr_core *core, uint32_t id) {
  struct pending *pending = &core->pending;
  bool stands = pending->stage == LEAVES || pending->stage == SLEEPS ||
                (pending->stage == STANDS && pending->granted);
  if (pending->phase == IDLE || pending->condition != id || pending->woken || !stands)
    return mr_fail(core, -EPROTO, "a signal that nobody waits for, of condition", id);
  pending->woken = true;
  if (pending->stage == SLEEPS && pending->phase != CLEANING)
    next_stage(core, 0);
  return 0;
}

/* What the program hears; negative: the grant cannot be. */
static int64_t take_lock(struct mr_core *core, uint16_t from, int64_t says) {
  const struct pending *pending = &core->pending;
  if (pending->op == MR_TRY && says == 0)
    return 0;
  if (mr_lock_taken(core, pending->id, says) < 0)
    return -ECANCELED;
  if (core->config.sink->locked != NULL)
    tell_of_lock(core, from, (says & MR_BEHIND) != 0,
                 core->config.sink->now(core->config.context) - pending->since);
  return pending->op == MR_TRY;
}

static int take_effect(struct mr_core *core, int64_t result, const uint64_t *time) {
  if (acquires(core->pending.op) && acquire(core, time) < 0)
    return -ECANCELED;
  next_stage(core, result);
  return 0;
}

/* All is home that this node wrote before it waited.  What came meanwhile takes effect. */
static void wait_on(struct mr_core *core) {
  struct pending *pending = &core->pending;
  pending->phase = pending->before;
  if (pending->phase == IDLE)
    return;
  if (pending->granted) {
    pending->granted = false;
    take_effect(core, pending->result, core->granted);
  } else if (pending->stage == SLEEPS && pending->woken) {
    next_stage(core, 0);
  }
}

/* The lock is this node's at once: the next of its queue may be named, or it may be asked back. */
static int accept_grant(struct mr_core *core, uint16_t from, enum mr_op op, uint32_t id,
                        int64_t result, const uint64_t *time) {
  struct pending *pending = &core->pending;
  if (op == MR_SIGNAL)
    return signalled(core, id);
  if ((pending->phase != ASKING && pending->phase != CLEANING) || pending->granted ||
      !answered(op) || pending->op != op || pending->id != id)
    return mr_fail(core, -EPROTO, "a grant that was not asked for, of object", id);
  if (takes(op) && (result = take_lock(core, from, result)) < 0)
    return -ECANCELED;
  if (pending->phase == ASKING)
    return take_effect(core, result, time);
  pending->granted = true;
  pending->result = result;
  memcpy(core->granted, time, core->config.nodes * sizeof *time);
  core->counters.kept++;
  return 0;
}

/* ---- as a manager ------------------------------------------------------------------ */

/* A request that is being decided. */
struct decision {
  struct mr_core *core;
  uint32_t slot;
  const uint64_t *released; /* NULL: it releases nothing */
};

/* Only once the request is known to be legal: a refused one releases nothing. */
static void keep_released(const struct decision *d) {
  if (d->released != NULL)
    mr_time_join(mr_manager_time(d->core->manager, d->slot), d->released, d->core->config.nodes);
}

static void name_next(struct mr_core *core, uint16_t to, uint32_t id, int64_t result) {
  int64_t turn = result / MR_NEXT_TURN;
  uint16_t next = (uint16_t)(result % MR_NEXT_TURN);
  if (to == core->config.me)
    mr_lock_next(core, id, (uint64_t)turn, next);
  else
    mr_send_short(core, to, MR_NAMES_NEXT, id, turn, next);
}

static void send_grant(void *context, uint16_t to, enum mr_op op, uint32_t slot, int64_t result) {
  const struct decision *decision = context;
  struct mr_core *core = decision->core;
  const uint64_t *time = mr_manager_time(core->manager, slot);
  uint32_t id = slot * core->config.nodes + core->config.me;
  if (core->stopped)
    return;
  keep_released(decision);
  if (op == MR_NEXT) {
    name_next(core, to, id, result);
    return;
  }
  if (to == core->config.me) {
    accept_grant(core, to, op, id, result, time);
    return;
  }
  mr_compose(core, MR_GRANT, id, result, op);
  mr_put_time(core, time);
  mr_put_progress(core);
  if (acquires(op))
    mr_put_intervals(core, to, time);
  mr_dispatch(core, to);
}

static void manage(struct mr_core *core, const struct mr_request *request, const uint64_t *time) {
  struct decision decision = {core, request->slot, releases((enum mr_op)request->op) ? time : NULL};
  int rc = mr_manager_step(core->manager, request, send_grant, &decision);
  uint32_t id = request->slot * core->config.nodes + core->config.me;
  if (rc == 0)
    keep_released(&decision);
  else if (request->from == core->config.me)
    mr_fail(core, rc, MR_MISUSED, id);
  else
    mr_send_short(core, request->from, MR_REFUSED, id, rc, request->op);
}

void mr_lock_is_held(struct mr_core *core, uint32_t id, uint64_t turn) {
  uint16_t nodes = core->config.nodes, manager = (uint16_t)(id % nodes);
  if (manager == core->config.me) {
    struct mr_request request = {
        .from = manager, .op = MR_HELD, .slot = id / nodes, .argument = (int64_t)turn};
    manage(core, &request, NULL);
  } else {
    mr_send_short(core, manager, MR_HOLDS, id, (int64_t)turn, 0);
  }
}

/* ---- messages in -------------------------------------------------------------------- */

int mr_on_sync(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  uint16_t nodes = core->config.nodes, from = header->from;
  uint64_t *time = core->told;
  int64_t expected = 0;
  enum mr_op op = (enum mr_op)header->detail;
  mr_take(reader, time, nodes * sizeof *time);
  mr_take_progress(core, reader);
  if (op == MR_COMPARE_SWAP)
    mr_take(reader, &expected, sizeof expected);
  if (reader->bad || header->subject >= core->config.objects ||
      header->subject % nodes != core->config.me || header->detail >= MR_ASKED)
    return -EBADMSG;
  int rc = mr_read_intervals(core, from, reader);
  if (rc < 0)
    return rc;
  if (time[core->config.me] > core->time[core->config.me])
    return mr_fail(core, -EPROTO, "a request tells of intervals that this node never had, by node",
                   from);
  if (releases(op) && !mr_covered(core, time))
    return mr_fail(core, -EPROTO, "a release without its write notices, by node", from);
  if (mr_check_progress(core, from) < 0)
    return -ECANCELED;
  mr_hear_progress(core);
  mr_time_join(row(core, core->held, from), time, nodes);
  struct mr_request request = {from, (uint8_t)op, header->subject / nodes, header->value, expected};
  manage(core, &request, time);
  return 0;
}

int mr_on_grant(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  uint16_t nodes = core->config.nodes;
  uint64_t *time = core->told;
  mr_take(reader, time, nodes * sizeof *time);
  mr_take_progress(core, reader);
  if (reader->bad || header->subject >= core->config.objects ||
      (header->subject % nodes != header->from && header->detail != MR_LOCK) ||
      header->detail >= MR_ASKED)
    return -EBADMSG;
  int rc = mr_read_intervals(core, header->from, reader);
  if (rc < 0)
    return rc;
  if (time[core->config.me] > core->time[core->config.me])
    return mr_fail(core, -EPROTO, "a grant tells of intervals that this node never had, by node",
                   header->from);
  if (mr_check_progress(core, header->from) < 0)
    return -ECANCELED;
  mr_hear_progress(core);
  return accept_grant(core, header->from, (enum mr_op)header->detail, header->subject,
                      header->value, time);
}

/* While the copy that is on its way may be older than the news; or while the program computes, and
 * what it may access is to stay. */
static bool hears_later(const struct mr_core *core) {
  enum phase phase = core->pending.phase;
  return phase == FETCHING || (phase == IDLE && core->config.replays);
}

int mr_on_news(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  uint16_t nodes = core->config.nodes, from = header->from;
  uint64_t *time = core->told;
  mr_take(reader, time, nodes * sizeof *time);
  mr_take_progress(core, reader);
  if (reader->bad || (header->type == MR_NEWS_HEARD && reader->left != 0))
    return -EBADMSG;
  int rc = mr_read_intervals(core, from, reader);
  if (rc < 0)
    return rc;
  if (time[core->config.me] > core->time[core->config.me] ||
      (header->type == MR_NEWS && !mr_covered(core, time)))
    return mr_fail(core, -EPROTO, "news without their write notices, by node", from);
  if (mr_check_progress(core, from) < 0)
    return -ECANCELED;
  mr_time_join(row(core, core->held, from), time, nodes);
  if (header->type == MR_NEWS && hears_later(core)) {
    mr_time_join(core->later, time, nodes);
    core->has_later = true;
  } else if (header->type == MR_NEWS && mr_acquire(core, time) < 0) {
    return -ECANCELED;
  }
  mr_hear_progress(core);
  if (header->type == MR_NEWS)
    mr_send_news(core, from, MR_NEWS_HEARD);
  return 0;
}

int mr_on_meet(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  struct meeting *meeting = &core->meeting;
  uint16_t from = header->from;
  uint64_t *time = core->told;
  mr_take(reader, time, core->config.nodes * sizeof *time);
  mr_take_progress(core, reader);
  if (reader->bad || core->config.nodes != 2 || header->subject >= core->config.objects)
    return -EBADMSG;
  int rc = mr_read_intervals(core, from, reader);
  if (rc < 0)
    return rc;
  if (meeting->heard)
    return mr_fail(core, -EPROTO, "a node that came to a barrier twice", from);
  if (time[core->config.me] > core->time[core->config.me] || !mr_covered(core, time))
    return mr_fail(core, -EPROTO, "a barrier without its write notices, by node", from);
  if (mr_check_progress(core, from) < 0)
    return -ECANCELED;
  mr_hear_progress(core);
  mr_time_join(row(core, core->held, from), time, core->config.nodes);
  *meeting = (struct meeting){.heard = true, .id = header->subject, .time = {time[0], time[1]}};
  meet(core);
  return 0;
}

int mr_on_refused(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  if (reader->left != 0 || header->value >= 0 || header->value < INT32_MIN ||
      header->subject >= core->config.objects ||
      header->subject % core->config.nodes != header->from)
    return -EBADMSG;
  return mr_fail(core, (int)header->value, MR_MISUSED, header->subject);
}

int mr_on_holds(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  uint16_t nodes = core->config.nodes;
  if (reader->left != 0 || header->subject >= core->config.objects ||
      header->subject % nodes != core->config.me || header->value < 1)
    return -EBADMSG;
  struct mr_request request = {.from = header->from,
                               .op = MR_HELD,
                               .slot = header->subject / nodes,
                               .argument = header->value};
  manage(core, &request, NULL);
  return 0;
}
