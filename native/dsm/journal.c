#define _GNU_SOURCE
#include "journal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x6c6e72756f6a726d)

/* The file's first page. */
struct head {
  uint64_t magic, capacity;
  _Atomic uint64_t begin, end; /* bytes since the beginning of all */
  _Atomic uint32_t torn;
  _Atomic uint64_t sent, sums[2]; /* of `sent` messages in sums[sent % 2] */
};
_Static_assert(sizeof(struct head) <= MR_PAGE, "it fits");

struct entry {
  uint32_t length;
  uint16_t kind, node;
};

/* So many bytes of memory are asked for at once: less often than each page by a fault. */
#define AHEAD (256u * MR_PAGE)

struct mr_journal {
  struct head *head;
  uint8_t *ring;  /* twice in a row */
  uint64_t ready; /* up to that place memory was asked for */
};

static size_t rounded(size_t length) { return (length + 7) & ~(size_t)7; }

/* Relaxed, all: one process at a time, but for its words' being whole when it is killed. */
static uint64_t load(const _Atomic uint64_t *word) {
  return atomic_load_explicit(word, memory_order_relaxed);
}

static int map_ring(struct mr_journal *j, int file, size_t capacity) {
  j->ring = mmap(NULL, 2 * capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (j->ring == MAP_FAILED)
    return -errno;
  for (int half = 0; half < 2; half++)
    if (mmap(j->ring + (size_t)half * capacity, capacity, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, MR_PAGE) == MAP_FAILED) {
      int rc = -errno;
      munmap(j->ring, 2 * capacity);
      return rc;
    }
  return 0;
}

static bool is_journal(const struct head *head, size_t capacity) {
  uint64_t begin = load(&head->begin), end = load(&head->end);
  bool torn = atomic_load_explicit(&head->torn, memory_order_relaxed) != 0;
  return head->magic == MAGIC && head->capacity == capacity &&
         (torn || (begin <= end && end - begin <= capacity));
}

static int map_all(struct mr_journal *j, int file) {
  struct stat is;
  if (fstat(file, &is) < 0)
    return -errno;
  size_t capacity = is.st_size > MR_PAGE ? (size_t)is.st_size - MR_PAGE : 0;
  if (capacity == 0 || capacity % MR_PAGE != 0)
    return -EBADMSG;
  j->head = mmap(NULL, MR_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (j->head == MAP_FAILED)
    return -errno;
  if (j->head->magic == 0)
    *j->head = (struct head){.magic = MAGIC, .capacity = capacity};
  int rc = is_journal(j->head, capacity) ? map_ring(j, file, capacity) : -EBADMSG;
  if (rc < 0)
    munmap(j->head, MR_PAGE);
  return rc;
}

int mr_journal_open(struct mr_journal **journal, int file) {
  struct mr_journal *j = calloc(1, sizeof *j);
  int rc = j != NULL ? map_all(j, file) : -ENOMEM;
  close(file);
  if (rc < 0)
    free(j);
  else
    *journal = j;
  return rc;
}

void mr_journal_close(struct mr_journal *journal) {
  munmap(journal->ring, 2 * journal->head->capacity);
  munmap(journal->head, MR_PAGE);
  free(journal);
}

static void set_torn(struct mr_journal *j, uint32_t torn) {
  atomic_store_explicit(&j->head->torn, torn, memory_order_release);
}

/* Where this process is killed meanwhile, it is torn. Release: in that order. */
void mr_journal_clear(struct mr_journal *journal) {
  struct head *head = journal->head;
  set_torn(journal, 1);
  /* Places begin anew, too: from 0 on all is there that ever happened. */
  atomic_store_explicit(&head->begin, 0, memory_order_release);
  atomic_store_explicit(&head->end, 0, memory_order_release);
  mr_journal_sends(journal, (struct mr_journal_sent){0, 0});
  set_torn(journal, 0);
}

bool mr_journal_torn(const struct mr_journal *journal) {
  return atomic_load_explicit(&journal->head->torn, memory_order_relaxed) != 0;
}

size_t mr_journal_has(const struct mr_journal *journal) {
  return (size_t)(load(&journal->head->end) - load(&journal->head->begin));
}

size_t mr_journal_capacity(const struct mr_journal *journal) {
  return (size_t)journal->head->capacity;
}

/* Release: where this process is killed between both, the sum before is there still. */
void mr_journal_sends(struct mr_journal *journal, struct mr_journal_sent sent) {
  atomic_store_explicit(&journal->head->sums[sent.count % 2], sent.sum, memory_order_relaxed);
  atomic_store_explicit(&journal->head->sent, sent.count, memory_order_release);
}

struct mr_journal_sent mr_journal_sent(const struct mr_journal *journal) {
  uint64_t count = atomic_load_explicit(&journal->head->sent, memory_order_acquire);
  return (struct mr_journal_sent){count, load(&journal->head->sums[count % 2])};
}

uint64_t mr_journal_begin(const struct mr_journal *journal) { return load(&journal->head->begin); }
uint64_t mr_journal_end(const struct mr_journal *journal) { return load(&journal->head->end); }

static uint8_t *place(const struct mr_journal *j, uint64_t at) {
  return j->ring + at % j->head->capacity;
}

static bool fits(const struct mr_journal *j, size_t size) {
  return size <= j->head->capacity - (load(&j->head->end) - load(&j->head->begin));
}

/* A cut makes a torn one whole: from there on all is in it. */
static bool make_room(struct mr_journal *j, enum mr_event_kind kind, size_t size) {
  bool torn = mr_journal_torn(j);
  if (torn && kind == MR_EVENT_CUT) {
    atomic_store_explicit(&j->head->begin, load(&j->head->end), memory_order_relaxed);
    torn = false;
  }
  torn |= !fits(j, size);
  set_torn(j, torn);
  return !torn;
}

/* Behind `end`, before `size` bytes are written there. A kernel that does not know how gives it
 * page by page. */
static void ask_for_memory(struct mr_journal *j, uint64_t end, size_t size) {
  size_t most = j->head->capacity / 16 / MR_PAGE * MR_PAGE;
  most = most < MR_PAGE ? MR_PAGE : most < AHEAD ? most : AHEAD;
  if (end + size <= j->ready && j->ready - end <= most + size)
    return;
  uint64_t from = end / MR_PAGE * MR_PAGE;
  madvise(place(j, from), most, MADV_POPULATE_WRITE);
  j->ready = from + most;
}

bool mr_journal_add(struct mr_journal *journal, enum mr_event_kind kind, uint16_t node,
                    const void *bytes, size_t length) {
  const struct entry entry = {(uint32_t)length, (uint16_t)kind, node};
  size_t size = sizeof entry + rounded(length);
  if (length > UINT32_MAX || !make_room(journal, kind, size))
    return false;
  uint64_t end = load(&journal->head->end);
  ask_for_memory(journal, end, size);
  uint8_t *at = place(journal, end);
  memcpy(at, &entry, sizeof entry);
  if (length > 0)
    memcpy(at + sizeof entry, bytes, length);
  /* Release: a process that finds the end there finds the event. */
  atomic_store_explicit(&journal->head->end, end + size, memory_order_release);
  return true;
}

bool mr_journal_read(const struct mr_journal *journal, uint64_t *at, struct mr_event *event) {
  struct entry entry;
  uint64_t left = load(&journal->head->end) - *at;
  if (left < sizeof entry)
    return false;
  memcpy(&entry, place(journal, *at), sizeof entry);
  size_t size = sizeof entry + rounded(entry.length);
  if (size > left)
    return false;
  *event = (struct mr_event){(enum mr_event_kind)entry.kind, entry.node,
                             place(journal, *at) + sizeof entry, entry.length};
  *at += size;
  return true;
}

/* At most so many bytes are moved to the ring's beginning, whose memory is there: what happened
 * while a checkpoint was written. The node stands meanwhile, but no longer than for new memory. */
#define MOVED (65536u * MR_PAGE)

/* Events go on at the ring's beginning, and with them what is left. Where this process is killed
 * meanwhile the journal is torn. */
static void begin_round(struct mr_journal *j, uint64_t at, uint64_t end) {
  uint64_t capacity = j->head->capacity, begin = (end + capacity - 1) / capacity * capacity;
  uint64_t from = at % capacity, length = end - at;
  if (length > MOVED || from < length || from + length > capacity)
    return;
  set_torn(j, 1);
  memcpy(j->ring, j->ring + from, length);
  atomic_store_explicit(&j->head->begin, begin, memory_order_release);
  atomic_store_explicit(&j->head->end, begin + length, memory_order_release);
  set_torn(j, 0);
}

uint64_t mr_journal_trim(struct mr_journal *journal, uint64_t at) {
  atomic_store_explicit(&journal->head->begin, at, memory_order_release);
  if (!mr_journal_torn(journal))
    begin_round(journal, at, load(&journal->head->end));
  return load(&journal->head->begin);
}
