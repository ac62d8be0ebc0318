#include "core.h"

#include "diff.h"
#include "intervals.h"
#include "message.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define MISUSED "a lock, barrier or the like is misused by this node: object"
#define NOTICE_BYTES (sizeof(uint32_t) + sizeof(uint64_t))

struct page {
  uint64_t version; /* home: diffs received; elsewhere: what the copy was fetched at */
  uint64_t needed;  /* the newest version that a write notice told of */
  uint8_t access;   /* enum mr_access */
  bool twin;        /* written since the last interval; listed in `dirty` */
  bool flying;      /* its diff is on the way home */
  bool leaked;      /* home: fetched from here since the twin was made */
  bool shared;      /* others write it meanwhile: the next diff bears masks at once */
};

enum phase {
  IDLE,
  FETCHING, /* a page is on its way here */
  FLUSHING, /* diffs are on their way home */
  ASKING    /* the manager has the request */
};

/* A wait for a condition is several operations, one after the other. */
enum stage { SINGLE, STANDS, LEAVES, SLEEPS, RETURNS };

struct pending {
  enum phase phase;
  enum stage stage;
  enum mr_op op;
  uint32_t id;
  int64_t argument;
  uint32_t page; /* FETCHING */
  bool write;
  uint32_t awaited;         /* FLUSHING: acknowledgements */
  uint32_t condition, lock; /* all stages but SINGLE */
  bool woken;
};

/* One look at what all have acquired; see core.h. */
struct round {
  uint64_t number;
  uint64_t *least; /* of those that are in it */
  uint64_t *in;    /* a bit per node */
};

struct mr_core {
  struct mr_core_config config;
  const struct mr_diff_code *code;
  uint32_t *incarnations;
  struct page *pages;
  struct pending pending;
  struct mr_manager *manager;
  struct mr_intervals *log;

  uint64_t *time;  /* what this node has acquired */
  uint64_t *floor; /* what every node is known to have acquired */
  uint64_t *held;  /* nodes × nodes: what each one's log holds at least, the floor aside */
  struct round round;
  struct round heard;      /* scratch, of a message that is read */
  uint64_t *told, *lowest; /* scratch: its time and its floor */

  uint32_t *dirty; /* pages that have twins */
  uint32_t dirty_count;
  struct mr_notice *notices; /* of the interval that is ending */
  uint32_t notice_count;
  struct mr_notice *incoming; /* scratch: of a record that is read */

  struct mr_writer out;
  struct mr_diff diff; /* scratch */
  struct mr_core_counters counters;
  bool stopped;
  char why[120];
};

/* ---- small things ---------------------------------------------------------- */

uint16_t mr_core_home(const struct mr_core *core, uint32_t page) {
  return (uint16_t)(page / core->config.home_run % core->config.nodes);
}

static bool at_home(const struct mr_core *core, uint32_t page) {
  return mr_core_home(core, page) == core->config.me;
}

static uint8_t *memory_of(const struct mr_core *core, uint32_t page) {
  return core->config.memory + (size_t)page * MR_PAGE;
}

static uint8_t *twin_of(const struct mr_core *core, uint32_t page) {
  return core->config.twins + (size_t)page * MR_PAGE;
}

static uint64_t *row(const struct mr_core *core, uint64_t *table, uint16_t node) {
  return table + (size_t)node * core->config.nodes;
}

static bool releases(enum mr_op op) {
  return op == MR_UNLOCK || op == MR_BARRIER || op == MR_POST || op == MR_FLAG_SET ||
         op == MR_FETCH_ADD;
}

static bool acquires(enum mr_op op) {
  return op == MR_LOCK || op == MR_BARRIER || op == MR_WAIT || op == MR_FLAG_AWAIT ||
         op == MR_FETCH_ADD;
}

/* Whether the manager answers the request itself. */
static bool answered(enum mr_op op) { return acquires(op) || op == MR_CONDITION; }

static int fail(struct mr_core *core, int error, const char *what, uint64_t subject) {
  if (core->stopped)
    return -ECANCELED;
  core->stopped = true;
  snprintf(core->why, sizeof core->why, "%s (%llu)", what, (unsigned long long)subject);
  core->config.sink->failed(core->config.context, error, core->why);
  return -ECANCELED;
}

static void set_access(struct mr_core *core, uint32_t page, enum mr_access access) {
  core->pages[page].access = (uint8_t)access;
  core->config.sink->protect(core->config.context, page, access);
}

