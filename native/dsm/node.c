/* node.c: a node of a job (maru/dsm.h): the shell around the protocol core.
 *
 * The program's thread asks the core, in a call or in the handler of a fault,
 * and waits until the core says done.  The *server* thread feeds the core with what other
 * nodes send.  One mutex guards core and transport.  A fault cannot
 * come while this thread holds it: neither core nor transport touch the program's view.
 *
 * There is one node in a process, as there is one set of signal handlers and one
 * fixed address: hence the one static object.
 *
 * Over 500 lines: all that touches that object stands here.
 */
#define _GNU_SOURCE
#include "node.h"

#include "access.h"
#include "checkpoint.h"
#include "core.h"
#include "heat.h"
#include "latch.h"
#include "membership.h"
#include "races.h"
#include "save.h"
#include "seen.h"
#include "serve.h"
#include "settings.h"
#include "shared.h"
#include "stack.h"
#include "stand.h"
#include "store.h"
#include "watch.h"

#include <errno.h>
#include <maru/wait.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define DEFAULT_MIB 256u
#define MOST_MIB (UINT64_C(1) << 20)
#define RACES_SAID 32u
#define ECHO_MS 300

static struct {
  pthread_mutex_t lock;
  struct mr_core *core;
  struct mr_core_sink sink;
  struct mr_area *area;
  struct mr_transport *transport; /* NULL: the only node */
  struct mr_server *server;
  struct mr_ready *ready; /* NULL: nobody asked for a daemon beside the job */
  struct mr_watch *watch; /* node 0's, and where there is a stand */
  bool asking;            /* the program's thread makes a request; under the lock, as are those: */
  bool done;              /* it */
  uint64_t requests;      /* so many */
  int64_t result;
  pid_t owner;
  uint16_t nodes, me, up;  /* up: peers that have not left */
  bool leaving, unwatched; /* unwatched: the program says what it accesses */
  bool lone;               /* nobody has to know what it accesses: alone, or all use one memory */
  char slower[160];        /* why accesses are seen by a slower way; empty: by none */
  struct mr_membership job;
  size_t used, size; /* bytes of shared memory to be given out */
  uint32_t pages;    /* with those of globals */
  uint8_t *twins;
  int twins_fd;
  struct mr_stand *stand; /* NULL: nowhere to show it */
  struct mr_stand_counts counts;
  struct mr_heat *heat;   /* NULL: nobody asked */
  struct mr_races *races; /* the same */
  unsigned races_said;
  struct mr_checkpoints *checkpoints; /* NULL: nobody asked for any */
  uint32_t parked;                    /* the program's thread stands still for that one; 0: none */
  const struct mr_part *part;         /* the program's part of them; NULL: there is none */
  /* Where a request was begun that an image is taken in; how a process goes on from there. */
  ucontext_t here;
  bool captures;
  enum { ANEW, PARKED, WAITING } resumed;
  bool restoring; /* its core goes on from a checkpoint, its program does not yet; under the lock */
  /* Locks of nodes that have one memory, by their ids, and how the program's thread waits for
   * them; NULL: the protocol has them. */
  struct mr_latch *latches;
  int latches_fd;
  struct maru_wait_policy awake, asleep;
  int64_t spin_ns;
  uint32_t awaited;             /* the latch that the program's thread waits for */
  const struct mr_latch *first; /* as its first, there; NULL: it does not; under the lock */
} node = {.lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP};

/* ---- what the core does ---------------------------------------------------------- */

static void on_send(void *context, uint16_t to, const void *message, size_t length) {
  (void)context;
  if (node.asking && node.server != NULL)
    mr_server_expect(node.server);
  mr_ready_sends(node.ready, to);
  int rc = mr_transport_send(node.transport, to, message, length);
  if (rc < 0)
    mr_node_die(STATUS_INTERNAL, "cannot send %zu bytes to node %u: %s", length, to, strerror(-rc));
}

static void on_protect(void *context, uint32_t page, uint32_t count, enum mr_access access) {
  (void)context;
  for (uint32_t each = page; each < page + count; each++)
    mr_heat_allow(node.heat, each, access, mr_area_runtime(node.area) + (size_t)each * MR_PAGE,
                  node.twins + (size_t)each * MR_PAGE);
  int rc = mr_area_allow(node.area, page, count, access);
  if (rc < 0)
    mr_node_die(STATUS_INTERNAL, "cannot set the rights of page %u: %s%s", page, strerror(-rc),
                rc == -ENOMEM ? " (vm.max_map_count?)" : "");
}

static void on_done(void *context, int64_t result) {
  (void)context;
  node.result = result;
  node.done = true;
}

static void on_failed(void *context, int error, const char *why) {
  (void)context;
  mr_node_die(STATUS_INTERNAL, "%s: %s", why, strerror(-error));
}

static uint64_t on_now(void *context) {
  (void)context;
  return (uint64_t)maru_now_ns();
}

/* Called on node 0 alone. */
static void on_stuck(void *context, const struct mr_wait *waits) {
  char words[160];
  (void)context;
  mr_watch_words(waits, node.nodes, words, sizeof words);
  mr_node_die(STATUS_INTERNAL, "the job cannot go on, every node waits: %s", words);
}

