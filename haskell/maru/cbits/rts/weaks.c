/* What a forked worker inherits and must not keep: its parent's finalizers and threads. */
#include "internals.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* For one offset. What it repeats of the other headers it says as plain numbers. */
#undef BLOCK_SIZE
#undef MBLOCK_SIZE
#undef BLOCKS_PER_MBLOCK
#include <DerivedConstants.h>

#if MARU_RTS_VALIDATED
/* Not by index: the size of a generation depends on the run-time system that is linked. */
static const generation *next_generation(const generation *g) { return g->to == g ? NULL : g->to; }

static int64_t neuter(StgWeak *weak) {
  int64_t n = 0;
  for (; weak; weak = weak->link, n++) {
    weak->finalizer = &stg_NO_FINALIZER_closure;
    weak->cfinalizers = &stg_NO_FINALIZER_closure;
  }
  return n;
}

/* Weak pointers made since the last collection are not yet in a generation: each capability keeps
   its own list of them. Whoever walks the generations only finds none in a program that has not
   collected yet. */
static StgWeak *fresh_weaks(const Capability *cap) {
  StgWeak *head;
  memcpy(&head, (const char *)cap + OFFSET_Capability_weak_ptr_list_hd, sizeof head);
  return head;
}

/* Leaves the bottom frame alone. */
static void strip(StgStack *stack) {
  StgStopFrame *bottom = (StgStopFrame *)(stack->stack + stack->stack_size) - 1;
  bottom->header.info = &stg_stop_thread_info;
  stack->sp = (StgPtr)bottom;
}
#endif

/* Takes their finalizers from all weak pointers; they stay valid otherwise. Returns how many. */
int64_t maru_rts_neuter_weaks(void) {
#if !MARU_RTS_VALIDATED
  return -ENOSYS;
#else
  if (!&capabilities || !&n_capabilities)
    return -ENOSYS;
  int64_t n = 0;
  for (const generation *g = generations; g; g = next_generation(g))
    n += neuter(g->weak_ptr_list);
  for (uint32_t c = 0; c < n_capabilities; c++)
    n += neuter(fresh_weaks(capabilities[c]));
  return n;
#endif
}

/* Forking. */

/* The run-time system opens descriptors of its own in the child (a timer, an epoll instance, event
   descriptors) and ends the process, with a complaint of its own, where it gets none. So they are
   reserved here, where a refusal can be said in one line. */
enum { RESERVED = 8 };

static _Thread_local struct {
  bool forking;
  int reserved[RESERVED];
} me;

static void release(int n) {
  while (n-- > 0)
    close(me.reserved[n]);
}

static int reserve(void) {
  for (int n = 0; n < RESERVED; n++) {
    me.reserved[n] = epoll_create1(EPOLL_CLOEXEC);
    if (me.reserved[n] < 0) {
      int error = errno;
      release(n);
      return error;
    }
  }
  return 0;
}

/* A thread that is in a foreign call when its process forks is dead in the child, but forkProcess
   leaves it its stack. Whoever still holds such a thread (a timer, a test runner) would hold all
   that it was working on, and no wait for any of it would ever be found to be for ever. forkProcess
   forgets the list of threads, so it is walked before: as the first thing in the child, while all
   of the parent's capabilities and locks are held. */
static void strip_threads(void) {
#if MARU_RTS_VALIDATED
  for (const generation *g = generations; g; g = next_generation(g))
    for (StgTSO *t = g->threads; t != END_TSO_QUEUE; t = t->global_link)
      if (t->why_blocked == BlockedOnCCall || t->why_blocked == BlockedOnCCall_Interruptible)
        strip(t->stackobj);
#endif
}

static void in_child(void) {
  if (!me.forking)
    return;
  me.forking = false; /* the worker's own forks are none of ours */
  release(RESERVED);
  strip_threads();
}

static int unprepared; /* why forking cannot be prepared */
static void prepare_forking(void) { unprepared = pthread_atfork(NULL, NULL, in_child); }

/* forkProcess, see above; -1 and errno where it fails. */
pid_t maru_rts_fork(HsStablePtr *entry) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, prepare_forking);
  int error = unprepared ? unprepared : reserve();
  if (error) {
    errno = error;
    return -1;
  }
  me.forking = true;
  pid_t pid = forkProcess(entry);
  me.forking = false;
  error = errno;
  release(RESERVED);
  errno = error;
  return pid;
}