static void finish(struct mr_core *core, int64_t result) {
  core->pending.phase = IDLE;
  core->config.sink->done(core->config.context, result);
}

/* ---- messages out ----------------------------------------------------------- */

static struct mr_writer *compose(struct mr_core *core, enum mr_message_type type, uint32_t subject,
                                 int64_t value, uint32_t detail) {
  struct mr_header header = {.version = MR_MESSAGE_VERSION,
                             .type = (uint8_t)type,
                             .from = core->config.me,
                             .epoch = core->config.epoch,
                             .incarnation = core->incarnations[core->config.me],
                             .subject = subject,
                             .value = value,
                             .detail = detail};
  core->out.length = 0;
  mr_put(&core->out, &header, sizeof header);
  return &core->out;
}

static void dispatch(struct mr_core *core, uint16_t to) {
  struct mr_writer *out = &core->out;
  if (core->stopped)
    return;
  size_t body = out->length - sizeof(struct mr_header);
  if (out->failed || body > UINT32_MAX) {
    fail(core, -ENOMEM, "no memory for a message of bytes", out->length);
    return;
  }
  uint32_t length = (uint32_t)body;
  memcpy(out->bytes + offsetof(struct mr_header, length), &length, sizeof length);
  core->counters.messages++;
  core->counters.bytes += out->length;
  core->config.sink->send(core->config.context, to, out->bytes, out->length);
}

static void send_short(struct mr_core *core, uint16_t to, enum mr_message_type type,
                       uint32_t subject, int64_t value, uint32_t detail) {
  compose(core, type, subject, value, detail);
  dispatch(core, to);
}

static void put_time(struct mr_core *core, const uint64_t *time) {
  mr_put(&core->out, time, core->config.nodes * sizeof *time);
}

static void put_interval(struct mr_core *core, uint16_t node, uint64_t number) {
  const struct mr_interval *interval = mr_intervals_at(core->log, node, number);
  if (interval == NULL) {
    fail(core, -EPROTO, "an interval that is asked for was dropped, of node", node);
    return;
  }
  mr_put(&core->out, &node, sizeof node);
  mr_put(&core->out, &number, sizeof number);
  mr_put(&core->out, &interval->count, sizeof interval->count);
  for (uint32_t i = 0; i < interval->count; i++) {
    mr_put(&core->out, &interval->notices[i].page, sizeof(uint32_t));
    mr_put(&core->out, &interval->notices[i].version, sizeof(uint64_t));
  }
  core->counters.notices += interval->count;
}

/* The intervals up to `time` that node `to` may not hold yet. */
static void put_intervals(struct mr_core *core, uint16_t to, const uint64_t *time) {
  uint64_t *held = row(core, core->held, to);
  for (uint16_t q = 0; q < core->config.nodes && !core->stopped; q++)
    if (q != to)
      for (uint64_t number = (held[q] > core->floor[q] ? held[q] : core->floor[q]) + 1;
           number <= time[q] && !core->stopped; number++)
        put_interval(core, q, number);
  /* The channel is in order: whatever is sent later finds these there. */
  mr_time_join(held, time, core->config.nodes);
}

/* ---- what all have acquired -------------------------------------------------- */

static size_t words_of(const struct mr_core *core) { return (core->config.nodes + 63u) / 64; }

static void enter_round(struct mr_core *core, uint64_t number) {
  struct round *round = &core->round;
  uint16_t me = core->config.me;
  round->number = number;
  memset(round->in, 0, words_of(core) * sizeof *round->in);
  round->in[me / 64] = UINT64_C(1) << me % 64;
  memcpy(round->least, core->time, core->config.nodes * sizeof *round->least);
}

static bool all_in(const struct mr_core *core) {
  unsigned in = 0;
  for (size_t w = 0; w < words_of(core); w++)
    in += (unsigned)__builtin_popcountll(core->round.in[w]);
  return in == core->config.nodes;
}

static void raise_floor(struct mr_core *core, const uint64_t *floor) {
  mr_time_join(core->floor, floor, core->config.nodes);
  for (uint16_t q = 0; q < core->config.nodes; q++)
    mr_intervals_trim(core->log, q, core->floor[q]);
}

static void close_round(struct mr_core *core) {
  if (!all_in(core))
    return;
  raise_floor(core, core->round.least);
  enter_round(core, core->round.number + 1);
}

