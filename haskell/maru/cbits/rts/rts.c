/* The worker's prologue and the knobs of the run-time system. Called unsafely: no collection can
   happen meanwhile. Errors are negative errno. */
#include "accounts.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* GHC ends spare threads by pthread_exit. glibc opens libgcc_s.so.1 for the first one, and ends the
   process where it cannot: one without a descriptor left, as an item may be. So it is opened while
   there are some, and stays. A program that is wholly static (no base of a loader) has no way to.
 */
__attribute__((constructor)) static void let_threads_end(void) {
  if (getauxval(AT_BASE) != 0)
    (void)dlopen("libgcc_s.so.1", RTLD_LAZY);
}

/* glibc takes 64 MiB of addresses for each thread that allocates, as long as there are some. Where
   they are few (`ulimit -v`) a stack, or the copy of a result, finds none then. So there threads
   share what the first one has; this is said before there is a second. */
__attribute__((constructor)) static void share_addresses(void) {
#ifdef M_ARENA_MAX
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    (void)mallopt(M_ARENA_MAX, 1);
#endif
}

const char *maru_rts_refusal(void) {
  const char *hazard = maru_rts_hazard();
  if (hazard)
    return hazard;
  if (MARU_RTS_NO_REGIONS)
    return MARU_RTS_NO_REGIONS;
  /* GHC 9.10 has the first two for everybody, but not the lock of what they count, sm_mutex. That
     one is NULL in a program without threads, too; rtsConfig is hidden wherever the lock is. */
  if (!&mblock_address_space || !&mblocks_allocated || !&rtsConfig)
    return "the run-time system is a shared library (program built with -dynamic, or GHCi)";
  if (!maru_rts_capabilities())
    maru_rts_look();
  if (!maru_rts_capabilities())
    return "the run-time system keeps its capabilities where maru does not know them";
  return NULL;
}

/* With --nonmoving-gc workers may hang (GHC 9.0, observed), however results cross. And where
   foreign pointers are not told from other data, their memory would stay behind. */
const char *maru_rts_hazard(void) {
  if (RtsFlags.GcFlags.useNonmoving)
    return "the program runs with --nonmoving-gc";
  if (!&MARU_BASE(ForeignPtr, PlainPtr_con_info) || !&MARU_BASE(ForeignPtr, MallocPtr_con_info) ||
      !&MARU_BASE(ForeignPtr, PlainForeignPtr_con_info) ||
      !&MARU_BASE(ForeignPtr, FinalPtr_con_info) || !&MARU_BASE(ForeignPtr, FinalPtr_closure) ||
      !&MARU_BASE(Stable, StablePtr_con_info) || !&MARU_BASE(Ptr, FunPtr_con_info) ||
      !&MARU_BASE(IOziHandleziTypes, Handlezuzu_con_info))
    return "maru does not know the base library of this GHC (" MARU_GHC_NAME ")";
  return NULL;
}

/* A forked process that is one of many: no collection when idle, none by several threads, no thread
   moved to another capability (but sparks still are, and what forkOn places). Capabilities stay as
   many as they are: with setNumCapabilities and then a parallel collection in a child of
   forkProcess, GHC 9.0.2 was seen, once in some hundred forks, to leave runnable threads on a
   capability that no thread of the system runs. */
void maru_pack_forked(void);     /* pack.c */
void maru_rts_area_forked(void); /* area.c */

void maru_rts_one_of_many(void) {
  maru_pack_forked();
  maru_rts_area_forked();
  fatalInternalErrorFn = rtsFatalInternalErrorFn; /* no longer those of a start, see weaks.c */
  errorMsgFn = rtsErrorMsgFn;
  RtsFlags.GcFlags.doIdleGC = false;
  RtsFlags.ParFlags.parGcEnabled = false;
  RtsFlags.ParFlags.migrate = false;
}

