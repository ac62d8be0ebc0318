#include "races.h"
#include "state.h"

void mr_make_writable(struct mr_core *core, uint32_t page) {
  struct page *p = &core->pages[page];
  if (!p->twin) {
    memcpy(twin_of(core, page), memory_of(core, page), MR_PAGE);
    p->twin = true;
    core->dirty[core->dirty_count++] = page;
  }
  mr_set_access(core, page, MR_READ_WRITE);
}

void mr_invalidate(struct mr_core *core, const struct mr_notice *notice) {
  struct page *p = &core->pages[notice->page];
  if (at_home(core, notice->page))
    return;
  if (notice->version > p->needed)
    p->needed = notice->version;
  if (p->needed > p->version && p->access != MR_NONE) {
    core->counters.invalidations++;
    mr_set_access(core, notice->page, MR_NONE);
  }
}

/* ---- diffs go home -------------------------------------------------------------- */

static void notice(struct mr_core *core, uint32_t page, uint64_t version) {
  core->notices[core->notice_count++] = (struct mr_notice){.version = version, .page = page};
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
  struct mr_writer *out = mr_compose(core, MR_DIFF, page, (int64_t)p->version, 0);
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
  if (core->diff.blocks != 0 && !at_home(core, page)) {
    p->flying = true;
    core->pending.awaited++;
    send_diff(core, page);
    return;
  }
  p->twin = false;
  if (core->diff.blocks != 0 && core->config.races != NULL) {
    mr_diff_mask(&core->diff, twin_of(core, page));
    mr_races_diff(core->config.races, page, core->config.me, running_interval(core), core->time,
                  core->floor, &core->diff);
  }
  if (core->diff.blocks != 0)
    notice(core, page, changed(core, page));
}

bool mr_flush(struct mr_core *core) {
  core->pending.awaited = 0;
  core->notice_count = 0;
  /* First nobody may write any more, then what was written is read. */
  for (uint32_t i = 0; i < core->dirty_count; i++)
    if (core->pages[core->dirty[i]].access == MR_READ_WRITE)
      mr_set_access(core, core->dirty[i], MR_READ);
  mr_settle(core);
  for (uint32_t i = 0; i < core->dirty_count; i++)
    flush_page(core, core->dirty[i]);
  return core->pending.awaited != 0;
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
  if (page >= core->config.pages || !at_home(core, page) ||
      mr_diff_unpack(&core->diff, reader->at, reader->left) < 0)
    return -EBADMSG;
  struct page *p = &core->pages[page];
  uint64_t base = (uint64_t)header->value;
  if (base > p->version)
    return mr_fail(core, -EPROTO, "a diff against a version that is yet to come, of page", page);
  /* A writer's own diffs leave its copy as new as the home's, if it is alone. */
  bool shared = p->twin || base < p->version;
  if (shared && !core->diff.masked) {
    core->counters.asked_for_masks++;
    mr_send_short(core, header->from, MR_DIFF_AGAIN, page, 0, 0);
    return 0;
  }
  if (core->config.races != NULL && !core->diff.masked)
    return -EBADMSG;
  if (core->config.races != NULL)
    look_for_races(core, header->from, page, interval, time);
  apply(core, page);
  mr_send_short(core, header->from, MR_DIFF_KEPT, page, (int64_t)changed(core, page), shared);
  return 0;
}

static bool flies(const struct mr_core *core, const struct mr_header *header) {
  return header->subject < core->config.pages && core->pages[header->subject].flying &&
         header->from == mr_core_home(core, header->subject);
}

int mr_on_diff_again(struct mr_core *core, const struct mr_header *header,
                     struct mr_reader *reader) {
  uint32_t page = header->subject;
  if (!flies(core, header) || reader->left != 0)
    return -EBADMSG;
  core->pages[page].shared = true;
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
  p->flying = p->twin = false;
  p->shared = header->detail != 0;
  notice(core, page, version);
  /* Nobody else's change lies between: this copy is the home's. */
  if (version == p->version + 1)
    p->version = version;
  if (--core->pending.awaited == 0)
    mr_flushed(core);
  return 0;
}
