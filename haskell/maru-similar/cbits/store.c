/* Blocks and their checksums. */
#define _POSIX_C_SOURCE 200809L

#include "store.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct section {
  uint64_t offset, bytes;
};

/* The first block. */
struct header {
  char magic[8];
  uint32_t order, version, recipe, submissions;
  uint64_t bytes; /* of the whole file */
  struct section sections[STORE_SECTIONS];
  uint64_t sums, sum_of_sums; /* where the checksums are */
  uint64_t own;               /* of all before */
};

_Static_assert(sizeof(struct header) <= STORE_BLOCK, "a header is a block");

static const char magic[8] = {'m', 'a', 'r', 'u', 's', 'i', 'm', '\n'};
enum { ORDER = 0x01020304, CHUNK = 16 * STORE_BLOCK };

/* Each step can be undone, so two runs of words of which one differs have different sums; others
 * have the same by chance of 2^-64. The bytes are a multiple of 8. */
static uint64_t sum_of(const void *bytes, size_t size) {
  uint64_t lane[4] = {1, 2, 3, 4}, word, h = size;
  const unsigned char *at = bytes;

  for (size_t i = 0; i < size / 8; i++) {
    memcpy(&word, at + 8 * i, 8);
    uint64_t x = lane[i & 3] ^ word;
    x *= 0x9e3779b97f4a7c15ull;
    lane[i & 3] = x << 29 | x >> 35;
  }
  for (int i = 0; i < 4; i++) {
    h = (h ^ lane[i]) * 0xff51afd7ed558ccdull;
    h ^= h >> 32;
  }
  return h;
}

static uint64_t blocks_of(uint64_t bytes) { return (bytes + STORE_BLOCK - 1) / STORE_BLOCK; }

static int read_all(int fd, void *to, uint64_t size, uint64_t offset) {
  for (uint64_t done = 0; done < size;) {
    const ssize_t n = pread(fd, (char *)to + done, size - done, (off_t)(offset + done));
    if (n < 0 && errno != EINTR)
      return -errno;
    if (n == 0)
      return -EBADMSG;
    if (n > 0)
      done += (uint64_t)n;
  }
  return 0;
}

static int write_all(int fd, const void *from, uint64_t size, uint64_t offset) {
  for (uint64_t done = 0; done < size;) {
    const ssize_t n = pwrite(fd, (const char *)from + done, size - done, (off_t)(offset + done));
    if (n < 0 && errno != EINTR)
      return -errno;
    if (n > 0)
      done += (uint64_t)n;
  }
  return 0;
}

/* Reading ---------------------------------------------------------------------------------------
 */

struct maru_similar_store {
  int fd;
  struct header header;
  uint64_t *sums;
};

/* Every section lies between the header and the checksums. */
static int in_bounds(const struct header *h, uint64_t size) {
  if (h->bytes != size || h->sums % STORE_BLOCK != 0 || h->sums < STORE_BLOCK || h->sums > size ||
      size - h->sums != (h->sums / STORE_BLOCK - 1) * 8)
    return 0;
  for (int s = 0; s < STORE_SECTIONS; s++) {
    const struct section section = h->sections[s];
    if (section.bytes > 0 && (section.offset % STORE_BLOCK != 0 || section.offset < STORE_BLOCK ||
                              section.offset > h->sums || section.bytes > h->sums - section.offset))
      return 0;
  }
  return 1;
}

static int read_header(struct maru_similar_store *x, uint32_t recipe) {
  struct header *h = &x->header;
  struct stat status;
  if (fstat(x->fd, &status) < 0)
    return -errno;
  if (!S_ISREG(status.st_mode) || status.st_size < STORE_BLOCK)
    return -ENOEXEC;
  const int failure = read_all(x->fd, h, sizeof *h, 0);
  if (failure < 0)
    return failure;
  if (memcmp(h->magic, magic, sizeof magic) != 0)
    return -ENOEXEC;
  if (h->order != ORDER || h->version != STORE_VERSION)
    return -EPROTONOSUPPORT;
  if (h->own != sum_of(h, offsetof(struct header, own)) || !in_bounds(h, (uint64_t)status.st_size))
    return -EBADMSG;
  return h->recipe == recipe ? 0 : -EPROTONOSUPPORT;
}

