#include "save.h"

#include "state.h"

#include <stdlib.h>

#define MAGIC UINT64_C(0x65726f632075726d) /* "mru core" */
#define VERSION 1u

/* What comes first.  Then the parts: objects, locks, page numbers, pages. */
struct head {
  uint64_t magic;
  uint32_t version;
  uint16_t nodes, me;
  uint32_t pages, home_run, objects, unused;
  uint64_t objects_bytes, locks_count, pages_count;
  /* What the computing thread waits for. */
  uint8_t waits, stage, op, unused_too;
  uint32_t id, condition, lock;
  int64_t argument, expected;
};

struct saved_lock {
  uint64_t turn;
  uint32_t id;
  uint16_t next;
  uint8_t held, keeps;
};

/* ---- at the cut ----------------------------------------------------------------- */

bool mr_core_waits(const struct mr_core *core) { return core->pending.phase == ASKING; }

bool mr_core_rests(const struct mr_core *core) {
  return !core->stopped && core->dirty_count == 0 &&
         (core->pending.phase == IDLE || core->pending.phase == ASKING);
}

void mr_core_traffic(const struct mr_core *core, uint64_t *sent, uint64_t *received) {
  *sent = core->sent;
  *received = core->received;
}

/* ---- saving ------------------------------------------------------------------------ */

/* Zeros count: globals, where they are shared, begin with something else (node.c). */
static bool is_written(const struct mr_core *core, uint32_t page) {
  return at_home(core, page) &&
         (core->pages[page].version != 0 || access_of(core, page) == MR_READ_WRITE);
}

static uint64_t list_pages(const struct mr_core *core, struct mr_writer *out) {
  uint64_t count = 0;
  for (uint32_t page = 0; page < core->config.pages; page++)
    if (is_written(core, page)) {
      mr_put(out, &page, sizeof page);
      count++;
    }
  return count;
}

static uint64_t list_locks(const struct mr_core *core, struct mr_writer *out) {
  uint64_t count = 0;
  for (uint32_t id = 0; id < core->config.objects; id++) {
    const struct lock *lock = &core->locks[id];
    if (lock->turn == 0 && lock->next == 0)
      continue;
    struct saved_lock saved = {lock->turn, id, lock->next, lock->held, lock->keeps};
    mr_put(out, &saved, sizeof saved);
    count++;
  }
  return count;
}

static struct head head_of(const struct mr_core *core) {
  const struct pending *pending = &core->pending;
  struct head head = {.magic = MAGIC,
                      .version = VERSION,
                      .nodes = core->config.nodes,
                      .me = core->config.me,
                      .pages = core->config.pages,
                      .home_run = core->config.home_run,
                      .objects = core->config.objects};
  if (!mr_core_waits(core))
    return head;
  head.waits = 1;
  head.stage = (uint8_t)pending->stage;
  head.op = (uint8_t)pending->op;
  head.id = pending->id;
  head.condition = pending->condition;
  head.lock = pending->lock;
  head.argument = pending->argument;
  head.expected = pending->expected;
  return head;
}

/* Those that lie together at once. */
static int put_pages(const struct mr_core *core, const uint8_t *numbers, uint64_t count,
                     mr_save_put *put, void *context) {
  uint32_t first = 0, next = 0, page;
  int rc = 0;
  for (uint64_t i = 0; i < count && rc == 0; i++) {
    memcpy(&page, numbers + i * sizeof page, sizeof page);
    if (i > 0 && page != next) {
      rc = put(context, memory_of(core, first), (size_t)(next - first) * MR_PAGE);
      first = page;
    } else if (i == 0) {
      first = page;
    }
    next = page + 1;
  }
  return rc < 0 || count == 0
             ? rc
             : put(context, memory_of(core, first), (size_t)(next - first) * MR_PAGE);
}

int mr_core_save(const struct mr_core *core, mr_save_put *put, void *context) {
  struct mr_writer out = {.bytes = NULL};
  if (!mr_core_rests(core))
    return -EBUSY;
  struct head head = head_of(core);
  mr_manager_save(core->manager, &out);
  head.objects_bytes = out.length;
  head.locks_count = list_locks(core, &out);
  size_t numbers = out.length;
  head.pages_count = list_pages(core, &out);
  int rc = out.failed ? -ENOMEM : put(context, &head, sizeof head);
  if (rc >= 0 && out.length > 0)
    rc = put(context, out.bytes, out.length);
  if (rc >= 0 && head.pages_count > 0)
    rc = put_pages(core, out.bytes + numbers, head.pages_count, put, context);
  free(out.bytes);
  return rc < 0 ? rc : 0;
}

/* ---- loading ------------------------------------------------------------------------ */

/* One node's bytes in their parts; each part lies within them. */
struct parts {
  struct head head;
  struct mr_reader objects, locks, numbers, pages;
};

