#define _GNU_SOURCE
#include "profile.h"
#include "fairness.h"
#include "waits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MILLISECOND 1000000u
/* So long between two readings of the clock for chance's sake, about. */
#define TIMED_EVERY_NS 32768u

_Thread_local struct mr_profile_thread mr_own;

/* The process has no key for its threads: they take slots that nobody gives back
 * (MARU_LOCKPROF_LEAVING), and publish at once. */
static _Atomic bool keyless;
/* Threads that are about to use the key. The thread that gives it back sets `keyless` first, they
 * count themselves first: in one order for all, one sees the other. */
static _Atomic uint32_t key_users;

/* Of several mutexes: never written to. */
static struct maru_lockprof_mutex several;

/* ---- processes and threads -------------------------------------------------- */

static uint32_t own_process(struct mr_profile *profile) {
  struct maru_lockprof *board = profile->records.board;
  /* Relaxed: within a process it changes once, from 0. */
  uint32_t known = MR_LOAD(*profile->process);
  if (known != 0)
    return known;
  uint32_t number = mr_records_take(&board->processes, MARU_LOCKPROF_PROCESSES);
  uint32_t mine = number == MR_RECORDS_NO_ROOM ? number : number + 1;
  if (number == MR_RECORDS_NO_ROOM)
    MR_COUNT(board->lost_processes);
  if (!atomic_compare_exchange_strong_explicit(profile->process, &known, mine, memory_order_relaxed,
                                               memory_order_relaxed))
    return known; /* another thread was first; our number stays unused */
  if (number == MR_RECORDS_NO_ROOM)
    return mine;
  struct maru_lockprof_process *process = &board->process[number];
  pid_t known_pid = (pid_t)MR_LOAD(profile->process[1]);
  process->pid = known_pid != 0 ? known_pid : getpid();
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

/* What it knows is of this process and this board. */
static bool is_own(const struct mr_profile *profile) {
  return mr_own.process != 0 && mr_own.process == MR_LOAD(*profile->process);
}

/* `value`: the profile, or NULL. */
static bool set_key(const struct mr_profile *profile, const void *value) {
  atomic_fetch_add_explicit(&key_users, 1, memory_order_seq_cst);
  bool ours = !atomic_load_explicit(&keyless, memory_order_seq_cst);
  bool set = ours && pthread_setspecific(profile->key, value) == 0; /* may allocate, and so lock */
  atomic_fetch_sub_explicit(&key_users, 1, memory_order_seq_cst);
  return set;
}

static void leave(void *profile) { mr_profile_leave(profile); }

void mr_profile_init(struct mr_profile *profile) {
  /* Relaxed: no thread uses it yet. */
  atomic_store_explicit(&keyless, pthread_key_create(&profile->key, leave) != 0,
                        memory_order_relaxed);
}

bool mr_profile_give_key(struct mr_profile *profile) {
  if (profile->records.board == NULL ||
      atomic_exchange_explicit(&keyless, true, memory_order_seq_cst))
    return false;
  if (atomic_load_explicit(&key_users, memory_order_seq_cst) == 0) {
    /* A thread that set the key before has a slot that is TAKEN by now; a later one sees
     * `keyless`. */
    mr_records_leaving(profile->records.board, MR_LOAD(*profile->process));
    return pthread_key_delete(profile->key) == 0;
  }
  atomic_store_explicit(&keyless, false, memory_order_seq_cst);
  return false;
}

/* Nobody gives slots back. */
static bool stays(void) { return MR_LOAD(keyless); }

/* What the slot's last thread had counted and not published, when it was gone without a word. */
static uint64_t left_behind(const struct mr_profile *profile) {
  return mr_records_acquisitions(profile->records.board, mr_own.slot) -
         MR_LOAD(mr_own.slot->published);
}

static bool attach_anew(struct mr_profile *profile) {
  int saved = errno;
  mr_own = (struct mr_profile_thread){.busy = true};
  uint32_t process = own_process(profile);
  if (process != MR_RECORDS_NO_ROOM)
    mr_own.slot = mr_records_slot(profile->records.board, process);
  mr_own.process = process;
  if (mr_own.slot != NULL) {
    mr_own.tid = (int32_t)MR_LOAD(mr_own.slot->tid);
    mr_own.unpublished = left_behind(profile);
    if (!set_key(profile, profile))
      mr_records_abandon(mr_own.slot);
  }
  mr_own.busy = false;
  errno = saved;
  return mr_own.slot != NULL;
}

bool mr_profile_attach(struct mr_profile *profile) {
  if (profile->records.board == NULL)
    return false;
  if (is_own(profile))
    return mr_own.slot != NULL;
  return !mr_own.busy && attach_anew(profile);
}

/* Since it was last done: acquisitions of free mutexes. */
static void account(void) {
  mr_own.unpublished += (uint32_t)(mr_own.accounted - mr_own.left);
  mr_own.accounted = mr_own.left;
}

static void publish(struct mr_profile *profile, uint64_t now_ns) {
  account();
  if (profile->waits != NULL)
    mr_waits_acquired(profile->waits, mr_own.unpublished);
  MR_ADD(mr_own.slot->published, mr_own.unpublished);
  mr_own.unpublished = 0;
  mr_own.published_at = now_ns;
}

void mr_profile_leave(struct mr_profile *profile) {
  if (profile->records.board != NULL && is_own(profile) && mr_own.slot != NULL) {
    publish(profile, 0);
    mr_records_leave(mr_own.slot);
    (void)set_key(profile, NULL);
  }
  mr_own = (struct mr_profile_thread){0};
}

struct mr_profile_at mr_profile_find_slowly(struct mr_profile *profile, const void *mutex,
                                            const void *site, int kind) {
  struct mr_records *records = &profile->records;
  if (!mr_profile_attach(profile)) {
    if (records->board != NULL)
      MR_COUNT(records->board->lost);
    return (struct mr_profile_at){0};
  }
  bool nested = mr_own.busy;
  mr_own.busy = true;
  struct mr_profile_at at = {.row =
                                 mr_records_row(records, mr_own.slot, mutex, site, kind, !nested)};
  mr_own.busy = nested;
  at.record = mr_records_mutex(records->board, at.row);
  if (at.record == NULL)
    at.record = &several;
  /* What has no row of its own would take the place of what has. */
  if (at.row->address == (uintptr_t)mutex)
    *mr_profile_pair(mutex, site) = (struct mr_profile_pair){mutex, site, at};
  return at;
}

/* ---- chance -------------------------------------------------------------------------- */

/* Steele, Lea, Flood: SplitMix. */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* Each acquisition from here on has a chance of one in 2^bits, whatever the others have: the first
 * that is hit.  A bit of `hits` is one acquisition. */
static void draw(void) {
  account();
  uint32_t before = 0;
  uint64_t hits;
  for (;; before += 64) {
    hits = UINT64_MAX;
    for (uint32_t i = 0; i < mr_own.bits; i++)
      hits &= next_random(&mr_own.slot->random);
    if (hits != 0)
      break;
  }
  mr_own.drawn = before + (uint32_t)__builtin_ctzll(hits) + 1;
  mr_own.left = mr_own.accounted = (int32_t)mr_own.drawn;
}

/* The chance follows the thread's pace. It may depend on what is past, not on what is drawn
 * next. So a hold that counts for n stands for n on average, however the pace changes. */
static void adapt(uint64_t now_ns) {
  if (stays()) {
    mr_own.bits = 0; /* it may have come when there was a key */
    return;
  }
  uint64_t took = now_ns > mr_own.timed_at ? now_ns - mr_own.timed_at : 0;
  uint64_t meant = mr_own.drawn * (uint64_t)TIMED_EVERY_NS;
  if (took << mr_own.bits < meant / 2 && 2u << mr_own.bits <= MARU_LOCKPROF_RAREST)
    mr_own.bits++;
  while (mr_own.bits > 0 && took << mr_own.bits > meant * 2)
    mr_own.bits--;
  mr_own.timed_at = now_ns;
}

/* How many the acquisition just made, the row's `count`th, stands for; 0: it is not timed. */
static uint32_t weigh(struct mr_profile *profile, uint64_t count) {
  bool drawn = mr_own.left <= 0;
  uint32_t weight = count <= MARU_LOCKPROF_ALL ? 1 : drawn ? 1u << mr_own.bits : 0;
  if (weight != 0)
    mr_own.now_ns = mr_clock_ns(&profile->clock);
  if (drawn) {
    adapt(mr_own.now_ns);
    draw();
  }
  return weight;
}

/* ---- holds ---------------------------------------------------------------------------- */

static struct mr_profile_hold *find_hold(const void *mutex) {
  for (uint32_t i = mr_own.held; i-- > 0;)
    if (mr_own.holds[i].mutex == mutex)
      return &mr_own.holds[i];
  return NULL;
}

static void drop(struct mr_profile_hold *hold) {
  const struct mr_profile_hold *last = &mr_own.holds[--mr_own.held];
  if (hold != last)
    memmove(hold, hold + 1, (size_t)(last - hold) * sizeof *hold);
}

/* Another thread must have released it, or else this one would not have it anew. */
static void profile_forget(struct mr_profile_hold *hold) {
  if (hold == NULL)
    return;
  drop(hold);
  MR_ADD(mr_own.slot->unmatched, 1);
}

static void begin_hold(struct mr_profile_at at, const void *mutex, uint32_t weight) {
  if (mr_own.held == MR_PROFILE_HOLDS)
    profile_forget(&mr_own.holds[0]);
  mr_own.holds[mr_own.held++] = (struct mr_profile_hold){
      .mutex = mutex, .row = at.row, .since_ns = mr_own.now_ns, .weight = weight};
}

/* ---- acquisitions --------------------------------------------------------------------- */

/* By the holder, of a mutex that somebody has waited for. */
static void share(struct mr_profile *profile, struct mr_profile_at at, uint64_t since_ns) {
  struct maru_lockprof *board = profile->records.board;
  uint32_t fairness = MR_LOAD(at.record->fairness);
  if (fairness == 0 || fairness > MARU_LOCKPROF_FAIRNESSES)
    return;
  struct maru_lockprof_pace *pace = mr_records_pace(board, mr_own.slot, at.row);
  if (pace != NULL)
    mr_fairness_acquired(&board->fairness[fairness - 1], pace, mr_own.now_ns, since_ns);
}

/* What was there before; 0: nobody. */
static uint32_t come_from(struct mr_profile *profile, struct maru_lockprof_mutex *mutex,
                          uint32_t *here) {
  *here = 0;
  if (profile->place == NULL)
    return 0;
  uint32_t last = MR_LOAD(mutex->socket);
  *here = mr_place_here(profile->place) + 1;
  if (last != *here)
    MR_STORE(mutex->socket, *here);
  return last;
}

void mr_profile_got_slowly(struct mr_profile *profile, struct mr_profile_at at, const void *mutex,
                           uint64_t count) {
  uint32_t weight = weigh(profile, count);
  if (mr_own.held != 0)
    profile_forget(find_hold(mutex));
  if (weight == 0)
    return;
  begin_hold(at, mutex, weight);
  if (stays() || mr_own.now_ns > mr_own.published_at + MILLISECOND)
    publish(profile, mr_own.now_ns);
}

/* When it was is known by the last time that the thread read the clock. */
void mr_profile_got_watched(struct mr_profile *profile, struct mr_profile_at at) {
  uint32_t here;
  if (MR_LOAD(at.record->waiters) != 0)
    MR_ADD(at.record->passes, 1);
  come_from(profile, at.record, &here);
  share(profile, at, 0);
}

void mr_profile_returned(struct mr_profile *profile, struct mr_profile_at at, const void *mutex) {
  if (at.row == NULL)
    return;
  MR_ADD(at.row->reacquired, 1);
  mr_own.now_ns = mr_clock_ns(&profile->clock); /* it may have slept for long */
  mr_profile_got(profile, at, mutex);
}

void mr_profile_wait(struct mr_profile *profile, struct mr_profile_wait *wait) {
  if (wait->at.row == NULL)
    return;
  wait->since_ns = mr_clock_ns(&profile->clock);
  if (wait->at.record == &several)
    return;
  mr_records_watch(profile->records.board, wait->at.record);
  wait->ahead = MR_COUNT(wait->at.record->waiters);
  wait->passes = MR_LOAD(wait->at.record->passes);
}

/* Those that came later and had it before: at least so many, exactly so for who waits longest. */
static void note_bypass(const struct mr_profile_wait *wait) {
  struct maru_lockprof_mutex *mutex = wait->at.record;
  uint64_t passed = MR_LOAD(mutex->passes) - wait->passes;
  uint64_t bypass = passed > wait->ahead ? passed - wait->ahead : 0;
  if (bypass > MR_LOAD(wait->at.row->longest_bypass))
    MR_STORE(wait->at.row->longest_bypass, bypass);
  MR_ADD(mutex->passes, 1);
}

static void note_socket(struct mr_profile *profile, const struct mr_profile_at *at) {
  uint32_t here, last = come_from(profile, at->record, &here);
  if (last != 0 && last == here)
    MR_ADD(at->row->near, 1);
  else if (last != 0)
    MR_ADD(at->row->far, 1);
}

void mr_profile_waited(struct mr_profile *profile, const struct mr_profile_wait *wait, int rc) {
  struct maru_lockprof_row *row = wait->at.row;
  if (row == NULL)
    return;
  struct maru_lockprof_mutex *mutex = wait->at.record;
  uint64_t now = mr_own.now_ns = mr_clock_ns(&profile->clock);
  uint64_t waited = now > wait->since_ns ? now - wait->since_ns : 0;
  if (mutex != &several)
    atomic_fetch_sub_explicit(&mutex->waiters, 1, memory_order_relaxed);
  if (rc == ETIMEDOUT)
    MR_ADD(row->timed_out, 1);
  if (rc != 0 && rc != EOWNERDEAD)
    return;
  MR_ADD(row->acquisitions, 1);
  MR_ADD(row->contended, 1);
  mr_own.unpublished++;
  profile_forget(find_hold(wait->mutex));
  begin_hold(wait->at, wait->mutex, 1);
  if (mutex != &several) {
    note_socket(profile, &wait->at);
    note_bypass(wait);
    share(profile, wait->at, wait->since_ns);
  }
  mr_records_time(profile->records.board, &row->times[MARU_LOCKPROF_WAIT], waited, 1);
  if (profile->waits != NULL)
    mr_waits_add(profile->waits, waited);
  publish(profile, now);
}

/* ---- releases ------------------------------------------------------------------------- */

struct mr_profile_release mr_profile_release(const struct mr_profile *profile, const void *mutex) {
  struct mr_profile_release release = {0};
  if (!is_own(profile))
    return release; /* begun by the parent of a fork */
  release.hold = find_hold(mutex);
  if (release.hold != NULL)
    release.until_ns = mr_clock_ns(&profile->clock);
  return release;
}

void mr_profile_released(const struct mr_profile *profile,
                         const struct mr_profile_release *release) {
  struct mr_profile_hold *hold = release->hold;
  if (hold == NULL)
    return;
  uint64_t held_ns = release->until_ns > hold->since_ns ? release->until_ns - hold->since_ns : 0;
  mr_records_time(profile->records.board, &hold->row->times[MARU_LOCKPROF_HOLD], held_ns,
                  hold->weight);
  drop(hold);
}
