/* node_start.c: how this node begins, alone or with others, with memory of its own or with theirs,
 * and how it ends.
 */
#define _GNU_SOURCE
#include "self.h"

#include "ready.h"
#include "seen.h"
#include "settings.h"
#include "shared.h"
#include "transport.h"

#include <errno.h>
#include <maru/wait.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEFAULT_MIB 256u
#define MOST_MIB (UINT64_C(1) << 20)
#define ECHO_MS 300

/* ---- the server ----------------------------------------------------------------------- */

static void on_message(void *context, uint16_t from, const void *message, size_t length) {
  (void)context;
  if (mr_self.replay != NULL) {
    mr_replay_hears(mr_self.replay, from, message, length);
    return;
  }
  int rc = mr_core_message(mr_self.core, from, message, length);
  if (rc < 0 && rc != -ESTALE)
    mr_node_die(STATUS_INTERNAL, "node %u sent what is no message of this protocol", from);
}

/* One line a job: `maru launch` shows one of all. Else the first of those that are left says it,
 * and the others stay until it has seen the same, so that it does not name them. */
static _Noreturn void lose(uint16_t lost) {
  if (mr_self.job.met && mr_self.me != (lost == 0 ? 1 : 0)) {
    poll(NULL, 0, ECHO_MS);
    mr_node_end(STATUS_LOST);
  }
  mr_node_die(STATUS_LOST, "lost node %u; the job cannot go on", lost);
}

static void on_down(void *context, uint16_t from, bool farewell) {
  (void)context;
  bool lost = !farewell && !mr_self.leaving;
  if (lost && mr_self.replay != NULL && mr_replay_lost(mr_self.replay, from))
    return;
  if (lost)
    lose(from);
  mr_self.up--;
}

static const struct mr_transport_sink transport_sink = {on_message, on_down};

/* Every peer has left. */
static bool on_over(void *context) {
  (void)context;
  return mr_self.up == 0;
}

static void on_broken(void *context, int error) {
  (void)context;
  if (error == -ENOMEM)
    mr_node_die(STATUS_INTERNAL, "no memory for what other nodes send");
  mr_node_die(STATUS_LOST, "cannot hear other nodes: %s", strerror(-error));
}

static void start_server(uint64_t spin_us) {
  const struct mr_server_config config = {.transport = mr_self.transport,
                                          .ready = mr_self.ready,
                                          .lock = &mr_self.lock,
                                          .sink = &transport_sink,
                                          .spin_ns = (int64_t)spin_us * 1000,
                                          .over = on_over,
                                          .pauses = mr_self_pauses,
                                          .failed = on_broken};
  int rc = mr_server_start(&mr_self.server, &config);
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot start a thread: %s", strerror(-rc));
}

static void show(void) {
  if (mr_self.stand != NULL)
    mr_stand_tell(mr_self.stand, mr_self.nodes, mr_core_counters(mr_self.core), &mr_self.counts);
}

/* Now and then, by a thread of its own. Where the request is still that of the last time, the
 * program's thread waits for something that may never come. */
static void look(void) {
  static uint64_t before;
  pthread_mutex_lock(&mr_self.lock);
  bool looks =
      mr_self.me == 0 && (!mr_self.done || mr_self.apart.waits) && mr_self.requests == before;
  if (looks && mr_self.replay != NULL)
    mr_replay_counts(mr_self.replay);
  if (looks)
    mr_core_look(mr_self.core);
  before = mr_self.requests;
  show();
  pthread_mutex_unlock(&mr_self.lock);
}

static void start_watch(void) {
  int rc = mr_self.me == 0 || mr_self.stand != NULL ? mr_watch_start(&mr_self.watch, look) : 0;
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot start a thread: %s", strerror(-rc));
}

static void in_child(void) {
  if (mr_self.transport != NULL)
    mr_transport_abandon(mr_self.transport);
  mr_self.transport = NULL;
  mr_self.commons = NULL;
}

static void mind_children(void) {
  static bool minded;
  if (!minded && pthread_atfork(NULL, NULL, in_child) != 0)
    mr_node_die(STATUS_UNAVAILABLE, "no memory");
  minded = true;
}

/* ---- beginning --------------------------------------------------------------------------- */