static int on_copy(void *context, uint16_t home, uint32_t page, void *bytes, uint64_t *version) {
  (void)context;
  return mr_transport_copy(node.transport, home, page, bytes, version);
}

static void on_locked(void *context, uint32_t id, uint16_t giver, bool behind, uint64_t ns) {
  (void)context;
  mr_heat_locked(node.heat, id, giver, behind, ns);
}

static _Noreturn void misuse(uint32_t lock, int error) {
  mr_node_die(STATUS_INTERNAL, MR_MISUSED " (%u): %s", lock, strerror(error));
}

static void give_latch(uint32_t id) {
  if (mr_latch_give(&node.latches[id], node.me) < 0)
    misuse(id, EPERM);
}

static void on_unlock(void *context, uint32_t id) {
  (void)context;
  give_latch(id);
}

/* A latch that nobody holds is about to be taken. */
static bool on_apart(void *context, struct mr_wait *wait) {
  (void)context;
  if (node.first == NULL || mr_latch_holder(node.first) == MR_LATCH_NOBODY)
    return false;
  *wait = (struct mr_wait){.op = MR_LOCK, .id = node.awaited, .waits = true};
  return true;
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
static void on_race(void *context, uint32_t page, uint32_t first, uint32_t last, uint16_t one,
                    uint16_t other) {
  char line[256];
  size_t at = (size_t)page * MR_PAGE + first, begin;
  const char *site = mr_heat_site_of(node.heat, at, &begin);
  (void)context;
  if (node.races_said++ > RACES_SAID)
    return;
  int length =
      node.races_said <= RACES_SAID
          ? snprintf(line, sizeof line,
                     "maru: race: %.120s, bytes %zu to %zu (page %u): nodes %u and %u wrote "
                     "them, and nothing orders that\n",
                     site, at - begin, at - begin + last - first, page, one, other)
          : snprintf(line, sizeof line, "maru: race: there are more on node %u's pages; not said\n",
                     node.me);
  (void)!write(STDERR_FILENO, line, (size_t)length);
}

/* ---- requests of the program's thread ---------------------------------------------- */

static void node_begin(void) {
  if (pthread_mutex_lock(&node.lock) == EDEADLK)
    mr_node_die(STATUS_INTERNAL,
                "a signal handler used the shared memory while a request was under way");
  node.asking = true;
  node.done = false;
  node.requests++;
}

/* By the program's thread alone, and not under the lock: the watch reads them meanwhile. Relaxed:
 * figures that are looked at. */
static void count(uint64_t *figure, uint64_t more) {
  __atomic_store_n(figure, *figure + more, __ATOMIC_RELAXED);
}

static int64_t await(int rc, enum mr_stand_wait what) {
  bool waits = !node.done && node.stand != NULL;
  node.asking = false;
  pthread_mutex_unlock(&node.lock);
  if (rc < 0)
    mr_node_die(STATUS_INTERNAL, "a request was refused: %s%s", strerror(-rc),
                rc == -EBUSY ? " (a second thread uses the shared memory)" : "");
  if (node.server != NULL) {
    int64_t since = waits ? maru_now_ns() : 0;
    mr_server_await(node.server, &node.done);
    if (waits) {
      count(&node.counts.waits[what], 1);
      count(&node.counts.waited_ns[what], (uint64_t)(maru_now_ns() - since));
    }
  } else if (!node.done)
    mr_node_die(STATUS_INTERNAL, "the only node waits, and nobody can end that");
  return node.result;
}

static void ready(void) {
  if (node.core == NULL)
    mr_node_die(STATUS_USAGE, "maru_dsm_init was not called");
  if (node.owner != getpid())
    /* It would write into the node's connections. */
    mr_node_die(STATUS_USAGE, "a child process cannot use the node's shared memory");
}

static void stand(uint32_t number) {
  pthread_mutex_lock(&node.lock);
  node.parked = number;
  pthread_mutex_unlock(&node.lock);
}

/* What it wrote is home, then it stands still until that checkpoint is over. The next one does not
 * take it for parked (rests). */
static void park(uint32_t number) {
  node_begin();
  await(mr_core_sync(node.core, MR_FETCH_ADD, MR_FENCE, 0), MR_STAND_LOCKS);
  stand(number);
  mr_checkpoints_await(node.checkpoints, number);
  stand(0);
}

/* At the begin of a request, where checkpoints are asked for.  Whether this process waits on in one
 * that another process has begun: then with the lock. */
static bool goes_on(void) {
  mr_checkpoints_come(node.checkpoints);
  bool waits = node.resumed == WAITING, anew = node.resumed == ANEW;
  node.resumed = ANEW;
  if (!anew) {
    node.part->restored();
    pthread_mutex_lock(&node.lock);
    node.restoring = false;
  }
  if (waits) {
    node.asking = true;
    node.requests++;
  } else if (!anew) {
    pthread_mutex_unlock(&node.lock);
  } else if (node.captures) {
    /* What stdio holds is in no image. */
    node.part->flush();
    if (__fpending(stdout) > 0)
      fflush(stdout);
    if (node.part->reads_ahead() && lseek(STDIN_FILENO, 0, SEEK_CUR) >= 0)
      fflush(stdin); /* the file is where the program is then */
    uint32_t wanted = mr_checkpoints_wanted(node.checkpoints);
    if (wanted != 0)
      park(wanted);
  }
  return waits;
}

/* In the frame of a request, which stays until it is done: there another process may come back. */
#define CAPTURE()                                                                                  \
  do {                                                                                             \
    if (node.captures)                                                                             \
      getcontext(&node.here);                                                                      \
  } while (0)

static void leaves(void) {
  if (node.checkpoints != NULL)
    mr_checkpoints_leave(node.checkpoints);
}

static int64_t stop_here(uint64_t one, uint64_t two, uint64_t three) {
  (void)one;
  (void)two;
  (void)three;
  ready();
  CAPTURE();
  goes_on();
  leaves();
  return 0;
}

void maru_checkpoint(void) {
  if (node.captures)
    mr_stack_call(stop_here, 0, 0, 0);
}

int maru_on_restore(void (*call)(void *), void *argument) {
  return node.checkpoints != NULL ? node.part->on_restore(call, argument) : 0;
}

static int begin(uint64_t op, uint64_t object, uint64_t argument) {
  if (node.checkpoints != NULL && goes_on())
    return 0;
  node_begin();
  return mr_core_sync(node.core, (enum mr_op)op, (uint32_t)object, (int64_t)argument);
}

static int64_t request(uint64_t op, uint64_t object, uint64_t argument) {
  ready();
  mr_heat_waits(node.heat);
  CAPTURE();
  int64_t result =
      await(begin(op, object, argument), op == MR_BARRIER ? MR_STAND_BARRIERS : MR_STAND_LOCKS);
  mr_heat_waited(node.heat, op == MR_BARRIER ? MR_HEAT_BARRIER : MR_HEAT_LOCK);
  leaves();
  return result;
}

static int begin_swap(uint64_t object, uint64_t expected, uint64_t value) {
  if (node.checkpoints != NULL && goes_on())
    return 0;
  node_begin();
  return mr_core_swap(node.core, (uint32_t)object, (int64_t)expected, (int64_t)value);
}

static int64_t swap(uint64_t object, uint64_t expected, uint64_t value) {
  ready();
  mr_heat_waits(node.heat);
  CAPTURE();
  int64_t before = await(begin_swap(object, expected, value), MR_STAND_LOCKS);
  mr_heat_waited(node.heat, MR_HEAT_LOCK);
  leaves();
  return before;
}

int64_t mr_node_swap(uint32_t object, int64_t expected, int64_t value) {
  return mr_stack_call(swap, object, (uint64_t)expected, (uint64_t)value);
}

/* ---- locks in the one memory ------------------------------------------------------------- */

/* As its first. */
static int64_t wait_at_latch(uint64_t id, uint64_t two, uint64_t three) {
  struct mr_latch *latch = &node.latches[id];
  int64_t since = maru_now_ns();
  (void)two;
  (void)three;
  pthread_mutex_lock(&node.lock);
  node.awaited = (uint32_t)id;
  node.first = latch;
  node.requests++;
  pthread_mutex_unlock(&node.lock);
  mr_latch_take(latch, node.me, &node.asleep);
  pthread_mutex_lock(&node.lock);
  node.first = NULL;
  mr_core_went_on(node.core);
  pthread_mutex_unlock(&node.lock);
  if (node.stand != NULL) {
    count(&node.counts.waits[MR_STAND_LOCKS], 1);
    count(&node.counts.waited_ns[MR_STAND_LOCKS], (uint64_t)(maru_now_ns() - since));
  }
  return 0;
}

static void lock_latch(uint32_t id) {
  struct mr_latch *latch = &node.latches[id];
  if (mr_latch_try(latch, node.me))
    return;
  if (mr_latch_holder(latch) == node.me)
    misuse(id, EBUSY);
  if (node.spin_ns > 0 &&
      mr_latch_try_until(latch, node.me, &node.awake, maru_now_ns() + node.spin_ns))
    return;
  mr_stack_call(request, MR_LOCK, id, 0);
  mr_stack_call(wait_at_latch, id, 0, 0);
  mr_stack_call(request, MR_UNLOCK, id, 0);
}

static int64_t use_latch(enum mr_op op, uint32_t id) {
  if (op == MR_TRY)
    return mr_latch_try(&node.latches[id], node.me);
  if (op == MR_LOCK)
    lock_latch(id);
  else
    give_latch(id);
  return 0;
}

int64_t mr_node_request(enum mr_op op, uint32_t object, int64_t argument) {
  if (node.latches != NULL && object < MR_LOCKS + MARU_DSM_IDS)
    return use_latch(op, object);
  int64_t result = mr_stack_call(request, op, object, (uint64_t)argument);
  if (node.latches != NULL && op == MR_CONDITION)
    lock_latch((uint32_t)argument);
  return result;
}

static int on_fault(void *context, uint32_t page, bool write) {
  (void)context;
  mr_stack_check(mr_area_program(node.area) + (size_t)page * MR_PAGE);
  if (node.lone)
    return -EFAULT;
  mr_heat_waits(node.heat);
  node_begin();
  mr_heat_fault(node.heat, node.core, page, write);
  if (node.stand != NULL)
    node.counts.faults[mr_reason_of(node.core, page)]++;
  await(write ? mr_core_write(node.core, page) : mr_core_read(node.core, page), MR_STAND_PAGES);
  mr_heat_waited(node.heat, MR_HEAT_FETCH);
  return 0;
}

void mr_node_guard(const void *page) {
  size_t at = (size_t)((const uint8_t *)page - mr_area_program(node.area));
  int rc = node.lone ? mr_area_guard(node.area, (uint32_t)(at / MR_PAGE), on_fault, NULL) : 0;
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot guard a thread's stack: %s", strerror(-rc));
}

uint32_t maru_dsm_node(void) { return node.me; }
uint32_t maru_dsm_nodes(void) { return node.nodes; }
bool mr_node_started(void) { return node.core != NULL; }
bool mr_node_unwatched(void) { return node.unwatched; }

uint8_t *mr_node_memory(size_t *size) {
  *size = node.size;
  return mr_area_program(node.area);
}

/* Globals come after what can be allocated. */
static uint32_t page_seen(enum mr_place place, uintptr_t at) {
  size_t before = place == MR_GLOBALS ? node.size : 0;
  return (uint32_t)((before + mr_seen_offset(place, at)) / MR_PAGE);
}

static int64_t bring(uint64_t first, uint64_t many, uint64_t write) {
  uint32_t page = (uint32_t)first, count = (uint32_t)many;
  ready();
  if (node.lone)
    return 0;
  mr_heat_waits(node.heat);
  node_begin();
  for (uint32_t each = page; each < page + count; each++)
    if (mr_core_access(node.core, each) < (write ? MR_READ_WRITE : MR_READ))
      mr_heat_fault(node.heat, node.core, each, write);
  await(mr_core_bring(node.core, page, count, write), MR_STAND_PAGES);
  mr_heat_waited(node.heat, MR_HEAT_FETCH);
  return 0;
}

static void bring_range(const void *from, size_t size, bool write) {
  for (enum mr_place i = MR_ALLOCATED; i < MR_PLACES && mr_is_range(from, size); i++) {
    uintptr_t first = (uintptr_t)from, last = first + size - 1;
    if (!mr_part_seen(i, &first, &last))
      continue;
    uint32_t page = page_seen(i, first);
    mr_stack_call(bring, page, page_seen(i, last) - page + 1, write);
  }
}

void maru_dsm_read_range(const void *from, size_t size) { bring_range(from, size, false); }
void maru_dsm_write_range(void *from, size_t size) { bring_range(from, size, true); }

static int64_t note_site(uint64_t from, uint64_t size, uint64_t site) {
  pthread_mutex_lock(&node.lock);
  mr_heat_site(node.heat, from - (uintptr_t)mr_area_program(node.area), size, (const char *)site);
  pthread_mutex_unlock(&node.lock);
  return 0;
}

void mr_node_site(const void *from, size_t size, const char *site) {
  mr_stack_call(note_site, (uintptr_t)from, size, (uintptr_t)site);
}

static int64_t home(uint64_t page, uint64_t pages, uint64_t nobody) {
  pthread_mutex_lock(&node.lock);
  int64_t home = page < pages ? mr_core_home(node.core, (uint32_t)page) : (int64_t)nobody;
  pthread_mutex_unlock(&node.lock);
  return home;
}

int maru_dsm_home(const void *at) {
  uintptr_t first = (uintptr_t)at, last = first;
  for (enum mr_place i = MR_ALLOCATED; i < MR_PLACES; i++)
    if (mr_part_seen(i, &first, &last))
      return (int)mr_stack_call(home, page_seen(i, first), node.pages, (uint64_t)-1);
  return -1;
}

void *(maru_dsm_alloc)(size_t size) { return maru_dsm_alloc_at(size, "maru_dsm_alloc"); }

void *maru_dsm_alloc_at(size_t size, const char *site) {
  /* What has a page's size gets pages of its own. */
  size_t unit = size >= MR_PAGE ? MR_PAGE : 64, at = (node.used + unit - 1) & ~(unit - 1);
  if (node.area == NULL || at > node.size || size > node.size - at)
    return NULL;
  node.used = at + size;
  mr_node_site(mr_area_program(node.area) + at, size, site);
  return mr_area_program(node.area) + at;
}

/* ---- the server ----------------------------------------------------------------------- */

static void on_message(void *context, uint16_t from, const void *message, size_t length) {
  (void)context;
  int rc = mr_core_message(node.core, from, message, length);
  if (rc < 0 && rc != -ESTALE)
    mr_node_die(STATUS_INTERNAL, "node %u sent what is no message of this protocol", from);
}

/* One line a job: `maru launch` shows one of all. Else the first of those that are left says it,
 * and the others stay until it has seen the same, so that it does not name them. */
static _Noreturn void lose(uint16_t lost) {
  if (node.job.met && node.me != (lost == 0 ? 1 : 0)) {
    poll(NULL, 0, ECHO_MS);
    mr_node_end(STATUS_LOST);
  }
  mr_node_die(STATUS_LOST, "lost node %u; the job cannot go on", lost);
}

static void on_down(void *context, uint16_t from, bool farewell) {
  (void)context;
  if (!farewell && !node.leaving)
    lose(from);
  node.up--;
}

static const struct mr_transport_sink transport_sink = {on_message, on_down};

/* Every peer has left. */
static bool on_over(void *context) {
  (void)context;
  return node.up == 0;
}

static void on_broken(void *context, int error) {
  (void)context;
  if (error == -ENOMEM)
    mr_node_die(STATUS_INTERNAL, "no memory for what other nodes send");
  mr_node_die(STATUS_LOST, "cannot hear other nodes: %s", strerror(-error));
}

static void start_server(uint64_t spin_us) {
  const struct mr_server_config config = {.transport = node.transport,
                                          .ready = node.ready,
                                          .lock = &node.lock,
                                          .sink = &transport_sink,
                                          .spin_ns = (int64_t)spin_us * 1000,
                                          .over = on_over,
                                          .failed = on_broken};
  int rc = mr_server_start(&node.server, &config);
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot start a thread: %s", strerror(-rc));
}

static void show(void) {
  if (node.stand != NULL)
    mr_stand_tell(node.stand, node.nodes, mr_core_counters(node.core), &node.counts);
}

/* Now and then, by a thread of its own. Where the request is still that of the last time, the
 * program's thread waits for something that may never come. */
static void look(void) {
  static uint64_t before;
  pthread_mutex_lock(&node.lock);
  if (node.me == 0 && (!node.done || node.first != NULL) && node.requests == before)
    mr_core_look(node.core);
  before = node.requests;
  show();
  pthread_mutex_unlock(&node.lock);
}

static void start_watch(void) {
  int rc = node.me == 0 || node.stand != NULL ? mr_watch_start(&node.watch, look) : 0;
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot start a thread: %s", strerror(-rc));
}

static void in_child(void) {
  if (node.transport != NULL)
    mr_transport_abandon(node.transport);
  node.transport = NULL;
  node.latches = NULL;
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
  node.twins_fd = mr_sealed_memfd("maru-dsm-twins", size);
  void *at = MAP_FAILED;
  errno = node.twins_fd < 0 ? -node.twins_fd : 0;
  if (node.twins_fd >= 0)
    at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, node.twins_fd, 0);
  if (at == MAP_FAILED)
    mr_node_die(STATUS_UNAVAILABLE, "no room for twins of %zu MiB: %s%s", size >> 20,
                strerror(errno),
                errno == ENOMEM  ? "; set MARU_DSM_MIB to less"
                : errno == EFBIG ? "; ulimit -f allows less: raise it, or set MARU_DSM_MIB to less"
                                 : "");
  node.twins = at;
}

