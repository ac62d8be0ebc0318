/* log.c: append-only log in shared memory; one producer, one consumer.
 *
 * Layout: one page of header, then records.  A record is {word, index, chunk},
 * 16-byte aligned; `word` is COMMITTED | kind | length and is stored last.
 *
 * Crash-safety rests on one invariant: the word at offset `last`, where the
 * next record begins, is zero until that record is committed. Fresh pages are zero. A chunk may
 * have left bytes beyond the record's final end, where a reserve was shortened or replaced. So
 * commit clears the next word before it
 * publishes.  The consumer follows words only; last, count and closed are what
 * the producer says about itself.
 *
 * Bounds and positions are each process's own memory, copied by fork. A stray write into the shared
 * pages, header included, cannot lead a consumer out of what it has mapped.
 */
#define _GNU_SOURCE
#include <maru/channel.h>

#include "shared.h"

#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define COMMITTED (UINT64_C(1) << 63)
#define KIND_SHIFT 48
#define KIND_MAX 32767u
#define LENGTH_MASK ((UINT64_C(1) << KIND_SHIFT) - 1)
#define CAPACITY_MAX (UINT64_C(1) << 47)
#define ALIGNMENT 16u
#define RELEASE_STEP (UINT64_C(1) << 20)

struct record {
  _Atomic uint64_t word;
  uint64_t index;
};

_Static_assert(sizeof(struct record) == ALIGNMENT, "chunks are 16-byte aligned");

/* The first page; all of it the producer's. */
struct shared {
  _Atomic uint64_t last; /* bytes used */
  _Atomic uint64_t count;
  /* Written once.  Apart from `last`, because an idle consumer reads it at each look. */
  alignas(MR_CACHE_LINE) _Atomic uint32_t closed;
};

/* A process's own; producer and consumer may be threads of one. */
struct maru_log {
  /* Fixed at creation. */
  struct shared *shared;
  char *records;
  uint64_t capacity; /* bytes of records */

  alignas(MR_CACHE_LINE) uint64_t reserved; /* by the producer's last reserve */

  /* The consumer's. */
  alignas(MR_CACHE_LINE) uint64_t next; /* offset of the record to read next */
  uint64_t current;                     /* offset of the record read last */
  uint64_t released;                    /* everything before it went back */
};

static struct record *record_at(const struct maru_log *log, uint64_t offset) {
  return (struct record *)(log->records + offset);
}

static uint64_t record_size(uint64_t length) {
  return sizeof(struct record) + ((length + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1));
}

int maru_log_create(struct maru_log **log, uint64_t capacity) {
  if (capacity == 0 || capacity > CAPACITY_MAX)
    return -EINVAL;
  uint64_t header = mr_page_round(sizeof(struct shared));
  capacity = mr_page_round(capacity);
  struct maru_log *made = aligned_alloc(MR_CACHE_LINE, sizeof *made);
  if (made == NULL)
    return -ENOMEM;
  void *memory;
  int rc = mr_shared_map("maru-log", header + capacity, &memory);
  if (rc < 0) {
    free(made);
    return rc;
  }
  *made =
      (struct maru_log){.shared = memory, .records = (char *)memory + header, .capacity = capacity};
  *log = made;
  return 0;
}

void maru_log_destroy(struct maru_log *log) {
  munmap(log->shared, (size_t)(log->records - (char *)log->shared) + log->capacity);
  free(log);
}

/* ---- producer ---------------------------------------------------------- */

/* Only the producer writes `last`, so its own loads may be relaxed. */
static uint64_t own_last(struct maru_log *log) {
  return atomic_load_explicit(&log->shared->last, memory_order_relaxed);
}

int maru_log_reserve(struct maru_log *log, uint64_t length, void **chunk) {
  uint64_t last = own_last(log);
  if (length > CAPACITY_MAX || record_size(length) > log->capacity - last)
    return -ENOSPC;
  log->reserved = length;
  *chunk = record_at(log, last) + 1;
  return 0;
}

