/* hint.c: reads ahead of streams.
 *
 * A stream is a descriptor whose reads each begin where the last one ended.  For every window
 * that it has read, the reader looks whether what comes next is in the page cache already (a
 * byte, without waiting). If not, a helper thread starts reading it, from a CPU near the device.
 * While it is there the looks get rarer, up to LOOKS_MOST windows apart. The data go into the page
 * cache and nowhere else: the program's own calls are what they were.
 *
 * All fields of a stream are guesses: threads that share a descriptor may mix them up, and then
 * something is read ahead that nobody wanted.
 */
#define _GNU_SOURCE
#include "io.h"

#include "numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#define STREAMS 1024u
#define WINDOW (UINT64_C(2) << 20)
#define LOOKS_MOST 8u
#define FIRST (UINT64_C(1) << 20) /* a file that is shorter is no stream */

/* Relaxed throughout, but for `wanted`: see above. */
#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

struct stream {
  _Atomic uint32_t entry; /* of io_files; another one: another file */
  _Atomic uint64_t next;  /* where the next read begins, of reads at offsets */
  _Atomic uint64_t run;   /* bytes read in a row */
  _Atomic uint64_t due;   /* the run at which something is to be done */
  _Atomic uint32_t apart; /* windows between looks */
  _Atomic bool at_offsets;
  _Atomic uint64_t position, position_run; /* when the last window ended */
  _Atomic uint64_t asked;                  /* read ahead up to here */
  _Atomic uint64_t from;                   /* and from here: for the helper */
};

static struct stream streams[STREAMS];
static _Atomic uint64_t wanted[STREAMS / 64];

void io_hint_fork(void) {
  for (unsigned i = 0; i < STREAMS / 64; i++)
    STORE(wanted[i], 0);
}

/* ---- the reader's side --------------------------------------------------- */

/* A byte that can be had without waiting. */
static bool in_memory(int fd, uint64_t at) {
  char byte;
  struct iovec part = {&byte, 1};
  return io_raw(SYS_preadv2, fd, (long)&part, 1, (long)at, 0, RWF_NOWAIT) >= 0;
}

/* Where the stream is now; false: the program seeks between its reads. */
static bool in_order(int fd, struct stream *s, uint64_t run, uint64_t *at) {
  int64_t now =
      LOAD(s->at_offsets) ? (int64_t)LOAD(s->next) : io_raw(SYS_lseek, fd, 0, SEEK_CUR, 0, 0, 0);
  *at = (uint64_t)now;
  bool same = now >= 0 && (LOAD(s->position_run) == 0 ||
                           *at - LOAD(s->position) == run - LOAD(s->position_run));
  STORE(s->position, *at);
  STORE(s->position_run, run);
  return same;
}

/* What it reads does not come from the page cache: reading ahead would read everything twice. */
static bool past_cache(int fd) {
  return (io_raw(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0) & O_DIRECT) != 0;
}

static void look_ahead(int fd, struct stream *s, uint64_t run) {
  uint64_t at, asked = LOAD(s->asked);
  if (!in_order(fd, s, run, &at) || past_cache(fd))
    return;
  uint64_t from = asked >= at && asked < at + 2 * WINDOW ? asked : at;
  STORE(s->asked, at + 2 * WINDOW);
  if (in_memory(fd, from)) {
    uint32_t apart = LOAD(s->apart);
    STORE(s->apart, apart < LOOKS_MOST ? 2 * apart : LOOKS_MOST);
    return;
  }
  STORE(s->apart, 1);
  STORE(s->from, from);
  /* Release: the stream's fields. */
  atomic_fetch_or_explicit(&wanted[(unsigned)fd / 64], UINT64_C(1) << (unsigned)fd % 64,
                           memory_order_release);
  io_context_ring(IO_HINT_CONTEXT);
}

static void window_ends(int fd, struct stream *s, uint64_t run) {
  look_ahead(fd, s, run);
  STORE(s->due, run + LOAD(s->apart) * WINDOW);
}

static void hint_begin(struct stream *s, uint32_t entry, bool at_offsets) {
  STORE(s->run, 0);
  STORE(s->due, FIRST);
  STORE(s->apart, 1);
  STORE(s->position_run, 0);
  STORE(s->asked, 0);
  STORE(s->at_offsets, at_offsets);
  STORE(s->entry, entry);
}

void io_hint_read(int fd, uint32_t entry, int64_t offset, size_t bytes) {
  /* Relaxed: nobody reads ahead for a process that is direct. */
  if ((unsigned)fd >= STREAMS || LOAD(io_process.direct))
    return;
  struct stream *s = &streams[fd];
  bool at_offsets = offset >= 0;
  if (LOAD(s->entry) != entry || LOAD(s->at_offsets) != at_offsets ||
      (at_offsets && LOAD(s->next) != (uint64_t)offset))
    hint_begin(s, entry, at_offsets);
  if (at_offsets)
    STORE(s->next, (uint64_t)offset + bytes);
  uint64_t run = LOAD(s->run) + bytes;
  STORE(s->run, run);
  if (run >= LOAD(s->due)) {
    int saved = errno;
    window_ends(fd, s, run);
    errno = saved;
  }
}

/* ---- the helper's side --------------------------------------------------- */

/* The node of the device, or -1: walks up from the block device to the first that knows. */
static int node_of(dev_t device) {
  char link[64], path[PATH_MAX], text[16];
  snprintf(link, sizeof link, "/sys/dev/block/%u:%u", major(device), minor(device));
  if (realpath(link, path) == NULL)
    return -1;
  for (char *end; (end = strrchr(path, '/')) != NULL && end != path; *end = '\0') {
    size_t length = strlen(path);
    snprintf(path + length, sizeof path - length, "/numa_node");
    long fd = io_raw(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    path[length] = '\0';
    if (fd < 0)
      continue;
    long got = io_raw(SYS_read, fd, (long)text, sizeof text - 1, 0, 0, 0);
    io_raw(SYS_close, fd, 0, 0, 0, 0, 0);
    text[got > 0 ? got : 0] = '\0';
    return got > 0 ? (int)mr_leading(text, -1, INT32_MAX, -1) : -1;
  }
  return -1;
}

static void settle_near(int fd) {
  static __thread dev_t near; /* the helper may have ended, and begun again elsewhere */
  struct stat status;
  if (fstat(fd, &status) < 0 || status.st_dev == near)
    return;
  near = status.st_dev;
  int node = node_of(near);
  if (node >= 0)
    io_settle_on_node((unsigned)node);
}

static void read_ahead(int fd) {
  struct stream *s = &streams[fd];
  uint32_t entry = LOAD(s->entry);
  uint64_t from = LOAD(s->from), asked = LOAD(s->asked);
  if (entry == 0 || asked <= from ||
      entry != atomic_load_explicit(&io_files[fd], memory_order_acquire))
    return;
  settle_near(fd);
  io_raw(SYS_readahead, fd, (long)from, (long)(asked - from), 0, 0, 0);
  struct maru_io_line *line = io_line();
  io_add(line, &line->hints, 1);
}

bool io_hint_work(struct context *helper) {
  (void)helper; /* the work of all is in `wanted` */
  bool any = false;
  for (unsigned w = 0; w < STREAMS / 64; w++) {
    if (LOAD(wanted[w]) == 0)
      continue;
    /* Acquire: the streams' fields. */
    uint64_t set = atomic_exchange_explicit(&wanted[w], 0, memory_order_acquire);
    for (; set != 0; set &= set - 1)
      read_ahead((int)(w * 64) + __builtin_ctzll(set));
    any = true;
  }
  return any;
}
