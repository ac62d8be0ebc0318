#include "accounts.h"

#if MARU_RTS_REGIONS
#include <pthread.h>
#include <stdlib.h>

struct account {
  struct account *next;
  const bdescr *first;
  size_t blocks;
};

/* Of regions that are not released yet, inherited ones included. The lock is not held at a
   collection or a fork: the thread that has it is in an unsafe call. */
static struct account *accounts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool counted(void) { return &rtsConfig && &oldest_gen; }

/* After a collection of everything the threshold is set as if there were no regions, and all of
   them are added, those too that are still to be promoted. The world stands still; n_words, large
   and compact blocks are what resizeGenerations went by. */
static void reckon(generation *old) {
  size_t promoted = 0, young = 0;
  for (const struct account *a = accounts; a; a = a->next)
    *(a->first->gen == old ? &promoted : &young) += a->blocks;
  if (!accounts || promoted > old->n_compact_blocks)
    return;
  size_t live = (old->n_words + BLOCK_SIZE_W - 1) / BLOCK_SIZE_W + old->n_large_blocks +
                old->n_compact_blocks - promoted;
  size_t most = (size_t)((double)live * RtsFlags.GcFlags.oldGenFactor);
  if (most < RtsFlags.GcFlags.minOldGenSize)
    most = RtsFlags.GcFlags.minOldGenSize;
  if (old->max_blocks > promoted + most)
    old->max_blocks = promoted + most;
  old->max_blocks += young;
}

static void (*next_hook)(const struct GCDetails_ *);

static void after_collection(const struct GCDetails_ *details) {
  if (details->gen == oldest_gen->no)
    reckon(oldest_gen);
  if (next_hook)
    next_hook(details);
}

static void hook_collections(void) {
  next_hook = rtsConfig.gcDoneHook;
  rtsConfig.gcDoneHook = after_collection;
}

/* The bound is held by what is live, twice: a collection copies it. */
static size_t share_of_bound(size_t blocks) { return 2 * blocks; }

size_t account_bound(void) {
  size_t blocks = 0;
  pthread_mutex_lock(&lock);
  for (const struct account *a = accounts; a; a = a->next)
    blocks += share_of_bound(a->blocks);
  pthread_mutex_unlock(&lock);
  return blocks;
}

/* A heap without a bound (0) stays so, and a bound that is raised beyond any figure is none. */
static void raise_bound(size_t blocks) {
  size_t bound = RtsFlags.GcFlags.maxHeapSize;
  if (bound > 0)
    RtsFlags.GcFlags.maxHeapSize =
        bound + blocks <= UINT32_MAX ? (uint32_t)(bound + blocks) : UINT32_MAX;
}
static void lower_bound(size_t blocks) {
  size_t bound = RtsFlags.GcFlags.maxHeapSize;
  if (bound > blocks)
    RtsFlags.GcFlags.maxHeapSize = (uint32_t)(bound - blocks);
}

struct account *account_new(void) {
  return malloc(sizeof(struct account));
}

void account_open(struct account *account, const bdescr *first, size_t blocks) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (!counted()) {
    free(account);
    return;
  }
  pthread_once(&once, hook_collections);
  pthread_mutex_lock(&lock);
  *account = (struct account){accounts, first, blocks};
  accounts = account;
  oldest_gen->max_blocks += blocks;
  raise_bound(share_of_bound(blocks));
  pthread_mutex_unlock(&lock);
}

void account_close(const bdescr *first) {
  if (!counted())
    return;
  pthread_mutex_lock(&lock);
  for (struct account **at = &accounts; *at; at = &(*at)->next)
    if ((*at)->first == first) {
      struct account *closed = *at;
      W_ most = oldest_gen->max_blocks;
      oldest_gen->max_blocks -= closed->blocks < most ? closed->blocks : most;
      lower_bound(share_of_bound(closed->blocks));
      *at = closed->next;
      free(closed);
      break;
    }
  pthread_mutex_unlock(&lock);
}
#else
typedef int maru_no_accounts; /* a file must declare something */
#endif
