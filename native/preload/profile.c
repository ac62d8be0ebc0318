#define _GNU_SOURCE
#include "profile.h"
#include "fairness.h"
#include "waits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NO_ROOM UINT32_MAX
#define ROWS_OF_A_THREAD (MARU_LOCKPROF_TABLE / 4 * 3)
#define ROWS_WITH_SITES (MARU_LOCKPROF_TABLE / 8 * 7)
#define PROBES 64u
#define MILLISECOND 1000000u

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)
/* Of what one thread writes at a time: its own, or the mutex's holder's. */
#define ADD(word, more) STORE(word, LOAD(word) + (more))
/* Of what all may write. */
#define COUNT(word) atomic_fetch_add_explicit(&(word), 1, memory_order_relaxed)

static _Thread_local struct {
  struct maru_lockprof_thread *slot;
  uint32_t process; /* that the slot is of; 0: none yet */
  bool busy;        /* what is called from here comes back to us: it is not recorded */
} own;

/* The next of a pool; NO_ROOM: there is none. */
static uint32_t take(_Atomic uint32_t *used, uint32_t size) {
  /* First looked at: at most as many overshoot as there are threads. */
  if (atomic_load_explicit(used, memory_order_relaxed) >= size)
    return NO_ROOM;
  uint32_t number = atomic_fetch_add_explicit(used, 1, memory_order_relaxed);
  return number < size ? number : NO_ROOM;
}

/* ---- processes and threads -------------------------------------------------- */

static uint32_t own_process(struct mr_profile *profile) {
  /* Relaxed: within a process it changes once, from 0. */
  uint32_t known = atomic_load_explicit(profile->process, memory_order_relaxed);
  if (known != 0)
    return known;
  uint32_t number = take(&profile->board->processes, MARU_LOCKPROF_PROCESSES);
  uint32_t mine = number == NO_ROOM ? NO_ROOM : number + 1;
  if (number == NO_ROOM)
    COUNT(profile->board->lost_processes);
  if (!atomic_compare_exchange_strong_explicit(profile->process, &known, mine, memory_order_relaxed,
                                               memory_order_relaxed))
    return known; /* another thread was first; our number stays unused */
  if (number == NO_ROOM)
    return mine;
  struct maru_lockprof_process *process = &profile->board->process[number];
  process->pid = getpid();
  process->sockets = profile->sockets;
  process->cpu_clock = profile->clock.ns_per_tick != 0;
  process->began_ns = (int64_t)mr_clock_ns(&profile->clock);
  process->cost_plain_ps = profile->cost_plain_ps;
  process->cost_profiled_ps = profile->cost_profiled_ps;
  snprintf(process->name, sizeof process->name, "%s", program_invocation_short_name);
  /* Release: the rest. */
  atomic_store_explicit(&process->ready, 1, memory_order_release);
  return mine;
}

/* One that a thread of this process has left, else a new one. */
static struct maru_lockprof_thread *take_slot(struct maru_lockprof *board, uint32_t process) {
  uint32_t used = LOAD(board->threads);
  for (uint32_t i = 0; i < used && i < MARU_LOCKPROF_THREADS; i++) {
    struct maru_lockprof_thread *slot = &board->thread[i];
    uint32_t left = MARU_LOCKPROF_LEFT;
    /* Acquire: what its last thread wrote. */
    if (LOAD(slot->state) == left && LOAD(slot->process) == process &&
        atomic_compare_exchange_strong_explicit(&slot->state, &left, MARU_LOCKPROF_TAKEN,
                                                memory_order_acquire, memory_order_relaxed))
      return slot;
  }
  uint32_t number = take(&board->threads, MARU_LOCKPROF_THREADS);
  if (number == NO_ROOM)
    return NULL;
  struct maru_lockprof_thread *slot = &board->thread[number];
  STORE(slot->process, process);
  slot->others.mutex = NO_ROOM;
  slot->random = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
  /* Release: whose it is. */
  atomic_store_explicit(&slot->state, MARU_LOCKPROF_TAKEN, memory_order_release);
  return slot;
}

static struct maru_lockprof_thread *attach(struct mr_profile *profile) {
  int saved = errno;
  if (own.busy)
    return NULL;
  own.busy = true;
  own.process = own_process(profile);
  own.slot = own.process == NO_ROOM ? NULL : take_slot(profile->board, own.process);
  if (own.slot != NULL) {
    STORE(own.slot->tid, (uint32_t)gettid());
    STORE(own.slot->held_count, 0);
    pthread_setspecific(profile->key, profile); /* may allocate, and so lock */
  }
  own.busy = false;
  errno = saved;
  return own.slot;
}

