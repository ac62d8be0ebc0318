#include "state.h"

/* Answers about as long as a page, and shorter ones: the limit between. */
#define SHORT_MOST (MR_PAGE * 3 / 4)
/* So many answers make a window in which the quickest counts. */
#define WINDOW 64u
/* So many whole pages in a row, and the next goes in part. So many parts while nobody knows what
 * the way costs, and the next goes whole: else nobody learns. */
#define TRY_AFTER 32u

#define ASKED_BYTES (sizeof(uint32_t) + sizeof(uint64_t))

/* ---- asking ------------------------------------------------------------------ */

static uint64_t now(const struct mr_core *core) {
  return core->config.sink->now != NULL ? core->config.sink->now(core->config.context) : 0;
}

/* The pages of the batch from `first` on that one home is asked for together; how many. */
static uint32_t together(const struct mr_core *core, uint32_t first) {
  uint32_t count = 1;
  while (first + count < core->batch_count &&
         mr_core_home(core, core->batch[first + count]) == mr_core_home(core, core->batch[first]))
    count++;
  return count;
}

static void ask_home(struct mr_core *core, uint32_t first, uint32_t count) {
  uint16_t home = mr_core_home(core, core->batch[first]);
  struct mr_writer *out =
      mr_compose(core, MR_FETCH, core->batch[first], core->config.me, core->ways[home].ns_per_kib);
  for (uint32_t i = first; i < first + count; i++) {
    mr_put(out, &core->batch[i], sizeof(uint32_t));
    mr_put(out, &core->pages[core->batch[i]].version, sizeof(uint64_t));
  }
  core->counters.fetches += count;
  core->pending.awaited += count;
  core->pending.asked = home;
  mr_dispatch(core, home);
}

static void have_all(struct mr_core *core);
static void note_use(struct mr_core *core, uint32_t page);
static bool copied(struct mr_core *core, uint32_t page);

static void bring_one(struct mr_core *core, uint32_t page) {
  if (access_of(core, page) == MR_NONE && !copied(core, page))
    core->batch[core->batch_count++] = page;
}

/* Copies pages that are still to come, or asks for them: as many as a batch holds. */
static void bring_on(struct mr_core *core) {
  struct pending *pending = &core->pending;
  core->batch_count = 0;
  if (pending->all) {
    for (; pending->next < pending->end && core->batch_count < MR_BATCH_MAX; pending->next++)
      bring_one(core, pending->next);
  } else {
    for (; pending->next < pending->end; pending->next++)
      bring_one(core, core->wanted[pending->next]);
  }
  pending->since = now(core);
  for (uint32_t i = 0, count; i < core->batch_count && !core->stopped; i += count) {
    count = together(core, i);
    ask_home(core, i, count);
  }
}

static bool pending_none(const struct mr_core *core) {
  return core->pending.awaited == 0 && !core->stopped;
}

static void begin(struct mr_core *core, const struct pending *pending) {
  core->pending = *pending;
  bring_on(core);
  if (pending_none(core))
    have_all(core);
}

/* With what is wanted beside it. */
static void fetch_for(struct mr_core *core, uint32_t page, bool write) {
  mr_want_with(core, page);
  begin(core, &(struct pending){
                  .phase = FETCHING, .page = page, .end = core->wanted_count, .write = write});
}

/* It was brought unasked, and is used now. */
static void note_use(struct mr_core *core, uint32_t page) {
  if (mr_habits_brought(core->habits, page))
    mr_habits_used(core->habits, page);
}

/* A node without others: it may do all with its pages, and the next ones are mapped beforehand. */
static void open_next(struct mr_core *core, uint32_t page) {
  for (uint32_t count = mr_window_from(core, page, false); count > 0; count--)
    mr_make_writable(core, page++);
}

int mr_core_read(struct mr_core *core, uint32_t page) {
  int rc = ready(core, page);
  if (rc < 0)
    return rc;
  if (access_of(core, page) == MR_NONE) {
    fetch_for(core, page, false);
    return mr_unless_stopped(core);
  }
  note_use(core, page);
  if (core->config.nodes == 1)
    open_next(core, page);
  mr_show_with(core, page);
  /* The shell's mapping may lag behind: at first nothing is mapped. */
  mr_set_access(core, page, access_of(core, page));
  mr_finish(core, 0);
  return 0;
}

int mr_core_write(struct mr_core *core, uint32_t page) {
  int rc = ready(core, page);
  if (rc < 0)
    return rc;
  if (access_of(core, page) == MR_NONE) {
    fetch_for(core, page, true);
    return mr_unless_stopped(core);
  }
  note_use(core, page);
  if (core->config.nodes == 1)
    open_next(core, page);
  mr_write_with(core, page);
  mr_finish(core, 0);
  return 0;
}