static int read_sums(struct maru_similar_store *x) {
  const uint64_t size = x->header.bytes - x->header.sums;
  x->sums = malloc(size + 8);
  if (x->sums == NULL)
    return -ENOMEM;
  const int failure = read_all(x->fd, x->sums, size, x->header.sums);
  if (failure < 0)
    return failure;
  return sum_of(x->sums, size) == x->header.sum_of_sums ? 0 : -EBADMSG;
}

int maru_similar_store_open(int fd, uint32_t recipe, struct maru_similar_store **store) {
  struct maru_similar_store *x = calloc(1, sizeof *x);
  if (x == NULL) {
    close(fd);
    return -ENOMEM;
  }
  x->fd = fd;
  int failure = read_header(x, recipe);
  if (failure == 0)
    failure = read_sums(x);
  if (failure < 0)
    maru_similar_store_close(x);
  else
    *store = x;
  return failure;
}

void maru_similar_store_close(struct maru_similar_store *x) {
  if (x == NULL)
    return;
  close(x->fd);
  free(x->sums);
  free(x);
}

uint32_t maru_similar_store_submissions(const struct maru_similar_store *x) {
  return x->header.submissions;
}

uint64_t maru_similar_store_bytes(const struct maru_similar_store *x, int section) {
  return x->header.sections[section].bytes;
}

int maru_similar_store_read(const struct maru_similar_store *x, int section, uint64_t offset,
                            uint64_t bytes, void *to) {
  const struct section s = x->header.sections[section];
  if (offset > s.bytes || bytes > s.bytes - offset)
    return -EBADMSG;
  char chunk[CHUNK], *out = to;

  for (uint64_t at = s.offset + offset, end = at + bytes; at < end;) {
    const uint64_t start = at / STORE_BLOCK * STORE_BLOCK,
                   left = blocks_of(end) * STORE_BLOCK - start, size = left < CHUNK ? left : CHUNK;
    const int failure = read_all(x->fd, chunk, size, start);
    if (failure < 0)
      return failure;
    for (uint64_t b = 0; b < size / STORE_BLOCK; b++)
      if (sum_of(chunk + b * STORE_BLOCK, STORE_BLOCK) != x->sums[start / STORE_BLOCK - 1 + b])
        return -EBADMSG;
    const uint64_t take = (start + size < end ? start + size : end) - at;
    memcpy(out, chunk + (at - start), take);
    out += take;
    at += take;
  }
  return 0;
}

/* Writing ---------------------------------------------------------------------------------------
 */

/* A section that grows: its last, unfinished chunk is in memory. */
struct stream {
  int section; /* -1: none */
  uint64_t flushed;
  size_t used;
  char chunk[CHUNK];
};

struct maru_similar_writer {
  int fd, failure;
  struct header header;
  uint64_t *sums, room, end; /* end: where the next section begins */
  struct stream main, beside;
};

struct maru_similar_writer *maru_similar_writer_new(int fd, uint32_t recipe, uint32_t submissions) {
  struct maru_similar_writer *w = calloc(1, sizeof *w);
  if (w == NULL)
    return NULL;
  w->fd = fd;
  memcpy(w->header.magic, magic, sizeof magic);
  w->header.order = ORDER;
  w->header.version = STORE_VERSION;
  w->header.recipe = recipe;
  w->header.submissions = submissions;
  w->end = STORE_BLOCK;
  w->main.section = w->beside.section = -1;
  return w;
}

uint32_t maru_similar_writer_submissions(const struct maru_similar_writer *w) {
  return w->header.submissions;
}

void maru_similar_writer_free(struct maru_similar_writer *w) {
  if (w != NULL)
    free(w->sums);
  free(w);
}

static int room_for_sums(struct maru_similar_writer *w, uint64_t blocks) {
  if (blocks <= w->room)
    return 0;
  const uint64_t room = blocks + blocks / 2 + 1024;
  uint64_t *more = realloc(w->sums, room * sizeof *more);
  if (more == NULL)
    return -ENOMEM;
  memset(more + w->room, 0, (room - w->room) * sizeof *more);
  w->sums = more;
  w->room = room;
  return 0;
}