struct maru_lockprof_thread *mr_profile_thread(struct mr_profile *profile) {
  if (profile->board == NULL)
    return NULL;
  uint32_t process = atomic_load_explicit(profile->process, memory_order_relaxed);
  return __builtin_expect(process != 0 && process == own.process, 1) ? own.slot : attach(profile);
}

/* The same, if it has one. */
static struct maru_lockprof_thread *known_thread(struct mr_profile *profile) {
  if (profile->board == NULL || own.slot == NULL)
    return NULL;
  uint32_t process = atomic_load_explicit(profile->process, memory_order_relaxed);
  return process == own.process ? own.slot : NULL;
}

static void publish(struct mr_profile *profile, struct maru_lockprof_thread *thread,
                    uint64_t now_ns) {
  if (profile->waits != NULL)
    mr_waits_acquired(profile->waits, LOAD(thread->unpublished));
  STORE(thread->unpublished, 0);
  thread->published_at = now_ns;
}

void mr_profile_leave(struct mr_profile *profile) {
  struct maru_lockprof_thread *thread = known_thread(profile);
  if (thread != NULL) {
    publish(profile, thread, 0);
    /* Release: what was recorded. */
    atomic_store_explicit(&thread->state, MARU_LOCKPROF_LEFT, memory_order_release);
    pthread_setspecific(profile->key, NULL);
  }
  own.slot = NULL;
  own.process = 0;
}

static void leave(void *profile) { mr_profile_leave(profile); }

int mr_profile_init(struct mr_profile *profile) {
  return -pthread_key_create(&profile->key, leave);
}

/* ---- mutexes and rows -------------------------------------------------------- */

static uint32_t find_mutex(struct mr_profile *profile, uint32_t process, const void *address,
                           int kind) {
  struct maru_lockprof *board = profile->board;
  uint64_t key = MARU_LOCKPROF_PLACE(process, (uintptr_t)address);
  uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 40);
  for (uint32_t i = 0; i < PROBES; i++) {
    uint32_t number = (at + i) % MARU_LOCKPROF_MUTEXES;
    struct maru_lockprof_mutex *mutex = &board->mutex[number];
    uint64_t found = LOAD(mutex->key);
    if (found == 0 && atomic_compare_exchange_strong_explicit(
                          &mutex->key, &found, key, memory_order_relaxed, memory_order_relaxed)) {
      mutex->kind = (uint32_t)kind;
      STORE(mutex->place, profile->locate(board, address));
      COUNT(board->mutexes);
      return number;
    }
    if (found == key)
      return number;
  }
  return NO_ROOM;
}

static struct maru_lockprof_row *find_row(struct mr_profile *profile,
                                          struct maru_lockprof_thread *thread, const void *mutex,
                                          const void *site, int kind);

static struct maru_lockprof_row *new_row(struct mr_profile *profile,
                                         struct maru_lockprof_thread *thread, uint32_t place,
                                         uint32_t tag, const void *mutex, const void *site,
                                         int kind) {
  struct maru_lockprof *board = profile->board;
  /* Without room for the pair, one row for all other mutexes at the site. */
  if (mutex != NULL && !own.busy && LOAD(thread->rows) >= ROWS_OF_A_THREAD)
    return find_row(profile, thread, NULL, site, kind);
  if (own.busy || LOAD(thread->rows) >= ROWS_WITH_SITES)
    return &thread->others;
  uint32_t number = take(&board->rows, MARU_LOCKPROF_ROWS);
  if (number == NO_ROOM)
    return &thread->others;
  int saved = errno;
  own.busy = true;
  struct maru_lockprof_row *row = &board->row[number];
  row->address = (uintptr_t)mutex;
  row->called_from = (uintptr_t)site;
  /* The call, not what is after it, which may be another function's. */
  row->site = profile->locate(board, (const char *)site - 1);
  if (row->site == 0)
    row->site = MARU_LOCKPROF_PLACE(0, (uintptr_t)site - 1);
  row->mutex = mutex == NULL ? NO_ROOM : find_mutex(profile, LOAD(thread->process), mutex, kind);
  ADD(thread->rows, 1);
  /* Release: the row. */
  atomic_store_explicit(&thread->table[place], (number + 1) | tag, memory_order_release);
  own.busy = false;
  errno = saved;
  return row;
}