/* A memfd: nodes of the same host copy from there what a home has released. */
static void map_twins(size_t size) {
  mr_self.twins_fd = mr_sealed_memfd("maru-dsm-twins", size);
  void *at = MAP_FAILED;
  errno = mr_self.twins_fd < 0 ? -mr_self.twins_fd : 0;
  if (mr_self.twins_fd >= 0)
    at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, mr_self.twins_fd, 0);
  if (at == MAP_FAILED)
    mr_node_die(STATUS_UNAVAILABLE, "no room for twins of %zu MiB: %s%s", size >> 20,
                strerror(errno),
                errno == ENOMEM  ? "; set MARU_DSM_MIB to less"
                : errno == EFBIG ? "; ulimit -f allows less: raise it, or set MARU_DSM_MIB to less"
                                 : "");
  mr_self.twins = at;
}

/* For a checkpoint or a report. A user who sets MARU_DSM_ACCESS wants it, too: so a test reaches
 * that path on one node, or on one host. */
static bool is_watched(void) {
  return mr_self.checkpoints != NULL || mr_settings_races() || getenv("MARU_DSM_REPORT") != NULL ||
         getenv("MARU_DSM_ACCESS") != NULL;
}

static int create_area(uint32_t pages) {
  mr_self.unwatched = mr_self.unwatched && getenv("MARU_DSM_ACCESS") == NULL;
  mr_self.lone = mr_self.nodes == 1 && !is_watched();
  if (mr_self.lone)
    return mr_area_create_lone(&mr_self.area, MR_ADDRESS, pages);
  enum mr_access_way way =
      mr_self.unwatched ? MR_BY_MPROTECT : mr_settings_way(mr_self.slower, sizeof mr_self.slower);
  return mr_area_create(&mr_self.area, way, MR_ADDRESS, pages,
                        mr_self.unwatched ? NULL : mr_self_fault, NULL);
}

/* `globals`, where there are any, come after what can be allocated; a lone node's stay what they
 * are. */
static void map_memory(const struct mr_globals *globals) {
  size_t whole = mr_self.size + (globals != NULL ? globals->size : 0);
  uint32_t pages = (uint32_t)(whole / MR_PAGE);
  int rc = create_area(pages);
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot map %zu MiB of shared memory at %p: %s%s",
                mr_self.size >> 20, (void *)MR_ADDRESS, strerror(-rc),
                rc == -EEXIST   ? " (something else of this process lies there)"
                : rc == -ENOMEM ? "; set MARU_DSM_MIB to less"
                : rc == -EFBIG  ? "; ulimit -f allows less: raise it, or set MARU_DSM_MIB to less"
                                : "");
  if (globals != NULL && !mr_self.lone)
    rc = mr_area_window(mr_self.area, globals->address, (uint32_t)(mr_self.size / MR_PAGE));
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot share %zu bytes of globals at %p: %s", globals->size,
                globals->address, strerror(-rc));
  mr_self.pages = pages;
  map_twins(whole);
}

/* ---- one memory for all ------------------------------------------------------------------ */

/* Of node 0, which all others may use as they are. */
static void *map_own(int fd, size_t size) {
  void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  return at != MAP_FAILED ? at : NULL;
}

static void *map_first(void) {
  void *at = NULL;
  if (mr_self.me == 0)
    return map_own(mr_area_descriptor(mr_self.area), (size_t)mr_self.pages * MR_PAGE);
  return mr_transport_map(mr_self.transport, 0, MR_SHARED_MEMORY, &at) == 0 ? at : NULL;
}

static struct mr_commons *map_commons(void) {
  void *at = NULL;
  if (mr_self.me == 0)
    return mr_self.commons_fd >= 0 ? map_own(mr_self.commons_fd, sizeof(struct mr_commons)) : NULL;
  return mr_transport_map(mr_self.transport, 0, MR_SHARED_COMMONS, &at) == 0 ? at : NULL;
}

/* Where there is a processor for each node, who has a lock runs. */
static void use_commons(struct mr_commons *commons, uint64_t spin_us) {
  maru_wait_policy_init(&mr_self.awake, MARU_WAIT_SPIN);
  maru_wait_policy_init(&mr_self.asleep, spin_us > 0 ? MARU_WAIT_ADAPTIVE : MARU_WAIT_BLOCK);
  mr_self.spin_ns = (int64_t)spin_us * 1000;
  mr_core_locks_apart(mr_self.core);
  mr_self.commons = commons;
}

static void use_own_commons(void) {
  void *at = mmap(NULL, sizeof(struct mr_commons), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at != MAP_FAILED)
    use_commons(at, 0);
}

