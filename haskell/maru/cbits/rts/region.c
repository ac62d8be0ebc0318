/*
 * Regions: images (image.h) on shared pages, filled by a forked worker, adopted by its parent.
 *
 * Life: the parent makes a compact region by the ordinary primitive, lets the run-time system add
 * room for one large byte array to it, and maps shared pages over that array's payload. A stable
 * pointer keeps it from the collector of every process that inherits it, because a collector that
 * freed it would hand out shared pages as heap. The worker writes values into the payload and
 * sends their addresses. Once the worker is dead the parent makes the pages private, gives the
 * unused rest back to the heap and drops the stable pointer: from then on it is a compact region
 * like any other, kept by the values that lie in it.
 *
 * The run-time system itself never adds to such a region, so its book-keeping is that of the day
 * of birth in every process. All functions are called unsafely: no collection happens meanwhile.
 */
#include "accounts.h"
#include "image.h"

#include <errno.h>
#include <string.h>

#if MARU_RTS_VALIDATED
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A used part up to this size is copied to ordinary memory on release: cheaper than faulting it in
   again, and the kernel merges it with its neighbours instead of keeping one mapping each. */
enum { COPY_ON_RELEASE = 1 << 20 };

static size_t group_bytes(size_t megablocks) { return megablocks * IMAGE_BLOCK; }

static struct image_head *head_of(char *base) {
  return (struct image_head *)(void *)(base + IMAGE_PRIVATE);
}

static bdescr *descriptor_of(char *base) { return Bdescr((StgPtr)(void *)(base + IMAGE_FIRST)); }

/* Is there room for so many megablocks, as far as can be told? The block allocator ends the
   program where there is none. */
