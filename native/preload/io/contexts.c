/* contexts.c: starts and ends the threads that make calls for others.
 *
 * One context a (process, node, class of call).  It sleeps until somebody rings, and then does what
 * its class has to do, which is handed down to here (io_contexts_open).
 */
#define _GNU_SOURCE
#include "contexts.h"
#include "cpulist.h"
#include "numbers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GONE_NS INT64_C(1000000000)
#define STACK_BYTES ((size_t)256 << 10)
#define CALL_CLASSES IO_HINT_CONTEXT /* those before it */
#define STACKS (1 + IO_NODES * CALL_CLASSES)
#define REFUSALS_MOST 4096u
/* Between looks at /proc whether the program has ended but for us: once its first thread has
 * left by pthread_exit, which tells us. Before that, should it leave otherwise. */
#define IDLE_NS INT64_C(200000000)
#define LONG_IDLE_NS INT64_C(5000000000)
/* The idle helper of streams ends: the kernel's calls on descriptors are dearer in a process of
 * several threads. */
#define END_NS INT64_C(1000000000)
#define NODES_MOST 64u

static struct context contexts[IO_NODES][IO_CONTEXT_CLASSES];
static bool (*work_of[IO_CONTEXT_CLASSES])(struct context *);
static char *stacks; /* STACKS of STACK_BYTES, the helper's first; NULL: none are reserved */
static _Atomic uint32_t running;
static _Atomic uint32_t starting; /* 2: somebody starts or ends contexts */
static _Atomic uint32_t refusals;
static _Atomic uint32_t leaving;       /* the program has ended: once */
static _Atomic bool first_thread_left; /* by pthread_exit; for those that idle */

void io_contexts_open(bool (*calls)(struct context *), bool (*hints)(struct context *)) {
  work_of[IO_FILE_CONTEXT] = work_of[IO_NET_CONTEXT] = calls;
  work_of[IO_HINT_CONTEXT] = hints;
}

/* Before the program begins. Mapped later, a context's stack may come to lie right below one
 * that the program wants the kernel to extend (MAP_GROWSDOWN), and it would extend it no more. */
void io_contexts_reserve(void) {
  if (io_process.mode == MARU_IO_NEVER)
    return;
  size_t number = io_process.mode == MARU_IO_HINT ? 1 : STACKS;
  long room = io_raw(SYS_mmap, 0, (long)(number * STACK_BYTES), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  stacks = room < 0 ? NULL : (char *)room;
}

/* ---- a context's thread ---------------------------------------------------- */

static void add_cpus(void *set, unsigned long first, unsigned long last) {
  for (unsigned long cpu = first; cpu <= last; cpu++)
    CPU_SET(cpu, (cpu_set_t *)set);
}

/* One file, not the whole machine: every process of a server does this. */
static void add_node(cpu_set_t *near, unsigned node) {
  char path[64], text[4096];
  snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", node);
  long fd = io_raw(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
  if (fd < 0)
    return;
  long got = io_raw(SYS_read, fd, (long)text, sizeof text - 1, 0, 0, 0);
  io_raw(SYS_close, fd, 0, 0, 0, 0, 0);
  text[got > 0 ? got : 0] = '\0';
  (void)mr_cpu_list_read(text, CPU_SETSIZE, add_cpus, near);
}

/* The CPUs of the node, of those that the program's first thread may use; where there are none, or
 * nobody says, all of those. */
void io_settle_on_node(unsigned node) {
  cpu_set_t allowed, near;
  CPU_ZERO(&near);
  if (sched_getaffinity(io_process.pid, sizeof allowed, &allowed) < 0)
    return;
  for (; node < NODES_MOST; node += IO_NODES)
    add_node(&near, node);
  CPU_AND(&near, &near, &allowed);
  sched_setaffinity(0, sizeof near, CPU_COUNT(&near) > 0 ? &near : &allowed);
}

/* What the first thread of this process ended with, as exit has it; -1: it has not. */
static int status_of_first_thread(void) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)io_process.pid);
  long fd = io_raw(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
  if (fd < 0)
    return -1;
  long got = io_raw(SYS_read, fd, (long)text, sizeof text - 1, 0, 0, 0);
  io_raw(SYS_close, fd, 0, 0, 0, 0, 0);
  text[got > 0 ? got : 0] = '\0';
  const char *state = strrchr(text, ')'), *last = strrchr(text, ' ');
  if (state == NULL || strncmp(state, ") Z", 3) != 0)
    return -1;
  return WEXITSTATUS((int)mr_leading(last + 1, 0, INT32_MAX, 0));
}

