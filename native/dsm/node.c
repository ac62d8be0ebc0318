/* node.c: a node of a job (maru/dsm.h): the shell around the protocol core.
 *
 * The program's thread asks the core, in a call or in the handler of a fault,
 * and waits until the core says done.  The *server* thread feeds the core with what other
 * nodes send.
 */
#define _GNU_SOURCE
#include "self.h"

#include "seen.h"
#include "stack.h"

#include <errno.h>
#include <maru/wait.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

/* ---- requests of the program's thread ---------------------------------------------- */

/* Whether this thread was in here already. Relaxed, all: its handlers alone see it else, and leave
 * it as it was. */
static bool enter(void) {
  bool before = atomic_load_explicit(&mr_self.inside, memory_order_relaxed);
  atomic_store_explicit(&mr_self.inside, true, memory_order_relaxed);
  return before;
}

static void leave(bool before) {
  atomic_store_explicit(&mr_self.inside, before, memory_order_relaxed);
}

static int64_t call(mr_stack_function *function, uint64_t one, uint64_t two, uint64_t three) {
  bool before = enter();
  int64_t result = mr_stack_call(function, one, two, three);
  leave(before);
  if (mr_self.returns) {
    mr_self.returns = false;
    mr_self.on_return();
  }
  return result;
}

/* Not where a handler has interrupted who has it. */
static void lock_node(void) {
  if (pthread_mutex_lock(&mr_self.lock) == EDEADLK)
    mr_node_die(STATUS_INTERNAL, MR_BY_HANDLER);
}

static void node_begin(void) {
  lock_node();
  mr_self.asking = true;
  mr_self.done = false;
  mr_self.requests++;
}

/* By the program's thread alone, and not under the lock: the watch reads them meanwhile. Relaxed:
 * figures that are looked at. */
static void count(uint64_t *figure, uint64_t more) {
  __atomic_store_n(figure, *figure + more, __ATOMIC_RELAXED);
}

/* The program makes that request now: before it takes effect. */
static void asks(enum mr_call call, uint64_t what, int64_t one, int64_t two) {
  const struct mr_asked asked = {(uint32_t)call, (uint32_t)what, one, two};
  if (mr_self.replay != NULL)
    mr_replay_asks(mr_self.replay, &asked);
}

static int64_t await(int rc, enum mr_stand_wait what) {
  if (mr_self.replay != NULL)
    mr_replay_goes_on(mr_self.replay, &mr_self.done);
  bool waits = !mr_self.done && mr_self.stand != NULL;
  mr_self.asking = false;
  pthread_mutex_unlock(&mr_self.lock);
  if (rc < 0)
    mr_node_die(STATUS_INTERNAL, "a request was refused: %s%s", strerror(-rc),
                rc == -EBUSY ? " (a second thread uses the shared memory)" : "");
  if (mr_self.server != NULL) {
    int64_t since = waits ? maru_now_ns() : 0;
    mr_server_await(mr_self.server, &mr_self.done);
    if (waits) {
      count(&mr_self.counts.waits[what], 1);
      count(&mr_self.counts.waited_ns[what], (uint64_t)(maru_now_ns() - since));
    }
  } else if (!mr_self.done)
    mr_self_stuck("the only node waits, and nobody can end that");
  return mr_self.result;
}

static void ready(void) {
  if (mr_self.core == NULL)
    mr_node_die(STATUS_USAGE, "%s",
                mr_self.nodes > 0 ? "maru_dsm_exit was called: this node has left the job"
                                  : "maru_dsm_init was not called");
  if (!mr_area_is_here(mr_self.area))
    /* It would write into the node's connections. */
    mr_node_die(STATUS_USAGE, "a child process cannot use the node's shared memory");
}

/* Before the program runs on its history begins anew, if all stood: also where no image was
 * written. */
static void stand(uint32_t number) {
  pthread_mutex_lock(&mr_self.lock);
  mr_self.parked = number;
  if (number == 0 && mr_self.replay != NULL)
    mr_replay_cut(mr_self.replay);
  pthread_mutex_unlock(&mr_self.lock);
}

