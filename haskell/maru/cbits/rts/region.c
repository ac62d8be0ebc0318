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

#if MARU_RTS_REGIONS
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* A used part up to this size is copied to ordinary memory on release: cheaper than faulting it in
   again, and the kernel merges it with its neighbours instead of keeping one mapping each. */
enum { COPY_ON_RELEASE = 1 << 20 };

enum { BLOCKS_PER_MEGABLOCK = IMAGE_BLOCK / BLOCK_SIZE };

static size_t group_bytes(size_t megablocks) { return megablocks * IMAGE_BLOCK; }

static bdescr *descriptor_of(char *base) { return Bdescr((StgPtr)(void *)(base + IMAGE_FIRST)); }

/* Blocks that hold something. Released regions leave whole megablocks unused, which the block
   allocator keeps until the next collection. */
static W_ blocks_in_use(void) {
  return &n_alloc_blocks ? n_alloc_blocks : mblocks_allocated * BLOCKS_PER_MEGABLOCK;
}

/* Whether the heap's addresses have so many megablocks in a row that are free. Under the
   block allocator's lock. */
static bool in_a_row(size_t megablocks) {
  W_ end = mblock_address_space.begin;
  void *state;
  for (char *m = getFirstMBlock(&state); m; m = getNextMBlock(&state, m)) {
    if ((W_)m >= end + group_bytes(megablocks))
      return true;
    end = (W_)m + IMAGE_BLOCK;
  }
  return mblock_address_space.end >= end + group_bytes(megablocks);
}

/* Under `ulimit -v` the heap's addresses are few, and what earlier regions left lies scattered.
   Else they are so many that what is allocated cannot part them all: nobody needs to look. */
static bool has_addresses(size_t megablocks) {
  W_ all = (mblock_address_space.end - mblock_address_space.begin) / IMAGE_BLOCK;
  if (all - mblocks_allocated > (mblocks_allocated + 1) * megablocks)
    return true;
  if (&sm_mutex) {
    OS_ACQUIRE_LOCK(&sm_mutex);
  }
  bool there = in_a_row(megablocks);
  if (&sm_mutex) {
    OS_RELEASE_LOCK(&sm_mutex);
  }
  return there;
}

/* Is there room for so many megablocks, as far as can be told? The block allocator ends the
   program where there is none. */
static int probe(size_t megablocks) {
  W_ limit = RtsFlags.GcFlags.maxHeapSize;
  if (limit && blocks_in_use() + megablocks * BLOCKS_PER_MEGABLOCK >= limit)
    return -ENOMEM;
  if (!has_addresses(megablocks))
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

int64_t maru_region_landing(StgCompactNFDataBlock *first, size_t megablocks, char **base) {
  int64_t r = add_group(first, megablocks, base);
  if (r == 0)
    charge(first, megablocks);
  return r;
}

/* --- making and filling --- */

/* The base address of a new region of so many megablocks, a fresh descriptor in *fd. */
int64_t maru_region_new(StgCompactNFDataBlock *first, int64_t megablocks, int *fd) {
  size_t bytes = group_bytes((size_t)megablocks) - IMAGE_PRIVATE;
  char *base;
  int64_t error;
  /* A memfd counts as a file: past this limit ftruncate sends SIGXFSZ, which ends the program. */
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur)
    return -EFBIG;
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
  atomic_store_explicit(&image_head_of(base)->used, IMAGE_DATA, memory_order_relaxed);
  return (int64_t)base;
}

int64_t maru_region_room(char *base, int64_t megablocks) {
  size_t used = image_used(base, (size_t)megablocks), limit = image_limit((size_t)megablocks);
  return used < limit ? (int64_t)(limit - used) : 0;
}

/* Copies a value in normal form into the region: its address, or an error of image_copy. */
int64_t maru_region_add(char *base, W_ megablocks, StgClosure *value, W_ sharing,
                        const StgInfoTable *bytestring) {
  struct image image = {.base = base,
                        .origin = (uintptr_t)base,
                        .limit = image_limit(megablocks),
                        .head = descriptor_of(base)};
  StgClosure *root;
  image_at(&image, image_used(base, megablocks));
  int64_t r = image_copy(&image, value, sharing, bytestring, &root);
  if (r < 0)
    return r;
  /* release: a parent that reads this, after the worker's death, keeps all that is below. The
     address itself is published by the log that carries it. */
  atomic_store_explicit(&image_head_of(base)->used, image.at, memory_order_release);
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
  size_t all = (size_t)megablocks, used = image_used(base, all);
  size_t keep = (used + IMAGE_BLOCK - 1) / IMAGE_BLOCK;
  size_t end =
      used > image_limit(all) ? group_bytes(all) : (used + BLOCK_SIZE - 1) & ~(BLOCK_SIZE - 1);
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
#else
int64_t maru_region_landing(StgCompactNFDataBlock *first, size_t megablocks, char **base) {
  (void)first, (void)megablocks, (void)base;
  return -ENOSYS;
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
#endif
