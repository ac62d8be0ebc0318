/* board.c: header, directory and text log of a run's shared region.
 *
 * What is read from the board may be hostile. Each value is loaded once (atomically, so that the
 * compiler cannot load it again), then checked, then used. The mapping's bounds are this process's
 * own knowledge: the memfd is sealed against shrinking, and its size comes from fstat.
 *
 * Directory.  An entry is taken by a compare-and-swap of its key (a hash of the
 * name) from 0.  Entries are tried in order and never given back, so two adders
 * of one name meet at the same entry and one of them loses. The process that has the entry takes
 * the room, so that a loser takes none. `ready` is stored last, with release order; it is a word of
 * maru_wait's, for the loser. Where no room was left it says so, and the next adder of the name
 * tries again.
 *
 * Text log.  A writer takes a number, writes the text, then stores a hash over
 * both.  A reader that finds another hash has met a line which is being written,
 * was overwritten, or whose writer died.
 */
#define _GNU_SOURCE
#include <maru/board.h>
#include <maru/wait.h>

#include "note.h"
#include "process.h"
#include "shared.h"
#include "task.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x6472616f62757261) /* "aruboard" */
#define ALIGNMENT ((uint64_t)MR_CACHE_LINE)
#define NAME_WORDS ((MARU_BOARD_NAME_MAX + 1) / 8)
#define LINES 256u
#define LINE_WORDS 25 /* 200 bytes */
#define LINE_BYTES (LINE_WORDS * 8)
#define READY 2u                    /* bit 0 is maru_wait's */
#define REFUSED 4u                  /* no room was left */
#define ADDED_NS INT64_C(100000000) /* an adder that takes longer was killed or stopped */

struct entry {
  alignas(MR_CACHE_LINE) _Atomic uint64_t key; /* 0: not taken */
  _Atomic uint32_t ready;
  _Atomic uint32_t version;
  _Atomic uint64_t offset; /* from the start of the board */
  _Atomic uint64_t size;
  _Atomic uint64_t name[NAME_WORDS];
};

struct line {
  _Atomic uint64_t hash;
  _Atomic uint64_t text[LINE_WORDS];
};

struct header {
  _Atomic uint64_t magic;
  _Atomic uint32_t version;
  _Atomic int32_t owner_pid;
  _Atomic uint64_t owner_start;
  _Atomic uint64_t size;
  alignas(MR_CACHE_LINE) _Atomic uint64_t used; /* bytes from the start */
  alignas(MR_CACHE_LINE) _Atomic uint64_t said; /* lines */
  struct entry directory[MARU_BOARD_SECTIONS];
  struct line lines[LINES];
};

_Static_assert(offsetof(struct header, version) == MARU_BOARD_VERSION_AT, "as maru/board.h says");
_Static_assert(sizeof(struct maru_board) <= 24, "Maru.Native.Hall has room for it");

/* Within a board that is mapped, order is needed in two places only: `ready`
 * and a line's hash.  All other words are loaded and stored relaxed. */
#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

static struct header *header_of(const struct maru_board *board) { return board->base; }

/* FNV-1a over 64-bit words, never 0. */
static uint64_t hash_words(uint64_t seed, const uint64_t *words, unsigned count) {
  uint64_t hash = (UINT64_C(0xcbf29ce484222325) ^ seed) * UINT64_C(0x100000001b3);
  for (unsigned i = 0; i < count; i++) {
    hash = (hash ^ words[i]) * UINT64_C(0x100000001b3);
    hash ^= hash >> 29;
  }
  return hash | 1;
}

/* ---- creating, opening, closing ---------------------------------------- */

static int map_board(struct maru_board *board, int fd, size_t size, uid_t user) {
  void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) {
    int error = errno;
    close(fd);
    return -error;
  }
  *board = (struct maru_board){.base = base, .size = size, .fd = fd, .user = user};
  return 0;
}

int maru_board_create(struct maru_board *board, size_t size) {
  size_t room = size == 0 || size > SIZE_MAX / 2 ? 0 : mr_page_round(sizeof(struct header) + size);
  if (room == 0)
    return -EINVAL;
  int fd = mr_sealed_memfd("maru-board", room);
  if (fd < 0)
    return fd;
  struct stat status;
  if (fstat(fd, &status) < 0) {
    close(fd);
    return -EIO;
  }
  int rc = map_board(board, fd, room, status.st_uid);
  if (rc < 0)
    return rc;
  struct header *header = header_of(board);
  STORE(header->version, MARU_BOARD_VERSION);
  STORE(header->owner_pid, (int32_t)getpid());
  STORE(header->owner_start, mr_start_time(getpid()));
  STORE(header->size, room);
  STORE(header->used, (sizeof *header + ALIGNMENT - 1) & ~(ALIGNMENT - 1));
  /* Release: with the magic comes the rest of the header. */
  atomic_store_explicit(&header->magic, MAGIC, memory_order_release);
  return 0;
}