/* What it wrote is home, then it stands still until that checkpoint is over. The next one does not
 * take it for parked (rests). */
static void go_home(void) {
  node_begin();
  asks(MR_CALL_STOP, 0, 0, 0);
  await(mr_core_sync(mr_self.core, MR_FETCH_ADD, MR_FENCE, 0), MR_STAND_LOCKS);
}

static void park(uint32_t number) {
  go_home();
  stand(number);
  mr_checkpoints_await(mr_self.checkpoints, number, mr_self_pauses);
  stand(0);
}

/* A handler has interrupted the program there: nothing of this node is to change before its image
 * is written. Where the handler makes a request that image begins in it; else it would have the
 * handler by half. */
static bool stays_parked(void (*pauses)(void)) {
  uint32_t number = mr_self.parked;
  if (number == 0 || mr_checkpoints_wanted(mr_self.checkpoints) != number)
    return false;
  mr_checkpoints_await(mr_self.checkpoints, number, pauses);
  return true;
}

/* It was stopped here. */
static bool stops_again(bool asks) {
  if (mr_self.replay == NULL)
    return false;
  lock_node();
  bool stops = mr_replay_stops(mr_self.replay, asks);
  pthread_mutex_unlock(&mr_self.lock);
  return stops;
}

static bool repeats(void) { return mr_self.replay != NULL && mr_replay_repeats(mr_self.replay); }

/* At the begin of a request, where checkpoints are asked for.  Whether this process waits on in one
 * that another process has begun: then with the lock. */
static bool goes_on(bool asks) {
  mr_checkpoints_come(mr_self.checkpoints);
  bool waits = mr_self.resumed == WAITING, anew = mr_self.resumed == ANEW;
  mr_self.resumed = ANEW;
  if (!anew) {
    mr_self.part->restored();
    pthread_mutex_lock(&mr_self.lock);
    mr_self.restoring = false;
    mr_self.returns = mr_self.on_return != NULL;
  }
  if (waits) {
    mr_self.asking = true;
    mr_self.requests++;
  } else if (!anew) {
    pthread_mutex_unlock(&mr_self.lock);
  } else if (mr_self.captures) {
    /* What stdio holds is in no image. */
    mr_self.part->flush();
    if (__fpending(stdout) > 0)
      fflush(stdout);
    if (mr_self.part->reads_ahead() && lseek(STDIN_FILENO, 0, SEEK_CUR) >= 0)
      fflush(stdin); /* the file is where the program is then */
    while (stops_again(asks))
      go_home();
    uint32_t wanted = mr_checkpoints_wanted(mr_self.checkpoints);
    if (wanted != 0 && !repeats() && !stays_parked(mr_self_pauses))
      park(wanted);
  }
  return waits;
}

/* In the frame of a request, which stays until it is done: there another process may come back. */
#define CAPTURE()                                                                                  \
  do {                                                                                             \
    if (mr_self.captures)                                                                          \
      getcontext(&mr_self.here);                                                                   \
  } while (0)

static void leaves(void) {
  if (mr_self.checkpoints != NULL)
    mr_checkpoints_leave(mr_self.checkpoints);
}

static int64_t stop_here(uint64_t one, uint64_t two, uint64_t three) {
  (void)one;
  (void)two;
  (void)three;
  ready();
  CAPTURE();
  goes_on(false);
  leaves();
  return 0;
}

/* Before the program runs nothing of it is repeated, nor what a handler of a signal sees that has
 * interrupted this library: it may have the lock. */
int mr_node_clock(clockid_t clock, struct timespec *now) {
  const int64_t second = INT64_C(1000000000);
  int rc = clock_gettime(clock, now);
  if (rc < 0 || mr_self.replay == NULL || !mr_self.captures || enter())
    return rc;
  int64_t ns = mr_replay_clock(mr_self.replay, clock, now->tv_sec * second + now->tv_nsec);
  leave(false);
  *now = (struct timespec){ns / second, ns % second};
  return 0;
}

