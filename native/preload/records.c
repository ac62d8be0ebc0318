#define _GNU_SOURCE
#include "records.h"
#include "glibc.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of a table of that size. */
#define PAIRS_OF(size) ((size) / 8 * 3)
#define ROWS_OF(size) ((size) / 8 * 4)
#define PROBES 64u

/* A thread counts in the first cache line of a row, which is nobody else's. */
_Static_assert(sizeof(struct maru_lockprof_row) % 64 == 0 &&
                   offsetof(struct maru_lockprof, row) % 64 == 0 &&
                   offsetof(struct maru_lockprof_row, acquisitions) < 64,
               "the section's layout");

uint32_t mr_records_take(_Atomic uint32_t *used, uint32_t size) {
  /* First looked at: at most as many overshoot as there are threads. */
  if (MR_LOAD(*used) >= size)
    return MR_RECORDS_NO_ROOM;
  uint32_t number = MR_COUNT(*used);
  return number < size ? number : MR_RECORDS_NO_ROOM;
}

/* ---- threads ------------------------------------------------------------------ */

/* Its thread, of this process; that has gone, too, if its number is ours, for we have no slot yet.
 */
static bool is_gone(const struct maru_lockprof_thread *slot) {
  pid_t tid = (pid_t)MR_LOAD(slot->tid);
  return tid == mr_glibc_self() || (syscall(SYS_tgkill, getpid(), tid, 0) < 0 && errno == ESRCH);
}

static bool claim(struct maru_lockprof_thread *slot, uint32_t state) {
  /* Acquire: what its last thread wrote. */
  return MR_LOAD(slot->state) == state &&
         atomic_compare_exchange_strong_explicit(&slot->state, &state, MARU_LOCKPROF_FREE,
                                                 memory_order_acquire, memory_order_relaxed);
}

/* Claimed first, then looked at: meanwhile another may have moved in, and be LEAVING as well. */
static bool claim_abandoned(struct maru_lockprof_thread *slot) {
  if (!claim(slot, MARU_LOCKPROF_LEAVING))
    return false;
  if (is_gone(slot))
    return true;
  /* While it is FREE nobody else writes it: its thread waits (mr_records_leave).  Release: passes
   * that thread's tid on. */
  atomic_store_explicit(&slot->state, MARU_LOCKPROF_LEAVING, memory_order_release);
  return false;
}

/* Not before its tid is ours is it TAKEN: mr_records_leaving would give away one that lives. */
static struct maru_lockprof_thread *move_in(struct maru_lockprof_thread *slot) {
  MR_STORE(slot->tid, (uint32_t)mr_glibc_self());
  /* Release: whose it is. */
  atomic_store_explicit(&slot->state, MARU_LOCKPROF_TAKEN, memory_order_release);
  return slot;
}

struct maru_lockprof_thread *mr_records_slot(struct maru_lockprof *board, uint32_t process) {
  uint32_t used = MR_LOAD(board->threads);
  for (uint32_t i = 0; i < used && i < MARU_LOCKPROF_THREADS; i++) {
    struct maru_lockprof_thread *slot = &board->thread[i];
    if (MR_LOAD(slot->process) == process &&
        (claim(slot, MARU_LOCKPROF_LEFT) || claim_abandoned(slot)))
      return move_in(slot);
  }
  uint32_t number = mr_records_take(&board->threads, MARU_LOCKPROF_THREADS);
  if (number == MR_RECORDS_NO_ROOM)
    return NULL;
  struct maru_lockprof_thread *slot = &board->thread[number];
  MR_STORE(slot->process, process);
  slot->others.mutex = MR_RECORDS_NO_ROOM;
  slot->random = number;
  return move_in(slot);
}

/* While it is FREE, a thread looks whether we are gone, which takes a system call: to overwrite
 * that would let a second thread in, once the first gives it back. */
void mr_records_leave(struct maru_lockprof_thread *slot) {
  /* Lets that thread run, of whatever priority we are. */
  static const struct timespec nap = {.tv_nsec = 50000};
  for (uint32_t state;;) {
    state = MR_LOAD(slot->state);
    /* Release: what was recorded. */
    if (state != MARU_LOCKPROF_FREE &&
        atomic_compare_exchange_weak_explicit(&slot->state, &state, MARU_LOCKPROF_LEFT,
                                              memory_order_release, memory_order_relaxed))
      return;
    nanosleep(&nap, NULL);
  }
}

/* Only what is TAKEN: one that is FREE is in the hands of a thread that claimed it. */
void mr_records_abandon(struct maru_lockprof_thread *slot) {
  uint32_t taken = MARU_LOCKPROF_TAKEN;
  /* Acquire and release: the slot's tid passes through us to the thread that claims it. */
  atomic_compare_exchange_strong_explicit(&slot->state, &taken, MARU_LOCKPROF_LEAVING,
                                          memory_order_acq_rel, memory_order_relaxed);
}