/* Opens what was found to be a memfd. */
static int open_memfd(int found, const struct stat *status) {
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", found);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  int seals = fcntl(fd, F_GET_SEALS);
  /* Unsealed, it could shrink under us: SIGBUS. */
  if (seals >= 0 && (seals & F_SEAL_SHRINK) && (uint64_t)status->st_size >= sizeof(struct header))
    return fd;
  close(fd);
  return -EPROTO;
}

static int check_header(const struct maru_board *board, size_t size) {
  struct header *header = header_of(board);
  /* Acquire: pairs with the release in create. */
  if (atomic_load_explicit(&header->magic, memory_order_acquire) != MAGIC)
    return -EPROTO;
  if (LOAD(header->version) != MARU_BOARD_VERSION)
    return -ENOTSUP;
  return LOAD(header->size) == size ? 0 : -EPROTO;
}

static int check_content(const struct maru_board *board) {
  struct maru_board_section section;
  int rc = check_header(board, board->size);
  for (unsigned i = 0; rc == 0; i++)
    rc = maru_board_section_at(board, i, &section);
  return rc == -ENOENT ? 0 : rc;
}

static int open_file(const char *path, uid_t user, struct stat *status) {
  int found = mr_memfd_at(path, status);
  if (found < 0)
    return found;
  int fd = status->st_uid == user ? open_memfd(found, status) : -EACCES;
  close(found);
  return fd;
}

int maru_board_open_of(struct maru_board *board, const char *path, uid_t user) {
  struct stat status;
  int fd = open_file(path, user, &status);
  if (fd < 0)
    return fd;
  struct maru_board opened;
  int rc = map_board(&opened, fd, (size_t)status.st_size, user);
  if (rc < 0)
    return rc;
  rc = check_content(&opened);
  if (rc < 0)
    maru_board_close(&opened);
  else
    *board = opened;
  return rc;
}

int maru_board_open(struct maru_board *board, const char *path) {
  return maru_board_open_of(board, path, geteuid());
}

int maru_board_open_env(struct maru_board *board) {
  const char *path = getenv(MARU_BOARD_ENV);
  return path == NULL || *path == '\0' ? -ENOENT : maru_board_open(board, path);
}

void maru_board_forget_fd(struct maru_board *board) {
  if (board->fd >= 0)
    close(board->fd);
  board->fd = -1;
}

void maru_board_close(struct maru_board *board) {
  munmap(board->base, board->size);
  maru_board_forget_fd(board);
  *board = (struct maru_board){.fd = -1};
}

int maru_board_owner_of(const struct maru_board *board, struct maru_board_owner *owner) {
  struct header *header = header_of(board);
  struct maru_board_owner claim = {.pid = LOAD(header->owner_pid),
                                   .start_time = LOAD(header->owner_start)};
  struct mr_task task;
  /* First: what lives after the look has had its number since before it. */
  int pidfd = claim.pid > 0 ? maru_pidfd_open(claim.pid) : -ESRCH;
  if (pidfd < 0)
    return -ESRCH;
  struct pollfd end = {.fd = pidfd, .events = POLLIN};
  bool good = claim.start_time != 0 && mr_start_time(claim.pid) == claim.start_time &&
              mr_task_read(claim.pid, &task) == 0 && task.users[0] == board->user &&
              poll(&end, 1, 0) == 0;
  close(pidfd);
  if (good)
    *owner = claim;
  return good ? 0 : -ESRCH;
}

/* ---- directory --------------------------------------------------------- */

/* The name as the directory holds it: words, padded with zeros. */
static int pack_name(const char *name, uint64_t words[NAME_WORDS]) {
  size_t length = strlen(name);
  if (length > MARU_BOARD_NAME_MAX)
    return -ENAMETOOLONG;
  if (length == 0)
    return -EINVAL;
  memset(words, 0, NAME_WORDS * sizeof *words);
  memcpy(words, name, length);
  return 0;
}

/* Copies what an entry says, checked.  1; 0: not ready; -EPROTO: impossible. */
static int read_entry(const struct maru_board *board, struct entry *entry,
                      struct maru_board_section *section) {
  /* Acquire: pairs with the release in fill_entry. */
  if (!(atomic_load_explicit(&entry->ready, memory_order_acquire) & READY))
    return 0;
  uint64_t offset = LOAD(entry->offset), size = LOAD(entry->size), words[NAME_WORDS];
  for (unsigned i = 0; i < NAME_WORDS; i++)
    words[i] = LOAD(entry->name[i]);
  *section = (struct maru_board_section){.version = LOAD(entry->version), .size = size};
  memcpy(section->name, words, sizeof section->name);
  if (section->name[0] == '\0' || section->name[MARU_BOARD_NAME_MAX] != '\0')
    return -EPROTO;
  if (offset % ALIGNMENT != 0 || offset < sizeof(struct header) || offset > board->size ||
      size > board->size - offset)
    return -EPROTO;
  section->data = (char *)board->base + offset;
  return 1;
}