/* For a checkpoint or a report. A user who sets MARU_DSM_ACCESS wants it, too: so a test reaches
 * that path on one node, or on one host. */
static bool is_watched(void) {
  return node.checkpoints != NULL || mr_settings_races() || getenv("MARU_DSM_REPORT") != NULL ||
         getenv("MARU_DSM_ACCESS") != NULL;
}

static int create_area(uint32_t pages) {
  node.unwatched = node.unwatched && getenv("MARU_DSM_ACCESS") == NULL;
  node.lone = node.nodes == 1 && !is_watched();
  if (node.lone)
    return mr_area_create_lone(&node.area, MR_ADDRESS, pages);
  enum mr_access_way way =
      node.unwatched ? MR_BY_MPROTECT : mr_settings_way(node.slower, sizeof node.slower);
  return mr_area_create(&node.area, way, MR_ADDRESS, pages, node.unwatched ? NULL : on_fault, NULL);
}

/* `globals`, where there are any, come after what can be allocated; a lone node's stay what they
 * are. */
static void map_memory(const struct mr_globals *globals) {
  size_t whole = node.size + (globals != NULL ? globals->size : 0);
  uint32_t pages = (uint32_t)(whole / MR_PAGE);
  int rc = create_area(pages);
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot map %zu MiB of shared memory at %p: %s%s",
                node.size >> 20, (void *)MR_ADDRESS, strerror(-rc),
                rc == -EEXIST   ? " (something else of this process lies there)"
                : rc == -ENOMEM ? "; set MARU_DSM_MIB to less"
                : rc == -EFBIG  ? "; ulimit -f allows less: raise it, or set MARU_DSM_MIB to less"
                                : "");
  if (globals != NULL && !node.lone)
    rc = mr_area_window(node.area, globals->address, (uint32_t)(node.size / MR_PAGE));
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot share %zu bytes of globals at %p: %s", globals->size,
                globals->address, strerror(-rc));
  node.pages = pages;
  map_twins(whole);
}