/* Whole blocks; a section's last one is filled up with zeros. */
static int flush(struct maru_similar_writer *w, struct stream *s) {
  const uint64_t at = w->header.sections[s->section].offset + s->flushed,
                 size = blocks_of(s->used) * STORE_BLOCK;
  memset(s->chunk + s->used, 0, size - s->used);
  int failure = room_for_sums(w, (at + size) / STORE_BLOCK);
  if (failure == 0)
    failure = write_all(w->fd, s->chunk, size, at);
  for (uint64_t b = 0; failure == 0 && b < size / STORE_BLOCK; b++)
    w->sums[at / STORE_BLOCK - 1 + b] = sum_of(s->chunk + b * STORE_BLOCK, STORE_BLOCK);
  s->flushed += size;
  s->used = 0;
  return failure;
}

static int put(struct maru_similar_writer *w, struct stream *s, const char *bytes, uint64_t size) {
  w->header.sections[s->section].bytes += size;
  while (size > 0 && w->failure == 0) {
    const uint64_t take = size < CHUNK - s->used ? size : CHUNK - s->used;
    memcpy(s->chunk + s->used, bytes, take);
    s->used += take;
    bytes += take;
    size -= take;
    if (s->used == CHUNK)
      w->failure = flush(w, s);
  }
  return w->failure;
}

static void end_stream(struct maru_similar_writer *w, struct stream *s) {
  if (s->section < 0)
    return;
  const struct section *section = &w->header.sections[s->section];
  if (s->used > 0 && w->failure == 0)
    w->failure = flush(w, s);
  const uint64_t end = section->offset + blocks_of(section->bytes) * STORE_BLOCK;
  if (end > w->end)
    w->end = end;
  s->section = -1;
}

static void begin_stream(struct maru_similar_writer *w, struct stream *s, int section,
                         uint64_t offset) {
  s->section = section;
  s->flushed = s->used = 0;
  w->header.sections[section] = (struct section){offset, 0};
}

/* Ends what is being written and begins a section, if it is not the one. */
static void turn_to(struct maru_similar_writer *w, int section) {
  if (w->main.section == section)
    return;
  end_stream(w, &w->main);
  end_stream(w, &w->beside);
  if (section >= 0)
    begin_stream(w, &w->main, section, w->end);
}

int maru_similar_writer_put(struct maru_similar_writer *w, int section, const void *bytes,
                            uint64_t size) {
  turn_to(w, section);
  return put(w, &w->main, bytes, size);
}

int maru_similar_writer_beside(struct maru_similar_writer *w, int section, uint64_t first_bytes) {
  const uint64_t first = w->header.sections[w->main.section].offset;
  begin_stream(w, &w->beside, section, first + blocks_of(first_bytes) * STORE_BLOCK);
  return w->failure;
}

int maru_similar_writer_put_beside(struct maru_similar_writer *w, const void *bytes,
                                   uint64_t size) {
  return put(w, &w->beside, bytes, size);
}

int maru_similar_writer_read(struct maru_similar_writer *w, int section, uint64_t offset,
                             uint64_t bytes, void *to) {
  if (section == w->main.section || section == w->beside.section)
    turn_to(w, -1);
  if (w->failure < 0)
    return w->failure;
  return read_all(w->fd, to, bytes, w->header.sections[section].offset + offset);
}

int maru_similar_writer_finish(struct maru_similar_writer *w) {
  struct header *h = &w->header;
  turn_to(w, -1);
  if (w->failure < 0)
    return w->failure;
  const uint64_t size = (w->end / STORE_BLOCK - 1) * 8;
  char block[STORE_BLOCK] = {0};

  h->sums = w->end;
  h->bytes = w->end + size;
  int failure = room_for_sums(w, w->end / STORE_BLOCK);
  if (failure < 0)
    return failure;
  h->sum_of_sums = sum_of(w->sums, size);
  h->own = sum_of(h, offsetof(struct header, own));
  memcpy(block, h, sizeof *h);
  failure = write_all(w->fd, w->sums, size, w->end);
  if (failure == 0 && fdatasync(w->fd) < 0)
    failure = -errno;
  /* The header last: until then it is no such file. */
  if (failure == 0)
    failure = write_all(w->fd, block, sizeof block, 0);
  if (failure == 0 && fsync(w->fd) < 0)
    failure = -errno;
  return failure;
}
