#include "races.h"
#include "state.h"

static void store_diff(struct mr_core *core, uint8_t *page) {
  if (core->diff.masked)
    mr_diff_apply_masked(&core->diff, page);
  else
    core->code->apply(&core->diff, page);
}

/* The scratch diff, another node's. */
static void apply(struct mr_core *core, uint32_t page) {
  store_diff(core, memory_of(core, page));
  /* So that they do not count as this node's own changes. */
  if (core->pages[page].twin || core->config.compares)
    store_diff(core, twin_of(core, page));
  core->pages[page].warm = MR_WARM;
}

/* ---- what the home shows ------------------------------------------------------------ */

/* Before anything of the page changes; hears of it if somebody took it meanwhile. */
static void hide(struct mr_core *core, uint32_t page) {
  if (core->config.shown != NULL && mr_shown_hide(&core->config.shown[page]))
    core->pages[page].alone = false;
}

void mr_show(struct mr_core *core, uint32_t page) {
  const struct page *p = &core->pages[page];
  if (core->config.shown == NULL || !at_home(core, page))
    return;
  struct mr_shown *shown = &core->config.shown[page];
  /* What the home itself has not released is in the memory, but not in the twin. */
  if (p->twin)
    mr_shown_show(shown, MR_SHOWN_TWIN, p->version);
  else if (!p->alone)
    mr_shown_show(shown, MR_SHOWN, p->version);
  else if (access_of(core, page) != MR_READ_WRITE)
    mr_shown_show(shown, MR_SHOWN_ALONE, p->version);
}

/* What is written needs no twin: nobody has a copy that would have to hear of it. */
static bool unwatched(const struct mr_core *core, uint32_t page) {
  return core->config.races == NULL && (core->config.nodes == 1 || core->pages[page].alone);
}

static void have_twin(struct mr_core *core, uint32_t page, const void *bytes) {
  memcpy(twin_of(core, page), bytes, MR_PAGE);
  core->pages[page].twin = true;
  core->dirty[core->dirty_count++] = page;
}

/* The program goes on to write. What another node gets is the twin from here on. */
static void catch_up(struct mr_core *core, uint32_t page) {
  const struct mr_core_config *config = &core->config;
  const uint8_t *memory = memory_of(core, page);
  core->counters.caught++;
  have_twin(core, page,
            config->sink->gives != NULL ? config->sink->gives(config->context, page, memory)
                                        : memory);
}

/* From here on what is written is watched; nobody knows what was written before. The page may hold
 * what this node has not released: an ordered program does not look there before it hears of the
 * release. */
void mr_end_alone(struct mr_core *core, uint32_t page) {
  struct page *p = &core->pages[page];
  bool written = p->alone && access_of(core, page) == MR_READ_WRITE;
  if (!p->alone)
    return;
  p->alone = false;
  if (written && (core->config.replays || core->config.unseen)) {
    catch_up(core, page);
  } else if (written) {
    /* First nobody may write any more, then it is read. */
    mr_set_access(core, page, MR_READ);
    mr_settle(core);
  }
  if (written)
    mr_history_forget(core->history, page);
  mr_show(core, page);
}

void mr_make_writable(struct mr_core *core, uint32_t page) {
  struct page *p = &core->pages[page];
  if (p->alone)
    hide(core, page);
  bool begins = !p->twin && !unwatched(core, page);
  if (begins) {
    have_twin(core, page, memory_of(core, page));
    mr_show(core, page);
  } else if (!p->twin && core->config.compares && access_of(core, page) != MR_READ_WRITE) {
    memcpy(twin_of(core, page), memory_of(core, page), MR_PAGE);
  }
  mr_set_access(core, page, MR_READ_WRITE);
}

void mr_invalidate(struct mr_core *core, const struct mr_notice *notice) {
  struct page *p = &core->pages[notice->page];
  if (at_home(core, notice->page))
    return;
  if (notice->version > p->needed)
    p->needed = notice->version;
  if (p->needed > p->version && access_of(core, notice->page) != MR_NONE) {
    if (mr_habits_brought(core->habits, notice->page)) {
      core->counters.unused++;
      mr_habits_unused(core->habits, notice->page);
    }
    mr_set_access(core, notice->page, MR_NONE);
  }
}