static void put_progress(struct mr_core *core) {
  put_time(core, core->floor);
  mr_put(&core->out, &core->round.number, sizeof core->round.number);
  mr_put(&core->out, core->round.in, words_of(core) * sizeof *core->round.in);
  put_time(core, core->round.least);
}

static void take_progress(struct mr_core *core, struct mr_reader *reader) {
  size_t time = core->config.nodes * sizeof(uint64_t);
  mr_take(reader, core->lowest, time);
  mr_take(reader, &core->heard.number, sizeof core->heard.number);
  mr_take(reader, core->heard.in, words_of(core) * sizeof *core->heard.in);
  mr_take(reader, core->heard.least, time);
}

/* What was taken may be true.  A round ends when all are in it, so nobody is two ahead;
 * and nobody is in it for this node. */
static int check_progress(struct mr_core *core, uint16_t from) {
  uint16_t nodes = core->config.nodes, me = core->config.me;
  const struct round *heard = &core->heard;
  bool ahead = heard->number > core->round.number;
  bool spare = nodes % 64 != 0 && heard->in[nodes / 64] >> nodes % 64 != 0;
  bool good = heard->number <= core->round.number + 1 && !spare &&
              !(ahead && (heard->in[me / 64] >> me % 64 & 1) != 0);
  for (uint16_t q = 0; q < nodes; q++)
    good = good && core->lowest[q] <= core->time[q];
  return good ? 0
              : fail(core, -EPROTO, "what all have acquired is more than I have, by node", from);
}

static void hear_progress(struct mr_core *core) {
  struct round *round = &core->round;
  const struct round *heard = &core->heard;
  raise_floor(core, core->lowest);
  if (heard->number > round->number)
    enter_round(core, heard->number);
  if (heard->number < round->number)
    return;
  for (size_t w = 0; w < words_of(core); w++)
    round->in[w] |= heard->in[w];
  mr_time_meet(round->least, heard->least, core->config.nodes);
  close_round(core);
}

/* ---- pages -------------------------------------------------------------------- */

static void make_writable(struct mr_core *core, uint32_t page) {
  struct page *p = &core->pages[page];
  if (!p->twin) {
    memcpy(twin_of(core, page), memory_of(core, page), MR_PAGE);
    p->twin = true;
    core->dirty[core->dirty_count++] = page;
  }
  set_access(core, page, MR_READ_WRITE);
}

/* What a call returns whose work is done, unless the core stopped meanwhile. */
static int unless_stopped(const struct mr_core *core) { return core->stopped ? -ECANCELED : 0; }

static int ready(const struct mr_core *core, uint32_t page) {
  if (core->stopped)
    return -ECANCELED;
  if (page >= core->config.pages)
    return -EINVAL;
  return core->pending.phase != IDLE ? -EBUSY : 0;
}

static void fetch(struct mr_core *core, uint32_t page, bool write) {
  core->pending =
      (struct pending){.phase = FETCHING, .stage = SINGLE, .page = page, .write = write};
  core->counters.fetches++;
  send_short(core, mr_core_home(core, page), MR_FETCH, page, (int64_t)core->pages[page].version, 0);
}

int mr_core_read(struct mr_core *core, uint32_t page) {
  int rc = ready(core, page);
  if (rc < 0)
    return rc;
  if (core->pages[page].access == MR_NONE) {
    fetch(core, page, false);
    return unless_stopped(core);
  }
  /* The shell's mapping may lag behind: at first nothing is mapped. */
  set_access(core, page, (enum mr_access)core->pages[page].access);
  finish(core, 0);
  return 0;
}

int mr_core_write(struct mr_core *core, uint32_t page) {
  int rc = ready(core, page);
  if (rc < 0)
    return rc;
  if (core->pages[page].access == MR_NONE) {
    fetch(core, page, true);
    return unless_stopped(core);
  }
  make_writable(core, page);
  finish(core, 0);
  return 0;
}

static int on_fetch(struct mr_core *core, const struct mr_header *header,
                    struct mr_reader *reader) {
  uint32_t page = header->subject;
  if (page >= core->config.pages || !at_home(core, page) || reader->left != 0)
    return -EBADMSG;
  core->pages[page].leaked = core->pages[page].twin;
  struct mr_writer *out = compose(core, MR_PAGE_COPY, page, (int64_t)core->pages[page].version, 0);
  mr_put(out, memory_of(core, page), MR_PAGE);
  dispatch(core, header->from);
  return 0;
}