/* A handler that has interrupted this library is no place to stop: the request has its own. */
void maru_checkpoint(void) {
  if (mr_self.captures && !atomic_load_explicit(&mr_self.inside, memory_order_relaxed))
    call(stop_here, 0, 0, 0);
}

int maru_on_restore(void (*call)(void *), void *argument) {
  return mr_self.checkpoints != NULL ? mr_self.part->on_restore(call, argument) : 0;
}

static int begin(uint64_t op, uint64_t object, uint64_t argument) {
  if (mr_self.checkpoints != NULL && goes_on(true))
    return 0;
  node_begin();
  asks(MR_CALL_SYNC, object, (int64_t)op, (int64_t)argument);
  return mr_core_sync(mr_self.core, (enum mr_op)op, (uint32_t)object, (int64_t)argument);
}

static int64_t request(uint64_t op, uint64_t object, uint64_t argument) {
  ready();
  mr_heat_waits(mr_self.heat);
  CAPTURE();
  int64_t result =
      await(begin(op, object, argument), op == MR_BARRIER ? MR_STAND_BARRIERS : MR_STAND_LOCKS);
  mr_heat_waited(mr_self.heat, op == MR_BARRIER ? MR_HEAT_BARRIER : MR_HEAT_LOCK);
  leaves();
  return result;
}

static int begin_swap(uint64_t object, uint64_t expected, uint64_t value) {
  if (mr_self.checkpoints != NULL && goes_on(true))
    return 0;
  node_begin();
  asks(MR_CALL_SWAP, object, (int64_t)expected, (int64_t)value);
  return mr_core_swap(mr_self.core, (uint32_t)object, (int64_t)expected, (int64_t)value);
}

static int64_t swap(uint64_t object, uint64_t expected, uint64_t value) {
  ready();
  mr_heat_waits(mr_self.heat);
  CAPTURE();
  int64_t before = await(begin_swap(object, expected, value), MR_STAND_LOCKS);
  mr_heat_waited(mr_self.heat, MR_HEAT_LOCK);
  leaves();
  return before;
}

/* ---- objects in the one memory ----------------------------------------------------------- */

static int64_t begin_apart(enum mr_op op, uint32_t object, uint32_t turn) {
  lock_node();
  if (mr_self.apart.waits)
    mr_node_die(STATUS_INTERNAL, MR_BY_HANDLER);
  mr_self.apart.op = op;
  mr_self.apart.object = object;
  mr_self.apart.turn = turn;
  mr_self.apart.waits = true;
  mr_self.requests++;
  pthread_mutex_unlock(&mr_self.lock);
  return maru_now_ns();
}

static void end_apart(enum mr_stand_wait what, int64_t since) {
  lock_node();
  mr_self.apart.waits = false;
  mr_core_went_on(mr_self.core);
  pthread_mutex_unlock(&mr_self.lock);
  if (mr_self.stand == NULL)
    return;
  count(&mr_self.counts.waits[what], 1);
  count(&mr_self.counts.waited_ns[what], (uint64_t)(maru_now_ns() - since));
}

static void lock_latch(uint32_t id) {
  struct mr_latch *latch = &mr_self.commons->locks[id];
  if (mr_latch_try(latch, mr_self.me))
    return;
  if (mr_latch_holder(latch) == mr_self.me)
    mr_self_misuse(id, EBUSY);
  if (mr_self.spin_ns > 0 &&
      mr_latch_try_until(latch, mr_self.me, &mr_self.awake, maru_now_ns() + mr_self.spin_ns))
    return;
  mr_stack_call(request, MR_LOCK, id, 0);
  int64_t since = begin_apart(MR_LOCK, id, 0);
  mr_latch_take(latch, mr_self.me, &mr_self.asleep);
  end_apart(MR_STAND_LOCKS, since);
  mr_stack_call(request, MR_UNLOCK, id, 0);
}

