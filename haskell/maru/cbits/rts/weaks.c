/* What a forked worker inherits and must not keep: its parent's finalizers, handles and threads. */
#define _GNU_SOURCE
#include "internals.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Not by index: the size of a generation depends on the run-time system that is linked. */
static const generation *next_generation(const generation *g) { return g->to == g ? NULL : g->to; }

/* What a Handle has read ahead is the caller's: two processes that take it would both have the
   same lines. A Handle is a variable that its user empties for as long as it uses it, and whose
   weak pointer closes the file; in a worker that variable is empty for ever. */
static const StgClosure *const locked = (const StgClosure *)&stg_END_TSO_QUEUE_closure;

static bool is_mvar(const StgClosure *p) {
  StgHalfWord type = get_itbl(p)->type;
  return type == MVAR_CLEAN || type == MVAR_DIRTY;
}

/* Behind indirections. One that is still a thunk has not been used: nothing was read ahead. */
static bool is_handle(const StgClosure *p) {
  const StgClosure *q = UNTAG_CLOSURE((StgClosure *)p);
  for (;;) {
    StgHalfWord type = get_itbl(q)->type;
    if (type != IND && type != IND_STATIC && type != BLACKHOLE)
      return q->header.info == &MARU_BASE(IOziHandleziTypes, Handlezuzu_con_info);
    q = UNTAG_CLOSURE(((const StgInd *)q)->indirectee);
  }
}

static void lock_handle(StgWeak *weak, const StgMVar *const spared[2]) {
  StgMVar *mvar = (StgMVar *)UNTAG_CLOSURE(weak->key);
  if (!is_mvar((StgClosure *)mvar) || mvar == spared[0] || mvar == spared[1] ||
      !is_handle(mvar->value))
    return;
  mvar->value = (StgClosure *)locked;
  weak->value = (StgClosure *)locked; /* by which it is known again */
}

static int64_t neuter(StgWeak *weak) {
  int64_t n = 0;
  for (; weak; weak = weak->link, n++) {
    weak->finalizer = &stg_NO_FINALIZER_closure;
    weak->cfinalizers = &stg_NO_FINALIZER_closure;
  }
  return n;
}

/* A Handle that was opened since has its finalizer still. */
static void lock_neutered(StgWeak *weak, const StgMVar *const spared[2]) {
  for (; weak; weak = weak->link)
    if (weak->finalizer == &stg_NO_FINALIZER_closure)
      lock_handle(weak, spared);
}

static bool is_key(const StgWeak *weak, const StgClosure *mvar) {
  for (; weak; weak = weak->link)
    if (weak->value == locked && UNTAG_CLOSURE(weak->key) == mvar)
      return true;
  return false;
}

/* Takes their finalizers from all weak pointers; they stay valid otherwise. Returns how many. */
int64_t maru_rts_neuter_weaks(void) {
  int64_t n = 0;
  for (const generation *g = generations; g; g = next_generation(g))
    n += neuter(g->weak_ptr_list);
  for (uint32_t c = 0; c < maru_rts_capabilities(); c++)
    n += neuter(maru_rts_fresh_weaks(maru_rts_capability(c)));
  return n;
}

/* All Handles whose finalizer was taken, but two, are locked for ever. */
void maru_rts_lock_handles(const StgMVar *out, const StgMVar *err) {
  const StgMVar *const spared[2] = {out, err};
  for (const generation *g = generations; g; g = next_generation(g))
    lock_neutered(g->weak_ptr_list, spared);
  for (uint32_t c = 0; c < maru_rts_capabilities(); c++)
    lock_neutered(maru_rts_fresh_weaks(maru_rts_capability(c)), spared);
}

/* Is this the variable of a Handle that the above has locked? */
bool maru_rts_is_locked(const StgClosure *mvar) {
  for (const generation *g = generations; g; g = next_generation(g))
    if (is_key(g->weak_ptr_list, mvar))
      return true;
  for (uint32_t c = 0; c < maru_rts_capabilities(); c++)
    if (is_key(maru_rts_fresh_weaks(maru_rts_capability(c)), mvar))
      return true;
  return false;
}

/* Forking. */

/* The kernel's table of a process's descriptors grows, from 64 to 256 first, when a number needs
   it; where several threads use it, after a grace period of RCU. That took 20 to 40 ms in the
   middle of the births of 16 workers, for which this process keeps three descriptors each. With one
   thread, before main and at first in a child, it takes nothing; the table stays as large. */
