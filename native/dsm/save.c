/* Over 500 lines: what is written and what is read of it stand side by side, part by part. */
#include "save.h"

#include "state.h"

#include <stdlib.h>

#define MAGIC UINT64_C(0x65726f632075726d) /* "mru core" */
#define VERSION 6u

/* What comes first.  Then the parts: objects, locks, page numbers, their versions, homes, copies,
 * pages that their home is alone with, copies that are old, traits of pages, habits. */
struct head {
  uint64_t magic;
  uint32_t version;
  uint16_t nodes, me;
  uint32_t pages, home_run, objects, replays; /* replays: 1: with copies, and what follows them */
  uint64_t objects_bytes, locks_count, pages_count, homes_count, copies_count, alone_count,
      old_count, traits_count, habits_bytes;
  /* What the computing thread waits for. */
  uint8_t waits, stage, op, unused_too;
  uint32_t id, condition, lock;
  int64_t argument, expected;
  /* Of two nodes, the barrier at which the other one is. */
  uint32_t met_id, met;
};

/* Where this node takes a page to be that has moved, or was here. */
struct saved_home {
  uint32_t page;
  uint16_t home, was_here;
};

/* What a node has learnt of a page: whether it wrote it when it could, and how lately others did.
 */
struct saved_trait {
  uint32_t page;
  uint8_t written, warm;
  uint16_t unused;
};

/* Of a page whose home is elsewhere; where histories begin anew. */
struct saved_copy {
  uint64_t version;
  uint32_t page, unused;
};

struct saved_lock {
  uint64_t turn;
  uint32_t id;
  uint16_t next;
  uint8_t held, keeps;
};

/* ---- at the cut ----------------------------------------------------------------- */

bool mr_core_waits(const struct mr_core *core) { return core->pending.phase == ASKING; }

/* Where histories begin anew and copies stay, all have to know which are old. */
static bool has_told(const struct mr_core *core) {
  uint16_t me = core->config.me;
  return !core->config.replays || core->time[me] <= core->told_all ||
         core->time[me] <= core->floor[me];
}

static bool has_heard(const struct mr_core *core) {
  return !core->config.replays || !core->has_later;
}

bool mr_core_rests(const struct mr_core *core) {
  return !core->stopped && core->dirty_count == 0 && has_told(core) && has_heard(core) &&
         (core->pending.phase == IDLE || core->pending.phase == ASKING);
}

static void send_home(struct mr_core *core) {
  core->pending.before = core->pending.phase;
  core->pending.phase = CLEANING;
  core->counters.cleaned++;
  if (!mr_flush(core))
    mr_flushed(core);
}

static void tell_all(struct mr_core *core) {
  core->told_all = core->time[core->config.me];
  mr_news_to_all(core);
}

int mr_core_clean(struct mr_core *core) {
  enum phase phase = core->pending.phase;
  if (core->stopped || (phase != ASKING && phase != IDLE))
    return mr_unless_stopped(core);
  if (!has_heard(core) && mr_acquire_later(core) < 0)
    return -ECANCELED;
  if (core->dirty_count > 0)
    send_home(core);
  if (core->pending.phase == phase && !has_told(core))
    tell_all(core);
  return mr_unless_stopped(core);
}

void mr_core_traffic(const struct mr_core *core, uint64_t *sent, uint64_t *received) {
  *sent = core->sent;
  *received = core->received;
}

/* ---- saving ------------------------------------------------------------------------ */

