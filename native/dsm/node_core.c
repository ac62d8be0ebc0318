/* node_core.c: what the core asks of this node. */
#define _GNU_SOURCE
#include "self.h"

#include "ready.h"
#include "transport.h"

#include <errno.h>
#include <maru/wait.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RACES_SAID 32u

static void on_send(void *context, uint16_t to, const void *message, size_t length) {
  (void)context;
  if (mr_self.asking && mr_self.server != NULL)
    mr_server_expect(mr_self.server);
  mr_ready_sends(mr_self.ready, to);
  int rc = mr_self.replay != NULL ? mr_replay_sends(mr_self.replay, to, message, length)
                                  : mr_transport_send(mr_self.transport, to, message, length);
  if (rc < 0)
    mr_node_die(STATUS_INTERNAL, "cannot send %zu bytes to node %u: %s", length, to, strerror(-rc));
}

static void on_protect(void *context, uint32_t page, uint32_t count, enum mr_access access) {
  (void)context;
  for (uint32_t each = page; each < page + count; each++)
    mr_heat_allow(mr_self.heat, each, access,
                  mr_area_runtime(mr_self.area) + (size_t)each * MR_PAGE,
                  mr_self.twins + (size_t)each * MR_PAGE);
  int rc = mr_area_allow(mr_self.area, page, count, access);
  if (rc < 0)
    mr_node_die(STATUS_INTERNAL, "cannot set the rights of page %u: %s%s", page, strerror(-rc),
                rc == -ENOMEM ? " (vm.max_map_count?)" : "");
}

static void on_done(void *context, int64_t result) {
  (void)context;
  mr_self.result = result;
  mr_self.done = true;
}

static void on_failed(void *context, int error, const char *why) {
  (void)context;
  mr_node_die(STATUS_INTERNAL, "%s: %s", why, strerror(-error));
}

static uint64_t on_now(void *context) {
  (void)context;
  return (uint64_t)maru_now_ns();
}

void mr_node_on_stuck(void (*advise)(char *words, size_t size)) { mr_self.advise = advise; }

_Noreturn void mr_self_stuck(const char *what) {
  char advice[160] = "";
  if (mr_self.advise != NULL)
    mr_self.advise(advice, sizeof advice);
  mr_node_die(STATUS_INTERNAL, "%s%s", what, advice);
}

/* Called on node 0 alone. */
static void on_stuck(void *context, const struct mr_wait *waits) {
  char words[160], what[sizeof words + 64];
  (void)context;
  mr_watch_words(waits, mr_self.nodes, words, sizeof words);
  snprintf(what, sizeof what, "the job cannot go on, every node waits: %s", words);
  mr_self_stuck(what);
}

static int on_copy(void *context, uint16_t home, uint32_t page, void *bytes, uint64_t *version) {
  (void)context;
  return mr_transport_copy(mr_self.transport, home, page, bytes, version);
}

static void on_locked(void *context, uint32_t id, uint16_t giver, bool behind, uint64_t ns) {
  (void)context;
  mr_heat_locked(mr_self.heat, id, giver, behind, ns);
}

_Noreturn void mr_self_misuse(uint32_t object, int error) {
  mr_node_die(STATUS_INTERNAL, MR_MISUSED " (%u): %s", object, strerror(error));
}

void mr_self_give_latch(uint32_t id) {
  if (mr_latch_give(&mr_self.commons->locks[id], mr_self.me) < 0)
    mr_self_misuse(id, EPERM);
}

static void on_unlock(void *context, uint32_t id) {
  (void)context;
  mr_self_give_latch(id);
}

/* A barrier to which all have come is about to be left. */
static bool waits_there(uint32_t object) {
  if (mr_self.apart.op == MR_LOCK)
    return mr_latch_waits(&mr_self.commons->locks[object], mr_self.me);
  /* Relaxed: a look. */
  uint32_t told = atomic_load_explicit(&mr_self.commons->barriers[object - MR_BARRIERS].told,
                                       memory_order_relaxed);
  return (told & ~MARU_WAIT_ARMED) == mr_self.apart.turn;
}

static bool on_apart(void *context, struct mr_wait *wait) {
  (void)context;
  if (!mr_self.apart.waits || !waits_there(mr_self.apart.object))
    return false;
  *wait = (struct mr_wait){.op = mr_self.apart.op, .id = mr_self.apart.object, .waits = true};
  return true;
}

static const void *on_gives(void *context, uint32_t page, const void *memory) {
  (void)context;
  return mr_replay_gives(mr_self.replay, page, memory);
}

/* Without a report nobody wants to know of locks: no clock is read for them. */
static const struct mr_core_sink core_sink = {.send = on_send,
                                              .protect = on_protect,
                                              .done = on_done,
                                              .failed = on_failed,
                                              .now = on_now,
                                              .stuck = on_stuck,
                                              .copy = on_copy,
                                              .unlock = on_unlock,
                                              .apart = on_apart};

/* One write, whatever other threads do.  The job goes on: its result may be right all the same. */
void mr_self_race(void *context, uint32_t page, uint32_t first, uint32_t last, uint16_t one,
                  uint16_t other) {
  char line[256];
  size_t at = (size_t)page * MR_PAGE + first, begin;
  const char *site = mr_heat_site_of(mr_self.heat, at, &begin);
  (void)context;
  if (mr_self.races_said++ > RACES_SAID)
    return;
  int length =
      mr_self.races_said <= RACES_SAID
          ? snprintf(line, sizeof line,
                     "maru: race: %.120s, bytes %zu to %zu (page %u): nodes %u and %u wrote "
                     "them, and nothing orders that\n",
                     site, at - begin, at - begin + last - first, page, one, other)
          : snprintf(line, sizeof line, "maru: race: there are more on node %u's pages; not said\n",
                     mr_self.me);
  (void)!write(STDERR_FILENO, line, (size_t)length);
}

void mr_self_create_core(struct mr_core_config *config, const uint32_t *incarnations) {
  config->epoch = mr_self_epoch();
  config->replays = mr_self.replay != NULL;
  /* What a node measured would be another where it repeats. */
  if (config->replays)
    config->limits.part_ns = 0;
  config->compares = mr_self.heat != NULL;
  config->unseen = mr_self.unwatched;
  mr_self.sink = core_sink;
  mr_self.sink.gives = config->replays ? on_gives : NULL;
  mr_self.sink.locked = mr_self.heat != NULL ? on_locked : NULL;
  config->sink = &mr_self.sink;
  config->incarnations = incarnations;
  config->memory = mr_area_runtime(mr_self.area);
  config->twins = mr_self.twins;
  config->races = mr_self.races;
  config->shown = mr_self.transport != NULL ? mr_transport_shown(mr_self.transport) : NULL;
  int rc = mr_core_create(&mr_self.core, config);
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot begin: %s", strerror(-rc));
}