static int64_t meet(uint32_t object, int64_t parties) {
  struct mr_gathering *barrier = &mr_self.commons->barriers[object - MR_BARRIERS];
  uint32_t turn;
  int rc = parties >= 1 && parties <= mr_self.nodes
               ? mr_gathering_come(barrier, (uint32_t)parties, &turn)
               : -EINVAL;
  if (rc < 0)
    mr_self_misuse(object, -rc);
  if (rc > 0)
    return 1;
  int64_t since = begin_apart(MR_BARRIER, object, turn);
  /* For ever: the death of who is to come ends this node, too. */
  mr_gathering_await(barrier, turn, &mr_self.asleep);
  end_apart(MR_STAND_BARRIERS, since);
  return 0;
}

/* Sequentially consistent: a program may order what it does by counters alone. */
static int64_t add(uint32_t object, int64_t delta) {
  return atomic_fetch_add_explicit(&mr_self.commons->counters[object - MR_COUNTERS].value, delta,
                                   memory_order_seq_cst);
}

static int64_t swap_common(uint32_t object, int64_t expected, int64_t value) {
  atomic_compare_exchange_strong_explicit(&mr_self.commons->counters[object - MR_COUNTERS].value,
                                          &expected, value, memory_order_seq_cst,
                                          memory_order_seq_cst);
  return expected;
}

static int64_t use_common(enum mr_op op, uint32_t object, int64_t argument) {
  if (op == MR_BARRIER)
    return meet(object, argument);
  if (op == MR_FETCH_ADD)
    return add(object, argument);
  if (op == MR_TRY)
    return mr_latch_try(&mr_self.commons->locks[object], mr_self.me);
  if (op == MR_LOCK)
    lock_latch(object);
  else
    mr_self_give_latch(object);
  return 0;
}

int64_t mr_node_swap(uint32_t object, int64_t expected, int64_t value) {
  return mr_self.commons != NULL ? swap_common(object, expected, value)
                                 : call(swap, object, (uint64_t)expected, (uint64_t)value);
}

int64_t mr_node_request(enum mr_op op, uint32_t object, int64_t argument) {
  if (mr_self.commons != NULL && object < MR_COUNTERS + MARU_DSM_IDS)
    return use_common(op, object, argument);
  int64_t result = call(request, op, object, (uint64_t)argument);
  if (mr_self.commons != NULL && op == MR_CONDITION)
    lock_latch((uint32_t)argument);
  return result;
}

int mr_self_fault(void *context, uint32_t page, bool write) {
  (void)context;
  mr_stack_check(mr_area_program(mr_self.area) + (size_t)page * MR_PAGE);
  if (mr_self.lone)
    return -EFAULT;
  bool before = enter();
  stays_parked(NULL);
  mr_heat_waits(mr_self.heat);
  node_begin();
  asks(write ? MR_CALL_WRITE : MR_CALL_READ, page, 0, 0);
  mr_heat_fault(mr_self.heat, mr_self.core, page, write);
  if (mr_self.stand != NULL)
    mr_self.counts.faults[mr_reason_of(mr_self.core, page)]++;
  await(write ? mr_core_write(mr_self.core, page) : mr_core_read(mr_self.core, page),
        MR_STAND_PAGES);
  mr_heat_waited(mr_self.heat, MR_HEAT_FETCH);
  leave(before);
  return 0;
}

void mr_node_guard(const void *page) {
  size_t at = (size_t)((const uint8_t *)page - mr_area_program(mr_self.area));
  int rc =
      mr_self.lone ? mr_area_guard(mr_self.area, (uint32_t)(at / MR_PAGE), mr_self_fault, NULL) : 0;
  if (rc < 0)
    mr_node_die(STATUS_UNAVAILABLE, "cannot guard a thread's stack: %s", strerror(-rc));
}