static int probe(size_t megablocks) {
  W_ limit = RtsFlags.GcFlags.maxHeapSize;
  if (limit && (mblocks_allocated + megablocks) * (IMAGE_BLOCK / BLOCK_SIZE) >= limit)
    return -ENOMEM;
  W_ space = mblock_address_space.end - mblock_address_space.begin;
  if (mblocks_allocated + megablocks >= space / IMAGE_BLOCK)
    return -ENOMEM;
  void *p = mmap(NULL, group_bytes(megablocks), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    return -errno;
  munmap(p, group_bytes(megablocks));
  return 0;
}

/* Adds one byte array to the compact region that takes all of a group of so many megablocks, and
   moves the region's allocation pointer behind it. As allocateForCompact does it, but that writes a
   descriptor for each block of the group, those beyond the first megablock into the data: 1 MiB of
   page faults for a region of 64. Nothing is charged to the nursery. */
static int64_t add_group(StgCompactNFDataBlock *first, size_t megablocks, char **base) {
  StgCompactNFData *compact = (StgCompactNFData *)(first + 1);
  generation *gen = Bdescr((StgPtr)first)->gen;
  size_t blocks = MBLOCK_GROUP_BLOCKS(megablocks);
  int error = probe(megablocks);
  if (error)
    return error;
  bdescr *head = allocGroup_lock(blocks);
  StgCompactNFDataBlock *block = (StgCompactNFDataBlock *)(void *)head->start;
  if ((uintptr_t)block % IMAGE_BLOCK != IMAGE_FIRST || head->blocks != blocks) {
    freeGroup_lock(head);
    return -ENOTSUP; /* not the block allocator we know */
  }
  initBdescr(head, gen, gen);
  head->flags = BF_COMPACT;
  for (size_t i = 1; i < BLOCKS_PER_MBLOCK; i++) {
    head[i].link = head;
    head[i].blocks = 0;
    head[i].flags = BF_COMPACT;
  }
  *block = (StgCompactNFDataBlock){.self = block, .owner = compact};
  StgArrBytes *array = (StgArrBytes *)(block + 1);
  array->header.info = &stg_ARR_WORDS_info;
  array->bytes = blocks * BLOCK_SIZE - sizeof(StgCompactNFData) - sizeof(StgArrBytes);
  head->free = (StgPtr)((W_)(array + 1) + array->bytes);
  Bdescr((StgPtr)compact->nursery)->free = compact->hp;
  compact->last->next = block;
  compact->last = compact->nursery = block;
  compact->hp = compact->hpLim = head->free;
  compact->totalW += blocks * BLOCK_SIZE_W;
  if (&sm_mutex) {
    OS_ACQUIRE_LOCK(&sm_mutex);
  }
  gen->n_compact_blocks += blocks;
  if (&sm_mutex) {
    OS_RELEASE_LOCK(&sm_mutex);
  }
  *base = (char *)block - IMAGE_FIRST;
  return 0;
}

/* What lies in a group that was added is work of this process's own: as if allocated by it. */
static void charge(const StgCompactNFDataBlock *first, size_t megablocks) {
  generation *gen = Bdescr((StgPtr)first)->gen;
  if (&sm_mutex) {
    OS_ACQUIRE_LOCK(&sm_mutex);
  }
  if (gen->no == 0)
    gen->n_new_large_words += MBLOCK_GROUP_BLOCKS(megablocks) * BLOCK_SIZE_W;
  if (&sm_mutex) {
    OS_RELEASE_LOCK(&sm_mutex);
  }
}

/* --- moving --- */

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

/* --- making and filling --- */

/* The base address of a new region of so many megablocks, a fresh descriptor in *fd. */
int64_t maru_region_new(StgCompactNFDataBlock *first, int64_t megablocks, int *fd) {
  size_t bytes = group_bytes((size_t)megablocks) - IMAGE_PRIVATE;
  char *base;
  int64_t error;
  struct account *account = account_new();
  if (!account)
    return -ENOMEM;
  *fd = memfd_create("maru-region", MFD_CLOEXEC);
  if (*fd < 0) {
    error = -errno;
    free(account);
    return error;
  }
  error = ftruncate(*fd, (off_t)bytes) < 0 ? -errno : add_group(first, (size_t)megablocks, &base);
  if (error == 0 && mmap(base + IMAGE_PRIVATE, bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED | MAP_NORESERVE, *fd, 0) == MAP_FAILED)
    error = -errno;
  if (error < 0) {
    close(*fd);
    free(account);
    return error;
  }
  account_open(account, Bdescr((StgPtr)first), MBLOCK_GROUP_BLOCKS((size_t)megablocks));
  atomic_store_explicit(&head_of(base)->used, IMAGE_DATA, memory_order_relaxed);
  return (int64_t)base;
}

static size_t limit_of(size_t megablocks) { return group_bytes(megablocks) - IMAGE_TAIL; }

/* What the worker has completed; never trusted beyond the region. */
static size_t used_of(char *base, size_t megablocks) {
  uint64_t used = atomic_load_explicit(&head_of(base)->used, memory_order_acquire);
  size_t end = group_bytes(megablocks);
  return used < IMAGE_DATA ? IMAGE_DATA : used > end ? end : (size_t)used;
}

int64_t maru_region_room(char *base, int64_t megablocks) {
  size_t used = used_of(base, (size_t)megablocks), limit = limit_of((size_t)megablocks);
  return used < limit ? (int64_t)(limit - used) : 0;
}

/* Copies a value in normal form into the region: its address, or an error of image_copy. */
int64_t maru_region_add(char *base, W_ megablocks, StgClosure *value, W_ sharing,
                        const StgInfoTable *bytestring) {
  struct image image = {.base = base,
                        .origin = (uintptr_t)base,
                        .limit = limit_of(megablocks),
                        .head = descriptor_of(base)};
  StgClosure *root;
  image_at(&image, used_of(base, megablocks));
  int64_t r = image_copy(&image, value, sharing, bytestring, &root);
  if (r < 0)
    return r;
  /* release: a parent that reads this, after the worker's death, keeps all that is below. The
     address itself is published by the log that carries it. */
  atomic_store_explicit(&head_of(base)->used, image.at, memory_order_release);
  return (int64_t)root;
}

/* --- release --- */

static int make_private(char *base, size_t end, int fd) {
  char *from = base + IMAGE_PRIVATE;
  size_t bytes = end - IMAGE_PRIVATE;
  if (bytes > COPY_ON_RELEASE)
    return mmap(from, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd,
                0) == MAP_FAILED
               ? -errno
               : 0;
  char *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED)
    return -errno;
  memcpy(copy, from, bytes);
  /* In one step, for other threads of this process read these values at this moment. */
  if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, from) == MAP_FAILED) {
    int error = -errno;
    munmap(copy, bytes);
    return error;
  }
  return 0;
}