/* ---- checkpoints ------------------------------------------------------------------------- */

/* A core that was loaded may wait before the program's memory is back: no image has it then. */
static bool rests(uint32_t number, uint64_t *sent, uint64_t *received) {
  pthread_mutex_lock(&node.lock);
  bool still = node.parked == number || (mr_core_waits(node.core) && !node.done && !node.restoring);
  bool all = still && mr_core_rests(node.core);
  mr_core_traffic(node.core, sent, received);
  pthread_mutex_unlock(&node.lock);
  return all;
}

struct placed {
  int file;
  uint64_t at;
  struct mr_store *store;
};

static int put_at(void *context, const void *bytes, size_t length) {
  struct placed *to = context;
  while (length > 0) {
    ssize_t n = pwrite(to->file, bytes, length, (off_t)to->at);
    if (n <= 0)
      return n < 0 ? -errno : -ENOSPC;
    to->at += (uint64_t)n;
    bytes = (const uint8_t *)bytes + n;
    length -= (size_t)n;
  }
  return 0;
}

/* Known to the store by numbers that are no addresses of the program's. */
static uint64_t key_of(uint32_t page) { return UINT64_C(1) << 63 | page; }

static int put_page(void *context, uint32_t page, uint64_t stamp, const uint8_t *bytes) {
  const struct placed *to = context;
  return mr_store_put(to->store, key_of(page), stamp, bytes, MR_PAGE);
}