uint32_t maru_dsm_node(void) { return mr_self.me; }
uint32_t maru_dsm_nodes(void) { return mr_self.nodes; }
bool mr_node_started(void) { return mr_self.core != NULL; }
bool mr_node_unwatched(void) { return mr_self.unwatched; }
bool mr_node_lone(void) { return mr_self.lone; }

uint8_t *mr_node_memory(size_t *size) {
  *size = mr_self.size;
  return mr_area_program(mr_self.area);
}

/* Globals come after what can be allocated. */
static uint32_t page_seen(enum mr_place place, uintptr_t at) {
  size_t before = place == MR_GLOBALS ? mr_self.size : 0;
  return (uint32_t)((before + mr_seen_offset(place, at)) / MR_PAGE);
}

static int64_t bring(uint64_t first, uint64_t many, uint64_t write) {
  uint32_t page = (uint32_t)first, count = (uint32_t)many;
  ready();
  if (mr_self.lone)
    return 0;
  stays_parked(NULL);
  mr_heat_waits(mr_self.heat);
  node_begin();
  asks(MR_CALL_BRING, page, count, write != 0);
  for (uint32_t each = page; each < page + count; each++)
    if (mr_core_access(mr_self.core, each) < (write ? MR_READ_WRITE : MR_READ))
      mr_heat_fault(mr_self.heat, mr_self.core, each, write);
  await(mr_core_bring(mr_self.core, page, count, write), MR_STAND_PAGES);
  mr_heat_waited(mr_self.heat, MR_HEAT_FETCH);
  return 0;
}

static void bring_range(const void *from, size_t size, bool write) {
  for (enum mr_place i = MR_ALLOCATED; i < MR_PLACES && mr_is_range(from, size); i++) {
    uintptr_t first = (uintptr_t)from, last = first + size - 1;
    if (!mr_part_seen(i, &first, &last))
      continue;
    uint32_t page = page_seen(i, first);
    call(bring, page, page_seen(i, last) - page + 1, write);
  }
}

void maru_dsm_read_range(const void *from, size_t size) { bring_range(from, size, false); }
void maru_dsm_write_range(void *from, size_t size) { bring_range(from, size, true); }

static int64_t note_site(uint64_t from, uint64_t size, uint64_t site) {
  pthread_mutex_lock(&mr_self.lock);
  mr_heat_site(mr_self.heat, from - (uintptr_t)mr_area_program(mr_self.area), size,
               (const char *)site);
  pthread_mutex_unlock(&mr_self.lock);
  return 0;
}

void mr_node_site(const void *from, size_t size, const char *site) {
  call(note_site, (uintptr_t)from, size, (uintptr_t)site);
}

static int64_t home(uint64_t page, uint64_t pages, uint64_t nobody) {
  pthread_mutex_lock(&mr_self.lock);
  int64_t home = page < pages ? mr_core_home(mr_self.core, (uint32_t)page) : (int64_t)nobody;
  pthread_mutex_unlock(&mr_self.lock);
  return home;
}

int maru_dsm_home(const void *at) {
  uintptr_t first = (uintptr_t)at, last = first;
  for (enum mr_place i = MR_ALLOCATED; i < MR_PLACES; i++)
    if (mr_part_seen(i, &first, &last))
      return (int)call(home, page_seen(i, first), mr_self.pages, (uint64_t)-1);
  return -1;
}

void *(maru_dsm_alloc)(size_t size) { return maru_dsm_alloc_at(size, "maru_dsm_alloc"); }

void *maru_dsm_alloc_at(size_t size, const char *site) {
  /* What has a page's size gets pages of its own. */
  size_t unit = size >= MR_PAGE ? MR_PAGE : 64, at = (mr_self.used + unit - 1) & ~(unit - 1);
  if (mr_self.area == NULL || at > mr_self.size || size > mr_self.size - at)
    return NULL;
  mr_self.used = at + size;
  mr_node_site(mr_area_program(mr_self.area) + at, size, site);
  return mr_area_program(mr_self.area) + at;
}