/* Own changes of the running interval go on top of the fresh copy. */
static void merge_copy(struct mr_core *core, uint32_t page, const uint8_t *copy) {
  uint8_t *memory = memory_of(core, page), *twin = twin_of(core, page);
  core->code->encode(&core->diff, memory, twin);
  mr_diff_mask(&core->diff, twin);
  memcpy(memory, copy, MR_PAGE);
  memcpy(twin, copy, MR_PAGE);
  mr_diff_apply_masked(&core->diff, memory);
}

static int on_page_copy(struct mr_core *core, const struct mr_header *header,
                        struct mr_reader *reader) {
  struct pending *pending = &core->pending;
  uint32_t page = header->subject;
  if (pending->phase != FETCHING || pending->page != page ||
      header->from != mr_core_home(core, page) || reader->left != MR_PAGE)
    return -EBADMSG;
  struct page *p = &core->pages[page];
  if ((uint64_t)header->value < p->needed)
    return fail(core, -EPROTO, "the home's copy is older than a write notice, of page", page);
  if (p->twin)
    merge_copy(core, page, reader->at);
  else
    memcpy(memory_of(core, page), reader->at, MR_PAGE);
  p->version = (uint64_t)header->value;
  if (pending->write || p->twin)
    make_writable(core, page);
  else
    set_access(core, page, MR_READ);
  finish(core, 0);
  return 0;
}

static void invalidate(struct mr_core *core, const struct mr_notice *notice) {
  struct page *p = &core->pages[notice->page];
  if (at_home(core, notice->page))
    return;
  if (notice->version > p->needed)
    p->needed = notice->version;
  if (p->needed > p->version && p->access != MR_NONE) {
    core->counters.invalidations++;
    set_access(core, notice->page, MR_NONE);
  }
}

/* ---- diffs go home -------------------------------------------------------------- */

static void notice(struct mr_core *core, uint32_t page, uint64_t version) {
  core->notices[core->notice_count++] = (struct mr_notice){.version = version, .page = page};
}

static void send_diff(struct mr_core *core, uint32_t page) {
  struct page *p = &core->pages[page];
  struct mr_diff *diff = &core->diff;
  if (p->shared)
    mr_diff_mask(diff, twin_of(core, page));
  struct mr_writer *out = compose(core, MR_DIFF, page, (int64_t)p->version, 0);
  uint8_t *room = mr_put_room(out, MR_DIFF_PACKED_MAX);
  if (room != NULL)
    out->length -= MR_DIFF_PACKED_MAX - mr_diff_pack(diff, room);
  core->counters.diffs++;
  core->counters.masked += p->shared;
  dispatch(core, mr_core_home(core, page));
}

/* Ends the interval for one page. */
static void flush_page(struct mr_core *core, uint32_t page) {
  struct page *p = &core->pages[page];
  /* First nobody may write any more, then what was written is read. */
  if (p->access == MR_READ_WRITE)
    set_access(core, page, MR_READ);
  core->code->encode(&core->diff, memory_of(core, page), twin_of(core, page));
  if (core->diff.blocks != 0 && !at_home(core, page)) {
    p->flying = true;
    core->pending.awaited++;
    send_diff(core, page);
    return;
  }
  p->twin = false;
  /* A copy that was fetched meanwhile holds what was written in between, even
   * where nothing differs in the end: it is stale, and its holder not alone. */
  if (core->diff.blocks != 0 || p->leaked) {
    p->leaked = false;
    notice(core, page, ++p->version);
  }
}

static void apply(struct mr_core *core, uint32_t page) {
  if (!core->diff.masked) {
    core->code->apply(&core->diff, memory_of(core, page));
    return;
  }
  mr_diff_apply_masked(&core->diff, memory_of(core, page));
  /* So that they do not count as this node's own changes. */
  if (core->pages[page].twin)
    mr_diff_apply_masked(&core->diff, twin_of(core, page));
}

static int on_diff(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  uint32_t page = header->subject;
  if (page >= core->config.pages || !at_home(core, page) ||
      mr_diff_unpack(&core->diff, reader->at, reader->left) < 0)
    return -EBADMSG;
  struct page *p = &core->pages[page];
  uint64_t base = (uint64_t)header->value;
  if (base > p->version)
    return fail(core, -EPROTO, "a diff against a version that is yet to come, of page", page);
  /* A writer's own diffs leave its copy as new as the home's, if it is alone. */
  bool shared = p->twin || base < p->version;
  if (shared && !core->diff.masked) {
    core->counters.asked_for_masks++;
    send_short(core, header->from, MR_DIFF_AGAIN, page, 0, 0);
    return 0;
  }
  apply(core, page);
  send_short(core, header->from, MR_DIFF_KEPT, page, (int64_t)++p->version, shared);
  return 0;
}

