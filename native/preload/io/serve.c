/* serve.c: the threads that make calls for others.
 *
 * Requests that wait together and name places of one file that follow each other are made as one
 * (a run); the result is split as the single calls would have had it, and whoever gets less than
 * all is served by a call of its own, which says why.  Beside that a context makes one call after
 * the other.
 */
#define _GNU_SOURCE
#include "contexts.h"
#include "cpulist.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* Between looks at /proc whether the program has ended but for us: once its first thread has left
 * by pthread_exit, which tells us; and before, should it leave otherwise. */
#define IDLE_NS INT64_C(200000000)
#define LONG_IDLE_NS INT64_C(5000000000)
/* The idle helper of streams ends: the kernel's calls on descriptors are dearer in a process of
 * several threads. */
#define END_NS INT64_C(1000000000)
#define NODES_MOST 64u
#define MERGE_MOST 16u

static _Atomic uint32_t leaving; /* the program has ended: once */
_Atomic bool io_first_thread_left;

/* ---- one request --------------------------------------------------------- */

/* A call of the context's sends its signal to the context, where all are blocked. */
static int take_signal(int signal) {
  unsigned long set = 1ul << (signal - 1);
  struct timespec none = {0};
  return io_raw(SYS_rt_sigtimedwait, (long)&set, 0, (long)&none, sizeof set, 0, 0) == signal
             ? signal
             : 0;
}

/* Whether the call is ours to make: it was taken back, or the descriptor closed, otherwise. */
static bool claim(struct slot *slot) {
  if (!move(slot, QUEUED, RUNNING))
    return false; /* or made by the context of the slot's earlier request */
  bool stale = atomic_load_explicit(&io_files[slot->request.fd], memory_order_seq_cst) !=
               slot->request.entry; /* see files.c */
  slot->signal = 0;
  slot->stale = stale;
  if (stale)
    maru_notify_store(&slot->word, DONE); /* from here on the slot is its owner's */
  return !stale;
}

static void finish(struct slot *slot, long result) {
  slot->result = result;
  maru_notify_store(&slot->word, DONE);
}

