/*
 * An image: Haskell values in normal form in one stretch of memory, laid out so that the garbage
 * collector accepts pointers into it.
 *
 * Offsets count from the start of a megablock (1 MiB, aligned). The image lies in a group of
 * megablocks that GHC's block allocator gave to a compact region as room for *one* byte array;
 * values live inside that array's payload, where nothing of the run-time system ever looks.
 *
 *   0       block descriptors of the first megablock (GHC's)
 *   16 KiB  start of the group: header of the compact block, header of the byte array; this page
 *           stays private to each process
 *   20 KiB  struct image_head, then values
 *   k MiB   for k > 0: block descriptors that we write, 16 KiB, then values
 *
 * What the collector does with a pointer to a value: it looks at the descriptor of the 4 KiB block
 * in which the value *starts*, finds "part of a compact region", follows it to the region, and
 * keeps the region. So a value may start only where the descriptor of its megablock is intact; one
 * that does not fit into the rest of its megablock and is larger than a whole one runs on over the
 * descriptors of the next, and nothing else starts in the megablock where it ends.
 */
#ifndef MARU_RTS_IMAGE_H
#define MARU_RTS_IMAGE_H

#include "internals.h"

#include <stdatomic.h>

#define IMAGE_BLOCK MBLOCK_SIZE
#define IMAGE_FIRST FIRST_BLOCK_OFF
#define IMAGE_PRIVATE (IMAGE_FIRST + BLOCK_SIZE) /* shared from here on */
#define IMAGE_DATA (IMAGE_PRIVATE + sizeof(struct image_head))
#define IMAGE_TAIL 64 /* bytes at the end of the group that the byte array does not cover */

struct image_head {
  _Atomic uint64_t used; /* offset below which all is complete; written by the worker only */
  uint64_t unused[7];
};

static inline struct image_head *image_head_of(char *base) {
  return (struct image_head *)(void *)(base + IMAGE_PRIVATE);
}

static inline size_t image_limit(size_t megablocks) {
  return megablocks * IMAGE_BLOCK - IMAGE_TAIL;
}

/* What the writer of an image has completed; never trusted beyond it. */
static inline size_t image_used(char *base, size_t megablocks) {
  uint64_t used = atomic_load_explicit(&image_head_of(base)->used, memory_order_acquire);
  size_t end = megablocks * IMAGE_BLOCK;
  return used < IMAGE_DATA ? IMAGE_DATA : used > end ? end : (size_t)used;
}

struct image {
  char *base;       /* where offset 0 is */
  size_t at;        /* next free offset; a multiple of IMAGE_BLOCK: go to the next megablock */
  size_t stretch;   /* up to here without further thought */
  size_t limit;     /* never beyond; grows where grow != NULL */
  uintptr_t origin; /* how a pointer to offset 0 is written */
  bdescr *head;     /* descriptor of the group; NULL: descriptors are written on landing */
  bool (*grow)(struct image *, size_t limit);
  size_t most;   /* what it may grow to; 0: as far as memory goes */
  size_t *sites; /* where origin != base: offsets of the raw addresses that point into it */
  size_t sites_used, sites_room;
  bool closures; /* as they are: functions and thunks too, what is static by its address */
  bool far;      /* such, for a process that was not forked from this one: of the program alone */
  char *way;     /* of closures, after a refusal: which way led to what was refused, to be freed */
};

/* A packed value: this, then the image from IMAGE_DATA on, then the sites. */
struct packed {
  uint64_t magic, end, root, sites;
};
/* How offset 0 is written in a packed image: no address of any process. */
static const uintptr_t packed_origin = (uintptr_t)1 << 56;
/* The header of a packed value of so many bytes. False: they are none. */
bool packed_header(struct packed *header, const char *bytes, size_t size);

/* Sets where the next value goes. */
void image_at(struct image *image, size_t at);

/* Room for so many bytes (a multiple of 8): its offset, or 0 when there is none. */
size_t image_reserve_slow(struct image *image, size_t bytes);

static inline size_t image_reserve(struct image *image, size_t bytes) {
  size_t at = image->at;
  if (bytes > image->stretch - at)
    return image_reserve_slow(image, bytes);
  image->at = at + bytes;
  return at;
}

/* Descriptors for the megablock at this offset. */
void image_describe(char *base, size_t offset, bdescr *head);

/* Writes a value as part of the image. *root: how it is pointed at. 0 or
     -ENOSPC  it does not fit            -ENOMEM  no memory for book-keeping
     -EAGAIN  not in normal form; as closures: a thread is evaluating it
     -(COPY_REFUSED + type)  a closure of that type is in it
   On failure image->at is where it was. */
enum {
  COPY_REFUSED = 4096,
  COPY_FOREIGN = COPY_REFUSED + N_CLOSURE_TYPES,
  COPY_STABLE,
  COPY_CODE,
  COPY_LOADED
};
int64_t image_copy(struct image *image, StgClosure *value, bool sharing,
                   const StgInfoTable *bytestring, StgClosure **root);

/* Which way leads from an image's root to the field at this offset, in words; "": it is the root
   itself. NULL: no memory. To be freed. */
char *image_way(const struct image *image, size_t field);

/* Memory that another process of this program may not have (private.c): read-only parts of the
   program are not; may this word be an address of such; may one of these? */
bool word_is_literal(W_ address);
bool word_is_loaded(W_ address); /* neither the program's nor the heap's */
bool word_is_code(W_ address);   /* of whatever object */
bool word_is_private(W_ address);
bool words_private(const W_ *words, size_t count);

/* A boxed number or character, whose word is no address. */
bool is_boxed_number(const StgInfoTable *info);

/* As image_fields, of functions and thunks; of an application the function alone. */
size_t closure_fields(StgClosure *value, StgClosure ***fields, size_t *count);

/* Which of a partial application's arguments are no pointers, one bit each; false: nobody says. */
bool closure_raw_arguments(const StgPAP *application, W_ *raw);

/* Makes the pointers of an image that was written at another origin right: [IMAGE_DATA, end). */
int64_t image_relocate(char *base, size_t end, uintptr_t origin, bdescr *head);

/* The offset of the first value at or behind this one; end: there is none. */
size_t image_next(const char *base, size_t at, size_t end);

/* The offset behind a value that starts there and has so many bytes. */
size_t image_behind(size_t at, size_t bytes);

/* The pointer fields of a value of an image, and its size in bytes; 0: it is none. */
size_t image_fields(StgClosure *value, StgClosure ***fields, size_t *count);

/* Lands packed bytes as ordinary objects, see maru_unpack_loose; `closures`: functions and thunks,
   too. -EBADMSG, -ENOMEM. */
int64_t unpack_pieces(const char *bytes, int64_t size, bool closures);

/* Room for an image of this process's own, in a compact region that was just made: where its offset
   0 is; -ENOSYS where the run-time system is not known well enough (region.c). */
int64_t maru_region_landing(StgCompactNFDataBlock *first, size_t megablocks, char **base);

/* What people call what image_copy has refused, with that error. */
const char *maru_rts_refused(int64_t error);

#endif