bool mr_renew(struct mr_core *core, const struct mr_notice *notice, const uint8_t *diff) {
  uint32_t page = notice->page;
  struct page *p = &core->pages[page];
  /* The home has it already. */
  if (notice->length == 0 || at_home(core, page) || access_of(core, page) == MR_NONE ||
      p->version + 1 != notice->version)
    return false;
  if (mr_diff_unpack(&core->diff, diff, notice->length) < 0 || !core->diff.masked)
    return mr_fail(core, -EPROTO, "a diff that came with a write notice is none, of page", page) ==
           0;
  apply(core, page);
  p->version = notice->version;
  core->counters.spared++;
  return true;
}

/* ---- diffs go home -------------------------------------------------------------- */

static bool may_carry(const struct mr_core *core) {
  return core->pending.op != MR_BARRIER && core->carried.length < core->config.grant_bytes;
}

/* The scratch diff goes with the notice, if there is room for it; its length, or 0.  Only of pages
 * that nodes write in turns: what nobody else reads is a load.  With masks: a copy may have
 * changes of its node that are younger. */
static uint32_t carry(struct mr_core *core, uint32_t page) {
  struct mr_writer *out = &core->carried;
  size_t at = out->length, most = core->config.grant_bytes;
  struct page *p = &core->pages[page];
  if (!may_carry(core) || p->warm == 0 || at + core->diff.blocks * (MR_BLOCK + 1) > most)
    return 0;
  if (!core->diff.masked)
    mr_diff_mask(&core->diff, twin_of(core, page));
  uint8_t *room = mr_put_room(out, MR_DIFF_PACKED_MAX);
  size_t length = room != NULL ? mr_diff_pack(&core->diff, room) : 0;
  if (at + length > most)
    length = 0;
  out->length = at + length;
  core->counters.carried += length > 0;
  return (uint32_t)length;
}

/* The scratch diff made that version; whether it goes with the notice. */
static bool notice(struct mr_core *core, uint32_t page, uint64_t version) {
  struct page *p = &core->pages[page];
  core->notices[core->notice_count++] =
      (struct mr_notice){.version = version, .page = page, .length = carry(core, page)};
  p->warm = (uint8_t)(p->warm > 0 ? p->warm - 1 : 0) & MR_WARM;
  return core->notices[core->notice_count - 1].length > 0;
}

/* The diff that has just been kept: memory and twin differ as they did when it was sent. */
static void encode_again(struct mr_core *core, uint32_t page) {
  core->code->encode(&core->diff, memory_of(core, page), twin_of(core, page));
}

static uint64_t running_interval(const struct mr_core *core) {
  return core->time[core->config.me] + 1;
}

static void send_diff(struct mr_core *core, uint32_t page) {
  struct page *p = &core->pages[page];
  struct mr_diff *diff = &core->diff;
  uint64_t interval = running_interval(core);
  if (p->shared || core->config.races != NULL)
    mr_diff_mask(diff, twin_of(core, page));
  struct mr_writer *out = mr_compose(core, MR_DIFF, page, (int64_t)p->version, core->config.me);
  if (core->config.races != NULL) {
    mr_put(out, &interval, sizeof interval);
    mr_put_time(core, core->time);
  }
  uint8_t *room = mr_put_room(out, MR_DIFF_PACKED_MAX);
  if (room != NULL)
    out->length -= MR_DIFF_PACKED_MAX - mr_diff_pack(diff, room);
  core->counters.diffs++;
  core->counters.masked += p->shared;
  mr_dispatch(core, mr_core_home(core, page));
}

/* As a home: the page has what the scratch diff says; its version since. */
static uint64_t changed(struct mr_core *core, uint32_t page) {
  uint64_t version = ++core->pages[page].version;
  mr_history_add(core->history, page, version, core->diff.bitmap);
  return version;
}

/* Ends the interval for one page. */
static void flush_page(struct mr_core *core, uint32_t page) {
  struct page *p = &core->pages[page];
  core->code->encode(&core->diff, memory_of(core, page), twin_of(core, page));
  p->written = core->diff.blocks != 0;
  if (p->written && !at_home(core, page)) {
    p->flying = true;
    core->pending.awaited++;
    send_diff(core, page);
    return;
  }
  hide(core, page);
  p->twin = false;
  if (core->diff.blocks != 0 && core->config.races != NULL) {
    mr_diff_mask(&core->diff, twin_of(core, page));
    mr_races_diff(core->config.races, page, core->config.me, running_interval(core), core->time,
                  core->floor, &core->diff);
  }
  /* A diff that goes along may make others' copies as new as this. */
  if (core->diff.blocks != 0) {
    p->alone = !notice(core, page, changed(core, page));
  }
  p->in_row = 0;
  mr_show(core, page);
}