static bool flies(const struct mr_core *core, const struct mr_header *header) {
  return header->subject < core->config.pages && core->pages[header->subject].flying &&
         header->from == mr_core_home(core, header->subject);
}

static int on_diff_again(struct mr_core *core, const struct mr_header *header,
                         struct mr_reader *reader) {
  uint32_t page = header->subject;
  if (!flies(core, header) || reader->left != 0)
    return -EBADMSG;
  core->pages[page].shared = true;
  core->code->encode(&core->diff, memory_of(core, page), twin_of(core, page));
  send_diff(core, page);
  return 0;
}

static void flushed(struct mr_core *core);

static int on_diff_kept(struct mr_core *core, const struct mr_header *header,
                        struct mr_reader *reader) {
  uint32_t page = header->subject;
  if (!flies(core, header) || reader->left != 0)
    return -EBADMSG;
  struct page *p = &core->pages[page];
  uint64_t version = (uint64_t)header->value;
  p->flying = p->twin = false;
  p->shared = header->detail != 0;
  notice(core, page, version);
  /* Nobody else's change lies between: this copy is the home's. */
  if (version == p->version + 1)
    p->version = version;
  if (--core->pending.awaited == 0)
    flushed(core);
  return 0;
}

/* ---- requests to managers -------------------------------------------------------- */

static void ask(struct mr_core *core);
static void next_stage(struct mr_core *core, int64_t result);

static void begin(struct mr_core *core, enum mr_op op, uint32_t id, int64_t argument) {
  core->pending.op = op;
  core->pending.id = id;
  core->pending.argument = argument;
  if (!releases(op)) {
    ask(core);
    return;
  }
  core->pending.phase = FLUSHING;
  core->pending.awaited = 0;
  core->notice_count = 0;
  for (uint32_t i = 0; i < core->dirty_count; i++)
    flush_page(core, core->dirty[i]);
  if (core->pending.awaited == 0)
    flushed(core);
}

/* Every home has this node's changes: others may hear of them. */
static void flushed(struct mr_core *core) {
  uint16_t me = core->config.me;
  core->dirty_count = 0;
  if (core->notice_count > 0) {
    int rc = mr_intervals_add(core->log, me, core->time[me] + 1, core->notices, core->notice_count);
    if (rc < 0) {
      fail(core, rc, "no memory for the write notices of interval", core->time[me] + 1);
      return;
    }
    core->time[me]++;
    core->counters.intervals++;
  }
  /* A node alone hears of nobody. */
  close_round(core);
  ask(core);
}

static void manage(struct mr_core *core, const struct mr_request *request, const uint64_t *time);

static void ask(struct mr_core *core) {
  struct pending *pending = &core->pending;
  enum mr_op op = pending->op;
  uint16_t nodes = core->config.nodes, manager = (uint16_t)(pending->id % nodes);
  core->counters.requests++;
  pending->phase = ASKING;
  if (manager == core->config.me) {
    struct mr_request request = {manager, (uint8_t)op, pending->id / nodes, pending->argument};
    manage(core, &request, core->time);
  } else {
    compose(core, MR_SYNC, pending->id, pending->argument, op);
    put_time(core, core->time);
    put_progress(core);
    if (releases(op))
      put_intervals(core, manager, core->time);
    dispatch(core, manager);
  }
  if (!answered(op) && !core->stopped)
    next_stage(core, 0);
}

int mr_core_sync(struct mr_core *core, enum mr_op op, uint32_t id, int64_t argument) {
  int rc = ready(core, 0);
  if (rc < 0)
    return rc;
  bool condition = op == MR_CONDITION;
  if (op < MR_LOCK || op >= MR_OPS || id >= core->config.objects ||
      (condition && (argument < 0 || argument >= core->config.objects)))
    return -EINVAL;
  core->pending = (struct pending){
      .stage = condition ? STANDS : SINGLE, .condition = id, .lock = (uint32_t)argument};
  begin(core, op, id, argument);
  return unless_stopped(core);
}

/* An operation is done.  A node that waits for a condition stands in its queue
 * before it gives the lock away, so that no signal is lost between. */