static void have(struct mr_core *core, uint32_t page) {
  if (core->pending.write && core->pending.all)
    mr_make_writable(core, page);
  else
    mr_set_access(core, page, access_of(core, page));
}

static void have_all(struct mr_core *core) {
  const struct pending *pending = &core->pending;
  for (uint32_t page = pending->page; pending->all && page < pending->end; page++) {
    note_use(core, page);
    have(core, page);
  }
  /* What was brought unasked is shown when it is used. */
  for (uint32_t i = 0; !pending->all && i < pending->end; i++)
    if (!mr_habits_brought(core->habits, core->wanted[i]))
      have(core, core->wanted[i]);
  if (pending->write && !pending->all)
    mr_write_with(core, pending->page);
  mr_finish(core, 0);
}

int mr_core_bring(struct mr_core *core, uint32_t page, uint32_t count, bool write) {
  int rc = ready(core, page);
  if (rc < 0)
    return rc;
  if (count == 0 || count > core->config.pages - page)
    return -EINVAL;
  begin(core, &(struct pending){.phase = FETCHING,
                                .page = page,
                                .next = page,
                                .end = page + count,
                                .write = write,
                                .all = true});
  return mr_unless_stopped(core);
}

/* ---- what the way costs -------------------------------------------------------- */

static struct quickest quicker(struct quickest a, struct quickest b) {
  return a.ns != 0 && (b.ns == 0 || a.ns <= b.ns) ? a : b;
}

/* Of one page each: the difference between long and short answers is what bytes cost.  The
 * quickest count, as waiting for a processor is no property of the way. */
static void learn(struct way *way, size_t bytes, uint64_t ns) {
  enum size size = bytes > SHORT_MOST ? LONG : SHORT;
  struct quickest sample = {ns, bytes};
  way->best[size] = quicker(sample, way->best[size]);
  struct quickest few = quicker(way->best[SHORT], way->last[SHORT]);
  struct quickest many = quicker(way->best[LONG], way->last[LONG]);
  /* A short one that took longer had to wait, and says nothing of the way. */
  if (few.ns != 0 && many.ns > few.ns) {
    uint64_t rate = (many.ns - few.ns) * 1024 / (many.bytes - few.bytes);
    way->ns_per_kib = rate < 1 ? 1 : rate < UINT32_MAX ? (uint32_t)rate : UINT32_MAX;
  }
  if (++way->samples < WINDOW)
    return;
  way->samples = 0;
  for (int s = 0; s < SIZES; s++) {
    way->last[s] = way->best[s].ns != 0 ? way->best[s] : way->last[s];
    way->best[s].ns = 0;
  }
}

/* Whether to send `bytes` of a page instead of the page.  The last choice has a tenth for it. */
static bool pays(const struct mr_core *core, const struct way *way, size_t bytes) {
  uint64_t saved = (uint64_t)way->told * (MR_PAGE - bytes) / 1024;
  uint64_t cost = core->config.limits.part_ns;
  if (bytes >= MR_PAGE)
    return false;
  bool long_enough = way->row >= TRY_AFTER;
  /* A part costs little, a page may cost much. */
  if (way->told == 0)
    return !(way->parts && long_enough);
  if (bytes <= SHORT_MOST && !way->parts && long_enough)
    return true;
  return 10 * saved > (way->parts ? 9 : 11) * cost;
}

/* ---- as a home ------------------------------------------------------------------- */

static size_t size_of(const uint64_t *bitmap, int blocks) {
  size_t size = 2 + (size_t)blocks * MR_BLOCK;
  for (unsigned w = 0; w < MR_DIFF_BITMAP; w++)
    size += bitmap[w] != 0 ? 8 : 0;
  return size;
}

/* What changed since, by the policy; below 0: the page has to go. */
static int find_part(struct mr_core *core, uint32_t page, uint64_t have, uint64_t *bitmap) {
  const struct mr_fetch_limits *limits = &core->config.limits;
  enum mr_fetch policy = core->config.fetch;
  int blocks = -ENOENT;
  if (policy == MR_FETCH_RANGE)
    return mr_history_diffs(core->history, page, have, limits->range_bytes / MR_BLOCK, bitmap,
                            &core->counters.searched);
  if (policy == MR_FETCH_ADAPTIVE)
    blocks =
        mr_history_diffs(core->history, page, have, MR_BLOCKS, bitmap, &core->counters.searched);
  if (blocks == -ENOENT && policy != MR_FETCH_PAGE)
    blocks = mr_history_stamps(core->history, page, have, bitmap);
  return blocks;
}