void mr_records_leaving(struct maru_lockprof *board, uint32_t process) {
  uint32_t used = MR_LOAD(board->threads);
  for (uint32_t i = 0; i < used && i < MARU_LOCKPROF_THREADS; i++)
    if (MR_LOAD(board->thread[i].process) == process)
      mr_records_abandon(&board->thread[i]);
}

/* ---- mutexes and rows ----------------------------------------------------------- */

static uint32_t find_mutex(const struct mr_records *records, uint32_t process, const void *address,
                           int kind) {
  struct maru_lockprof *board = records->board;
  uint64_t key = MARU_LOCKPROF_PLACE(process, (uintptr_t)address);
  uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 40);
  for (uint32_t i = 0; i < PROBES; i++) {
    uint32_t number = (at + i) % MARU_LOCKPROF_MUTEXES;
    struct maru_lockprof_mutex *mutex = &board->mutex[number];
    uint64_t found = MR_LOAD(mutex->key);
    if (found == 0 && atomic_compare_exchange_strong_explicit(
                          &mutex->key, &found, key, memory_order_relaxed, memory_order_relaxed)) {
      mutex->kind = (uint32_t)kind;
      MR_STORE(mutex->place, records->locate(board, address));
      MR_COUNT(board->mutexes);
      return number;
    }
    if (found == key)
      return number;
  }
  return MR_RECORDS_NO_ROOM;
}

struct table {
  _Atomic uint32_t *entries;
  uint32_t size;
};

static struct table table_of(struct maru_lockprof *board, struct maru_lockprof_thread *thread) {
  uint32_t larger = MR_LOAD(thread->larger);
  return larger == 0 ? (struct table){thread->table, MARU_LOCKPROF_TABLE}
                     : (struct table){board->larger[larger - 1], MARU_LOCKPROF_LARGER};
}

static uint64_t hash_of(uintptr_t mutex, uintptr_t site) {
  return (mutex + site * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);
}

static uint32_t tag_of(uint64_t hash) { return (uint32_t)(hash >> 16) & ~MARU_LOCKPROF_TABLE_ROW; }

static uint32_t first_place(uint64_t hash) { return (uint32_t)(hash >> 48); }

/* All that is in its own table moves.  A reader goes on with the one that it found, where the rows
 * are the same. */
static bool take_larger(struct maru_lockprof *board, struct maru_lockprof_thread *thread) {
  if (MR_LOAD(thread->larger) != 0)
    return false;
  uint32_t number = mr_records_take(&board->largers, MARU_LOCKPROF_LARGERS);
  if (number == MR_RECORDS_NO_ROOM)
    return false;
  for (uint32_t i = 0; i < MARU_LOCKPROF_TABLE; i++) {
    uint32_t entry = MR_LOAD(thread->table[i]);
    if (entry == 0)
      continue;
    const struct maru_lockprof_row *row = &board->row[(entry & MARU_LOCKPROF_TABLE_ROW) - 1];
    uint32_t place = first_place(hash_of(row->address, row->called_from)) % MARU_LOCKPROF_LARGER;
    while (MR_LOAD(board->larger[number][place]) != 0)
      place = (place + 1) % MARU_LOCKPROF_LARGER;
    MR_STORE(board->larger[number][place], entry);
  }
  /* Release: the table. */
  atomic_store_explicit(&thread->larger, number + 1, memory_order_release);
  return true;
}

static struct maru_lockprof_row *make_row(const struct mr_records *records,
                                          struct maru_lockprof_thread *thread,
                                          _Atomic uint32_t *entry, uint32_t tag, const void *mutex,
                                          const void *site, int kind) {
  struct maru_lockprof *board = records->board;
  uint32_t size = table_of(board, thread).size;
  if (mutex != NULL && MR_LOAD(thread->rows) >= PAIRS_OF(size) && take_larger(board, thread))
    return mr_records_row(records, thread, mutex, site, kind, true);
  /* Without room for the pair, one row for all other mutexes at the site. */
  if (mutex != NULL && MR_LOAD(thread->rows) >= PAIRS_OF(size))
    return mr_records_row(records, thread, NULL, site, kind, true);
  if (MR_LOAD(thread->rows) >= ROWS_OF(size))
    return &thread->others;
  uint32_t number = mr_records_take(&board->rows, MARU_LOCKPROF_ROWS);
  if (number == MR_RECORDS_NO_ROOM)
    return &thread->others;
  int saved = errno;
  struct maru_lockprof_row *row = &board->row[number];
  row->address = (uintptr_t)mutex;
  row->called_from = (uintptr_t)site;
  /* The call, not what is after it, which may be another function's. */
  row->site = records->locate(board, (const char *)site - 1);
  if (row->site == 0)
    row->site = MARU_LOCKPROF_PLACE(0, (uintptr_t)site - 1);
  row->mutex = mutex == NULL ? MR_RECORDS_NO_ROOM
                             : find_mutex(records, MR_LOAD(thread->process), mutex, kind);
  MR_ADD(thread->rows, 1);
  /* Release: the row. */
  atomic_store_explicit(entry, (number + 1) | tag, memory_order_release);
  errno = saved;
  return row;
}

