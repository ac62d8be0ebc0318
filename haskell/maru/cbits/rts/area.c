/* The size of the allocation area: what the user chose, what a worker sets, and what a caller gets
   while a map evaluates its items there. */
#include "accounts.h"

#include <pthread.h>
#include <time.h>

/* Is the allocation area as the run-time system has it by itself? What a user chose (-A, -H,
   chunks) stays; -A with that very size is taken for no choice. Before anybody changes it, and
   once: workers inherit the answer. */
static enum { UNASKED, OURS, THEIRS } area;

static bool area_by_default(void) {
  return RtsFlags.GcFlags.minAllocAreaSize == MARU_DEFAULT_AREA / BLOCK_SIZE &&
         !RtsFlags.GcFlags.nurseryChunkSize && !RtsFlags.GcFlags.heapSizeSuggestion &&
         !RtsFlags.GcFlags.heapSizeSuggestionAuto;
}

bool maru_rts_area_is_ours(void) {
  if (area == UNASKED)
    area = area_by_default() ? OURS : THEIRS;
  return area == OURS;
}

/* Of each capability, from the next collection on. */
void maru_rts_set_alloc_area(int64_t bytes) {
  W_ blocks = (W_)bytes / BLOCK_SIZE;
  RtsFlags.GcFlags.minAllocAreaSize = (uint32_t)(blocks ? blocks : 1);
  RtsFlags.GcFlags.largeAllocLim = RtsFlags.GcFlags.minAllocAreaSize;
  large_alloc_lim = (W_)RtsFlags.GcFlags.largeAllocLim * BLOCK_SIZE_W;
}

/* Most bytes of an area by the heap's bound: all areas together take a quarter of it, for the
   run-time system counts each as full. What open regions add to the bound is theirs. */
int64_t maru_rts_area_bound(void) {
  size_t blocks = RtsFlags.GcFlags.maxHeapSize;
  if (!blocks)
    return INT64_MAX;
#if MARU_RTS_REGIONS
  size_t regions = account_bound();
  blocks -= regions < blocks ? regions : blocks;
#endif
  return (int64_t)(blocks * BLOCK_SIZE / 4 / n_capabilities);
}

int64_t maru_rts_alloc_area(void) {
  return (int64_t)RtsFlags.GcFlags.minAllocAreaSize * (int64_t)BLOCK_SIZE;
}

/* The caller. What is computed there before there are workers is inherited by all of them, laid as
   the collector has left it: of a list of lists the elements of all of them in turn, each on
   another page than the next. So while a map evaluates items there collections that take more than
   a quarter of the time make the area larger: not between two items, for the first one may compute
   all of it. If it then spares too little of that it becomes as it was, and larger again only for
   twice as much. Of processor time, and of young collections, as others do not depend on it: the
   numbers are those of Maru.Internal.Area. */
enum { LARGE = 16 << 20, LARGE_IN_ALL = 64 << 20, FEW = 2, SHORT_NS = 400000, LOOKS = 32 };
static const double dear = 0.25, worthwhile = 0.03;

struct span {
  int collections;
  int64_t ns, collector_ns;
};

/* Not held at a collection or a fork: the thread that has it is in an unsafe call. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  bool worker;   /* whose area grows by other rules */
  int looks;     /* at so many collections more, until it is lent anew: a list may be left unread */
  int64_t since; /* the processor's time at the last collection, or when it was lent */
  struct span seen; /* since then, or since its size changed */
  bool changing;    /* the next collection does it */
  int64_t usual;    /* bytes; 0: it is not larger now */
  double share;     /* of the time, before it grew */
  double bar;       /* above which it grows */
} caller = {.bar = dear};

static int64_t cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t largest(void) {
  int64_t each = LARGE_IN_ALL / (int64_t)n_capabilities, bound = maru_rts_area_bound();
  int64_t most = each < LARGE ? each : LARGE;
  return bound < most ? bound : most;
}

static void grow(double share) {
  int64_t usual = maru_rts_alloc_area(), large = largest();
  if (large <= usual)
    return;
  maru_rts_set_alloc_area(large);
  caller.usual = usual;
  caller.share = share;
  caller.changing = true;
}

static void shrink(void) {
  if (caller.usual)
    maru_rts_set_alloc_area(caller.usual);
  caller.usual = 0;
}

static void judge(double share) {
  if (!caller.usual && share > caller.bar)
    grow(share);
  else if (caller.usual && caller.share - share < worthwhile) {
    caller.bar = 2 * share > caller.bar ? 2 * share : caller.bar;
    shrink();
  }
}

static void look(const struct GCDetails_ *details) {
  int64_t now = cpu_ns(), took = now - caller.since;
  struct span *seen = &caller.seen;
  caller.looks--;
  caller.since = now;
  if (details->gen > 0)
    return;
  seen->collections++;
  seen->ns += took;
  seen->collector_ns += (int64_t)details->cpu_ns;
  if (!caller.changing && (seen->ns < SHORT_NS || (!caller.usual && seen->collections < FEW)))
    return;
  if (!caller.changing)
    judge((double)seen->collector_ns / (double)seen->ns);
  else
    caller.changing = false;
  *seen = (struct span){0};
}

static void (*next_hook)(const struct GCDetails_ *);

static void after_collection(const struct GCDetails_ *details) {
  if (caller.usual || caller.looks > 0)
    look(details);
  if (next_hook)
    next_hook(details);
}

static void hook_collections(void) {
  next_hook = rtsConfig.gcDoneHook;
  rtsConfig.gcDoneHook = after_collection;
}

/* A map evaluates an item here. */
void maru_rts_area_lend(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (caller.worker || !&rtsConfig || !maru_rts_area_is_ours())
    return;
  pthread_once(&once, hook_collections);
  pthread_mutex_lock(&lock);
  if (!caller.usual && caller.looks <= 0) {
    caller.seen = (struct span){0};
    caller.since = cpu_ns();
  }
  caller.looks = LOOKS;
  pthread_mutex_unlock(&lock);
}

/* The rest is evaluated elsewhere, or there is none. */
void maru_rts_area_return(void) {
  pthread_mutex_lock(&lock);
  caller.looks = 0;
  shrink();
  pthread_mutex_unlock(&lock);
}

/* In a forked worker, which begins with its parent's usual area. */
void maru_rts_area_forked(void) {
  maru_rts_area_return();
  caller.worker = true;
}