/* Of this process, but for those that the kernel makes for an io_uring of the program's. */
static unsigned threads(void) {
  unsigned number = 0;
  DIR *folder = opendir("/proc/self/task");
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    char path[300], name[16] = "";
    if (entry->d_name[0] == '.')
      continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    long fd = io_raw(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0)
      continue;
    io_raw(SYS_read, fd, (long)name, sizeof name - 1, 0, 0, 0);
    io_raw(SYS_close, fd, 0, 0, 0, 0, 0);
    number += strncmp(name, "iou-", 4) != 0;
  }
  if (folder != NULL)
    closedir(folder);
  return number;
}

/* A process whose first thread left by pthread_exit ends with its last thread, which must
 * not be us.  That thread calls exit(0).  One that left by a system call gave the status, and no
 * handlers run. */
static void end_with_the_program(void) {
  int status = status_of_first_thread();
  if (status < 0)
    return;
  /* Relaxed: contexts that start meanwhile are started by a thread that lives. */
  if (threads() != 1 + atomic_load_explicit(&running, memory_order_relaxed) ||
      atomic_exchange_explicit(&leaving, 1, memory_order_relaxed) != 0)
    return;
  /* Relaxed: it is set before we could find its thread gone. */
  if (atomic_load_explicit(&first_thread_left, memory_order_relaxed))
    exit(0);
  _exit(status);
}

static bool take_start(void) {
  uint32_t now = atomic_load_explicit(&starting, memory_order_relaxed);
  /* A thread that waited for it leaves the word armed.  Acquire: what the last holder did. */
  while ((now & IO_UNARMED) == 0)
    if (atomic_compare_exchange_weak_explicit(&starting, &now, now | 2, memory_order_acquire,
                                              memory_order_relaxed))
      return true;
  return false;
}

/* Under `starting`: nobody starts its successor, or joins it, meanwhile. The thread that found
 * it ready takes the request back. */
static bool ends(struct context *context) {
  if (!take_start())
    return false;
  atomic_store_explicit(&context->state, ENDED, memory_order_relaxed);
  atomic_fetch_sub_explicit(&running, 1, memory_order_relaxed); /* as above */
  maru_notify_store(&starting, 0);
  return true;
}

static void *serve(void *argument) {
  struct context *context = argument;
  struct maru_wait_policy policy;
  io_self.gone = true; /* no slot and no line of its own */
  /* Relaxed: the thread that joins us asks. */
  atomic_store_explicit(&context->tid, (pid_t)io_raw(SYS_gettid, 0, 0, 0, 0, 0, 0),
                        memory_order_relaxed);
  pthread_setname_np(pthread_self(), "maru-io");
  bool hints = context->class == IO_HINT_CONTEXT;
  io_settle_on_node(context->node);
  /* Nobody waits for the helper: it need not spin for the next request. */
  maru_wait_policy_init(&policy, hints ? MARU_WAIT_BLOCK : MARU_WAIT_ADAPTIVE);
  policy.own = 1; /* see io_settle */
  for (;;) {
    /* Acquire, and before the looks: what is marked later, or stops us, rings later. */
    uint32_t seen = atomic_load_explicit(&context->bell, memory_order_acquire) & IO_UNARMED;
    /* Relaxed: it is set before the bell is rung. */
    if (atomic_load_explicit(&context->stop, memory_order_relaxed) != 0)
      break;
    if (work_of[context->class](context))
      continue;
    /* Relaxed: it is set before the bell is rung. */
    bool left = atomic_load_explicit(&first_thread_left, memory_order_relaxed);
    int64_t idle = maru_now_ns() + (left ? IDLE_NS : hints ? END_NS : LONG_IDLE_NS);
    if (maru_wait_while(&context->bell, seen, IO_UNARMED, &policy, idle) != -ETIMEDOUT)
      continue;
    if (hints && ends(context))
      return NULL;
    end_with_the_program();
  }
  return NULL;
}

/* ---- starting and ending them -------------------------------------------- */

static bool has_handler(int signal) {
  unsigned long action[8] = {0}; /* as the kernel has it: the handler first; SIG_DFL 0, SIG_IGN 1 */
  return io_raw(SYS_rt_sigaction, signal, 0, (long)action, sizeof(unsigned long), 0, 0) == 0 &&
         action[0] > 1;
}