/* Zeros count: globals, where they are shared, begin with something else (node_start.c). */
static bool is_written(const struct mr_core *core, uint32_t page) {
  const struct page *p = &core->pages[page];
  /* Most have never been used: at a glance. */
  bool used = p->version != 0 || (p->known && access_of(core, page) == MR_READ_WRITE);
  return used && at_home(core, page);
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

/* Of the pages whose numbers are in `out` from there on. */
static void list_versions(const struct mr_core *core, size_t numbers, uint64_t count,
                          struct mr_writer *out) {
  for (uint32_t page; count > 0 && !out->failed; count--, numbers += sizeof page) {
    memcpy(&page, out->bytes + numbers, sizeof page);
    mr_put(out, &core->pages[page].version, sizeof core->pages[page].version);
  }
}

static uint64_t list_homes(const struct mr_core *core, struct mr_writer *out) {
  uint64_t count = 0;
  for (uint32_t page = 0; page < core->config.pages; page++) {
    const struct page *p = &core->pages[page];
    if (p->home == 0 && !p->was_home)
      continue;
    struct saved_home saved = {page, mr_core_home(core, page), p->was_home};
    mr_put(out, &saved, sizeof saved);
    count++;
  }
  return count;
}

/* Another's page that is not as it was at the beginning. */
static bool is_elsewhere(const struct mr_core *core, uint32_t page) {
  const struct page *p = &core->pages[page];
  return core->config.replays && (p->known || p->version != 0) && !at_home(core, page);
}

static bool is_copy(const struct mr_core *core, uint32_t page) {
  return is_elsewhere(core, page) && access_of(core, page) != MR_NONE;
}

static uint64_t list_copies(const struct mr_core *core, struct mr_writer *out) {
  uint64_t count = 0;
  for (uint32_t page = 0; page < core->config.pages; page++)
    if (is_copy(core, page)) {
      struct saved_copy saved = {core->pages[page].version, page, 0};
      mr_put(out, &saved, sizeof saved);
      count++;
    }
  return count;
}

static uint64_t list_alone(const struct mr_core *core, struct mr_writer *out) {
  uint64_t count = 0;
  for (uint32_t page = 0; page < core->config.pages && core->config.replays; page++)
    if (core->pages[page].alone) {
      mr_put(out, &page, sizeof page);
      count++;
    }
  return count;
}

static uint64_t list_old(const struct mr_core *core, struct mr_writer *out) {
  uint64_t count = 0;
  for (uint32_t page = 0; page < core->config.pages; page++)
    if (is_elsewhere(core, page) && access_of(core, page) == MR_NONE) {
      mr_put(out, &page, sizeof page);
      count++;
    }
  return count;
}

static uint64_t list_traits(const struct mr_core *core, struct mr_writer *out) {
  uint64_t count = 0;
  for (uint32_t page = 0; page < core->config.pages && core->config.replays; page++) {
    const struct page *p = &core->pages[page];
    if (!p->written && p->warm == 0)
      continue;
    struct saved_trait saved = {page, p->written, p->warm, 0};
    mr_put(out, &saved, sizeof saved);
    count++;
  }
  return count;
}

static uint64_t list_habits(const struct mr_core *core, struct mr_writer *out) {
  size_t before = out->length;
  if (core->config.replays)
    mr_habits_save(core->habits, core->config.pages, out);
  return out->length - before;
}

static struct head head_of(const struct mr_core *core) {
  const struct pending *pending = &core->pending;
  struct head head = {.magic = MAGIC,
                      .version = VERSION,
                      .nodes = core->config.nodes,
                      .me = core->config.me,
                      .pages = core->config.pages,
                      .home_run = core->config.home_run,
                      .objects = core->config.objects,
                      .replays = core->config.replays,
                      .met = core->meeting.heard,
                      .met_id = core->meeting.id};
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

/* Who is alone with a page writes it without a version (state.h).  So does the only node. */
static uint64_t stamp_of(const struct mr_core *core, uint32_t page) {
  return core->config.nodes > 1 && !core->pages[page].alone ? core->pages[page].version : 0;
}

static int give_pages(const struct mr_core *core, const uint8_t *numbers, uint64_t count,
                      const struct mr_save *to) {
  int rc = 0;
  for (uint32_t page; count > 0 && rc >= 0; count--, numbers += sizeof page) {
    memcpy(&page, numbers, sizeof page);
    rc = to->page(to->context, page, stamp_of(core, page), memory_of(core, page));
  }
  return rc;
}

/* What a copy has may change without a version: its node's own, beside what others wrote. */
static int give_copies(const struct mr_core *core, const uint8_t *copies, uint64_t count,
                       const struct mr_save *to) {
  int rc = 0;
  for (struct saved_copy copy; count > 0 && rc >= 0; count--, copies += sizeof copy) {
    memcpy(&copy, copies, sizeof copy);
    rc = to->page(to->context, copy.page, 0, memory_of(core, copy.page));
  }
  return rc;
}

size_t mr_core_saved_pages(const struct mr_core *core) {
  size_t count = 0;
  for (uint32_t page = 0; page < core->config.pages; page++)
    count += is_written(core, page) || is_copy(core, page);
  return count;
}

int mr_core_save(const struct mr_core *core, const struct mr_save *to) {
  struct mr_writer out = {.bytes = NULL};
  if (!mr_core_rests(core))
    return -EBUSY;
  struct head head = head_of(core);
  mr_manager_save(core->manager, &out);
  head.objects_bytes = out.length;
  head.locks_count = list_locks(core, &out);
  size_t numbers = out.length;
  head.pages_count = list_pages(core, &out);
  list_versions(core, numbers, head.pages_count, &out);
  head.homes_count = list_homes(core, &out);
  size_t copies = out.length;
  head.copies_count = list_copies(core, &out);
  head.alone_count = list_alone(core, &out);
  head.old_count = list_old(core, &out);
  head.traits_count = list_traits(core, &out);
  head.habits_bytes = list_habits(core, &out);
  int rc = out.failed ? -ENOMEM : to->put(to->context, &head, sizeof head);
  if (rc >= 0 && out.length > 0)
    rc = to->put(to->context, out.bytes, out.length);
  if (rc >= 0)
    rc = give_pages(core, out.bytes + numbers, head.pages_count, to);
  if (rc >= 0)
    rc = give_copies(core, out.bytes + copies, head.copies_count, to);
  free(out.bytes);
  return rc < 0 ? rc : 0;
}

/* ---- loading ------------------------------------------------------------------------ */

/* One node's bytes in their parts; each part lies within them. */
struct parts {
  struct head head;
  struct mr_reader objects, locks, numbers, versions, homes, copies, alone, old, traits, habits;
};

static bool cut_off(struct mr_reader *from, uint64_t count, size_t size, struct mr_reader *part) {
  if (count > from->left / size)
    return false;
  *part = (struct mr_reader){.at = from->at, .left = (size_t)count * size};
  from->at += part->left;
  from->left -= part->left;
  return true;
}

static bool part(const struct mr_saved *saved, struct parts *parts) {
  struct mr_reader all = {.at = saved->bytes, .left = saved->length};
  struct head *head = &parts->head;
  mr_take(&all, head, sizeof *head);
  return !all.bad && head->magic == MAGIC && head->version == VERSION &&
         cut_off(&all, head->objects_bytes, 1, &parts->objects) &&
         cut_off(&all, head->locks_count, sizeof(struct saved_lock), &parts->locks) &&
         cut_off(&all, head->pages_count, sizeof(uint32_t), &parts->numbers) &&
         cut_off(&all, head->pages_count, sizeof(uint64_t), &parts->versions) &&
         cut_off(&all, head->homes_count, sizeof(struct saved_home), &parts->homes) &&
         cut_off(&all, head->copies_count, sizeof(struct saved_copy), &parts->copies) &&
         cut_off(&all, head->alone_count, sizeof(uint32_t), &parts->alone) &&
         cut_off(&all, head->old_count, sizeof(uint32_t), &parts->old) &&
         cut_off(&all, head->traits_count, sizeof(struct saved_trait), &parts->traits) &&
         cut_off(&all, head->habits_bytes, 1, &parts->habits) && all.left == 0;
}

static bool is_of(const struct mr_core *core, uint16_t node, const struct head *head) {
  return head->nodes == core->config.nodes && head->me == node &&
         head->pages == core->config.pages && head->home_run == core->config.home_run &&
         head->objects == core->config.objects;
}

int mr_core_list_pages(const struct mr_saved *saved, int (*each)(void *context, uint32_t page),
                       void *context) {
  struct parts parts;
  uint32_t page;
  if (!part(saved, &parts))
    return -EBADMSG;
  int rc = 0;
  while (parts.numbers.left > 0 && rc >= 0) {
    mr_take(&parts.numbers, &page, sizeof page);
    rc = each(context, page);
  }
  for (struct saved_copy copy; parts.copies.left > 0 && rc >= 0;) {
    mr_take(&parts.copies, &copy, sizeof copy);
    rc = each(context, copy.page);
  }
  return rc < 0 ? rc : 0;
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

static int load_pages(struct mr_core *core, uint16_t node, struct parts *parts,
                      mr_saved_page *page_of, void *context) {
  uint32_t page;
  for (size_t number = 0; parts->numbers.left > 0; number++) {
    mr_take(&parts->numbers, &page, sizeof page);
    if (!settle_page(core, page, node))
      return -EBADMSG;
    if (node != core->config.me)
      continue;
    const uint8_t *bytes = page_of(context, number);
    if (bytes == NULL)
      return -EBADMSG;
    memcpy(memory_of(core, page), bytes, MR_PAGE);
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

int mr_core_load(struct mr_core *core, const struct mr_saved *saved, mr_saved_page *page_of,
                 void *context) {
  struct parts parts;
  for (uint16_t node = 0; node < core->config.nodes; node++) {
    if (!part(&saved[node], &parts) || !is_of(core, node, &parts.head) ||
        !wait_can_be(core, &parts.head))
      return -EBADMSG;
    int rc = load_pages(core, node, &parts, page_of, context);
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

/* ---- a history that begins anew ----------------------------------------------------------- */

static int load_homes(struct mr_core *core, struct mr_reader *in) {
  struct saved_home saved;
  while (in->left > 0) {
    mr_take(in, &saved, sizeof saved);
    if (saved.page >= core->config.pages || saved.home >= core->config.nodes ||
        saved.was_here > 1 || (saved.was_here == 1 && saved.home == core->config.me))
      return -EBADMSG;
    mr_note_home(core, saved.page, saved.home);
    core->pages[saved.page].was_home = saved.was_here == 1;
  }
  return 0;
}

static bool take_bytes(struct mr_core *core, uint32_t page, size_t number, mr_saved_page *page_of,
                       void *context) {
  if (page_of == NULL)
    return true;
  const uint8_t *bytes = page_of(context, number);
  if (bytes != NULL)
    memcpy(memory_of(core, page), bytes, MR_PAGE);
  return bytes != NULL;
}

/* Versions go on, so that a stamp says what it said. */
static int load_own_pages(struct mr_core *core, struct parts *parts, mr_saved_page *page_of,
                          void *context) {
  uint32_t page;
  for (size_t number = 0; parts->numbers.left > 0; number++) {
    mr_take(&parts->numbers, &page, sizeof page);
    if (page >= core->config.pages || !at_home(core, page) || core->pages[page].version != 0)
      return -EBADMSG;
    mr_take(&parts->versions, &core->pages[page].version, sizeof core->pages[page].version);
    if (!take_bytes(core, page, number, page_of, context))
      return -EBADMSG;
    core->pages[page].hidden = true;
  }
  while (parts->alone.left > 0) {
    mr_take(&parts->alone, &page, sizeof page);
    if (page >= core->config.pages || !at_home(core, page))
      return -EBADMSG;
    core->pages[page].alone = true;
  }
  return 0;
}

/* After the homes. */
static int load_copies(struct mr_core *core, struct parts *parts, mr_saved_page *page_of,
                       void *context) {
  struct saved_copy copy;
  for (size_t number = (size_t)parts->head.pages_count; parts->copies.left > 0; number++) {
    mr_take(&parts->copies, &copy, sizeof copy);
    if (copy.page >= core->config.pages || at_home(core, copy.page) ||
        core->pages[copy.page].known || !take_bytes(core, copy.page, number, page_of, context))
      return -EBADMSG;
    core->pages[copy.page].version = copy.version;
    core->pages[copy.page].hidden = true;
    mr_mark_access(core, copy.page, MR_READ);
  }
  for (uint32_t page; parts->old.left > 0;) {
    mr_take(&parts->old, &page, sizeof page);
    if (page >= core->config.pages || at_home(core, page) || core->pages[page].known)
      return -EBADMSG;
    mr_mark_access(core, page, MR_NONE);
  }
  return 0;
}

static int load_traits(struct mr_core *core, struct parts *parts) {
  struct saved_trait saved;
  while (parts->traits.left > 0) {
    mr_take(&parts->traits, &saved, sizeof saved);
    if (saved.page >= core->config.pages || saved.written > 1 || saved.warm > MR_WARM)
      return -EBADMSG;
    core->pages[saved.page].written = saved.written == 1;
    core->pages[saved.page].warm = saved.warm & MR_WARM;
  }
  return mr_habits_load(core->habits, core->config.pages, &parts->habits) ? 0 : -EBADMSG;
}

int mr_core_load_own(struct mr_core *core, const struct mr_saved *saved, mr_saved_page *page_of,
                     void *context) {
  struct parts parts;
  if (!part(saved, &parts) || !is_of(core, core->config.me, &parts.head) ||
      !wait_can_be(core, &parts.head) || parts.head.replays > 1)
    return -EBADMSG;
  if (parts.head.replays == 0)
    return -EPROTO;
  int rc = load_homes(core, &parts.homes);
  if (rc == 0)
    rc = load_own_pages(core, &parts, page_of, context);
  if (rc == 0)
    rc = load_copies(core, &parts, page_of, context);
  if (rc == 0)
    rc = load_traits(core, &parts);
  if (rc == 0)
    rc = mr_manager_load(core->manager, &parts.objects);
  if (rc == 0)
    rc = load_locks(core, &parts.locks);
  load_wait(core, &parts.head);
  if (parts.head.met == 1)
    core->meeting = (struct meeting){.heard = true, .id = parts.head.met_id};
  return rc;
}

static int put_bytes(void *context, const void *bytes, size_t length) {
  struct mr_writer *out = context;
  mr_put(out, bytes, length);
  return out->failed ? -ENOMEM : 0;
}

static int no_page(void *context, uint32_t page, uint64_t stamp, const uint8_t *bytes) {
  (void)context;
  (void)page;
  (void)stamp;
  (void)bytes;
  return 0;
}

/* What is no history: what was counted, looks at who waits, how programs lock. */
static void keep_rest(struct mr_core *fresh, struct mr_core *old) {
  struct look look = fresh->look;
  fresh->look = old->look;
  old->look = look;
  fresh->counters = old->counters;
  fresh->locks_apart = old->locks_apart;
}

static void exchange(struct mr_core *one, struct mr_core *other) {
  uint8_t *a = (uint8_t *)one, *b = (uint8_t *)other, part[64];
  _Static_assert(sizeof *one % sizeof part == 0, "whole parts");
  for (size_t at = 0; at < sizeof *one; at += sizeof part) {
    memcpy(part, a + at, sizeof part);
    memcpy(a + at, b + at, sizeof part);
    memcpy(b + at, part, sizeof part);
  }
}

int mr_core_renew(struct mr_core *core) {
  struct mr_writer out = {.bytes = NULL};
  const struct mr_save save = {&out, put_bytes, no_page};
  struct mr_core *fresh = NULL;
  int rc = mr_core_save(core, &save);
  if (rc == 0)
    rc = mr_core_create(&fresh, &core->config);
  if (rc == 0)
    rc = mr_core_load_own(fresh, &(struct mr_saved){out.bytes, out.length}, NULL, NULL);
  if (rc == 0) {
    keep_rest(fresh, core);
    exchange(fresh, core);
    core->config.sink->protect(core->config.context, 0, core->config.pages, MR_NONE);
  }
  if (fresh != NULL)
    mr_core_destroy(fresh);
  free(out.bytes);
  return rc;
}