/* Makes a group of its own of the megablocks from this address on, as the block allocator does:
   only the descriptors of the first one count. */
static bdescr *new_group(char *megablock, size_t megablocks, const bdescr *like) {
  for (size_t offset = IMAGE_FIRST; offset < IMAGE_BLOCK; offset += BLOCK_SIZE) {
    bdescr *bd = Bdescr((StgPtr)(void *)(megablock + offset));
    bd->start = (StgPtr)(void *)(megablock + offset);
    bd->node = like->node;
  }
  bdescr *head = FIRST_BDESCR(megablock);
  head->blocks = (StgWord32)MBLOCK_GROUP_BLOCKS(megablocks);
  return head;
}

/* Splits the megablocks that hold no value off the group and gives them back to the heap. */
static void trim(StgCompactNFDataBlock *first, char *base, size_t all, size_t keep) {
  StgCompactNFData *compact = (StgCompactNFData *)(first + 1);
  bdescr *bd = descriptor_of(base);
  StgArrBytes *array = (StgArrBytes *)((StgCompactNFDataBlock *)(void *)bd->start + 1);
  size_t blocks = MBLOCK_GROUP_BLOCKS(keep), freed = bd->blocks - blocks;
  array->bytes = blocks * BLOCK_SIZE - sizeof(StgCompactNFData) - sizeof(StgArrBytes);
  bd->free = (StgPtr)((W_)array + sizeof(StgArrBytes) + array->bytes);
  compact->hp = compact->hpLim = bd->free;
  compact->totalW -= freed * BLOCK_SIZE_W;
  if (&sm_mutex) {
    OS_ACQUIRE_LOCK(&sm_mutex);
  }
  Bdescr((StgPtr)first)->gen->n_compact_blocks -= freed;
  bd->blocks = (StgWord32)blocks;
  freeGroup(new_group(base + group_bytes(keep), all - keep, bd));
  if (&sm_mutex) {
    OS_RELEASE_LOCK(&sm_mutex);
  }
}