int maru_board_section_at(const struct maru_board *board, unsigned position,
                          struct maru_board_section *section) {
  for (unsigned i = 0; i < MARU_BOARD_SECTIONS; i++) {
    int rc = read_entry(board, &header_of(board)->directory[i], section);
    if (rc < 0)
      return rc;
    if (rc > 0 && position-- == 0)
      return 0;
  }
  return -ENOENT;
}

int maru_board_find(const struct maru_board *board, const char *name, uint32_t version, size_t size,
                    void **data) {
  struct maru_board_section section;
  for (unsigned i = 0;; i++) {
    int rc = maru_board_section_at(board, i, &section);
    if (rc < 0)
      return rc;
    if (strcmp(section.name, name) == 0)
      break;
  }
  if (section.version != version || section.size < size)
    return -ENOTSUP;
  *data = section.data;
  return 0;
}

/* 0, and what is used; -ENOSPC; -EPROTO. */
static int has_room(const struct maru_board *board, uint64_t size, uint64_t *used) {
  *used = LOAD(header_of(board)->used);
  if (*used < sizeof(struct header) || *used % ALIGNMENT != 0 || *used > board->size)
    return -EPROTO;
  return size > board->size - *used ? -ENOSPC : 0;
}

/* Takes `size` bytes from the free part. */
static int allocate(struct maru_board *board, uint64_t size, uint64_t *offset) {
  int rc;
  do {
    rc = has_room(board, size, offset);
    if (rc < 0)
      return rc;
  } while (!atomic_compare_exchange_weak_explicit(
      &header_of(board)->used, offset, *offset + ((size + ALIGNMENT - 1) & ~(ALIGNMENT - 1)),
      memory_order_relaxed, memory_order_relaxed));
  return 0;
}

static bool has_name(const struct entry *entry, const uint64_t words[NAME_WORDS]) {
  for (unsigned i = 0; i < NAME_WORDS; i++)
    if (LOAD(entry->name[i]) != words[i])
      return false;
  return true;
}

/* 0: the entry is ours.  1: it is another name's.  -EEXIST: this name's. */
static int take_entry(struct entry *entry, uint64_t key, const uint64_t words[NAME_WORDS]) {
  uint64_t found = 0;
  if (atomic_compare_exchange_strong_explicit(&entry->key, &found, key, memory_order_relaxed,
                                              memory_order_relaxed))
    return 0;
  if (found != key)
    return 1;
  /* Acquire: the name.  Not ready: being added, by somebody with this key. */
  uint32_t ready = atomic_load_explicit(&entry->ready, memory_order_acquire);
  if (ready & READY)
    return has_name(entry, words) ? -EEXIST : 1;
  /* Relaxed: an entry that was refused has nothing else in it. A process that waits for it waits
   * on. */
  bool again = ready & REFUSED &&
               atomic_compare_exchange_strong_explicit(&entry->ready, &ready, ready & ~REFUSED,
                                                       memory_order_relaxed, memory_order_relaxed);
  return again ? 0 : -EEXIST;
}

/* Of an entry that is ours. */
static int fill_entry(struct maru_board *board, struct entry *entry,
                      const uint64_t words[NAME_WORDS], uint32_t version, uint64_t size,
                      void **data) {
  uint64_t offset;
  int rc = allocate(board, size, &offset);
  if (rc < 0) {
    maru_notify_store(&entry->ready, REFUSED);
    return rc;
  }
  for (unsigned i = 0; i < NAME_WORDS; i++)
    STORE(entry->name[i], words[i]);
  STORE(entry->version, version);
  STORE(entry->offset, offset);
  STORE(entry->size, size);
  /* Release: a reader that sees it ready sees the whole entry. */
  maru_notify_store(&entry->ready, READY);
  *data = (char *)board->base + offset;
  return 0;
}

