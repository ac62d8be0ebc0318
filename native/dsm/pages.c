#include "state.h"

/* ---- pages -------------------------------------------------------------------- */

static void make_writable(struct mr_core *core, uint32_t page) {
  struct page *p = &core->pages[page];
  if (!p->twin) {
    memcpy(twin_of(core, page), memory_of(core, page), MR_PAGE);
    p->twin = true;
    core->dirty[core->dirty_count++] = page;
  }
  mr_set_access(core, page, MR_READ_WRITE);
}

static void fetch(struct mr_core *core, uint32_t page, bool write) {
  core->pending =
      (struct pending){.phase = FETCHING, .stage = SINGLE, .page = page, .write = write};
  core->counters.fetches++;
  mr_send_short(core, mr_core_home(core, page), MR_FETCH, page, (int64_t)core->pages[page].version,
                0);
}

int mr_core_read(struct mr_core *core, uint32_t page) {
  int rc = ready(core, page);
  if (rc < 0)
    return rc;
  if (core->pages[page].access == MR_NONE) {
    fetch(core, page, false);
    return mr_unless_stopped(core);
  }
  /* The shell's mapping may lag behind: at first nothing is mapped. */
  mr_set_access(core, page, (enum mr_access)core->pages[page].access);
  mr_finish(core, 0);
  return 0;
}

int mr_core_write(struct mr_core *core, uint32_t page) {
  int rc = ready(core, page);
  if (rc < 0)
    return rc;
  if (core->pages[page].access == MR_NONE) {
    fetch(core, page, true);
    return mr_unless_stopped(core);
  }
  make_writable(core, page);
  mr_finish(core, 0);
  return 0;
}

int mr_on_fetch(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  uint32_t page = header->subject;
  if (page >= core->config.pages || !at_home(core, page) || reader->left != 0)
    return -EBADMSG;
  core->pages[page].leaked = core->pages[page].twin;
  struct mr_writer *out =
      mr_compose(core, MR_PAGE_COPY, page, (int64_t)core->pages[page].version, 0);
  mr_put(out, memory_of(core, page), MR_PAGE);
  mr_dispatch(core, header->from);
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

int mr_on_page_copy(struct mr_core *core, const struct mr_header *header,
                    struct mr_reader *reader) {
  struct pending *pending = &core->pending;
  uint32_t page = header->subject;
  if (pending->phase != FETCHING || pending->page != page ||
      header->from != mr_core_home(core, page) || reader->left != MR_PAGE)
    return -EBADMSG;
  struct page *p = &core->pages[page];
  if ((uint64_t)header->value < p->needed)
    return mr_fail(core, -EPROTO, "the home's copy is older than a write notice, of page", page);
  if (p->twin)
    merge_copy(core, page, reader->at);
  else
    memcpy(memory_of(core, page), reader->at, MR_PAGE);
  p->version = (uint64_t)header->value;
  if (pending->write || p->twin)
    make_writable(core, page);
  else
    mr_set_access(core, page, MR_READ);
  mr_finish(core, 0);
  return 0;
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

static void send_diff(struct mr_core *core, uint32_t page) {
  struct page *p = &core->pages[page];
  struct mr_diff *diff = &core->diff;
  if (p->shared)
    mr_diff_mask(diff, twin_of(core, page));
  struct mr_writer *out = mr_compose(core, MR_DIFF, page, (int64_t)p->version, 0);
  uint8_t *room = mr_put_room(out, MR_DIFF_PACKED_MAX);
  if (room != NULL)
    out->length -= MR_DIFF_PACKED_MAX - mr_diff_pack(diff, room);
  core->counters.diffs++;
  core->counters.masked += p->shared;
  mr_dispatch(core, mr_core_home(core, page));
}

/* Ends the interval for one page. */
static void flush_page(struct mr_core *core, uint32_t page) {
  struct page *p = &core->pages[page];
  /* First nobody may write any more, then what was written is read. */
  if (p->access == MR_READ_WRITE)
    mr_set_access(core, page, MR_READ);
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

bool mr_flush(struct mr_core *core) {
  core->pending.awaited = 0;
  core->notice_count = 0;
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

int mr_on_diff(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  uint32_t page = header->subject;
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
  apply(core, page);
  mr_send_short(core, header->from, MR_DIFF_KEPT, page, (int64_t)++p->version, shared);
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