static bool cut_off(struct mr_reader *from, uint64_t count, size_t size, struct mr_reader *part) {
  if (count > from->left / size)
    return false;
  *part = (struct mr_reader){.at = from->at, .left = (size_t)count * size};
  from->at += part->left;
  from->left -= part->left;
  return true;
}

static bool part(const struct mr_core *core, uint16_t node, const struct mr_saved *saved,
                 struct parts *parts) {
  struct mr_reader all = {.at = saved->bytes, .left = saved->length};
  struct head *head = &parts->head;
  mr_take(&all, head, sizeof *head);
  return !all.bad && head->magic == MAGIC && head->version == VERSION &&
         head->nodes == core->config.nodes && head->me == node &&
         head->pages == core->config.pages && head->home_run == core->config.home_run &&
         head->objects == core->config.objects &&
         cut_off(&all, head->objects_bytes, 1, &parts->objects) &&
         cut_off(&all, head->locks_count, sizeof(struct saved_lock), &parts->locks) &&
         cut_off(&all, head->pages_count, sizeof(uint32_t), &parts->numbers) &&
         cut_off(&all, head->pages_count, MR_PAGE, &parts->pages) && all.left == 0;
}

static int load_locks(struct mr_core *core, struct mr_reader *in) {
  struct saved_lock saved;
  while (in->left > 0) {
    mr_take(in, &saved, sizeof saved);
    if (saved.id >= core->config.objects || saved.next > core->config.nodes ||
        saved.next == core->config.me + 1 || saved.held > 1 || saved.keeps > 1 ||
        saved.turn > INT64_MAX / MR_NEXT_TURN || core->locks[saved.id].released != NULL ||
        (saved.turn == 0 && (saved.held == 1 || saved.keeps == 1)))
      return -EBADMSG;
    const struct lock lock = {
        .turn = saved.turn, .next = saved.next, .held = saved.held == 1, .keeps = saved.keeps == 1};
    int rc = mr_lock_load(core, saved.id, &lock);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* The page is at that node's, here or elsewhere; each page at one. */
static bool settle_page(struct mr_core *core, uint32_t page, uint16_t node) {
  struct page *p = page < core->config.pages ? &core->pages[page] : NULL;
  if (p == NULL || p->version != 0 || p->needed != 0)
    return false;
  if (node != first_home(core, page))
    mr_note_home(core, page, node);
  if (node == core->config.me) {
    p->version = 1;
    return true;
  }
  p->needed = 1;
  mr_mark_access(core, page, MR_NONE);
  return true;
}

static int load_pages(struct mr_core *core, uint16_t node, struct parts *parts) {
  uint32_t page;
  while (parts->numbers.left > 0) {
    mr_take(&parts->numbers, &page, sizeof page);
    if (!settle_page(core, page, node))
      return -EBADMSG;
    if (node != core->config.me)
      continue;
    mr_take(&parts->pages, memory_of(core, page), MR_PAGE);
    mr_show(core, page);
  }
  return 0;
}

static bool wait_can_be(const struct mr_core *core, const struct head *head) {
  bool condition = head->stage != SINGLE;
  return head->waits == 0 ||
         (head->waits == 1 &&
          (head->stage == SINGLE || head->stage == SLEEPS || head->stage == RETURNS) &&
          head->op >= MR_LOCK && head->op < MR_ASKED && head->id < core->config.objects &&
          (!condition ||
           (head->condition < core->config.objects && head->lock < core->config.objects)));
}

static void load_wait(struct mr_core *core, const struct head *head) {
  if (head->waits == 0)
    return;
  core->pending = (struct pending){.phase = ASKING,
                                   .stage = (enum stage)head->stage,
                                   .op = (enum mr_op)head->op,
                                   .id = head->id,
                                   .argument = head->argument,
                                   .expected = head->expected,
                                   .condition = head->condition,
                                   .lock = head->lock,
                                   .woken = head->stage == RETURNS};
}

/* Where the other of two nodes waits, this node has heard of it, and was not there yet. */
static void load_meeting(struct mr_core *core, const struct head *other) {
  if (other->waits == 1 && mr_meets(core, (enum mr_op)other->op, other->argument))
    core->meeting = (struct meeting){.heard = true, .id = other->id};
}

int mr_core_load(struct mr_core *core, const struct mr_saved *saved) {
  struct parts parts;
  for (uint16_t node = 0; node < core->config.nodes; node++) {
    if (!part(core, node, &saved[node], &parts) || !wait_can_be(core, &parts.head))
      return -EBADMSG;
    int rc = load_pages(core, node, &parts);
    if (rc == 0 && node == core->config.me) {
      rc = mr_manager_load(core->manager, &parts.objects);
      if (rc == 0)
        rc = load_locks(core, &parts.locks);
      load_wait(core, &parts.head);
    } else {
      load_meeting(core, &parts.head);
    }
    if (rc < 0)
      return rc;
  }
  return 0;
}
