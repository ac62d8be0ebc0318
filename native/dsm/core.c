#define _GNU_SOURCE
#include "state.h"

#include <stdlib.h>
#include <sys/mman.h>

static int (*const handlers[MR_MESSAGE_TYPES])(struct mr_core *, const struct mr_header *,
                                               struct mr_reader *) = {
    [MR_FETCH] = mr_on_fetch,
    [MR_PAGE_COPY] = mr_on_page_copy,
    [MR_DIFF] = mr_on_diff,
    [MR_DIFF_KEPT] = mr_on_diff_kept,
    [MR_DIFF_AGAIN] = mr_on_diff_again,
    [MR_SYNC] = mr_on_sync,
    [MR_GRANT] = mr_on_grant,
    [MR_REFUSED] = mr_on_refused,
    [MR_NEWS] = mr_on_news,
    [MR_NEWS_HEARD] = mr_on_news,
    [MR_LOOK] = mr_on_look,
    [MR_SEEN] = mr_on_seen,
    [MR_NAMES_NEXT] = mr_on_names_next,
    [MR_HOLDS] = mr_on_holds,
    [MR_MEET] = mr_on_meet,
};

bool mr_core_is_look(const void *message, size_t length) {
  struct mr_header header;
  struct mr_reader reader = {.at = message, .left = length};
  mr_take(&reader, &header, sizeof header);
  return !reader.bad && mr_looks(header.type);
}

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
  if (header.epoch != core->config.epoch || header.incarnation != core->incarnations[from])
    return -ESTALE;
  int rc = handlers[header.type](core, &header, &reader);
  core->received += rc >= 0 && !mr_looks(header.type);
  return rc < 0 ? rc : mr_unless_stopped(core);
}

/* ---- life ----------------------------------------------------------------------------- */

static bool valid(const struct mr_core_config *config) {
  return config->nodes >= 1 && config->nodes <= MR_NODES_MAX && config->me < config->nodes &&
         config->pages >= 1 && config->pages <= MR_PAGES_MAX && config->home_run >= 1 &&
         config->objects >= 1 && config->objects <= MR_OBJECTS_MAX &&
         (unsigned)config->fetch < MR_FETCH_POLICIES &&
         (unsigned)config->homes <= MR_HOMES_MIGRATE &&
         (config->races == NULL || config->homes == MR_HOMES_STAY) &&
         config->migrate_after <= MR_MIGRATE_AFTER_MAX &&
         config->grant_bytes <= MR_GRANT_BYTES_MAX && config->limits.batch <= MR_BATCH_MAX &&
         config->limits.range_gap <= MR_RANGE_GAP_MAX && (uintptr_t)config->memory % 64 == 0 &&
         (uintptr_t)config->twins % 64 == 0;
}

static void complete(struct mr_fetch_limits *limits) {
  limits->range_bytes = limits->range_bytes != 0 ? limits->range_bytes : MR_RANGE_BYTES;
  limits->range_gap = limits->range_gap != 0 ? limits->range_gap : MR_RANGE_GAP;
  limits->batch = limits->batch != 0 ? limits->batch : MR_BATCH;
  limits->part_ns = limits->part_ns != 0 ? limits->part_ns : MR_PART_NS;
}

const char *mr_fetch_name(enum mr_fetch fetch) {
  static const char *const names[MR_FETCH_POLICIES] = {"adaptive", "page", "range", "stamp"};
  return names[fetch];
}

static int allocate_history(struct mr_core *core) {
  enum mr_fetch fetch = core->config.fetch;
  bool diffs = fetch == MR_FETCH_RANGE || fetch == MR_FETCH_ADAPTIVE;
  return mr_history_create(&core->history, core->config.pages,
                           diffs ? core->config.limits.range_gap : 0,
                           fetch == MR_FETCH_STAMP || fetch == MR_FETCH_ADAPTIVE);
}

/* Of a large table little is used, and it is made anew with each history (mr_core_renew). So its
 * memory comes when it is used, and need not be cleared. */
#define LARGE ((size_t)1 << 20)