static bool goes_in_part(struct mr_core *core, uint16_t to, uint32_t page, uint64_t have) {
  struct way *way = &core->ways[to];
  bool adaptive = core->config.fetch == MR_FETCH_ADAPTIVE;
  /* Where no part would pay none is searched for: on the quickest links that costs what parts save.
   */
  int blocks =
      adaptive && !pays(core, way, 0) ? -EFBIG : find_part(core, page, have, core->diff.bitmap);
  if (blocks < 0) {
    way->row = way->parts ? 1 : way->row + 1;
    way->parts = false;
    return false;
  }
  size_t size = size_of(core->diff.bitmap, blocks);
  if (!adaptive)
    return size < MR_PAGE;
  bool parts = pays(core, way, size);
  way->row = parts == way->parts ? way->row + 1 : 1;
  way->parts = parts;
  return parts;
}

/* What the home itself has not released goes to nobody: the twin lacks it. */
static const uint8_t *released(const struct mr_core *core, uint32_t page) {
  return core->pages[page].twin ? twin_of(core, page) : memory_of(core, page);
}

static void put_part(struct mr_core *core, uint32_t page) {
  struct mr_writer *out = &core->out;
  size_t at = out->length;
  core->code->gather(&core->diff, released(core, page));
  uint8_t *room = mr_put_room(out, sizeof(uint32_t) + MR_DIFF_PACKED_MAX);
  if (room == NULL)
    return;
  uint32_t length = (uint32_t)mr_diff_pack(&core->diff, room + sizeof length);
  memcpy(room, &length, sizeof length);
  out->length = at + sizeof length + length;
  core->counters.parts++;
  core->counters.part_bytes += length;
}

static void put_copy(struct mr_core *core, uint16_t to, uint32_t page, uint64_t have) {
  uint32_t length = MR_PAGE;
  mr_end_alone(core, page);
  mr_note_reader(core, page, to);
  mr_put(&core->out, &page, sizeof page);
  mr_put(&core->out, &core->pages[page].version, sizeof(uint64_t));
  if (goes_in_part(core, to, page, have)) {
    put_part(core, page);
    return;
  }
  mr_put(&core->out, &length, sizeof length);
  mr_put(&core->out, released(core, page), MR_PAGE);
  core->counters.pages++;
  core->counters.page_bytes += MR_PAGE;
}

static void take_asked(struct mr_reader *reader, uint32_t *page, uint64_t *have) {
  mr_take(reader, page, sizeof *page);
  mr_take(reader, have, sizeof *have);
}

/* Pages that are or were this node's, one or more. */
static bool asked_well(const struct mr_core *core, const struct mr_header *header,
                       struct mr_reader reader) {
  uint32_t page;
  uint64_t have;
  if (reader.left == 0 || reader.left % ASKED_BYTES != 0 ||
      reader.left / ASKED_BYTES > MR_BATCH_MAX || !mr_is_origin(core, header->value))
    return false;
  for (bool first = true; reader.left > 0; first = false) {
    take_asked(&reader, &page, &have);
    if (page >= core->config.pages || !mr_answers_for(core, page) ||
        (first && page != header->subject))
      return false;
  }
  return true;
}

/* The first of these pages and those after it whose home is the same node: answered, or passed on
 * to it. */
static void answer_some(struct mr_core *core, uint16_t origin, struct mr_reader *reader) {
  struct mr_reader next = *reader;
  uint32_t page;
  uint64_t have;
  take_asked(&next, &page, &have);
  uint16_t home = mr_core_home(core, page);
  bool here = home == core->config.me;
  mr_compose(core, here ? MR_PAGE_COPY : MR_FETCH, page, here ? 0 : origin, 0);
  while (reader->left > 0) {
    next = *reader;
    take_asked(&next, &page, &have);
    if (mr_core_home(core, page) != home)
      break;
    if (here)
      put_copy(core, origin, page, have);
    else
      mr_put(&core->out, reader->at, ASKED_BYTES);
    *reader = next;
  }
  core->counters.passed_on += !here;
  mr_dispatch(core, here ? origin : home);
}

int mr_on_fetch(struct mr_core *core, const struct mr_header *header, struct mr_reader *reader) {
  if (!asked_well(core, header, *reader))
    return -EBADMSG;
  uint16_t origin = (uint16_t)header->value;
  /* What it knows of the way is of the way to whom it asked. */
  if (origin == header->from)
    core->ways[origin].told = header->detail;
  while (reader->left > 0 && !core->stopped)
    answer_some(core, origin, reader);
  return 0;
}

