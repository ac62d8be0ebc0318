/*
 * The copy path: a value in normal form as position-independent bytes, and back. The bytes are
 * those of an image (image.h). They become ordinary objects of the heap, or an image again; and
 * where the run-time system is not known well enough for that, ordinary objects one by one.
 *
 * All functions are called unsafely: no collection happens meanwhile.
 */
#include "image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Copies what nobody reads afterwards, and gives its whole pages back on the way by that advice:
   a large value does not need twice its memory. Memory of this process alone cannot be removed from
   a file: it is given up. */
static void move(char *to, const char *from, size_t bytes, int advice) {
  enum { STEP = 1 << 20 };
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t given = ((uintptr_t)from + page - 1) & ~(page - 1);
  for (size_t done = 0; done < bytes;) {
    size_t n = bytes - done < STEP ? bytes - done : STEP;
    memcpy(to + done, from + done, n);
    done += n;
    uintptr_t end = ((uintptr_t)from + done) & ~(page - 1);
    if (end > given && madvise((void *)given, end - given, advice) < 0)
      (void)madvise((void *)given, end - given, MADV_DONTNEED);
    given = end > given ? end : given;
  }
}

/* From memory of malloc, or such as this process alone has. */
void maru_move_private(char *to, const char *from, int64_t bytes) {
  move(to, from, (size_t)bytes, MADV_DONTNEED);
}

static const uint64_t packed_magic = UINT64_C(0x316b63617075726d); /* "mrupack1" */

static char *packed_base(void *buffer) {
  return (char *)((uintptr_t)buffer + sizeof(struct packed) - IMAGE_DATA);
}
static void *packed_buffer(const struct image *image) {
  return image->base ? (void *)((uintptr_t)image->base + IMAGE_DATA - sizeof(struct packed)) : NULL;
}

static bool packed_grow(struct image *image, size_t limit) {
  size_t at = image->at, need = limit - IMAGE_DATA, room = 2 * need + 4096;
  if (image->most && room > image->most)
    room = image->most;
  if (need > room)
    return false;
  void *buffer = realloc(packed_buffer(image), sizeof(struct packed) + room);
  if (!buffer)
    return false;
  image->base = packed_base(buffer);
  image->limit = IMAGE_DATA + room;
  image_at(image, at);
  return true;
}

/* Without sharing a cyclic value has no end, and one that shares much may have none in practice.
   One that shares nothing and was made here is no larger than what this process has in its heap and
   had not at its fork, but for an allocation area; to remember where one has been would cost more
   memory than that. */
enum { UNSHARED_MOST = 256 << 20 };
static W_ inherited; /* blocks in use at the fork */

static W_ blocks_in_use(void) {
  W_ blocks = 0;
  for (const generation *g = generations; g; g = g->to == g ? NULL : g->to)
    blocks += g->n_blocks + g->n_large_blocks + g->n_compact_blocks;
  return blocks;
}

void maru_pack_forked(void) { inherited = blocks_in_use(); }

static size_t unshared_most(void) {
  W_ blocks = blocks_in_use();
  return UNSHARED_MOST + (blocks > inherited ? (blocks - inherited) * BLOCK_SIZE : 0);
}

/* What a letter (letter.c) may hold: to fork is cheaper than to send more. */
enum { LETTER_MOST = 16 << 20 };

/* A value as position-independent bytes: their number, *bytes to be freed; or an error of
   image_copy: -ENOSPC where memory, or without sharing unshared_most, is exceeded. `how`: 0 in
   normal form, 1 with sharing, 2 with sharing as closures, for a letter, 3 for one to a process
   that was not forked from this one; of these two, after an error, *bytes is NULL or image_way's
   text, to be freed. */