/* What a node writes, all see: no page is fetched, and nobody has to know of accesses. */
static void use_one_memory(void *memory, struct mr_commons *commons, uint64_t spin_us) {
  int rc = mr_area_replace(mr_self.area, memory);
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot map node 0's memory: %s", strerror(-rc));
  mr_self.lone = true;
  madvise(commons, sizeof(struct mr_commons), MADV_DONTFORK);
  use_commons(commons, spin_us);
}

/* Other code has other ids and addresses.  All nodes use node 0's memory, or none does. */
static void compare_nodes(uint64_t spin_us) {
  int64_t mine = (int64_t)(mr_file_sum("/proc/self/exe") >> 1);
  bool watched = is_watched();
  void *memory = watched ? NULL : map_first();
  struct mr_commons *commons = watched ? NULL : map_commons();
  if (mr_self.me == 0)
    mr_node_request(MR_FETCH_ADD, MR_PROGRAM, mine);
  if (memory != NULL && commons != NULL)
    mr_node_request(MR_FETCH_ADD, MR_ONE_MEMORY, 1);
  mr_node_request(MR_BARRIER, MR_JOINED, mr_self.nodes);
  if (mr_node_request(MR_FETCH_ADD, MR_PROGRAM, 0) != mine)
    mr_node_die(STATUS_DATA, "this node's program is not node 0's; all nodes run the same file");
  if (mr_node_request(MR_FETCH_ADD, MR_ONE_MEMORY, 0) == mr_self.nodes) {
    use_one_memory(memory, commons, spin_us);
    return;
  }
  if (memory != NULL)
    munmap(memory, (size_t)mr_self.pages * MR_PAGE);
  if (commons != NULL)
    munmap(commons, sizeof(struct mr_commons));
}

static void prepare_reports(const struct mr_globals *globals) {
  mr_self.heat = mr_heat_create(mr_self.pages, mr_self.me);
  if (mr_self.heat == NULL && getenv("MARU_DSM_REPORT") != NULL)
    mr_node_die(STATUS_UNAVAILABLE, "no memory for the report that was asked for");
  bool races = mr_settings_races();
  if (races && (mr_self.heat == NULL || mr_races_create(&mr_self.races, mr_self.pages,
                                                        mr_self.nodes, mr_self_race, NULL) < 0))
    mr_node_die(STATUS_UNAVAILABLE, "no memory to look for races");
  if (globals != NULL)
    mr_heat_site(mr_self.heat, mr_self.size, globals->size, "globals");
}

/* Pages that a node copies out of another's memory would be in no journal. */
static void join(const struct mr_core_config *config, const struct mr_share *share,
                 uint32_t *incarnations) {
  const struct mr_joining how = {.epoch = mr_self_epoch(),
                                 .settings = mr_settings_common(config),
                                 .share = mr_self.replay == NULL ? share : NULL,
                                 .replays = mr_self.replay != NULL,
                                 .again =
                                     mr_self.replay != NULL && mr_replay_repeats(mr_self.replay)};
  if (mr_self.nodes > 1)
    mr_membership_join(&mr_self.job, &how, &mr_self.transport, incarnations);
}