/* Most that do not match are told by the tag, without a look at their rows. */
static struct maru_lockprof_row *find_row(struct mr_profile *profile,
                                          struct maru_lockprof_thread *thread, const void *mutex,
                                          const void *site, int kind) {
  uint64_t hash = ((uintptr_t)mutex + (uintptr_t)site * UINT64_C(0x9e3779b97f4a7c15)) *
                  UINT64_C(0xd6e8feb86659fd93);
  uint32_t tag = (uint32_t)(hash >> 16) & ~MARU_LOCKPROF_TABLE_ROW;
  for (uint32_t at = (uint32_t)(hash >> 48);; at++) {
    uint32_t place = at % MARU_LOCKPROF_TABLE, entry = LOAD(thread->table[place]);
    if (entry == 0)
      return new_row(profile, thread, place, tag, mutex, site, kind);
    if ((entry & ~MARU_LOCKPROF_TABLE_ROW) != tag)
      continue;
    struct maru_lockprof_row *row = &profile->board->row[(entry & MARU_LOCKPROF_TABLE_ROW) - 1];
    if (row->address == (uintptr_t)mutex && row->called_from == (uintptr_t)site)
      return row;
  }
}

static struct maru_lockprof_mutex *mutex_of(struct maru_lockprof *board,
                                            const struct maru_lockprof_row *row) {
  return row->mutex == NO_ROOM ? NULL : &board->mutex[row->mutex];
}

/* ---- times ----------------------------------------------------------------------- */

static void note(struct maru_lockprof *board, struct maru_lockprof_times *times, uint64_t ns,
                 uint32_t weight) {
  uint32_t at = maru_histogram_class(ns);
  _Atomic uint32_t *octave = &times->octaves[at / MARU_OCTAVE_CLASSES];
  ADD(times->count, weight);
  ADD(times->sum_ns, ns * weight);
  if (ns > LOAD(times->longest_ns))
    STORE(times->longest_ns, ns);
  uint32_t number = LOAD(*octave);
  if (number == 0) {
    uint32_t taken = take(&board->octaves, MARU_LOCKPROF_OCTAVES);
    if (taken == NO_ROOM) {
      ADD(times->octaves_lost, weight);
      return;
    }
    number = taken + 1;
    STORE(*octave, number);
  }
  ADD(board->octave[number - 1][at % MARU_OCTAVE_CLASSES], weight);
}

/* ---- holds ---------------------------------------------------------------------------- */

static struct maru_lockprof_held *find_held(struct maru_lockprof_thread *thread,
                                            const void *mutex) {
  for (uint32_t i = LOAD(thread->held_count); i-- > 0;)
    if (thread->held[i].address == (uintptr_t)mutex)
      return &thread->held[i];
  return NULL;
}

static void drop_held(struct maru_lockprof_thread *thread, struct maru_lockprof_held *held) {
  uint32_t count = LOAD(thread->held_count) - 1;
  if (held != &thread->held[count])
    memmove(held, held + 1, (size_t)(&thread->held[count] - held) * sizeof *held);
  STORE(thread->held_count, count);
}

/* Where it writes the next. */
static struct maru_lockprof_held *push_held(struct maru_lockprof_thread *thread,
                                            const void *mutex) {
  uint32_t count = LOAD(thread->held_count);
  if (__builtin_expect(count > 0, 0)) {
    /* One that is there already was released by another thread; so, perhaps, was the oldest. */
    struct maru_lockprof_held *stale = find_held(thread, mutex);
    if (stale == NULL && count == MARU_LOCKPROF_HELD)
      stale = &thread->held[0];
    if (stale != NULL) {
      drop_held(thread, stale);
      ADD(thread->unmatched, 1);
      count--;
    }
  }
  STORE(thread->held_count, count + 1);
  return &thread->held[count];
}

/* True with a chance of one in MARU_LOCKPROF_SAMPLE (Knuth's generator; its high bits). */
static bool is_sampled(struct maru_lockprof_thread *thread) {
  thread->random = thread->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (thread->random >> 32) % MARU_LOCKPROF_SAMPLE == 0;
}

static inline void hold(struct mr_profile *profile, const struct mr_profile_request *request,
                        uint64_t now_ns, uint32_t weight) {
  const struct maru_lockprof_row *row = request->row;
  struct maru_lockprof_held *held = push_held(request->thread, request->mutex);
  held->address = (uintptr_t)request->mutex;
  held->since_ns = now_ns;
  held->row = row == &request->thread->others ? NO_ROOM : (uint32_t)(row - profile->board->row);
  held->depth = 0;
  held->weight = weight;
}