int maru_board_add(struct maru_board *board, const char *name, uint32_t version, size_t size,
                   void **data) {
  uint64_t words[NAME_WORDS], used;
  void *existing;
  int rc = pack_name(name, words);
  if (rc < 0)
    return rc;
  rc = maru_board_find(board, name, version, 0, &existing);
  if (rc != -ENOENT)
    return rc == -EPROTO ? rc : -EEXIST;
  /* An entry is not taken for what has no room now; one that loses its room in a race is
   * marked. */
  rc = has_room(board, size, &used);
  uint64_t key = hash_words(0, words, NAME_WORDS);
  for (unsigned i = 0; i < MARU_BOARD_SECTIONS && rc == 0; i++) {
    struct entry *entry = &header_of(board)->directory[i];
    rc = take_entry(entry, key, words);
    if (rc == 0)
      return fill_entry(board, entry, words, version, size, data);
    rc = rc < 0 ? rc : 0;
  }
  return rc < 0 ? rc : -ENOSPC;
}

/* Until no entry of that key is being added.  0, -EINTR or -ETIMEDOUT. */
static int await_added(struct maru_board *board, uint64_t key, int64_t deadline_ns) {
  struct maru_wait_policy policy;
  (void)maru_wait_policy_init(&policy, MARU_WAIT_BLOCK); /* a kind that there is */
  for (unsigned i = 0; i < MARU_BOARD_SECTIONS; i++) {
    struct entry *entry = &header_of(board)->directory[i];
    int rc = LOAD(entry->key) != key
                 ? 0
                 : maru_wait_while(&entry->ready, 0, READY | REFUSED, &policy, deadline_ns);
    if (rc < 0)
      return rc;
  }
  return 0;
}

int maru_board_share(struct maru_board *board, const char *name, uint32_t version, size_t size,
                     void **data) {
  uint64_t words[NAME_WORDS];
  int64_t deadline_ns = maru_now_ns() + ADDED_NS;
  for (;;) {
    int rc = maru_board_find(board, name, version, size, data);
    if (rc == -ENOENT)
      rc = maru_board_add(board, name, version, size, data);
    if (rc != -EEXIST)
      return rc;
    (void)pack_name(name, words); /* maru_board_add has taken it */
    uint64_t key = hash_words(0, words, NAME_WORDS);
    do
      rc = await_added(board, key, deadline_ns);
    while (rc == -EINTR);
    if (rc < 0 || maru_now_ns() >= deadline_ns)
      return rc < 0 ? rc : -ETIMEDOUT;
  }
}

/* ---- text log ---------------------------------------------------------- */

int maru_board_say(struct maru_board *board, const char *room, const char *format, ...) {
  struct header *header = header_of(board);
  char text[LINE_BYTES + 1] = {0};
  int length = snprintf(text, sizeof text, "%s: ", room);
  if (length < 0)
    return -EINVAL;
  if ((size_t)length < sizeof text) {
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    if (more < 0)
      return -EINVAL;
  }
  uint64_t words[LINE_WORDS];
  memcpy(words, text, sizeof words);
  /* Relaxed: a number of our own; the hash publishes the line. */
  uint64_t number = atomic_fetch_add_explicit(&header->said, 1, memory_order_relaxed);
  struct line *line = &header->lines[number % LINES];
  for (unsigned i = 0; i < LINE_WORDS; i++)
    STORE(line->text[i], words[i]);
  /* Release: the text comes with its hash. */
  atomic_store_explicit(&line->hash, hash_words(number, words, LINE_WORDS), memory_order_release);
  return 0;
}

int mr_board_note(const char *path, const char *room, const char *text) {
  struct stat status;
  int fd = open_file(path, geteuid(), &status);
  if (fd < 0)
    return fd;
  struct maru_board front;
  int rc = map_board(&front, fd, mr_page_round(sizeof(struct header)), geteuid());
  if (rc < 0)
    return rc;
  rc = check_header(&front, (size_t)status.st_size);
  if (rc == 0)
    rc = maru_board_say(&front, room, "%s", text);
  maru_board_close(&front);
  return rc;
}

void maru_board_lines(const struct maru_board *board, uint64_t *first, uint64_t *end) {
  *end = LOAD(header_of(board)->said);
  *first = *end > LINES ? *end - LINES : 0;
}

int maru_board_line(const struct maru_board *board, uint64_t number, char *text, size_t size) {
  struct header *header = header_of(board);
  uint64_t said = LOAD(header->said), words[LINE_WORDS];
  if (number >= said)
    return -ENOENT;
  if (said - number > LINES)
    return -ESTALE;
  struct line *line = &header->lines[number % LINES];
  /* Acquire: pairs with the release in say. */
  uint64_t hash = atomic_load_explicit(&line->hash, memory_order_acquire);
  for (unsigned i = 0; i < LINE_WORDS; i++)
    words[i] = LOAD(line->text[i]);
  if (hash != hash_words(number, words, LINE_WORDS))
    return LOAD(header->said) - number > LINES ? -ESTALE : -EAGAIN;
  if (size == 0)
    return 0;
  snprintf(text, size, "%.*s", LINE_BYTES, (const char *)words);
  mr_plain(text);
  return 0;
}