int64_t maru_pack(StgClosure *value, W_ how, const StgInfoTable *bytestring, void **bytes) {
  bool sharing = how > 0;
  struct image image = {
      .origin = packed_origin, .at = IMAGE_DATA, .closures = how >= 2, .far = how == 3};
  image.grow = packed_grow;
  image.most = image.closures ? LETTER_MOST : sharing ? 0 : unshared_most();
  StgClosure *root;
  int64_t r = -ENOSPC;
  if (packed_grow(&image, IMAGE_DATA) &&
      (r = image_copy(&image, value, sharing, bytestring, &root)) == 0) {
    size_t end = image.at, sites = image.sites_used * sizeof *image.sites;
    if (end + sites <= image.limit || packed_grow(&image, end + sites)) {
      struct packed header = {packed_magic, end, (uint64_t)root, image.sites_used};
      memcpy(packed_buffer(&image), &header, sizeof header);
      if (sites)
        memcpy(image.base + end, image.sites, sites);
      *bytes = packed_buffer(&image);
      free(image.sites);
      return (int64_t)(sizeof header + (end - IMAGE_DATA) + sites);
    }
    r = -ENOSPC;
  }
  free(packed_buffer(&image));
  free(image.sites);
  if (image.closures)
    *bytes = image.way;
  return r;
}

bool packed_header(struct packed *header, const char *bytes, size_t size) {
  if (size < sizeof *header)
    return false;
  size_t rest = size - sizeof *header;
  memcpy(header, bytes, sizeof *header);
  return header->magic == packed_magic && header->end >= IMAGE_DATA &&
         header->end - IMAGE_DATA <= rest && header->sites <= rest / sizeof(size_t) &&
         header->end - IMAGE_DATA + header->sites * sizeof(size_t) == rest;
}

/* Makes an image landed at base right, and says where its root is. */
static int64_t land(char *base, const struct packed *header, const char *sites, bdescr *head) {
  int64_t r = image_relocate(base, header->end, packed_origin, head);
  for (size_t i = 0; r == 0 && i < header->sites; i++) {
    size_t at;
    W_ address;
    memcpy(&at, sites + i * sizeof at, sizeof at);
    if (at < IMAGE_DATA || at > header->end - sizeof address)
      return -EBADMSG;
    memcpy(&address, base + at, sizeof address);
    address = address - packed_origin + (W_)base;
    memcpy(base + at, &address, sizeof address);
  }
  if (r < 0)
    return r;
  uintptr_t root = (uintptr_t)header->root;
  return (int64_t)(root >= packed_origin ? root - packed_origin + (uintptr_t)base : root);
}

/* How a packed value is to be landed: 0 in the nursery, 1 beside others in a landing
   (maru_landing_new), else in a compact region of its own; where there are no regions, piece by
   piece (maru_unpack_loose) instead of these two. -EBADMSG: it is none. */
int64_t maru_packed_kind(const char *bytes, int64_t size) {
  struct packed header;
  if (!packed_header(&header, bytes, (size_t)size))
    return -EBADMSG;
  size_t length = header.end - IMAGE_DATA;
  if (!header.sites && length < LARGE_OBJECT_THRESHOLD)
    return 0;
  return length <= IMAGE_BLOCK / 4 ? 1 : 2;
}

/* A landing: an image that only this process has, for many small values. Its base address. */
int64_t maru_landing_new(StgCompactNFDataBlock *first) {
  char *base;
  int64_t r = maru_region_landing(first, 1, &base);
  if (r < 0)
    return r;
  atomic_store_explicit(&image_head_of(base)->used, IMAGE_DATA, memory_order_relaxed);
  return (int64_t)base;
}

/* Lands a packed value of kind 1: its address; -ENOSPC: the landing is full. */
int64_t maru_unpack_beside(char *landing, const char *bytes, int64_t size) {
  struct packed header;
  (void)size;
  memcpy(&header, bytes, sizeof header);
  size_t used = image_used(landing, 1), length = header.end - IMAGE_DATA;
  if (length > image_limit(1) - used)
    return -ENOSPC;
  memcpy(landing + used, bytes + sizeof header, length);
  int64_t r = land(landing + used - IMAGE_DATA, &header, bytes + sizeof header + length, NULL);
  if (r >= 0)
    atomic_store_explicit(&image_head_of(landing)->used, used + length, memory_order_relaxed);
  return r;
}