/* While the program's memory comes out of the store, that stays where it is. */
static bool expect_pages(size_t *pages) {
  pthread_mutex_lock(&node.lock);
  bool runs = !node.restoring;
  *pages = mr_core_saved_pages(node.core);
  pthread_mutex_unlock(&node.lock);
  return runs;
}

/* At the cut: nobody else changes what is written. */
static int write_image(int file, struct mr_store *store, struct mr_checkpoint_head *head, char *why,
                       size_t size) {
  struct placed to = {file, head->core, store};
  const struct mr_save save = {&to, put_at, put_page};
  pthread_mutex_lock(&node.lock);
  int rc = mr_core_save(node.core, &save);
  head->core_length = to.at - head->core;
  head->own = to.at;
  if (rc == 0)
    rc = node.part->write(file, store, head, node.captures ? &node.here : NULL,
                          node.parked != 0 ? PARKED : WAITING, why, size);
  pthread_mutex_unlock(&node.lock);
  return rc;
}

static bool restores(void) {
  return node.checkpoints != NULL && mr_checkpoints_restore(node.checkpoints) != 0;
}

static void open_checkpoints(void) {
  node.checkpoints = mr_checkpoints_open(node.nodes, node.me);
  if (node.checkpoints != NULL && node.part == NULL)
    mr_node_die(
        STATUS_USAGE,
        "--ckpt-every: checkpoints are for programs in the ANL macros or of maru/dsm.h that "
        "maru-cc built, without threads and watched; this one cannot have them");
  if (node.checkpoints != NULL && (node.races != NULL || mr_settings_races()))
    mr_node_die(STATUS_USAGE, "--races and --ckpt-every exclude each other: what is known of races "
                              "is in no checkpoint");
  size_t length;
  if (restores())
    node.part->open(mr_checkpoints_map(node.checkpoints, node.me, &length));
}