static void *zeros(size_t count, size_t size) {
  if (count * size < LARGE)
    return calloc(count, size);
  void *at = mmap(NULL, count * size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at != MAP_FAILED ? at : NULL;
}

static void free_zeros(void *at, size_t count, size_t size) {
  if (at == NULL || count * size < LARGE)
    free(at);
  else
    munmap(at, count * size);
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
  core->pages = zeros(config->pages, sizeof *core->pages);
  core->time = calloc(nodes, sizeof *core->time);
  core->floor = calloc(nodes, sizeof *core->floor);
  core->told = calloc(nodes, sizeof *core->told);
  core->later = calloc(nodes, sizeof *core->later);
  core->granted = calloc(nodes, sizeof *core->granted);
  core->lowest = calloc(nodes, sizeof *core->lowest);
  core->held = calloc(nodes * nodes, sizeof *core->held);
  core->ways = calloc(nodes, sizeof *core->ways);
  core->dirty = zeros(config->pages, sizeof *core->dirty);
  core->notices = zeros(config->pages, sizeof *core->notices);
  core->incoming = zeros(config->pages, sizeof *core->incoming);
  core->locks = calloc(config->objects, sizeof *core->locks);
  return core->incarnations != NULL && core->pages != NULL && core->time != NULL &&
         core->floor != NULL && core->told != NULL && core->lowest != NULL && core->later != NULL &&
         core->granted != NULL && core->held != NULL && allocate_round(&core->round, nodes) &&
         allocate_round(&core->heard, nodes) && core->ways != NULL && core->dirty != NULL &&
         core->notices != NULL && core->incoming != NULL && core->locks != NULL &&
         mr_manager_create(&core->manager, config->nodes,
                           (config->objects + config->nodes - 1) / config->nodes) == 0 &&
         mr_intervals_create(&core->log, config->nodes) == 0 && allocate_history(core) == 0 &&
         mr_look_create(&core->look, config->nodes) == 0 &&
         (!config->prefetch || mr_habits_create(&core->habits, config->pages) == 0);
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
  complete(&c->config.limits);
  if (config->migrate_after == 0)
    c->config.migrate_after = MR_MIGRATE_AFTER;
  if (config->grant_bytes == 0)
    c->config.grant_bytes = MR_GRANT_BYTES;
  if (config->log_bytes == 0)
    c->config.log_bytes = MR_LOG_BYTES;
  c->config.log_most = config->log_most != 0 ? config->log_most : MR_LOG_MOST;
  c->code = mr_diff_best();
  c->flushed = mr_flushed;
  c->tell_manager = mr_tell_manager;
  c->lock_is_held = mr_lock_is_held;
  if (!allocate(c)) {
    mr_core_destroy(c);
    return -ENOMEM;
  }
  memcpy(c->incarnations, config->incarnations, config->nodes * sizeof *c->incarnations);
  c->config.incarnations = c->incarnations;
  /* All copies are alike, all zero: nothing has to be fetched, and no page entry is touched. */
  c->reads.expected = c->writes.expected = UINT32_MAX; /* nothing was in order yet */
  mr_enter_round(c, 0);
  *core = c;
  return 0;
}

void mr_core_destroy(struct mr_core *core) {
  if (core->manager != NULL)
    mr_manager_destroy(core->manager);
  if (core->log != NULL)
    mr_intervals_destroy(core->log);
  if (core->history != NULL)
    mr_history_destroy(core->history);
  mr_look_destroy(&core->look);
  mr_locks_destroy(core);
  free(core->habits);
  free(core->ways);
  free(core->out.bytes);
  free(core->carried.bytes);
  free(core->came.bytes);
  free_zeros(core->incoming, core->config.pages, sizeof *core->incoming);
  free_zeros(core->notices, core->config.pages, sizeof *core->notices);
  free_zeros(core->dirty, core->config.pages, sizeof *core->dirty);
  free(core->held);
  free(core->heard.in);
  free(core->heard.least);
  free(core->round.in);
  free(core->round.least);
  free(core->granted);
  free(core->later);
  free(core->lowest);
  free(core->told);
  free(core->floor);
  free(core->time);
  free_zeros(core->pages, core->config.pages, sizeof *core->pages);
  free(core->incarnations);
  free(core);
}

enum mr_access mr_core_access(const struct mr_core *core, uint32_t page) {
  return mr_habits_brought(core->habits, page) ? MR_NONE : access_of(core, page);
}

bool mr_core_was_here(const struct mr_core *core, uint32_t page) {
  return core->pages[page].version != 0;
}

const struct mr_core_counters *mr_core_counters(const struct mr_core *core) {
  return &core->counters;
}

uint64_t mr_core_log_length(const struct mr_core *core) { return mr_intervals_held(core->log); }
uint64_t mr_core_log_bytes(const struct mr_core *core) { return mr_intervals_bytes(core->log); }