static void next_stage(struct mr_core *core, int64_t result) {
  struct pending *pending = &core->pending;
  switch (pending->stage) {
  case STANDS:
    pending->stage = LEAVES;
    begin(core, MR_UNLOCK, pending->lock, 0);
    return;
  case LEAVES:
    pending->stage = SLEEPS;
    if (!pending->woken)
      return;
    /* fall through */
  case SLEEPS:
    pending->stage = RETURNS;
    begin(core, MR_LOCK, pending->lock, 0);
    return;
  case SINGLE:
  case RETURNS:
    finish(core, result);
  }
}

/* ---- grants ------------------------------------------------------------------------ */

/* Everything that happened before `time` has happened before what this node
 * does from now on. */
static int acquire(struct mr_core *core, const uint64_t *time) {
  for (uint16_t q = 0; q < core->config.nodes; q++) {
    if (q == core->config.me)
      continue;
    for (uint64_t number = core->time[q] + 1; number <= time[q]; number++) {
      const struct mr_interval *interval = mr_intervals_at(core->log, q, number);
      if (interval == NULL)
        return fail(core, -EPROTO, "a grant without the write notices of node", q);
      for (uint32_t i = 0; i < interval->count; i++)
        invalidate(core, &interval->notices[i]);
    }
  }
  mr_time_join(core->time, time, core->config.nodes);
  return 0;
}

static int signalled(struct mr_core *core, uint32_t id) {
  struct pending *pending = &core->pending;
  if (pending->phase == IDLE || pending->condition != id || pending->woken ||
      (pending->stage != LEAVES && pending->stage != SLEEPS))
    return fail(core, -EPROTO, "a signal that nobody waits for, of condition", id);
  pending->woken = true;
  if (pending->stage == SLEEPS)
    next_stage(core, 0);
  return 0;
}