static void make(struct slot *slot) {
  const long *a = slot->request.arguments;
  long result = io_raw(slot->request.number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (result == -EFBIG)
    slot->signal = take_signal(SIGXFSZ);
  finish(slot, result);
}

/* ---- requests that follow each other ------------------------------------- */

/* Of claimed slots. */
struct run {
  unsigned number;
  size_t bytes;
  struct slot *slots[MERGE_MOST];
};

static size_t size_of(const struct slot *slot) { return (size_t)slot->request.arguments[2]; }
static uint64_t place_of(const struct slot *slot) { return (uint64_t)slot->request.arguments[3]; }

/* Its owner may take it back and ask for something else meanwhile: what is found here is looked at
 * again when it is claimed.  Relaxed, for the same reason. */
static struct slot *neighbour(struct slot *word, uint64_t *set, int fd, uint64_t at, bool behind) {
  for (uint64_t left = *set; left != 0; left &= left - 1) {
    struct slot *slot = &word[__builtin_ctzll(left)];
    uint64_t from = atomic_load_explicit(&slot->from, memory_order_relaxed),
             to = atomic_load_explicit(&slot->to, memory_order_relaxed);
    if (from == to || (behind ? from : to) != at ||
        atomic_load_explicit(&slot->fd, memory_order_relaxed) != fd)
      continue;
    *set &= ~(left & -left);
    return slot;
  }
  return NULL;
}

static bool fits(const struct run *run, const struct slot *slot, bool behind) {
  const struct slot *first = run->slots[0];
  uint64_t at = behind ? place_of(first) + run->bytes : place_of(slot) + size_of(slot);
  return slot->request.fd == first->request.fd && slot->request.entry == first->request.entry &&
         slot->request.number == first->request.number &&
         at == (behind ? place_of(slot) : place_of(first)) &&
         run->bytes + size_of(slot) <= IO_COUNT_MOST;
}

/* Adds those of the set that go on where the run ends, or end where it begins. */
static void extend(struct run *run, struct slot *word, uint64_t *set, bool behind) {
  while (*set != 0 && run->number < MERGE_MOST) {
    const struct slot *first = run->slots[0];
    uint64_t at = place_of(first) + (behind ? run->bytes : 0);
    struct slot *slot = neighbour(word, set, first->request.fd, at, behind);
    if (slot == NULL)
      return;
    if (!claim(slot))
      continue;
    if (!fits(run, slot, behind)) {
      make(slot);
      continue;
    }
    if (!behind)
      memmove(&run->slots[1], &run->slots[0], run->number * sizeof run->slots[0]);
    run->slots[behind ? run->number : 0] = slot;
    run->number++;
    run->bytes += size_of(slot);
  }
}

/* Whether the request says where it reads or writes. */
static bool is_placed(const struct slot *slot) {
  return (slot->request.number == SYS_pread64 || slot->request.number == SYS_pwrite64) &&
         slot->request.arguments[3] >= 0;
}

static void gather(struct run *run, struct slot *slot, struct slot *word, uint64_t *set) {
  *run = (struct run){.number = 1, .slots = {slot}};
  if (!is_placed(slot))
    return;
  run->bytes = size_of(slot);
  extend(run, word, set, true);
  extend(run, word, set, false);
}

/* The one call for all. */
static void arguments_of(const struct run *run, struct iovec parts[MERGE_MOST], long *number,
                         long arguments[6]) {
  const struct io_request *first = &run->slots[0]->request;
  *number = first->number;
  memcpy(arguments, first->arguments, sizeof first->arguments);
  if (run->number == 1)
    return;
  for (unsigned i = 0; i < run->number; i++)
    parts[i] = (struct iovec){(void *)run->slots[i]->request.arguments[1], size_of(run->slots[i])};
  *number = first->number == SYS_pread64 ? SYS_preadv : SYS_pwritev;
  arguments[1] = (long)parts;
  arguments[2] = run->number;
}

/* pwrite(2) writes at the end of such a file, whatever place it is given. */
static bool appends(const struct slot *slot) {
  return slot->request.number == SYS_pwrite64 &&
         (io_raw(SYS_fcntl, slot->request.fd, F_GETFL, 0, 0, 0, 0) & O_APPEND) != 0;
}

/* `result`: of the one call.  What moved less than it wanted is made once more, by itself: reading
 * or writing the same again changes nothing, and the answer is the kernel's.  But what was appended
 * in part would be twice. */
static void split(const struct run *run, long result) {
  if (result > 0)
    io_add_shared(&io_line()->merged, run->number);
  for (unsigned i = 0; i < run->number; i++) {
    struct slot *slot = run->slots[i];
    long size = (long)size_of(slot), moved = result > size ? size : result;
    result = moved > 0 ? result - moved : 0;
    if (moved == size || (moved > 0 && appends(slot)))
      finish(slot, moved);
    else
      make(slot);
  }
}

static void make_run(const struct run *run) {
  struct iovec parts[MERGE_MOST];
  long number, a[6];
  if (run->number == 1) {
    make(run->slots[0]);
    return;
  }
  arguments_of(run, parts, &number, a);
  split(run, io_raw(number, a[0], a[1], a[2], a[3], 0, 0));
}

/* ---- a context ----------------------------------------------------------- */

static void make_set(struct slot *word, uint64_t set) {
  while (set != 0) {
    struct slot *slot = &word[__builtin_ctzll(set)];
    struct run run;
    set &= set - 1;
    if (!claim(slot))
      continue;
    gather(&run, slot, word, &set);
    make_run(&run);
  }
}

static bool make_all(struct context *context) {
  bool any = false;
  for (unsigned w = 0; w < IO_SLOT_WORDS; w++) {
    if (atomic_load_explicit(&context->queued[w], memory_order_relaxed) == 0)
      continue;
    /* Acquire: the requests. */
    make_set(&io_slots[w * 64],
             atomic_exchange_explicit(&context->queued[w], 0, memory_order_acquire));
    any = true;
  }
  return any;
}

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

static bool first_thread_is_gone(void) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)io_process.pid);
  long fd = io_raw(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
  if (fd < 0)
    return false;
  long got = io_raw(SYS_read, fd, (long)text, sizeof text - 1, 0, 0, 0);
  io_raw(SYS_close, fd, 0, 0, 0, 0, 0);
  text[got > 0 ? got : 0] = '\0';
  const char *state = strrchr(text, ')');
  return state != NULL && strncmp(state, ") Z", 3) == 0;
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
 * not be us. */
static void end_with_the_program(void) {
  if (!first_thread_is_gone())
    return;
  /* Relaxed: contexts that start meanwhile are started by a thread that lives. */
  if (threads() == 1 + atomic_load_explicit(&io_contexts_running, memory_order_relaxed) &&
      atomic_exchange_explicit(&leaving, 1, memory_order_relaxed) == 0)
    exit(0);
}

void *io_serve(void *argument) {
  struct context *context = argument;
  struct maru_wait_policy policy;
  io_self.gone = true; /* no slot and no line of its own */
  /* Relaxed: who joins us asks. */
  atomic_store_explicit(&context->tid, (pid_t)io_raw(SYS_gettid, 0, 0, 0, 0, 0, 0),
                        memory_order_relaxed);
  pthread_setname_np(pthread_self(), "maru-io");
  bool hints = context->class == IO_HINT_CONTEXT;
  io_settle_on_node(context->node);
  /* Nobody waits for the helper: it need not spin for the next request. */
  maru_wait_policy_init(&policy, hints ? MARU_WAIT_BLOCK : MARU_WAIT_ADAPTIVE);
  policy.own = 1; /* see io_abandon */
  for (;;) {
    /* Acquire, and before the looks: what is marked later, or stops us, rings later. */
    uint32_t seen = atomic_load_explicit(&context->bell, memory_order_acquire) & (uint32_t)STATE;
    /* Relaxed: it is set before the bell is rung. */
    if (atomic_load_explicit(&context->stop, memory_order_relaxed) != 0)
      break;
    if (hints ? io_hint_work() : make_all(context))
      continue;
    /* Relaxed: it is set before the bell is rung. */
    bool left = atomic_load_explicit(&io_first_thread_left, memory_order_relaxed);
    int64_t idle = maru_now_ns() + (left ? IDLE_NS : hints ? END_NS : LONG_IDLE_NS);
    if (maru_wait_while(&context->bell, seen, (uint32_t)STATE, &policy, idle) != -ETIMEDOUT)
      continue;
    if (hints && io_context_ends(context))
      return NULL;
    end_with_the_program();
  }
  return NULL;
}