/* In a process that has workers: so many more (or fewer) live now. While one does, the cores are
   theirs, and its collections are made by one thread. By as many threads as it has capabilities,
   which spin for each other, they took most of the time of a map beside as many workers. */
static struct {
  pthread_mutex_t lock;
  int64_t alive;
  bool parallel; /* it collects by several threads without them */
} workers = {.lock = PTHREAD_MUTEX_INITIALIZER};

void maru_rts_workers(int64_t change) {
  pthread_mutex_lock(&workers.lock);
  if (workers.alive == 0) {
    workers.parallel = RtsFlags.ParFlags.parGcEnabled;
    RtsFlags.ParFlags.parGcEnabled = false;
  }
  workers.alive += change;
  if (workers.alive == 0)
    RtsFlags.ParFlags.parGcEnabled = workers.parallel;
  pthread_mutex_unlock(&workers.lock);
}

/* In a process that the program forked by itself: the workers are its parent's. Before another
   thread is there. */
void maru_rts_no_workers(void) {
  workers.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* whichever thread held it */
  if (workers.alive > 0)
    RtsFlags.ParFlags.parGcEnabled = workers.parallel;
  workers.alive = 0;
}

/* Most bytes of the whole heap from now on, beside open regions; the user's own -M stays where it
 * is lower. */
void maru_rts_limit_heap(int64_t bytes) {
  W_ blocks = (W_)bytes / BLOCK_SIZE;
#if MARU_RTS_REGIONS
  blocks += account_bound();
#endif
  if (blocks > UINT32_MAX)
    return;
  if (!RtsFlags.GcFlags.maxHeapSize || blocks < RtsFlags.GcFlags.maxHeapSize)
    RtsFlags.GcFlags.maxHeapSize = (uint32_t)blocks;
}

/* The run-time system keeps the times of its collections only where someone asked for statistics;
   asking later is the same as +RTS -T from then on. Nanoseconds of the processor: the process's,
   its collector's; and how many collections. */
void maru_rts_collector(int64_t *seen) {
  RTSStats stats;
  if (RtsFlags.GcFlags.giveStats == NO_GC_STATS)
    RtsFlags.GcFlags.giveStats = COLLECT_GC_STATS;
  getRTSStats(&stats);
  seen[0] = stats.cpu_ns;
  seen[1] = stats.gc_cpu_ns;
  seen[2] = (int64_t)stats.gcs;
}

enum { huge_page = 2 << 20 };

/* One huge page at a time: a single bad one must not end the walk. */
static int64_t collapse(uintptr_t from, uintptr_t to, int *error) {
  int64_t done = 0;
  from = (from + huge_page - 1) & ~(uintptr_t)(huge_page - 1);
  for (; from + huge_page <= to; from += huge_page) {
    if (madvise((void *)from, huge_page, MADV_COLLAPSE) == 0)
      done += huge_page;
    else
      *error = errno;
  }
  return done;
}

/* Collapses the dynamic heap's private anonymous memory into huge pages; bytes collapsed. */
int64_t maru_rts_collapse_heap(void) {
  if (!&mblock_address_space)
    return -ENOSYS;
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps)
    return -errno;
  char line[4096];
  int64_t done = 0;
  int error = 0;
  while (fgets(line, sizeof line, maps)) {
    uintptr_t from, to;
    unsigned long inode;
    if (sscanf(line, "%lx-%lx rw-p %*x %*s %lu", &from, &to, &inode) == 3 && inode == 0 &&
        maru_in_heap((void *)from))
      done += collapse(from, to, &error);
  }
  fclose(maps);
  return done == 0 && error ? -error : done;
}

/* Is this (possibly tagged) closure static, that is, at the same address in parent and child? */
bool maru_rts_is_static(const void *closure) { return !maru_in_heap(closure); }

/* What this thread writes from now on, and reads, comes after what it has written, for all. */
void maru_rts_fence(void) { atomic_thread_fence(memory_order_seq_cst); }