static void widen_descriptors(void) {
  enum { PLENTY = 1024 };
  struct rlimit limit;
  int low = epoll_create1(EPOLL_CLOEXEC);
  if (low < 0)
    return;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    int most = limit.rlim_cur < PLENTY ? (int)limit.rlim_cur : PLENTY;
    int high = fcntl(low, F_DUPFD_CLOEXEC, most - 1);
    if (high >= 0)
      close(high);
  }
  close(low);
}

/* The run-time system names each thread that it starts, and glibc writes another thread's name
   below /proc/self/task. Of a process that ends the kernel then drops what it remembers of each
   such file, while the threads that still end drop it, too: it spins until all have, for
   milliseconds on a loaded machine, at the cost of the parent that waits for it. So threads of
   workers have no names, but those that they give themselves. This one goes before libc's, for it
   is in the program; weak, so that a program may have its own. */
static bool is_worker;
typedef int set_name(pthread_t, const char *);

/* Where there is no other function of this name to call: the libc is linked in statically. */
static int name_self(pthread_t thread, const char *name) {
  enum { MOST = 15 }; /* the kernel's, which would cut it off */
  if (!pthread_equal(thread, pthread_self()))
    return ENOSYS;
  if (strlen(name) > MOST)
    return ERANGE;
  return prctl(PR_SET_NAME, name) ? errno : 0;
}

static set_name *find_name_behind(void) {
  set_name *found = (set_name *)dlsym(RTLD_NEXT, "pthread_setname_np");
  return found ? found : name_self;
}

/* Constructors of the program's libraries come before this one's. */
static int name_early(pthread_t thread, const char *name) {
  return find_name_behind()(thread, name);
}

/* Found before main: a thread that a fork leaves behind may be in the middle of a dlsym. */
static set_name *name_behind = name_early;

__attribute__((weak)) int pthread_setname_np(pthread_t thread, const char *name) {
  return is_worker && !pthread_equal(thread, pthread_self()) ? 0 : name_behind(thread, name);
}

extern char __libc_single_threaded __attribute__((weak)); /* glibc 2.32 */

__attribute__((constructor)) static void at_start(void) {
  name_behind = find_name_behind();
  if (&__libc_single_threaded && __libc_single_threaded)
    widen_descriptors();
}

/* The run-time system opens descriptors of its own in the child (a timer, an epoll instance, event
   descriptors) and ends the process, with a complaint of its own, where it gets none. So they are
   reserved here, where a refusal can be said in one line. */
enum { RESERVED = 8 };