/* ---- copies come ------------------------------------------------------------------- */

struct copy {
  uint32_t page;
  uint64_t version;
  const uint8_t *bytes;
  uint32_t length;
};

/* A whole page, or a diff of blocks: then it is in the scratch diff. */
static bool read_copy(struct mr_core *core, struct mr_reader *reader, struct copy *copy) {
  mr_take(reader, &copy->page, sizeof copy->page);
  mr_take(reader, &copy->version, sizeof copy->version);
  mr_take(reader, &copy->length, sizeof copy->length);
  if (reader->bad || copy->length > reader->left)
    return false;
  copy->bytes = reader->at;
  reader->at += copy->length;
  reader->left -= copy->length;
  return copy->length == MR_PAGE ||
         (mr_diff_unpack(&core->diff, copy->bytes, copy->length) == 0 && !core->diff.masked);
}

static void store(struct mr_core *core, const struct copy *copy, uint8_t *page) {
  if (copy->length == MR_PAGE)
    memcpy(page, copy->bytes, MR_PAGE);
  else
    core->code->apply(&core->diff, page);
}

/* Own changes of the running interval go on top of the fresh copy. */
static void merge_copy(struct mr_core *core, uint32_t page, const struct copy *copy) {
  struct mr_diff *own = &core->own;
  uint8_t *memory = memory_of(core, page), *twin = twin_of(core, page);
  core->code->encode(own, memory, twin);
  mr_diff_mask(own, twin);
  store(core, copy, memory);
  store(core, copy, twin);
  mr_diff_apply_masked(own, memory);
}

static void take_copy(struct mr_core *core, const struct copy *copy) {
  uint32_t page = copy->page;
  struct page *p = &core->pages[page];
  if (p->twin)
    merge_copy(core, page, copy);
  else
    store(core, copy, memory_of(core, page));
  p->version = copy->version;
  p->warm = MR_WARM;
  /* The sink hears of it when all have come. */
  mr_mark_access(core, page, MR_READ);
  if (p->twin || (core->pending.write && core->pending.page == page)) {
    note_use(core, page);
    mr_make_writable(core, page);
  }
}

/* Without a word to its home, where that shows it. */
static bool copied(struct mr_core *core, uint32_t page) {
  const struct mr_core_config *config = &core->config;
  struct copy copy = {.page = page, .bytes = core->copied, .length = MR_PAGE};
  if (config->sink->copy == NULL ||
      config->sink->copy(config->context, mr_core_home(core, page), page, core->copied,
                         &copy.version) < 0 ||
      copy.version < core->pages[page].needed)
    return false;
  take_copy(core, &copy);
  core->counters.copied++;
  return true;
}

/* Whether the page is on its way here.  One that has come is readable. */
static bool awaited(const struct mr_core *core, uint32_t page) {
  for (uint32_t i = 0; i < core->batch_count; i++)
    if (core->batch[i] == page)
      return access_of(core, page) == MR_NONE;
  return false;
}

/* The body before anything of it is taken: all of it must be well formed. */
static int check_copies(struct mr_core *core, const struct mr_header *header,
                        struct mr_reader reader) {
  struct copy copy;
  uint32_t least = header->subject;
  if (core->pending.phase != FETCHING || reader.left == 0)
    return -EBADMSG;
  while (reader.left > 0) {
    if (!read_copy(core, &reader, &copy) || copy.page < least || !awaited(core, copy.page))
      return -EBADMSG;
    if (copy.version < core->pages[copy.page].needed)
      return mr_fail(core, -EPROTO, "the home's copy is older than a write notice, of page",
                     copy.page);
    least = copy.page + 1;
  }
  return 0;
}

int mr_on_page_copy(struct mr_core *core, const struct mr_header *header,
                    struct mr_reader *reader) {
  struct pending *pending = &core->pending;
  size_t bytes = reader->left;
  int rc = check_copies(core, header, *reader);
  if (rc < 0)
    return rc;
  if (core->batch_count == 1 && header->from == pending->asked && core->config.sink->now != NULL)
    learn(&core->ways[header->from], bytes, now(core) - pending->since);
  struct copy copy;
  while (reader->left > 0) {
    read_copy(core, reader, &copy);
    take_copy(core, &copy);
    mr_note_home(core, copy.page, header->from);
    pending->awaited--;
  }
  if (pending->awaited > 0)
    return 0;
  if (pending->next < pending->end)
    bring_on(core);
  if (pending_none(core))
    have_all(core);
  return 0;
}