/* ---- acquisitions --------------------------------------------------------------------- */

void mr_profile_ask(struct mr_profile *profile, struct mr_profile_request *request,
                    const void *mutex, const void *site, int kind) {
  request->mutex = mutex;
  request->thread = mr_profile_thread(profile);
  if (__builtin_expect(request->thread != NULL, 1))
    request->row = find_row(profile, request->thread, mutex, site, kind);
  else if (profile->board != NULL)
    COUNT(profile->board->lost);
}

bool mr_profile_holds(struct mr_profile *profile, const void *mutex) {
  struct maru_lockprof_thread *thread = known_thread(profile);
  return thread != NULL && find_held(thread, mutex) != NULL;
}

bool mr_profile_reentered(struct mr_profile *profile, const void *mutex, const void *site) {
  struct maru_lockprof_thread *thread = known_thread(profile);
  struct maru_lockprof_held *held = thread != NULL ? find_held(thread, mutex) : NULL;
  if (held == NULL)
    return false;
  held->depth++;
  ADD(find_row(profile, thread, mutex, site, 0)->reentered, 1);
  return true;
}

static struct maru_lockprof_pace *find_pace(struct maru_lockprof *board,
                                            struct maru_lockprof_thread *thread,
                                            struct maru_lockprof_row *row) {
  if (row->pace != 0)
    return &board->pace[row->pace - 1];
  uint32_t number = LOAD(thread->paces);
  while (number != 0 && LOAD(board->pace[number - 1].mutex) != row->mutex)
    number = board->pace[number - 1].next;
  if (number == 0) {
    uint32_t taken = take(&board->paces, MARU_LOCKPROF_PACES);
    if (taken == NO_ROOM)
      return NULL;
    number = taken + 1;
    board->pace[taken].next = LOAD(thread->paces);
    STORE(board->pace[taken].mutex, row->mutex);
    STORE(thread->paces, number);
  }
  row->pace = number;
  return &board->pace[number - 1];
}

/* By the holder, of a mutex that somebody has waited for. */
static void share(struct mr_profile *profile, const struct mr_profile_request *request,
                  struct maru_lockprof_mutex *mutex, uint64_t now_ns, uint64_t since_ns) {
  uint32_t fairness = LOAD(mutex->fairness);
  struct maru_lockprof_pace *pace = find_pace(profile->board, request->thread, request->row);
  if (fairness != 0 && pace != NULL)
    mr_fairness_acquired(&profile->board->fairness[fairness - 1], pace, now_ns, since_ns);
}

/* What was there before; 0: nobody. */
static inline uint32_t come_from(struct mr_profile *profile, struct maru_lockprof_mutex *mutex,
                                 uint32_t *here) {
  *here = 0;
  if (profile->place == NULL)
    return 0;
  uint32_t last = LOAD(mutex->socket);
  *here = mr_place_here(profile->place) + 1;
  if (last != *here)
    STORE(mutex->socket, *here);
  return last;
}

static inline void acquired_free(struct mr_profile *profile, struct mr_profile_request *request) {
  struct maru_lockprof_row *row = request->row;
  struct maru_lockprof_thread *thread = request->thread;
  struct maru_lockprof_mutex *mutex = mutex_of(profile->board, row);
  uint32_t here, weight = 1;
  bool shared = mutex != NULL && LOAD(mutex->fairness) != 0;
  ADD(row->acquisitions, 1);
  ADD(thread->unpublished, 1);
  if (LOAD(row->acquisitions) > MARU_LOCKPROF_ALL)
    weight = is_sampled(thread) ? MARU_LOCKPROF_SAMPLE : 0;
  if (mutex != NULL) {
    if (LOAD(mutex->waiters) != 0)
      ADD(mutex->passes, 1);
    come_from(profile, mutex, &here);
  }
  uint64_t now = weight != 0 || shared ? mr_clock_ns(&profile->clock) : 0;
  hold(profile, request, weight != 0 ? now : 0, weight);
  if (shared)
    share(profile, request, mutex, now, 0);
  if (now > thread->published_at + MILLISECOND)
    publish(profile, thread, now);
}

void mr_profile_got(struct mr_profile *profile, struct mr_profile_request *request) {
  if (request->thread != NULL)
    acquired_free(profile, request);
}

void mr_profile_returned(struct mr_profile *profile, struct mr_profile_request *request) {
  if (request->thread == NULL)
    return;
  ADD(request->row->reacquired, 1);
  acquired_free(profile, request);
}