static void start_checkpoints(void) {
  static const struct mr_checkpoint_calls calls = {rests, expect_pages, write_image};
  if (node.checkpoints == NULL)
    return;
  int rc = mr_checkpoints_start(node.checkpoints, &calls);
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot start a thread: %s", strerror(-rc));
  node.part->begin();
}

static uint32_t epoch(void) {
  return node.checkpoints != NULL ? mr_checkpoints_epoch(node.checkpoints) : MR_FIRST_EPOCH;
}

/* What this process goes on from: its slots, in their order. */
struct found {
  struct mr_store *store;
  const uint32_t *slots;
  size_t count, next;
};

static const uint8_t *page_of(void *context, size_t number) {
  const struct found *found = context;
  return number < found->count
             ? mr_store_pages(found->store) + (size_t)found->slots[number] * MR_PAGE
             : NULL;
}

static int adopt(void *context, uint32_t page) {
  struct found *found = context;
  return found->next < found->count
             ? mr_store_adopt(found->store, key_of(page), found->slots[found->next++])
             : -EBADMSG;
}

/* All that the image has is the store's from here on, before another is made. */
static int find_own(const struct mr_checkpoint_head *head, const struct mr_saved *saved,
                    struct found *found) {
  const uint8_t *file = (const uint8_t *)head;
  const uint64_t *addresses = (const uint64_t *)(const void *)(file + head->addresses);
  *found = (struct found){.store = mr_checkpoints_store(node.checkpoints),
                          .slots = (const uint32_t *)(const void *)(file + head->slots),
                          .count = head->slot_count - head->pieces};
  int rc = mr_core_list_pages(saved, adopt, found);
  for (uint64_t i = 0; i < head->pieces && rc == 0; i++)
    rc = mr_store_adopt(found->store, addresses[i], found->slots[found->count + i]);
  return rc < 0 ? rc : found->next == found->count ? 0 : -EBADMSG;
}

/* Before anything of the others is heard. */
static void load_core(void) {
  static struct mr_saved saved[MR_JOB_NODES_MAX];
  struct found found = {.store = NULL};
  int rc = 0;
  node.restoring = true;
  for (uint16_t i = 0; i < node.nodes; i++) {
    size_t length;
    const struct mr_checkpoint_head *head = mr_checkpoints_map(node.checkpoints, i, &length);
    saved[i] = (struct mr_saved){(const uint8_t *)head + head->core, head->core_length};
    if (i != node.me)
      continue;
    rc = find_own(head, &saved[i], &found);
    node.part->found(head, mr_store_pages(found.store));
  }
  if (rc == 0)
    rc = mr_core_load(node.core, saved, page_of, &found);
  if (rc < 0)
    mr_node_die(STATUS_DATA, "cannot go on from checkpoint %u: %s",
                mr_checkpoints_restore(node.checkpoints),
                rc == -EBADMSG ? "its bytes are damaged, or the settings differ" : strerror(-rc));
}