void mr_node_start(const struct mr_globals *globals, unsigned mib) {
  static uint32_t incarnations[MR_JOB_NODES_MAX];
  if (mr_self.core != NULL)
    mr_node_die(STATUS_USAGE, "maru_dsm_init was called twice");
  if (mr_self.leaving)
    mr_node_die(STATUS_USAGE, "maru_dsm_init after maru_dsm_exit: a node joins its job once");
  mr_membership_find(&mr_self.job);
  mr_end_as(mr_self.job.me);
  mr_self.nodes = mr_self.job.nodes;
  mr_self.me = mr_self.job.me;
  mr_self.up = (uint16_t)(mr_self.nodes - 1);
  mr_self.size = (size_t)mr_environment_number("MARU_DSM_MIB", mib, 1, MOST_MIB) << 20;
  mr_self_open_checkpoints();
  if (mr_self.checkpoints != NULL)
    mr_membership_hold_room(mr_self.nodes);
  map_memory(globals);
  struct mr_core_config config = mr_settings_core(mr_self.nodes, mr_self.me, mr_self.pages);
  uint64_t spin_us = mr_settings_spin_us(mr_self.nodes);
  mr_see(MR_ALLOCATED, mr_area_program(mr_self.area), mr_self.size);
  if (globals != NULL)
    mr_see(MR_GLOBALS, globals->address, globals->size);
  prepare_reports(globals);
  struct mr_link *link = mr_self.nodes > 1 ? mr_settings_link() : NULL;
  mr_self.commons_fd = mr_self.nodes > 1 && mr_self.me == 0 && !is_watched()
                           ? mr_sealed_memfd("maru-dsm-commons", sizeof(struct mr_commons))
                           : -1;
  const struct mr_share share = {mr_self.pages, mr_area_descriptor(mr_self.area), mr_self.twins_fd,
                                 mr_self.commons_fd};
  join(&config, &share, incarnations);
  /* Before anything is sent. */
  if (link != NULL)
    mr_transport_slow(mr_self.transport, link);
  mr_self_create_core(&config, incarnations);
  if (mr_node_restores())
    mr_self_load_core();
  if (mr_self.replay != NULL)
    mr_replay_begin(mr_self.replay, &mr_self.job.job);
  if (mr_self.nodes > 1) {
    mind_children();
    mr_self.stand = mr_stand_open(mr_self.me);
    mr_self.ready = mr_ready_open(mr_self.me);
    mr_ready_attach(mr_self.ready, MR_PROGRAM_LISTENS);
    start_server(spin_us);
    start_watch();
    if (!mr_node_restores()) /* images name theirs */
      compare_nodes(spin_us);
  } else if (mr_self.lone) {
    mind_children();
    use_own_commons();
  }
  if (mr_self.me == 0 && !mr_self.lone && mr_self.slower[0] != 0)
    fprintf(stderr, "maru: %s\n", mr_self.slower);
  mr_heat_start(mr_self.heat);
  mr_self_start_checkpoints();
}

void maru_dsm_init(void) { mr_node_start(NULL, DEFAULT_MIB); }
void maru_dsm_init_unwatched(void) {
  mr_self.unwatched = true;
  mr_node_start(NULL, DEFAULT_MIB);
}

void maru_dsm_exit(void) {
  mr_node_no_more_checkpoints();
  mr_node_request(MR_BARRIER, MR_LEAVING, mr_self.nodes);
  if (mr_self.nodes > 1) {
    /* Relaxed, here and below: this thread's handlers alone see it. */
    atomic_store_explicit(&mr_self.inside, true, memory_order_relaxed);
    if (mr_self.watch != NULL)
      mr_watch_stop(mr_self.watch);
    mr_self.watch = NULL;
    pthread_mutex_lock(&mr_self.lock);
    show(); /* stays on the board */
    mr_stand_close(mr_self.stand);
    mr_self.stand = NULL;
    mr_self.leaving = true;
    if (mr_transport_farewell(mr_self.transport) < 0)
      mr_node_die(STATUS_INTERNAL, "no memory to say farewell");
    pthread_mutex_unlock(&mr_self.lock);
    mr_server_join(mr_self.server);
    mr_self.server = NULL;
    mr_ready_detach(mr_self.ready, MR_PROGRAM_LISTENS);
    mr_ready_close(mr_self.ready);
    mr_self.ready = NULL;
    mr_transport_close(mr_self.transport);
    mr_self.transport = NULL;
    if (mr_self.replay != NULL)
      mr_replay_close(mr_self.replay);
    mr_self.replay = NULL;
    atomic_store_explicit(&mr_self.inside, false, memory_order_relaxed);
  }
  /* All is done: a node that does not answer now keeps none. */
  if (mr_self.job.met && mr_launcher_leave(mr_self.job.launcher) < 0)
    fprintf(stderr, "maru: node %u: the launcher does not answer a farewell; goes on\n",
            mr_self.me);
  mr_self.job.met = false;
  mr_end_tells(MR_LAUNCHER_NONE);
  mr_see(MR_ALLOCATED, NULL, 0);
  mr_see(MR_GLOBALS, NULL, 0);
  mr_heat_tell(mr_self.heat, mr_core_counters(mr_self.core));
  mr_self.heat = NULL;
  mr_core_destroy(mr_self.core);
  mr_self.core = NULL;
  if (mr_self.races != NULL)
    mr_races_destroy(mr_self.races);
  mr_self.races = NULL;
  mr_area_destroy(mr_self.area);
  mr_self.area = NULL;
  munmap(mr_self.twins, (size_t)mr_self.pages * MR_PAGE);
  close(mr_self.twins_fd);
  if (mr_self.commons != NULL)
    munmap(mr_self.commons, sizeof(struct mr_commons));
  mr_self.commons = NULL;
  if (mr_self.commons_fd >= 0)
    close(mr_self.commons_fd);
  mr_self.used = 0;
}