static _Thread_local struct {
  bool forking;
  struct maru_fd_snapshot *inherited;
  sigset_t before; /* the signals that were blocked */
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

/* The caller's threads are dead in the child. What one was computing in a foreign call, or while it
   waited for another, never comes here: whatever demands it meets maru_absent (prim.cmm), which
   says so at once. What a thread that was ready to run was computing goes on where it is demanded:
   forkProcess sees to that.

   forkProcess would leave a thread that is in a foreign call its stack and the thunks that it has
   entered; whatever still holds such a thread (a timer, a test runner) would hold all that it was
   working on, and no wait for any of it would ever be found to be for ever. Of a thread that waits
   it would make thunks that wait again, for what nobody does here. It forgets the list of threads,
   so this walks it before: as the first thing in the child, while all of the parent's capabilities
   and locks are held. */
extern StgClosure maru_absent_closure;

/* channel/pen.h */
void maru_pen_seal_here(const char *reason);
void maru_pen_seal_start_here(const char *reason);
_Noreturn void maru_pen_end_here(const char *reason, int status);

/* Threads that the initialiser has left behind have numbers in between. */
static struct { StgThreadID evaluating, next; } initialiser;

void maru_rts_initialised(const StgTSO *evaluating, const StgTSO *next) {
  initialiser.evaluating = evaluating->id;
  initialiser.next = next->id;
}

/* For maru_absent: this thread waits for ever. */
void maru_rts_absent(const StgTSO *t) {
  static const char why[] = "it waits for what a thread of the caller is computing";
  if (initialiser.evaluating < t->id && t->id < initialiser.next)
    maru_pen_seal_start_here(why);
  else
    maru_pen_seal_here(why);
}

static StgHalfWord type_of(const StgClosure *p) { return get_itbl(p)->type; }

static bool is_computing(const StgTSO *t, const StgClosure *thunk) {
  if (type_of(thunk) != BLACKHOLE)
    return false;
  const StgClosure *by = ((const StgInd *)thunk)->indirectee;
  if (GET_CLOSURE_TAG(by) != 0)
    return false;
  return by == (const StgClosure *)t ||
         (type_of(by) == BLOCKING_QUEUE && ((const StgBlockingQueue *)by)->owner == t);
}

/* What is not on any stack is not computed by anyone: a thread that leaves Haskell or blocks has
   marked as its own what it has entered and not yet finished. The new indirectee is static, so no
   generation need remember it. */
static void abandon_thunks(const StgTSO *t) {
  const StgStack *stack = t->stackobj;
  for (StgPtr p = stack->sp;;) {
    StgClosure *frame = (StgClosure *)p;
    switch (get_ret_itbl(frame)->i.type) {
    case STOP_FRAME:
      return;
    case UNDERFLOW_FRAME:
      stack = ((StgUnderflowFrame *)p)->next_chunk;
      p = stack->sp;
      continue;
    case UPDATE_FRAME: {
      StgClosure *thunk = UNTAG_CLOSURE(((StgUpdateFrame *)p)->updatee);
      if (is_computing(t, thunk))
        ((StgInd *)thunk)->indirectee = &maru_absent_closure;
      break;
    }
    default:
      break;
    }
    p += stack_frame_sizeW(frame);
  }
}

/* Leaves the bottom frame alone. */
static void strip(StgStack *stack) {
  StgStopFrame *bottom = (StgStopFrame *)(stack->stack + stack->stack_size) - 1;
  bottom->header.info = &stg_stop_thread_info;
  stack->sp = (StgPtr)bottom;
}

/* As the run-time system does for a thread at the tail of a variable's queue: what is put there
   later passes it over. */
static void leave_queue(StgTSO *t) {
  if (t->_link == END_TSO_QUEUE)
    return;
  ((StgClosure *)t->_link)->header.info = &stg_MSG_NULL_info;
  t->_link = END_TSO_QUEUE;
}

static bool waits(const StgTSO *t) {
  return t->why_blocked == BlockedOnMVar || t->why_blocked == BlockedOnMVarRead ||
         t->why_blocked == BlockedOnSTM;
}

/* For a time or a descriptor, in a run-time system without threads. It takes such a thread from its
   queues by itself. */
static bool waits_for_the_system(const StgTSO *t) {
  return t->why_blocked == BlockedOnDelay || t->why_blocked == BlockedOnRead ||
         t->why_blocked == BlockedOnWrite;
}

static bool in_foreign_call(const StgTSO *t) {
  return t->why_blocked == BlockedOnCCall || t->why_blocked == BlockedOnCCall_Interruptible;
}

static void abandon_threads(void) {
  for (const generation *g = generations; g; g = next_generation(g))
    for (StgTSO *t = g->threads; t != END_TSO_QUEUE; t = t->global_link) {
      if (!waits(t) && !waits_for_the_system(t) && !in_foreign_call(t))
        continue;
      abandon_thunks(t);
      strip(t->stackobj);
      if (waits(t)) {
        if (t->why_blocked != BlockedOnSTM)
          leave_queue(t);
        /* Which forkProcess leaves as it is; and a transaction that would wake it passes it over.
         */
        t->why_blocked = BlockedOnCCall;
        t->block_info.closure = (StgClosure *)END_TSO_QUEUE;
      }
    }
}

/* What the parent's threads have sparked is theirs: here a capability with nothing to do would take
   it up, meet what the parent is computing, and have an item sealed that has no part in it. */
extern void *stealWSDeque_(void *sparks) MARU_WEAK;

static void drop_sparks(void) {
  /* Without threads a capability has no sparks, not even the field. */
  if (!stealWSDeque_ || !rtsSupportsBoundThreads())
    return;
  for (uint32_t c = 0; c < maru_rts_capabilities(); c++) {
    void *sparks = maru_rts_sparks(maru_rts_capability(c));
    while (stealWSDeque_(sparks))
      ;
  }
}

/* Until the run-time system has made a pipe of its own in the child, its handler of signals would
   write into the parent's: a SIGINT to the child would interrupt the parent. So signals wait until
   the child has a worker's dispositions and its handler has nowhere to write to. SIGINT goes on
   waiting: the run-time system installs a handler for it before the worker's first instruction. */
void maru_worker_signals(void); /* base/process.h */

static void hush(void) {
  sigset_t kept = me.before;
  setTimerManagerControlFd(-1);
  maru_worker_signals();
  sigaddset(&kept, SIGINT);
  pthread_sigmask(SIG_SETMASK, &kept, NULL);
}

/* In the thread that does a worker's work, once SIGINT is ignored for good. */
void maru_rts_hear(void) { pthread_sigmask(SIG_SETMASK, &me.before, NULL); }

/* Until its first instruction a worker starts the run-time system's own threads. Where it may not
   the run-time system would call that its own defect; the coordinator says what it is. Later, too,
   a thread that cannot be had ends the worker, but that is no item's fault: the caller may have it.
   The program's standard error is not for what the run-time system of a worker was refused. */
extern RtsMsgFunction *sysErrorMsgFn;
enum { NO_THREAD = 71 }; /* as Maru.Backend.Process.Worker has it */

static void end_without_thread(const char *format, va_list arguments) {
  (void)format, (void)arguments;
  maru_pen_end_here("the system refused its run-time system a thread or a descriptor (look at "
                    "`ulimit -u`, `ulimit -n` and the limits of the container)",
                    NO_THREAD);
}

/* forkProcess stops all of the run-time system, and so does the end of the program, which may come
   while another thread forks: each would wait for the other for ever. So no fork is under way when
   the end begins, and none begins later. (Only where the run-time system lets us know.) */
static pthread_mutex_t forks = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool leaving;
static void (*next_exit_hook)(void);
enum { PATIENCE = 5 }; /* seconds that the end waits for a fork, or a fork for the end */

static int lock_forks(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE;
  return pthread_mutex_timedlock(&forks, &until);
}

static void at_exit(void) {
  /* relaxed: the lock of `forks` orders it, or its refusal after seconds */
  atomic_store_explicit(&leaving, true, memory_order_relaxed);
  (void)lock_forks(); /* for good */
  if (next_exit_hook)
    next_exit_hook();
}

/* 0, or why there is no fork any more. */
static int begin_fork(void) {
  int error;
  do
    error = lock_forks();
  while (error == ETIMEDOUT && !atomic_load_explicit(&leaving, memory_order_relaxed));
  /* The end may have gone on without the lock, when a fork took too long. */
  if (!error && atomic_load_explicit(&leaving, memory_order_relaxed)) {
    pthread_mutex_unlock(&forks);
    return ECANCELED;
  }
  return error ? ECANCELED : 0;
}

void maru_rts_no_workers(void);                               /* rts.c */
int maru_fd_snapshot_take(struct maru_fd_snapshot *snapshot); /* base/process.h */

static void in_child(void) {
  /* Whichever thread of the parent held it. */
  forks = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  atomic_store_explicit(&leaving, false, memory_order_relaxed);
  if (!me.forking) {
    maru_rts_no_workers();
    return;
  }
  sysErrorMsgFn = end_without_thread;
  fatalInternalErrorFn = end_without_thread;
  /* Forked while its parent's run-time system shuts down, this one would say "interrupted". */
  errorMsgFn = end_without_thread;
  me.forking = false; /* the worker's own forks are none of ours */
  is_worker = true;
  release(RESERVED);
  widen_descriptors();
  /* Before anything is opened here. That it fails is said where they are to be sealed. */
  (void)maru_fd_snapshot_take(me.inherited);
  /* Before anything runs here: a collection may come first, as GHC 9.6 starts its threads, and find
     what only the caller's threads held dead. */
  (void)maru_rts_neuter_weaks();
  abandon_threads();
  drop_sparks();
  hush();
}

static int unprepared; /* why forking cannot be prepared */
static void prepare_forking(void) {
  unprepared = pthread_atfork(NULL, NULL, in_child);
  if (&rtsConfig) {
    next_exit_hook = rtsConfig.onExitHook;
    rtsConfig.onExitHook = at_exit;
  }
}

int maru_lifeline_tie(int reading, pid_t worker); /* base/watch.h */

/* forkProcess, see above; -1 and errno where it fails. The child takes `inherited`
   (base/process.h). In the parent *line is what ties the child's life to its own, by the reading
   end of a lifeline; negative: nothing does. The end stays open where forking fails. */
pid_t maru_rts_fork(HsStablePtr *entry, struct maru_fd_snapshot *inherited, int reading,
                    int *line) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, prepare_forking);
  /* Where capabilities are not found, neither are the weak pointers made since the last collection.
     One gives them to a generation, where a worker finds them. What another thread makes between it
     and the fork keeps its finalizer there. */
  if (maru_rts_capabilities() == 0)
    performGC();
  int error = unprepared ? unprepared : begin_fork();
  if (!error && (error = reserve()))
    pthread_mutex_unlock(&forks);
  if (error) {
    errno = error;
    return -1;
  }
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &me.before);
  me.forking = true;
  me.inherited = inherited;
  pid_t pid = forkProcess(entry);
  me.forking = false;
  error = errno;
  release(RESERVED); /* the lifeline's end needs a number */
  /* At once: on the way back into Haskell a thread may wait for others. */
  *line = pid > 0 && reading >= 0 ? maru_lifeline_tie(reading, pid) : -1;
  pthread_sigmask(SIG_SETMASK, &me.before, NULL);
  pthread_mutex_unlock(&forks);
  errno = error;
  return pid;
}