/* Once the writer is dead: the region becomes ordinary memory of this process. Closes fd. */
int64_t maru_region_release(StgCompactNFDataBlock *first, char *base, int64_t megablocks, int fd) {
  size_t all = (size_t)megablocks, used = used_of(base, all);
  size_t keep = (used + IMAGE_BLOCK - 1) / IMAGE_BLOCK;
  size_t end =
      used > limit_of(all) ? group_bytes(all) : (used + BLOCK_SIZE - 1) & ~(BLOCK_SIZE - 1);
  int error = make_private(base, end, fd);
  if (error)
    return error;
  if (end < group_bytes(all) &&
      mmap(base + end, group_bytes(all) - end, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
    return -errno;
  if (keep < all)
    trim(first, base, all, keep);
  account_close(Bdescr((StgPtr)first));
  close(fd);
  return 0;
}

/* --- the copy path --- */

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

void maru_region_forked(void) { inherited = blocks_in_use(); }

static size_t unshared_most(void) {
  W_ blocks = blocks_in_use();
  return UNSHARED_MOST + (blocks > inherited ? (blocks - inherited) * BLOCK_SIZE : 0);
}

/* What a letter (letter.c) may hold: to fork is cheaper than to send more. */
enum { LETTER_MOST = 16 << 20 };

/* A value as position-independent bytes: their number, *bytes to be freed; or an error of
   image_copy: -ENOSPC where memory, or without sharing unshared_most, is exceeded. `how`: 0 in
   normal form, 1 with sharing, 2 with sharing as closures, for a letter. */
int64_t maru_pack(StgClosure *value, W_ how, const StgInfoTable *bytestring, void **bytes) {
  bool sharing = how > 0;
  struct image image = {.origin = packed_origin, .at = IMAGE_DATA, .closures = how == 2};
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
  return r;
}

bool packed_valid(const struct packed *header, size_t size) {
  size_t bytes = size - sizeof *header;
  return header->magic == packed_magic && header->end >= IMAGE_DATA &&
         header->end - IMAGE_DATA <= bytes && header->sites <= bytes / sizeof(size_t) &&
         header->end - IMAGE_DATA + header->sites * sizeof(size_t) == bytes;
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

/* How a packed value is to be landed: 0 as ordinary heap objects, 1 beside others in a landing
   (maru_landing_new), else in a compact region of its own; -EBADMSG: it is none. */
int64_t maru_packed_kind(const char *bytes, int64_t size) {
  struct packed header;
  if ((size_t)size < sizeof header)
    return -EBADMSG;
  memcpy(&header, bytes, sizeof header);
  if (!packed_valid(&header, (size_t)size))
    return -EBADMSG;
  size_t length = header.end - IMAGE_DATA;
  if (!header.sites && length < LARGE_OBJECT_THRESHOLD)
    return 0;
  return length <= IMAGE_BLOCK / 4 ? 1 : 2;
}

/* A landing: an image that only this process has, for many small values. Its base address. */
int64_t maru_landing_new(StgCompactNFDataBlock *first) {
  char *base;
  int64_t r = add_group(first, 1, &base);
  if (r < 0)
    return r;
  charge(first, 1);
  atomic_store_explicit(&head_of(base)->used, IMAGE_DATA, memory_order_relaxed);
  return (int64_t)base;
}

/* Lands a packed value of kind 1: its address; -ENOSPC: the landing is full. */
int64_t maru_unpack_beside(char *landing, const char *bytes, int64_t size) {
  struct packed header;
  (void)size;
  memcpy(&header, bytes, sizeof header);
  size_t used = used_of(landing, 1), length = header.end - IMAGE_DATA;
  if (length > limit_of(1) - used)
    return -ENOSPC;
  memcpy(landing + used, bytes + sizeof header, length);
  int64_t r = land(landing + used - IMAGE_DATA, &header, bytes + sizeof header + length, NULL);
  if (r >= 0)
    atomic_store_explicit(&head_of(landing)->used, used + length, memory_order_relaxed);
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
  int64_t r = add_group(first, megablocks, &base);
  if (r < 0)
    return r;
  charge(first, megablocks);
  /* The sites come last, and are not moved. */
  move(base + IMAGE_DATA, bytes + sizeof header, length, MADV_REMOVE);
  return land(base, &header, bytes + sizeof header + length, descriptor_of(base));
}
#else
void maru_region_forked(void) {}
void maru_move_private(char *to, const char *from, int64_t bytes) {
  memcpy(to, from, (size_t)bytes);
}
int64_t maru_region_new(void *first, int64_t megablocks, int *fd) {
  (void)first, (void)megablocks, (void)fd;
  return -ENOSYS;
}
int64_t maru_region_room(char *base, int64_t megablocks) {
  (void)base, (void)megablocks;
  return 0;
}
int64_t maru_region_add(char *base, W_ megablocks, StgClosure *value, W_ sharing,
                        const StgInfoTable *bytestring) {
  (void)base, (void)megablocks, (void)value, (void)sharing, (void)bytestring;
  return -ENOSYS;
}
int64_t maru_region_release(void *first, char *base, int64_t megablocks, int fd) {
  (void)first, (void)base, (void)megablocks, (void)fd;
  return -ENOSYS;
}
int64_t maru_pack(StgClosure *value, W_ how, const StgInfoTable *bytestring, void **bytes) {
  (void)value, (void)how, (void)bytestring, (void)bytes;
  return -ENOSYS;
}
int64_t maru_packed_kind(const char *bytes, int64_t size) {
  (void)bytes, (void)size;
  return -ENOSYS;
}
int64_t maru_landing_new(void *first) {
  (void)first;
  return -ENOSYS;
}
int64_t maru_unpack_beside(char *landing, const char *bytes, int64_t size) {
  (void)landing, (void)bytes, (void)size;
  return -ENOSYS;
}
int64_t maru_unpack_heap(const char *bytes, int64_t size) {
  (void)bytes, (void)size;
  return -ENOSYS;
}
int64_t maru_unpack_alone(void *first, const char *bytes, int64_t size) {
  (void)first, (void)bytes, (void)size;
  return -ENOSYS;
}
#endif