void maru_log_commit(struct maru_log *log, uint64_t length, uint64_t index, uint32_t kind) {
  assert(length <= log->reserved && kind <= KIND_MAX);
  uint64_t last = own_last(log);
  struct record *record = record_at(log, last);
  uint64_t end = last + record_size(length);
  /* Relaxed: the release below orders it before the record, and nobody looks at
   * this word before having seen the record. */
  if (end < log->capacity)
    atomic_store_explicit(&record_at(log, end)->word, 0, memory_order_relaxed);
  record->index = index;
  /* Release: chunk, index and the cleared word come with the record. */
  atomic_store_explicit(&record->word, COMMITTED | (uint64_t)kind << KIND_SHIFT | length,
                        memory_order_release);
  log->reserved = 0;
  /* Relaxed: figures about the log; nobody reads records by them. */
  atomic_store_explicit(&log->shared->last, end, memory_order_relaxed);
  uint64_t count = atomic_load_explicit(&log->shared->count, memory_order_relaxed);
  atomic_store_explicit(&log->shared->count, count + 1, memory_order_relaxed);
}

int maru_log_append(struct maru_log *log, uint64_t index, uint32_t kind, const void *chunk,
                    uint64_t length) {
  void *room;
  if (kind > KIND_MAX)
    return -EINVAL;
  int rc = maru_log_reserve(log, length, &room);
  if (rc < 0)
    return rc;
  if (length > 0)
    memcpy(room, chunk, length);
  maru_log_commit(log, length, index, kind);
  return 0;
}

void maru_log_close(struct maru_log *log) {
  /* Release: a consumer that sees the close sees every record before it. */
  atomic_store_explicit(&log->shared->closed, 1, memory_order_release);
}

int maru_log_closed(const struct maru_log *log) {
  /* Acquire: pairs with the release above. */
  return atomic_load_explicit(&log->shared->closed, memory_order_acquire) != 0;
}

uint64_t maru_log_room(const struct maru_log *log) { return log->capacity - maru_log_last(log); }

/* ---- consumer ---------------------------------------------------------- */

static uint64_t next_word(struct maru_log *log) {
  if (log->next >= log->capacity)
    return 0;
  /* Acquire: pairs with the release in commit. */
  return atomic_load_explicit(&record_at(log, log->next)->word, memory_order_acquire);
}

/* As next_word, and -EPIPE when there will never be one. */
static int peek(struct maru_log *log, uint64_t *word) {
  *word = next_word(log);
  if (*word != 0)
    return 1;
  /* Acquire: a record committed before the close is seen by the second look. */
  if (!atomic_load_explicit(&log->shared->closed, memory_order_acquire))
    return 0;
  *word = next_word(log);
  return *word != 0 ? 1 : -EPIPE;
}

int maru_log_next(struct maru_log *log, struct maru_record *record) {
  uint64_t word;
  int rc = peek(log, &word);
  if (rc <= 0)
    return rc;
  uint64_t length = word & LENGTH_MASK;
  if (!(word & COMMITTED) || record_size(length) > log->capacity - log->next)
    return -EBADMSG;
  struct record *found = record_at(log, log->next);
  *record = (struct maru_record){.chunk = found + 1,
                                 .length = length,
                                 .index = found->index,
                                 .kind = word >> KIND_SHIFT & KIND_MAX};
  log->current = log->next;
  log->next += record_size(length);
  return 1;
}

void maru_log_release(struct maru_log *log) {
  if (log->current - log->released < RELEASE_STEP)
    return;
  uint64_t keep = log->current & ~(mr_page_round(1) - 1);
  /* A refusal costs memory, never a record; the next step tries the whole
   * range again. */
  if (madvise(record_at(log, log->released), keep - log->released, MADV_REMOVE) == 0)
    log->released = keep;
}

uint64_t maru_log_count(const struct maru_log *log) {
  /* Relaxed: a figure (see commit). */
  return atomic_load_explicit(&log->shared->count, memory_order_relaxed);
}

uint64_t maru_log_last(const struct maru_log *log) {
  return atomic_load_explicit(&log->shared->last, memory_order_relaxed);
}

void maru_publish(_Atomic uint64_t *word, uint64_t value) {
  atomic_store_explicit(word, value, memory_order_release);
}

uint64_t maru_observe(const _Atomic uint64_t *word) {
  return atomic_load_explicit(word, memory_order_acquire);
}