/* pthread_create allocates: not in a handler that may have interrupted an allocation.  In a
 * handler its signal is blocked (without SA_NODEFER); so whoever blocks one that has a handler
 * starts nothing. */
static bool may_be_in_handler(void) {
  unsigned long mask = 0;
  if (io_raw(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&mask, sizeof mask, 0, 0) < 0)
    return true;
  for (; mask != 0; mask &= mask - 1)
    if (has_handler(__builtin_ctzl(mask) + 1))
      return true;
  return false;
}

static void count_context(void) {
  /* Relaxed: see end_with_the_program; the section is for people. */
  atomic_fetch_add_explicit(&running, 1, memory_order_relaxed);
  struct maru_io_section *section = io_section();
  if (section != NULL)
    atomic_fetch_add_explicit(&section->contexts, 1, memory_order_relaxed);
}

/* Its lowest page stays out of reach. */
static bool reserved_stack(const struct context *context, pthread_attr_t *attributes) {
  bool helper = context->class == IO_HINT_CONTEXT;
  size_t number = helper ? 0 : 1 + context->node * CALL_CLASSES + context->class;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), size = STACK_BYTES - page;
  char *low = stacks + number * STACK_BYTES + page;
  return stacks != NULL && mprotect(low, size, PROT_READ | PROT_WRITE) == 0 &&
         pthread_attr_setstack(attributes, low, size) == 0;
}

/* Undisturbed: its thread shall block all signals. */
static bool create(struct context *context) {
  pthread_attr_t attributes;
  atomic_store_explicit(&context->stop, 0, memory_order_relaxed); /* before it is created */
  if (pthread_attr_init(&attributes) != 0)
    return false;
  if (!reserved_stack(context, &attributes))
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
  int rc = pthread_create(&context->thread, &attributes, serve, context);
  if (rc == EINVAL) /* the program's thread-local data want more */
    rc = pthread_create(&context->thread, NULL, serve, context);
  pthread_attr_destroy(&attributes);
  return rc == 0;
}

/* A thread that starts or ends contexts is not left in the middle. A handler that jumps away, or
 * a cancellation, would keep `starting`, and an allocation half done. */
struct undisturbed {
  sigset_t signals;
  int cancel;
};

static void undisturbed_begin(struct undisturbed *before) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before->signals);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before->cancel);
}

static void undisturbed_end(const struct undisturbed *before) {
  pthread_setcancelstate(before->cancel, NULL);
  pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
}

/* One that ended by itself; its thread is through in a moment, if not already. */
static void join_ended(struct context *context) {
  if (atomic_load_explicit(&context->state, memory_order_relaxed) != ENDED)
    return;
  pthread_join(context->thread, NULL);
  atomic_store_explicit(&context->state, NONE, memory_order_relaxed);
}

/* With `starting`. A thread that restricts the process goes direct before it ends its contexts:
 * none is started behind that. */
static void start_taken(struct context *context, enum io_context_class class, unsigned node) {
  join_ended(context);
  if (atomic_load_explicit(&context->state, memory_order_relaxed) != NONE ||
      atomic_load_explicit(&io_process.direct, memory_order_relaxed))
    return;
  context->node = node;
  context->class = class;
  if (!create(context)) {
    io_go_direct("delegates nothing: no thread could be created");
    return;
  }
  count_context();
  /* Release: with the thread. */
  atomic_store_explicit(&context->state, READY, memory_order_release);
  maru_notify(&context->bell); /* a caller that found it not ready yet did not ring */
}

static void start_context(struct context *context, enum io_context_class class, unsigned node) {
  struct undisturbed before;
  undisturbed_begin(&before);
  if (take_start()) {
    start_taken(context, class, node);
    maru_notify_store(&starting, 0);
  }
  undisturbed_end(&before);
}

static unsigned node_for(enum io_context_class class) {
  unsigned cpu = 0, node = 0;
  if (class != IO_HINT_CONTEXT) /* one is enough: it goes to the devices */
    getcpu(&cpu, &node);
  return node % IO_NODES;
}

static bool is_ready(struct context *context) {
  return atomic_load_explicit(&context->state, memory_order_acquire) == READY;
}