/* Most that do not match are told by the tag, without a look at their rows. */
struct maru_lockprof_row *mr_records_row(const struct mr_records *records,
                                         struct maru_lockprof_thread *thread, const void *mutex,
                                         const void *site, int kind, bool makes) {
  uint64_t hash = hash_of((uintptr_t)mutex, (uintptr_t)site);
  uint32_t tag = tag_of(hash);
  struct table table = table_of(records->board, thread);
  for (uint32_t at = first_place(hash);; at++) {
    _Atomic uint32_t *place = &table.entries[at % table.size];
    uint32_t entry = MR_LOAD(*place);
    if (entry == 0)
      return makes ? make_row(records, thread, place, tag, mutex, site, kind) : &thread->others;
    if ((entry & ~MARU_LOCKPROF_TABLE_ROW) != tag)
      continue;
    struct maru_lockprof_row *row = &records->board->row[(entry & MARU_LOCKPROF_TABLE_ROW) - 1];
    if (row->address == (uintptr_t)mutex && row->called_from == (uintptr_t)site)
      return row;
  }
}

uint64_t mr_records_acquisitions(struct maru_lockprof *board, struct maru_lockprof_thread *thread) {
  struct table table = table_of(board, thread);
  uint64_t sum = MR_LOAD(thread->others.acquisitions);
  for (uint32_t i = 0; i < table.size; i++) {
    uint32_t entry = MR_LOAD(table.entries[i]);
    if (entry != 0)
      sum += MR_LOAD(board->row[(entry & MARU_LOCKPROF_TABLE_ROW) - 1].acquisitions);
  }
  return sum;
}

struct maru_lockprof_mutex *mr_records_mutex(struct maru_lockprof *board,
                                             const struct maru_lockprof_row *row) {
  return row->mutex == MR_RECORDS_NO_ROOM ? NULL : &board->mutex[row->mutex];
}

/* ---- shares ---------------------------------------------------------------------- */

struct maru_lockprof_pace *mr_records_pace(struct maru_lockprof *board,
                                           struct maru_lockprof_thread *thread,
                                           struct maru_lockprof_row *row) {
  if (row->pace != 0)
    return &board->pace[row->pace - 1];
  uint32_t number = MR_LOAD(thread->paces);
  while (number != 0 && MR_LOAD(board->pace[number - 1].mutex) != row->mutex)
    number = board->pace[number - 1].next;
  if (number == 0) {
    uint32_t taken = mr_records_take(&board->paces, MARU_LOCKPROF_PACES);
    if (taken == MR_RECORDS_NO_ROOM)
      return NULL;
    number = taken + 1;
    board->pace[taken].next = MR_LOAD(thread->paces);
    MR_STORE(board->pace[taken].mutex, row->mutex);
    MR_STORE(thread->paces, number);
  }
  row->pace = number;
  return &board->pace[number - 1];
}

void mr_records_watch(struct maru_lockprof *board, struct maru_lockprof_mutex *mutex) {
  uint32_t none = 0;
  if (MR_LOAD(mutex->fairness) != 0)
    return;
  uint32_t number = mr_records_take(&board->fairnesses, MARU_LOCKPROF_FAIRNESSES);
  if (number != MR_RECORDS_NO_ROOM)
    MR_STORE(board->fairness[number].mutex, (uint32_t)(mutex - board->mutex));
  /* Another thread may have been first: then ours is never used. */
  atomic_compare_exchange_strong_explicit(
      &mutex->fairness, &none, number == MR_RECORDS_NO_ROOM ? MR_RECORDS_NO_ROOM : number + 1,
      memory_order_relaxed, memory_order_relaxed);
}

/* ---- times ----------------------------------------------------------------------- */

void mr_records_time(struct maru_lockprof *board, struct maru_lockprof_times *times, uint64_t ns,
                     uint32_t weight) {
  uint32_t at = maru_histogram_class(ns);
  _Atomic uint32_t *octave = &times->octaves[at / MARU_OCTAVE_CLASSES];
  MR_ADD(times->samples, 1);
  MR_ADD(times->count, weight);
  MR_ADD(times->sum_ns, ns * weight);
  if (ns > MR_LOAD(times->longest_ns))
    MR_STORE(times->longest_ns, ns);
  uint32_t number = MR_LOAD(*octave);
  if (number == 0) {
    uint32_t taken = mr_records_take(&board->octaves, MARU_LOCKPROF_OCTAVES);
    if (taken == MR_RECORDS_NO_ROOM) {
      MR_ADD(times->octaves_lost, weight);
      return;
    }
    number = taken + 1;
    MR_STORE(*octave, number);
  }
  MR_ADD(board->octave[number - 1][at % MARU_OCTAVE_CLASSES], weight);
}