void mr_node_part(const struct mr_part *part) { node.part = part; }
size_t *mr_node_allocated(void) { return &node.used; }
bool mr_node_will_restore(void) { return mr_checkpoints_expected() != 0; }
void mr_node_captures(bool captures) { node.captures = captures && node.checkpoints != NULL; }
bool mr_node_restores(void) { return restores(); }
void mr_node_no_more_checkpoints(void) {
  if (node.checkpoints != NULL)
    mr_checkpoints_end(node.checkpoints);
}

/* What returns from here was called with another word for the stack protector (parmacs/part.h). */
__attribute__((no_stack_protector)) const ucontext_t *mr_node_resume(void) {
  int how;
  const ucontext_t *context = node.part->read(&how, &node.here);
  node.resumed = how == PARKED ? PARKED : WAITING;
  return context;
}

static void create_core(struct mr_core_config *config, const uint32_t *incarnations) {
  config->epoch = epoch();
  config->waits_clean = node.checkpoints != NULL;
  config->compares = node.heat != NULL;
  node.sink = core_sink;
  node.sink.locked = node.heat != NULL ? on_locked : NULL;
  config->sink = &node.sink;
  config->incarnations = incarnations;
  config->memory = mr_area_runtime(node.area);
  config->twins = node.twins;
  config->races = node.races;
  config->shown = node.transport != NULL ? mr_transport_shown(node.transport) : NULL;
  int rc = mr_core_create(&node.core, config);
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot begin: %s", strerror(-rc));
}

/* ---- one memory for all ------------------------------------------------------------------ */

/* Of node 0, which all others may use as they are. */
static void *map_own(int fd, size_t size) {
  void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  return at != MAP_FAILED ? at : NULL;
}

static void *map_first(void) {
  void *at = NULL;
  if (node.me == 0)
    return map_own(mr_area_descriptor(node.area), (size_t)node.pages * MR_PAGE);
  return mr_transport_map(node.transport, 0, MR_SHARED_MEMORY, &at) == 0 ? at : NULL;
}

static struct mr_latch *map_latches(void) {
  void *at = NULL;
  if (node.me == 0)
    return node.latches_fd >= 0 ? map_own(node.latches_fd, MR_LATCHES_SIZE) : NULL;
  return mr_transport_map(node.transport, 0, MR_SHARED_LATCHES, &at) == 0 ? at : NULL;
}

/* Where there is a processor for each node, who has a lock runs. */
static void use_latches(struct mr_latch *latches, uint64_t spin_us) {
  maru_wait_policy_init(&node.awake, MARU_WAIT_SPIN);
  maru_wait_policy_init(&node.asleep, spin_us > 0 ? MARU_WAIT_ADAPTIVE : MARU_WAIT_BLOCK);
  node.spin_ns = (int64_t)spin_us * 1000;
  mr_core_locks_apart(node.core);
  node.latches = latches;
}

static void use_own_latches(void) {
  void *at = mmap(NULL, MR_LATCHES_SIZE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at != MAP_FAILED)
    use_latches(at, 0);
}

/* What a node writes, all see: no page is fetched, and nobody has to know of accesses. */
static void use_one_memory(void *memory, struct mr_latch *latches, uint64_t spin_us) {
  int rc = mr_area_replace(node.area, memory);
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot map node 0's memory: %s", strerror(-rc));
  node.lone = true;
  madvise(latches, MR_LATCHES_SIZE, MADV_DONTFORK);
  use_latches(latches, spin_us);
}

/* Other code has other ids and addresses.  All nodes use node 0's memory, or none does. */
static void compare_nodes(uint64_t spin_us) {
  int64_t mine = (int64_t)(mr_file_sum("/proc/self/exe") >> 1);
  bool watched = is_watched();
  void *memory = watched ? NULL : map_first();
  struct mr_latch *latches = watched ? NULL : map_latches();
  if (node.me == 0)
    mr_node_request(MR_FETCH_ADD, MR_PROGRAM, mine);
  if (memory != NULL && latches != NULL)
    mr_node_request(MR_FETCH_ADD, MR_ONE_MEMORY, 1);
  mr_node_request(MR_BARRIER, MR_JOINED, node.nodes);
  if (mr_node_request(MR_FETCH_ADD, MR_PROGRAM, 0) != mine)
    mr_node_die(STATUS_DATA, "this node's program is not node 0's; all nodes run the same file");
  if (mr_node_request(MR_FETCH_ADD, MR_ONE_MEMORY, 0) == node.nodes) {
    use_one_memory(memory, latches, spin_us);
    return;
  }
  if (memory != NULL)
    munmap(memory, (size_t)node.pages * MR_PAGE);
  if (latches != NULL)
    munmap(latches, MR_LATCHES_SIZE);
}