/* Lands a packed value of kind 0 in the nursery: its address, which the next collection changes. */
int64_t maru_unpack_heap(const char *bytes, int64_t size) {
  struct packed header;
  (void)size;
  memcpy(&header, bytes, sizeof header);
  size_t length = header.end - IMAGE_DATA;
  char *place = (char *)allocate(rts_unsafeGetMyCapability(), length / sizeof(W_));
  memcpy(place, bytes + sizeof header, length);
  return land((char *)((uintptr_t)place - IMAGE_DATA), &header, NULL, NULL);
}

/* Lands a packed value of kind 2 in a fresh compact region: its address. The bytes' pages go:
   nobody can read them again. */
int64_t maru_unpack_alone(StgCompactNFDataBlock *first, const char *bytes, int64_t size) {
  struct packed header;
  char *base;
  (void)size;
  memcpy(&header, bytes, sizeof header);
  size_t length = header.end - IMAGE_DATA;
  size_t megablocks = (header.end + IMAGE_TAIL + IMAGE_BLOCK - 1) / IMAGE_BLOCK;
  int64_t r = maru_region_landing(first, megablocks, &base);
  if (r < 0)
    return r;
  /* The sites come last, and are not moved. */
  move(base + IMAGE_DATA, bytes + sizeof header, length, MADV_REMOVE);
  return land(base, &header, bytes + sizeof header + length,
              Bdescr((StgPtr)(void *)(base + IMAGE_FIRST)));
}

/* --- piece by piece --- */

/* Where the pieces of an image went: a word for each word of it, 0 where none starts. */
struct moved {
  const char *base; /* where offset 0 is */
  size_t end;
  bool closures; /* functions and thunks, too */
  W_ *to;
  size_t *starts; /* of all pieces, in order, where there are sites */
  size_t count, room;
};
enum { A_PIECE = 1, TO_BE_PINNED = 2 }; /* until it is moved */

static W_ *moved_to(const struct moved *m, size_t at) {
  return &m->to[(at - IMAGE_DATA) / sizeof(W_)];
}

static bool note_start(struct moved *m, size_t at) {
  if (m->count == m->room) {
    size_t room = m->room ? 2 * m->room : 256;
    size_t *starts = realloc(m->starts, room * sizeof *starts);
    if (!starts)
      return false;
    m->starts = starts;
    m->room = room;
  }
  m->starts[m->count++] = at;
  return true;
}

/* The piece in which this offset lies; 0: none. */
static size_t piece_of(const struct moved *m, size_t at) {
  size_t low = 0, high = m->count;
  if (at < IMAGE_DATA || at >= m->end || high == 0 || at < m->starts[0])
    return 0;
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (m->starts[middle] <= at)
      low = middle;
    else
      high = middle;
  }
  return m->starts[low];
}

/* As image_fields. */
static size_t piece_fields(const struct moved *m, StgClosure *value, StgClosure ***fields,
                           size_t *count) {
  size_t bytes = image_fields(value, fields, count);
  return bytes || !m->closures ? bytes : closure_fields(value, fields, count);
}

/* Offsets of a raw word that is an address, and of what it points into. */
static bool site_at(const struct moved *m, const char *sites, size_t i, size_t *at,
                    size_t *target) {
  W_ address;
  memcpy(at, sites + i * sizeof *at, sizeof *at);
  if (*at < IMAGE_DATA || *at > m->end - sizeof address)
    return false;
  memcpy(&address, m->base + *at, sizeof address);
  *target = address - packed_origin;
  return true;
}

static int64_t mark_pieces(struct moved *m, const struct packed *header, const char *sites) {
  for (size_t at = IMAGE_DATA; (at = image_next(m->base, at, m->end)) < m->end;) {
    StgClosure **fields;
    size_t count, bytes = piece_fields(m, (StgClosure *)(uintptr_t)(m->base + at), &fields, &count);
    if (!bytes || bytes > m->end - at)
      return -EBADMSG;
    if (header->sites && !note_start(m, at))
      return -ENOMEM;
    *moved_to(m, at) = A_PIECE;
    at = image_behind(at, bytes);
  }
  for (size_t i = 0; i < header->sites; i++) {
    size_t at, target, piece;
    /* An address may stand behind its array's last byte. */
    if (!site_at(m, sites, i, &at, &target) || !piece_of(m, at) ||
        !(piece = piece_of(m, target - 1)))
      return -EBADMSG;
    *moved_to(m, piece) = TO_BE_PINNED;
  }
  return 0;
}