static int accept_grant(struct mr_core *core, enum mr_op op, uint32_t id, int64_t result,
                        const uint64_t *time) {
  struct pending *pending = &core->pending;
  if (op == MR_SIGNAL)
    return signalled(core, id);
  if (pending->phase != ASKING || !answered(op) || pending->op != op || pending->id != id)
    return fail(core, -EPROTO, "a grant that was not asked for, of object", id);
  if (acquires(op) && acquire(core, time) < 0)
    return -ECANCELED;
  next_stage(core, result);
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

static void send_grant(void *context, uint16_t to, enum mr_op op, uint32_t slot, int64_t result) {
  const struct decision *decision = context;
  struct mr_core *core = decision->core;
  const uint64_t *time = mr_manager_time(core->manager, slot);
  uint32_t id = slot * core->config.nodes + core->config.me;
  if (core->stopped)
    return;
  keep_released(decision);
  if (to == core->config.me) {
    accept_grant(core, op, id, result, time);
    return;
  }
  compose(core, MR_GRANT, id, result, op);
  put_time(core, time);
  put_progress(core);
  if (acquires(op))
    put_intervals(core, to, time);
  dispatch(core, to);
}

static void manage(struct mr_core *core, const struct mr_request *request, const uint64_t *time) {
  struct decision decision = {core, request->slot, releases((enum mr_op)request->op) ? time : NULL};
  int rc = mr_manager_step(core->manager, request, send_grant, &decision);
  uint32_t id = request->slot * core->config.nodes + core->config.me;
  if (rc == 0)
    keep_released(&decision);
  else if (request->from == core->config.me)
    fail(core, rc, MISUSED, id);
  else
    send_short(core, request->from, MR_REFUSED, id, rc, request->op);
}

/* ---- messages in -------------------------------------------------------------------- */

static bool read_record(struct mr_core *core, struct mr_reader *reader, uint16_t *node,
                        uint64_t *number, uint32_t *count) {
  mr_take(reader, node, sizeof *node);
  mr_take(reader, number, sizeof *number);
  mr_take(reader, count, sizeof *count);
  if (reader->bad || *node >= core->config.nodes || *count > core->config.pages ||
      *count > reader->left / NOTICE_BYTES)
    return false;
  for (uint32_t i = 0; i < *count; i++) {
    mr_take(reader, &core->incoming[i].page, sizeof(uint32_t));
    mr_take(reader, &core->incoming[i].version, sizeof(uint64_t));
    if (core->incoming[i].page >= core->config.pages)
      return false;
  }
  return true;
}

/* Reads the intervals at the end of a message twice: all of them must be well
 * formed before the first is taken. */
static int read_intervals(struct mr_core *core, uint16_t from, struct mr_reader *reader) {
  uint16_t node;
  uint64_t number;
  uint32_t count;
  struct mr_reader check = *reader;
  while (check.left > 0)
    if (!read_record(core, &check, &node, &number, &count) || node == core->config.me)
      return -EBADMSG;
  while (reader->left > 0) {
    read_record(core, reader, &node, &number, &count);
    int rc = mr_intervals_add(core->log, node, number, core->incoming, count);
    if (rc < 0)
      return fail(core, rc,
                  rc == -ENOMEM ? "no memory for write notices from node"
                                : "write notices are missing or differ, from node",
                  from);
    uint64_t *held = row(core, core->held, from);
    held[node] = held[node] > number ? held[node] : number;
  }
  return 0;
}

/* Every interval of `time` must be known here. */
static bool covered(const struct mr_core *core, const uint64_t *time) {
  for (uint16_t q = 0; q < core->config.nodes; q++)
    if (time[q] > mr_intervals_known(core->log, q))
      return false;
  return true;
}

static int on_sync(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  uint16_t nodes = core->config.nodes, from = header->from;
  uint64_t *time = core->told;
  enum mr_op op = (enum mr_op)header->detail;
  mr_take(reader, time, nodes * sizeof *time);
  take_progress(core, reader);
  if (reader->bad || header->subject >= core->config.objects ||
      header->subject % nodes != core->config.me || header->detail >= MR_OPS)
    return -EBADMSG;
  int rc = read_intervals(core, from, reader);
  if (rc < 0)
    return rc;
  if (time[core->config.me] > core->time[core->config.me])
    return fail(core, -EPROTO, "a request tells of intervals that this node never had, by node",
                from);
  if (releases(op) && !covered(core, time))
    return fail(core, -EPROTO, "a release without its write notices, by node", from);
  if (check_progress(core, from) < 0)
    return -ECANCELED;
  hear_progress(core);
  mr_time_join(row(core, core->held, from), time, nodes);
  struct mr_request request = {from, (uint8_t)op, header->subject / nodes, header->value};
  manage(core, &request, time);
  return 0;
}

static int on_grant(struct mr_core *core, const struct mr_header *header,
                    struct mr_reader *reader) {
  uint16_t nodes = core->config.nodes;
  uint64_t *time = core->told;
  mr_take(reader, time, nodes * sizeof *time);
  take_progress(core, reader);
  if (reader->bad || header->subject >= core->config.objects ||
      header->subject % nodes != header->from || header->detail >= MR_OPS)
    return -EBADMSG;
  int rc = read_intervals(core, header->from, reader);
  if (rc < 0)
    return rc;
  if (time[core->config.me] > core->time[core->config.me])
    return fail(core, -EPROTO, "a grant tells of intervals that this node never had, by node",
                header->from);
  if (check_progress(core, header->from) < 0)
    return -ECANCELED;
  hear_progress(core);
  return accept_grant(core, (enum mr_op)header->detail, header->subject, header->value, time);
}

static int on_refused(struct mr_core *core, const struct mr_header *header,
                      struct mr_reader *reader) {
  if (reader->left != 0 || header->value >= 0 || header->value < INT32_MIN ||
      header->subject >= core->config.objects ||
      header->subject % core->config.nodes != header->from)
    return -EBADMSG;
  return fail(core, (int)header->value, MISUSED, header->subject);
}

static int (*const handlers[MR_MESSAGE_TYPES])(struct mr_core *, const struct mr_header *,
                                               struct mr_reader *) = {
    [MR_FETCH] = on_fetch,         [MR_PAGE_COPY] = on_page_copy,   [MR_DIFF] = on_diff,
    [MR_DIFF_KEPT] = on_diff_kept, [MR_DIFF_AGAIN] = on_diff_again, [MR_SYNC] = on_sync,
    [MR_GRANT] = on_grant,         [MR_REFUSED] = on_refused,
};

int mr_core_message(struct mr_core *core, uint16_t from, const void *message, size_t length) {
  struct mr_header header;
  struct mr_reader reader = {.at = message, .left = length};
  if (core->stopped)
    return -ECANCELED;
  mr_take(&reader, &header, sizeof header);
  if (reader.bad || header.version != MR_MESSAGE_VERSION || header.from != from ||
      from >= core->config.nodes || from == core->config.me || header.length != reader.left ||
      header.type == 0 || header.type >= MR_MESSAGE_TYPES)
    return -EBADMSG;
  if (header.epoch != core->config.epoch || header.incarnation != core->incarnations[from]) {
    core->counters.dropped++;
    return -ESTALE;
  }
  int rc = handlers[header.type](core, &header, &reader);
  return rc < 0 ? rc : unless_stopped(core);
}

/* ---- life ----------------------------------------------------------------------------- */

static bool valid(const struct mr_core_config *config) {
  return config->nodes >= 1 && config->nodes <= MR_NODES_MAX && config->me < config->nodes &&
         config->pages >= 1 && config->pages <= MR_PAGES_MAX && config->home_run >= 1 &&
         config->objects >= 1 && config->objects <= MR_OBJECTS_MAX &&
         (uintptr_t)config->memory % 64 == 0 && (uintptr_t)config->twins % 64 == 0;
}

static bool allocate_round(struct round *round, size_t nodes) {
  round->least = calloc(nodes, sizeof *round->least);
  round->in = calloc((nodes + 63) / 64, sizeof *round->in);
  return round->least != NULL && round->in != NULL;
}

static bool allocate(struct mr_core *core) {
  const struct mr_core_config *config = &core->config;
  size_t nodes = config->nodes;
  core->incarnations = calloc(nodes, sizeof *core->incarnations);
  core->pages = calloc(config->pages, sizeof *core->pages);
  core->time = calloc(nodes, sizeof *core->time);
  core->floor = calloc(nodes, sizeof *core->floor);
  core->told = calloc(nodes, sizeof *core->told);
  core->lowest = calloc(nodes, sizeof *core->lowest);
  core->held = calloc(nodes * nodes, sizeof *core->held);
  core->dirty = calloc(config->pages, sizeof *core->dirty);
  core->notices = calloc(config->pages, sizeof *core->notices);
  core->incoming = calloc(config->pages, sizeof *core->incoming);
  return core->incarnations != NULL && core->pages != NULL && core->time != NULL &&
         core->floor != NULL && core->told != NULL && core->lowest != NULL && core->held != NULL &&
         allocate_round(&core->round, nodes) && allocate_round(&core->heard, nodes) &&
         core->dirty != NULL && core->notices != NULL && core->incoming != NULL &&
         mr_manager_create(&core->manager, config->nodes,
                           (config->objects + config->nodes - 1) / config->nodes) == 0 &&
         mr_intervals_create(&core->log, config->nodes) == 0;
}

int mr_core_create(struct mr_core **core, const struct mr_core_config *config) {
  if (!valid(config))
    return -EINVAL;
  /* The scratch diff needs its alignment. */
  size_t size = (sizeof **core + 63) & ~(size_t)63;
  struct mr_core *c = aligned_alloc(64, size);
  if (c == NULL)
    return -ENOMEM;
  memset(c, 0, size);
  c->config = *config;
  c->code = mr_diff_best();
  if (!allocate(c)) {
    mr_core_destroy(c);
    return -ENOMEM;
  }
  memcpy(c->incarnations, config->incarnations, config->nodes * sizeof *c->incarnations);
  c->config.incarnations = c->incarnations;
  /* All copies are alike, all zero: nothing has to be fetched. */
  for (uint32_t page = 0; page < config->pages; page++)
    c->pages[page].access = MR_READ;
  enter_round(c, 0);
  *core = c;
  return 0;
}

void mr_core_destroy(struct mr_core *core) {
  if (core->manager != NULL)
    mr_manager_destroy(core->manager);
  if (core->log != NULL)
    mr_intervals_destroy(core->log);
  free(core->out.bytes);
  free(core->incoming);
  free(core->notices);
  free(core->dirty);
  free(core->held);
  free(core->heard.in);
  free(core->heard.least);
  free(core->round.in);
  free(core->round.least);
  free(core->lowest);
  free(core->told);
  free(core->floor);
  free(core->time);
  free(core->pages);
  free(core->incarnations);
  free(core);
}

enum mr_access mr_core_access(const struct mr_core *core, uint32_t page) {
  return (enum mr_access)core->pages[page].access;
}

const struct mr_core_counters *mr_core_counters(const struct mr_core *core) {
  return &core->counters;
}

uint64_t mr_core_log_length(const struct mr_core *core) { return mr_intervals_held(core->log); }