bool mr_flush(struct mr_core *core) {
  core->pending.awaited = 0;
  core->notice_count = 0;
  core->carried.length = 0;
  core->carried.failed = false;
  /* First nobody may write any more, then what was written is read. */
  for (uint32_t i = 0; i < core->dirty_count; i++)
    if (access_of(core, core->dirty[i]) == MR_READ_WRITE)
      mr_set_access(core, core->dirty[i], MR_READ);
  mr_settle(core);
  for (uint32_t i = 0; i < core->dirty_count; i++)
    flush_page(core, core->dirty[i]);
  core->dirty_count = 0; /* what is given meanwhile may be loose from here on */
  return core->pending.awaited != 0;
}

/* ---- where homes are --------------------------------------------------------------- */

uint16_t mr_core_home(const struct mr_core *core, uint32_t page) { return home_of(core, page); }

bool mr_core_is_home(const struct mr_core *core, uint32_t page) {
  return mr_core_home(core, page) == core->config.me;
}

bool mr_is_origin(const struct mr_core *core, int64_t node) {
  return node >= 0 && node < core->config.nodes && node != core->config.me;
}

bool mr_answers_for(const struct mr_core *core, uint32_t page) {
  return at_home(core, page) || core->pages[page].was_home;
}

/* A page that several nodes write in turns gains little by moving. */
static void note_writer(struct page *p, uint16_t writer) {
  bool same = p->writer == writer + 1;
  if (!same && p->writer != 0) {
    p->moves += p->unsteady && p->moves < UINT8_MAX;
    p->unsteady = true;
  }
  p->in_row = same ? (uint8_t)(p->in_row + (p->in_row < UINT8_MAX)) : 1;
  p->writer = (writer + 1u) & 0x7ff;
  p->read -= p->read > 0;
}

/* As a home: `writer` alone sent a diff, and has what the home has; whether it becomes the home. */
static bool leaves(struct mr_core *core, uint32_t page, uint16_t writer) {
  struct page *p = &core->pages[page];
  note_writer(p, writer);
  unsigned doublings = p->moves < MR_MIGRATE_DOUBLINGS ? p->moves : MR_MIGRATE_DOUBLINGS;
  switch (core->config.homes) {
  case MR_HOMES_FIRST_WRITER:
    return p->version == 1;
  case MR_HOMES_MIGRATE:
    return p->in_row >= core->config.migrate_after << doublings && p->read == 0;
  case MR_HOMES_STAY:
    break;
  }
  return false;
}

/* The page stays here as a copy. */
static void let_go(struct mr_core *core, uint32_t page, uint16_t to) {
  mr_note_home(core, page, to);
  core->pages[page].was_home = true;
  core->counters.moved++;
}

/* This copy is the home's, and now is the home. */
static int become_home(struct mr_core *core, uint32_t page, uint64_t version, uint32_t moves) {
  struct page *p = &core->pages[page];
  if (version != p->version + 1 || p->needed > version || access_of(core, page) == MR_NONE)
    return mr_fail(core, -EPROTO, "this node's copy cannot be the home of page", page);
  mr_note_home(core, page, core->config.me);
  p->was_home = false;
  p->in_row = 0;
  p->read = 0;
  p->moves = moves < UINT8_MAX ? (uint8_t)moves : UINT8_MAX;
  /* The past begins with what this node itself changed. */
  encode_again(core, page);
  mr_history_add(core->history, page, version, core->diff.bitmap);
  return 0;
}

/* ---- diffs come -------------------------------------------------------------------- */

#define KEPT_SHARED 1u
#define KEPT_MOVES 2u /* the writer is the home from now on; how often it moved, from bit 2 on */

static int pass_on(struct mr_core *core, const struct mr_header *header,
                   const struct mr_reader *reader) {
  mr_compose(core, MR_DIFF, header->subject, header->value, header->detail);
  mr_put(&core->out, reader->at, reader->left);
  core->counters.passed_on++;
  mr_dispatch(core, mr_core_home(core, header->subject));
  return 0;
}