void mr_profile_wait(struct mr_profile *profile, struct mr_profile_request *request) {
  if (request->thread == NULL)
    return;
  request->since_ns = mr_clock_ns(&profile->clock);
  struct maru_lockprof_mutex *mutex = mutex_of(profile->board, request->row);
  if (mutex == NULL)
    return;
  if (LOAD(mutex->fairness) == 0) {
    uint32_t none = 0, number = take(&profile->board->fairnesses, MARU_LOCKPROF_FAIRNESSES);
    if (number != NO_ROOM) {
      STORE(profile->board->fairness[number].mutex, request->row->mutex);
      atomic_compare_exchange_strong_explicit(&mutex->fairness, &none, number + 1,
                                              memory_order_relaxed, memory_order_relaxed);
    }
  }
  request->ahead = COUNT(mutex->waiters);
  request->passes = LOAD(mutex->passes);
}

/* Those that came later and had it before: at least so many, exactly so for who waits longest. */
static void note_bypass(struct mr_profile_request *request, struct maru_lockprof_mutex *mutex) {
  uint64_t passed = LOAD(mutex->passes) - request->passes;
  uint64_t bypass = passed > request->ahead ? passed - request->ahead : 0;
  if (bypass > LOAD(request->row->longest_bypass))
    STORE(request->row->longest_bypass, bypass);
  ADD(mutex->passes, 1);
}

void mr_profile_waited(struct mr_profile *profile, struct mr_profile_request *request, int rc) {
  struct maru_lockprof_row *row = request->row;
  if (request->thread == NULL)
    return;
  struct maru_lockprof_mutex *mutex = mutex_of(profile->board, row);
  uint64_t now = mr_clock_ns(&profile->clock);
  uint64_t waited = now > request->since_ns ? now - request->since_ns : 0;
  if (mutex != NULL)
    atomic_fetch_sub_explicit(&mutex->waiters, 1, memory_order_relaxed);
  if (rc == ETIMEDOUT)
    ADD(row->timed_out, 1);
  if (rc != 0 && rc != EOWNERDEAD)
    return;
  ADD(row->acquisitions, 1);
  ADD(row->contended, 1);
  ADD(request->thread->unpublished, 1);
  if (mutex != NULL) {
    uint32_t here, last = come_from(profile, mutex, &here);
    if (last != 0 && last == here)
      ADD(row->near, 1);
    else if (last != 0)
      ADD(row->far, 1);
    note_bypass(request, mutex);
  }
  hold(profile, request, now, 1);
  note(profile->board, &row->times[MARU_LOCKPROF_WAIT], waited, 1);
  if (mutex != NULL)
    share(profile, request, mutex, now, request->since_ns);
  if (profile->waits != NULL)
    mr_waits_add(profile->waits, waited);
  publish(profile, request->thread, now);
}

void mr_profile_refused(struct mr_profile_request *request) {
  if (request->thread != NULL)
    ADD(request->row->refused, 1);
}

/* ---- releases ------------------------------------------------------------------------- */

struct mr_profile_release mr_profile_release(struct mr_profile *profile, const void *mutex) {
  struct mr_profile_release release = {.thread = known_thread(profile)};
  if (release.thread == NULL)
    return release;
  release.held = find_held(release.thread, mutex);
  if (release.held == NULL)
    ADD(release.thread->unmatched, 1);
  else if (release.held->depth > 0) {
    release.held->depth--;
    release.held = NULL;
  } else if (release.held->since_ns != 0)
    release.until_ns = mr_clock_ns(&profile->clock);
  return release;
}

void mr_profile_released(struct mr_profile *profile, const struct mr_profile_release *release) {
  const struct maru_lockprof_held *held = release->held;
  if (held == NULL)
    return;
  if (held->since_ns != 0) {
    struct maru_lockprof_row *row =
        held->row == NO_ROOM ? &release->thread->others : &profile->board->row[held->row];
    uint64_t held_ns = release->until_ns > held->since_ns ? release->until_ns - held->since_ns : 0;
    note(profile->board, &row->times[MARU_LOCKPROF_HOLD], held_ns, held->weight);
  }
  drop_held(release->thread, release->held);
}

void mr_profile_kept(struct mr_profile *profile, const void *mutex) {
  struct maru_lockprof_thread *thread = known_thread(profile);
  if (thread == NULL)
    return;
  struct maru_lockprof_held *held = push_held(thread, mutex);
  *held = (struct maru_lockprof_held){.address = (uintptr_t)mutex, .row = NO_ROOM};
}