struct context *io_context_of(enum io_context_class class) {
  unsigned node = node_for(class);
  struct context *context = &contexts[node][class];
  if (is_ready(context))
    return context;
  if (!may_be_in_handler())
    start_context(context, class, node);
  else if (atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed) == REFUSALS_MOST)
    io_say("delegates nothing yet: the threads that make calls block signals");
  return NULL;
}

void io_contexts_start(void) {
  if (atomic_load_explicit(&io_process.direct, memory_order_relaxed) || !io_same_process())
    return;
  for (int class = IO_FILE_CONTEXT; class <= IO_NET_CONTEXT; class ++) {
    unsigned node = node_for((enum io_context_class) class);
    if (!is_ready(&contexts[node][class]))
      start_context(&contexts[node][class], (enum io_context_class) class, node);
  }
}

void io_context_ring(enum io_context_class class) {
  if (atomic_load_explicit(&io_process.direct, memory_order_relaxed) || !io_same_process())
    return;
  struct context *context = io_context_of(class);
  if (context != NULL)
    maru_notify(&context->bell);
}

/* A thread that was joined is one of the process's for a moment still, and the kernel would refuse
 * to unshare.  Bounded: its number may be a stranger's in this process by then. */
static void wait_until_gone(struct context *context) {
  const struct timespec pause = {.tv_nsec = 20000};
  int64_t end = maru_now_ns() + GONE_NS;
  /* Relaxed: joining it came before. */
  pid_t tid = atomic_exchange_explicit(&context->tid, 0, memory_order_relaxed);
  while (tid != 0 && io_raw(SYS_tgkill, io_process.pid, tid, 0, 0, 0, 0) == 0 &&
         maru_now_ns() < end)
    nanosleep(&pause, NULL);
}

static void retire(struct context *context) {
  join_ended(context); /* the caller wants to be alone */
  if (atomic_load_explicit(&context->state, memory_order_relaxed) != READY)
    return;
  /* Relaxed: a caller that finds it still ready takes the request back. */
  atomic_store_explicit(&context->state, NONE, memory_order_relaxed);
  atomic_store_explicit(&context->stop, 1, memory_order_relaxed);
  maru_notify(&context->bell);
  pthread_join(context->thread, NULL);
  atomic_fetch_sub_explicit(&running, 1, memory_order_relaxed); /* as above */
}

void io_contexts_retire(void) {
  struct maru_wait_policy policy;
  struct undisturbed before;
  /* Of a sealed process they ended before, or stay: to end them takes calls. */
  if (io_is_sealed() || !io_same_process())
    return;
  maru_wait_policy_init(&policy, MARU_WAIT_SPIN_BLOCK);
  undisturbed_begin(&before);
  while (!take_start())
    maru_wait(&starting, 0, IO_UNARMED, &policy, MARU_WAIT_FOREVER);
  for (unsigned i = 0; i < IO_NODES * IO_CONTEXT_CLASSES; i++)
    retire(&contexts[i / IO_CONTEXT_CLASSES][i % IO_CONTEXT_CLASSES]);
  for (unsigned i = 0; i < IO_NODES * IO_CONTEXT_CLASSES; i++)
    wait_until_gone(&contexts[i / IO_CONTEXT_CLASSES][i % IO_CONTEXT_CLASSES]);
  maru_notify_store(&starting, 0);
  undisturbed_end(&before);
}

void io_contexts_ring(void) {
  for (unsigned i = 0; i < IO_NODES * IO_CONTEXT_CLASSES; i++) {
    struct context *context = &contexts[i / IO_CONTEXT_CLASSES][i % IO_CONTEXT_CLASSES];
    if (!is_ready(context))
      continue;
    /* Somebody's ring may have been left between disarming and waking: armed, it wakes again.
     * Relaxed: it orders nothing. */
    atomic_fetch_or_explicit(&context->bell, MARU_WAIT_ARMED, memory_order_relaxed);
    maru_notify(&context->bell);
  }
}

/* They look from now on whether the program is still there. */
void io_contexts_outlive(void) {
  atomic_store_explicit(&first_thread_left, true, memory_order_relaxed); /* the bell releases */
  io_contexts_ring();
}

void io_contexts_forget(void) {
  memset(contexts, 0, sizeof contexts);
  /* Relaxed: one thread is here. */
  atomic_store_explicit(&first_thread_left, false, memory_order_relaxed);
  atomic_store_explicit(&running, 0, memory_order_relaxed);
  atomic_store_explicit(&starting, 0, memory_order_relaxed);
}