/* As a home: the scratch diff is applied; its sender hears of it. */
static void keep(struct mr_core *core, uint32_t page, uint16_t origin, bool shared) {
  struct page *p = &core->pages[page];
  hide(core, page);
  apply(core, page);
  uint64_t version = changed(core, page);
  uint32_t detail = shared ? KEPT_SHARED : 0;
  if (shared) {
    p->in_row = 0;
  } else if (leaves(core, page, origin)) {
    detail = KEPT_MOVES | ((uint32_t)p->moves + 1) << 2;
    let_go(core, page, origin);
  }
  mr_show(core, page);
  mr_send_short(core, origin, MR_DIFF_KEPT, page, (int64_t)version, detail);
}

/* The scratch diff came from another node. */
static void look_for_races(struct mr_core *core, uint16_t writer, uint32_t page, uint64_t interval,
                           const uint64_t *time) {
  mr_races_diff(core->config.races, page, writer, interval, time, core->floor, &core->diff);
  if (!core->pages[page].twin)
    return;
  core->code->encode(&core->own, memory_of(core, page), twin_of(core, page));
  mr_diff_mask(&core->own, twin_of(core, page));
  mr_races_own(core->config.races, page, core->config.me, writer, &core->own, &core->diff);
}

int mr_on_diff(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  uint32_t page = header->subject;
  uint64_t interval = 0, *time = core->told;
  if (core->config.races != NULL) {
    mr_take(reader, &interval, sizeof interval);
    mr_take(reader, time, core->config.nodes * sizeof *time);
    if (reader->bad)
      return -EBADMSG;
  }
  if (page >= core->config.pages || !mr_answers_for(core, page) ||
      !mr_is_origin(core, header->detail) ||
      mr_diff_unpack(&core->diff, reader->at, reader->left) < 0)
    return -EBADMSG;
  if (!at_home(core, page))
    return pass_on(core, header, reader);
  struct page *p = &core->pages[page];
  uint16_t origin = (uint16_t)header->detail;
  uint64_t base = (uint64_t)header->value;
  if (base > p->version)
    return mr_fail(core, -EPROTO, "a diff against a version that is yet to come, of page", page);
  /* A writer's own diffs leave its copy as new as the home's, if it is alone. */
  bool shared = p->twin || base < p->version;
  if (shared && !core->diff.masked) {
    mr_send_short(core, origin, MR_DIFF_AGAIN, page, 0, 0);
    return 0;
  }
  if (core->config.races != NULL && !core->diff.masked)
    return -EBADMSG;
  if (core->config.races != NULL)
    look_for_races(core, header->from, page, interval, time);
  keep(core, page, origin, shared);
  return 0;
}

static bool flies(const struct mr_core *core, const struct mr_header *header) {
  return header->subject < core->config.pages && core->pages[header->subject].flying;
}

int mr_on_diff_again(struct mr_core *core, const struct mr_header *header,
                     struct mr_reader *reader) {
  uint32_t page = header->subject;
  if (!flies(core, header) || reader->left != 0)
    return -EBADMSG;
  core->pages[page].shared = true;
  mr_note_home(core, page, header->from);
  core->code->encode(&core->diff, memory_of(core, page), twin_of(core, page));
  send_diff(core, page);
  return 0;
}

int mr_on_diff_kept(struct mr_core *core, const struct mr_header *header,
                    struct mr_reader *reader) {
  uint32_t page = header->subject;
  if (!flies(core, header) || reader->left != 0)
    return -EBADMSG;
  struct page *p = &core->pages[page];
  uint64_t version = (uint64_t)header->value;
  mr_note_home(core, page, header->from);
  if ((header->detail & KEPT_MOVES) != 0 &&
      become_home(core, page, version, header->detail >> 2) < 0)
    return -ECANCELED;
  if (may_carry(core) && p->warm > 0)
    encode_again(core, page);
  p->flying = p->twin = false;
  p->shared = (header->detail & KEPT_SHARED) != 0;
  notice(core, page, version);
  /* Nobody else's change lies between: this copy is the home's. */
  if (version == p->version + 1)
    p->version = version;
  mr_show(core, page);
  if (--core->pending.awaited == 0)
    core->flushed(core);
  return 0;
}