static void prepare_reports(const struct mr_globals *globals) {
  node.heat = mr_heat_create(node.pages, node.me);
  if (node.heat == NULL && getenv("MARU_DSM_REPORT") != NULL)
    mr_node_die(STATUS_UNAVAILABLE, "no memory for the report that was asked for");
  bool races = mr_settings_races();
  if (races && (node.heat == NULL ||
                mr_races_create(&node.races, node.pages, node.nodes, on_race, NULL) < 0))
    mr_node_die(STATUS_UNAVAILABLE, "no memory to look for races");
  if (globals != NULL)
    mr_heat_site(node.heat, node.size, globals->size, "globals");
}

void mr_node_start(const struct mr_globals *globals, unsigned mib) {
  static uint32_t incarnations[MR_JOB_NODES_MAX];
  if (node.core != NULL)
    mr_node_die(STATUS_USAGE, "maru_dsm_init was called twice");
  node.owner = getpid();
  mr_membership_find(&node.job);
  mr_end_as(node.job.me);
  node.nodes = node.job.nodes;
  node.me = node.job.me;
  node.up = (uint16_t)(node.nodes - 1);
  node.size = (size_t)mr_environment_number("MARU_DSM_MIB", mib, 1, MOST_MIB) << 20;
  open_checkpoints();
  map_memory(globals);
  struct mr_core_config config = mr_settings_core(node.nodes, node.me, node.pages);
  uint64_t spin_us = mr_settings_spin_us(node.nodes);
  mr_see(MR_ALLOCATED, mr_area_program(node.area), node.size);
  if (globals != NULL)
    mr_see(MR_GLOBALS, globals->address, globals->size);
  prepare_reports(globals);
  struct mr_link *link = node.nodes > 1 ? mr_settings_link() : NULL;
  node.latches_fd = node.nodes > 1 && node.me == 0 && !is_watched()
                        ? mr_sealed_memfd("maru-dsm-latches", MR_LATCHES_SIZE)
                        : -1;
  const struct mr_share share = {node.pages, mr_area_descriptor(node.area), node.twins_fd,
                                 node.latches_fd};
  if (node.nodes > 1)
    mr_membership_join(&node.job, epoch(), mr_settings_common(&config), &share, &node.transport,
                       incarnations);
  create_core(&config, incarnations);
  if (restores())
    load_core();
  if (node.nodes > 1) {
    mind_children();
    if (link != NULL)
      mr_transport_slow(node.transport, link);
    node.stand = mr_stand_open(node.me);
    node.ready = mr_ready_open(node.me);
    mr_ready_attach(node.ready, MR_PROGRAM_LISTENS);
    start_server(spin_us);
    start_watch();
    if (!restores()) /* images name theirs */
      compare_nodes(spin_us);
  } else if (node.lone) {
    mind_children();
    use_own_latches();
  }
  if (node.me == 0 && !node.lone && node.slower[0] != 0)
    fprintf(stderr, "maru: %s\n", node.slower);
  mr_heat_start(node.heat);
  start_checkpoints();
}

void maru_dsm_init(void) { mr_node_start(NULL, DEFAULT_MIB); }
void maru_dsm_init_unwatched(void) {
  node.unwatched = true;
  mr_node_start(NULL, DEFAULT_MIB);
}

void maru_dsm_exit(void) {
  mr_node_no_more_checkpoints();
  mr_node_request(MR_BARRIER, MR_LEAVING, node.nodes);
  if (node.nodes > 1) {
    if (node.watch != NULL)
      mr_watch_stop(node.watch);
    node.watch = NULL;
    pthread_mutex_lock(&node.lock);
    show(); /* stays on the board */
    mr_stand_close(node.stand);
    node.stand = NULL;
    node.leaving = true;
    if (mr_transport_farewell(node.transport) < 0)
      mr_node_die(STATUS_INTERNAL, "no memory to say farewell");
    pthread_mutex_unlock(&node.lock);
    mr_server_join(node.server);
    node.server = NULL;
    mr_ready_detach(node.ready, MR_PROGRAM_LISTENS);
    mr_ready_close(node.ready);
    node.ready = NULL;
    mr_transport_close(node.transport);
    node.transport = NULL;
  }
  /* All is done: a node that does not answer now keeps none. */
  if (node.job.met && mr_launcher_leave(node.job.launcher) < 0)
    fprintf(stderr, "maru: node %u: the launcher does not answer a farewell; goes on\n", node.me);
  node.job.met = false;
  mr_end_tells(MR_LAUNCHER_NONE);
  mr_see(MR_ALLOCATED, NULL, 0);
  mr_see(MR_GLOBALS, NULL, 0);
  mr_heat_tell(node.heat, mr_core_counters(node.core));
  node.heat = NULL;
  mr_core_destroy(node.core);
  node.core = NULL;
  if (node.races != NULL)
    mr_races_destroy(node.races);
  node.races = NULL;
  mr_area_destroy(node.area);
  node.area = NULL;
  munmap(node.twins, (size_t)node.pages * MR_PAGE);
  close(node.twins_fd);
  if (node.latches != NULL)
    munmap(node.latches, MR_LATCHES_SIZE);
  node.latches = NULL;
  if (node.latches_fd >= 0)
    close(node.latches_fd);
  node.used = 0;
}