static void move_pieces(struct moved *m) {
  Capability *here = rts_unsafeGetMyCapability();
  for (size_t at = IMAGE_DATA; (at = image_next(m->base, at, m->end)) < m->end;) {
    StgClosure **fields;
    size_t count, bytes = piece_fields(m, (StgClosure *)(uintptr_t)(m->base + at), &fields, &count);
    W_ *to = moved_to(m, at), words = bytes / sizeof(W_);
    void *place = *to == TO_BE_PINNED ? allocatePinned(here, words, 16, sizeof(StgArrBytes))
                                      : allocate(here, words);
    memcpy(place, m->base + at, bytes);
    *to = (W_)place;
    at = image_behind(at, bytes);
  }
}

/* What a pointer of the image points to now. */
static StgClosure *now_at(const struct moved *m, const StgClosure *pointer) {
  uintptr_t p = (uintptr_t)pointer, tag = GET_CLOSURE_TAG(pointer);
  return (StgClosure *)(p < packed_origin ? p : *moved_to(m, p - tag - packed_origin) + tag);
}

/* Which of them are pointers, the function says: it is in its place by now. */
static void mend_arguments(const struct moved *m, StgPAP *application) {
  W_ raw = 0;
  closure_raw_arguments(application, &raw);
  for (size_t i = 0; i < application->n_args; i++)
    if (!(raw >> i & 1))
      application->payload[i] = now_at(m, application->payload[i]);
}

static void mend_pieces(const struct moved *m, const struct packed *header, const char *sites) {
  for (size_t at = IMAGE_DATA; (at = image_next(m->base, at, m->end)) < m->end;) {
    StgClosure **fields;
    StgClosure *piece = (StgClosure *)*moved_to(m, at);
    size_t count, bytes = piece_fields(m, piece, &fields, &count);
    for (size_t i = 0; i < count; i++)
      fields[i] = now_at(m, fields[i]);
    if (m->closures && get_itbl(piece)->type == PAP)
      mend_arguments(m, (StgPAP *)piece);
    at = image_behind(at, bytes);
  }
  for (size_t i = 0; i < header->sites; i++) {
    size_t at, target;
    if (!site_at(m, sites, i, &at, &target))
      continue; /* mark_pieces has seen that it is one */
    size_t holder = piece_of(m, at), piece = piece_of(m, target - 1);
    W_ address = *moved_to(m, piece) + (target - piece);
    memcpy((char *)*moved_to(m, holder) + (at - holder), &address, sizeof address);
  }
}

int64_t unpack_pieces(const char *bytes, int64_t size, bool closures) {
  struct packed header;
  (void)size;
  memcpy(&header, bytes, sizeof header);
  struct moved m = {.base = packed_base((void *)(uintptr_t)bytes), .end = header.end};
  const char *sites = bytes + sizeof header + (header.end - IMAGE_DATA);
  StgClosure *root = (StgClosure *)(uintptr_t)header.root;
  m.closures = closures;
  m.to = calloc((header.end - IMAGE_DATA) / sizeof(W_) + 1, sizeof(W_));
  if (!m.to)
    return -ENOMEM;
  int64_t r = mark_pieces(&m, &header, sites);
  if (r == 0) {
    move_pieces(&m);
    mend_pieces(&m, &header, sites);
    r = (int64_t)now_at(&m, root);
  }
  free(m.starts);
  free(m.to);
  return r;
}

/* Lands a packed value of any kind as ordinary objects, byte arrays that addresses point into among
   the pinned ones: its address, which the next collection may change. Takes a word of memory for
   each of the value, for as long as it lasts. */
int64_t maru_unpack_loose(const char *bytes, int64_t size) {
  return unpack_pieces(bytes, size, false);
}
