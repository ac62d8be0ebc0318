/* contexts.c: threads that make calls for others.
 *
 * One context a (process, node, class of call).  A thread that wants a call made puts it into
 * its slot, marks the slot in the context's set and rings; the context makes the call and
 * stores the result.  States of a slot's word:
 *
 *   IDLE -> QUEUED -> RUNNING -> DONE -> IDLE      the context took it
 *           QUEUED -> BACK -> IDLE                 its owner took it back
 *
 * Contexts make only calls that end by themselves (regular files; sockets, with
 * MSG_DONTWAIT).  Should one take long nevertheless, the others take their requests back after
 * their patience and make them directly: no call waits behind another one for longer.
 *
 * Handlers run while their thread waits; their own calls go direct (io_self.inside).  One that
 * forks or jumps away first lets the request end (io_settle, io_abandon): what the call
 * reads into must not be written later.
 */
#define _GNU_SOURCE
#include "io.h"

#include <maru/topology.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 256u
#define SLOT_WORDS (SLOTS / 64)
#define NODES 8u
#define IDLE_NS INT64_C(200000000) /* between looks whether the program has ended but for us */
#define CLOSE_NS INT64_C(1000000000)
#define STACK_BYTES (256u << 10)
#define REFUSALS_MOST 4096u

enum { IDLE = 0, QUEUED = 2, RUNNING = 4, DONE = 6, BACK = 8, STATE = ~MARU_WAIT_ARMED };

struct slot {
  alignas(64) _Atomic uint32_t word;
  _Atomic uint32_t taken;
  _Atomic int fd; /* the request's, for who closes */
  bool stale;     /* the descriptor was closed before the call was made */
  int signal;     /* that the call sent to the context */
  long result;
  struct io_request request;
  struct maru_wait_policy policy; /* of the owner */
};

enum { NONE = 0, STARTING, READY };

struct context {
  alignas(64) _Atomic uint32_t bell;
  alignas(64) _Atomic uint64_t queued[SLOT_WORDS];
  _Atomic uint32_t state;
  _Atomic uint32_t stop;
  unsigned node;
  enum io_context_class class;
  pthread_t thread;
};

static struct slot slots[SLOTS];
static struct context contexts[NODES][IO_CONTEXT_CLASSES];
static _Atomic uint32_t used;     /* slots below were taken at least once */
static _Atomic uint32_t running;  /* contexts */
static _Atomic uint32_t starting; /* 2: somebody starts or ends contexts */
static _Atomic uint32_t refusals;
static _Atomic uint32_t leaving;

static uint32_t state_of(struct slot *slot, memory_order order) {
  return atomic_load_explicit(&slot->word, order) & (uint32_t)STATE;
}

/* From one state to another, whoever sleeps there.  False: it was in a third one. */
static bool move(struct slot *slot, uint32_t from, uint32_t to) {
  uint32_t now = atomic_load_explicit(&slot->word, memory_order_relaxed);
  while ((now & (uint32_t)STATE) == from)
    /* Sequentially consistent: see files.c. */
    if (atomic_compare_exchange_weak_explicit(&slot->word, &now, to | (now & MARU_WAIT_ARMED),
                                              memory_order_seq_cst, memory_order_relaxed))
      return true;
  return false;
}

/* ---- the context's side -------------------------------------------------- */

/* A call of the context's sends its signal to the context, where all are blocked. */
static int take_signal(int signal) {
  unsigned long set = 1ul << (signal - 1);
  struct timespec none = {0};
  return io_raw(SYS_rt_sigtimedwait, (long)&set, 0, (long)&none, sizeof set, 0, 0) == signal
             ? signal
             : 0;
}

static void make(struct slot *slot) {
  if (!move(slot, QUEUED, RUNNING))
    return; /* taken back, or made by the context of the slot's earlier request */
  const struct io_request *r = &slot->request;
  slot->signal = 0;
  slot->stale =
      atomic_load_explicit(&io_files[r->fd], memory_order_seq_cst) != r->entry; /* see files.c */
  if (!slot->stale) {
    const long *a = r->arguments;
    slot->result = io_raw(r->number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (slot->result == -EFBIG)
      slot->signal = take_signal(SIGXFSZ);
  }
  maru_notify_store(&slot->word, DONE);
}

static bool make_all(struct context *context) {
  bool any = false;
  for (unsigned w = 0; w < SLOT_WORDS; w++) {
    if (atomic_load_explicit(&context->queued[w], memory_order_relaxed) == 0)
      continue;
    /* Acquire: the requests. */
    uint64_t set = atomic_exchange_explicit(&context->queued[w], 0, memory_order_acquire);
    for (; set != 0; set &= set - 1)
      make(&slots[w * 64 + (unsigned)__builtin_ctzll(set)]);
    any = true;
  }
  return any;
}

/* The CPUs of the node, of those that the program's first thread may use. */
void io_settle_on_node(unsigned node) {
  struct maru_topology topology;
  cpu_set_t allowed, near;
  CPU_ZERO(&near);
  if (sched_getaffinity(io_process.pid, sizeof allowed, &allowed) < 0 ||
      maru_topology_read(&topology) < 0)
    return;
  for (uint32_t i = 0; i < topology.cpu_count; i++) {
    const struct maru_cpu *cpu = &topology.cpus[i];
    bool there = topology.node_count < 2 || (unsigned)cpu->node % NODES == node;
    if (there && cpu->id < CPU_SETSIZE && CPU_ISSET(cpu->id, &allowed))
      CPU_SET(cpu->id, &near);
  }
  maru_topology_free(&topology);
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

/* A process whose first thread left by pthread_exit ends with its last thread, which must
 * not be us. */
static void end_with_the_program(void) {
  struct stat threads;
  if (!first_thread_is_gone() || stat("/proc/self/task", &threads) < 0)
    return;
  /* Relaxed: contexts that start meanwhile are started by a thread that lives. */
  if (threads.st_nlink == 2 + 1 + atomic_load_explicit(&running, memory_order_relaxed) &&
      atomic_exchange_explicit(&leaving, 1, memory_order_relaxed) == 0)
    exit(0);
}

static void *serve(void *argument) {
  struct context *context = argument;
  struct maru_wait_policy policy;
  io_self.gone = true; /* no slot and no line of its own */
  pthread_setname_np(pthread_self(), "maru-io");
  bool hints = context->class == IO_HINT_CONTEXT;
  io_settle_on_node(context->node);
  /* Nobody waits for the helper: it need not spin for the next request. */
  maru_wait_policy_init(&policy, hints ? MARU_WAIT_BLOCK : MARU_WAIT_ADAPTIVE);
  /* Relaxed: a flag to leave by. */
  while (atomic_load_explicit(&context->stop, memory_order_relaxed) == 0) {
    /* Acquire, and before the look: what is marked later rings later. */
    uint32_t seen = atomic_load_explicit(&context->bell, memory_order_acquire) & (uint32_t)STATE;
    if (hints ? io_hint_work() : make_all(context))
      continue;
    int64_t idle = maru_now_ns() + IDLE_NS;
    if (maru_wait_while(&context->bell, seen, (uint32_t)STATE, &policy, idle) == -ETIMEDOUT)
      end_with_the_program();
  }
  return NULL;
}

/* ---- starting and ending them -------------------------------------------- */

/* pthread_create allocates: not in a handler that may have interrupted an allocation.  In a
 * handler its signal is blocked (without SA_NODEFER); so whoever blocks one starts nothing. */
static bool blocks_signals(void) {
  unsigned long mask = 0;
  return io_raw(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&mask, sizeof mask, 0, 0) < 0 || mask != 0;
}

static void count_context(void) {
  /* Relaxed: see end_with_the_program; the section is for people. */
  atomic_fetch_add_explicit(&running, 1, memory_order_relaxed);
  struct maru_io_section *section = io_section();
  if (section != NULL)
    atomic_fetch_add_explicit(&section->contexts, 1, memory_order_relaxed);
}

static bool create(struct context *context) {
  pthread_attr_t attributes;
  sigset_t all, before;
  atomic_store_explicit(&context->stop, 0, memory_order_relaxed); /* before it is created */
  if (pthread_attr_init(&attributes) != 0)
    return false;
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int rc = pthread_create(&context->thread, &attributes, serve, context);
  if (rc == EINVAL) /* the program's thread-local data want more */
    rc = pthread_create(&context->thread, NULL, serve, context);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return rc == 0;
}

static bool take_start(void) {
  uint32_t now = atomic_load_explicit(&starting, memory_order_relaxed);
  /* Who waited for it leaves the word armed.  Acquire: what the last holder did. */
  while ((now & (uint32_t)STATE) == 0)
    if (atomic_compare_exchange_weak_explicit(&starting, &now, now | 2, memory_order_acquire,
                                              memory_order_relaxed))
      return true;
  return false;
}

static void start_context(struct context *context, enum io_context_class class, unsigned node) {
  if (!take_start())
    return;
  if (atomic_load_explicit(&context->state, memory_order_relaxed) == NONE) {
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    context->node = node;
    context->class = class;
    if (create(context)) {
      count_context();
      /* Release: with the thread. */
      atomic_store_explicit(&context->state, READY, memory_order_release);
    } else {
      io_go_direct("delegates nothing: no thread could be created");
    }
    pthread_setcancelstate(cancel, NULL);
  }
  maru_notify_store(&starting, 0);
}

static struct context *context_of(enum io_context_class class) {
  unsigned cpu = 0, node = 0;
  if (class != IO_HINT_CONTEXT) /* one is enough: it goes to the devices */
    getcpu(&cpu, &node);
  struct context *context = &contexts[node % NODES][class];
  if (atomic_load_explicit(&context->state, memory_order_acquire) == READY)
    return context;
  if (!blocks_signals())
    start_context(context, class, node % NODES);
  else if (atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed) == REFUSALS_MOST)
    io_say("delegates nothing yet: the threads that make calls block signals");
  return NULL; /* this call is direct, the next one need not be */
}

void io_context_ring(enum io_context_class class) {
  if (!io_same_process() || atomic_load_explicit(&io_process.direct, memory_order_relaxed))
    return;
  struct context *context = context_of(class);
  if (context != NULL)
    maru_notify(&context->bell);
}

void io_contexts_retire(void) {
  struct maru_wait_policy policy;
  if (!io_same_process())
    return;
  maru_wait_policy_init(&policy, MARU_WAIT_SPIN_BLOCK);
  while (!take_start())
    maru_wait(&starting, 0, (uint32_t)STATE, &policy, MARU_WAIT_FOREVER);
  for (unsigned i = 0; i < NODES * IO_CONTEXT_CLASSES; i++) {
    struct context *context = &contexts[i / IO_CONTEXT_CLASSES][i % IO_CONTEXT_CLASSES];
    if (atomic_load_explicit(&context->state, memory_order_relaxed) != READY)
      continue;
    /* Relaxed: who finds it still ready takes the request back. */
    atomic_store_explicit(&context->state, NONE, memory_order_relaxed);
    atomic_store_explicit(&context->stop, 1, memory_order_relaxed);
    maru_notify(&context->bell);
    pthread_join(context->thread, NULL);
    atomic_fetch_sub_explicit(&running, 1, memory_order_relaxed); /* as above */
  }
  maru_notify_store(&starting, 0);
}

void io_contexts_forget(void) {
  memset(contexts, 0, sizeof contexts);
  memset(slots, 0, sizeof slots);
  atomic_store_explicit(&used, 0, memory_order_relaxed); /* one thread is here */
  atomic_store_explicit(&running, 0, memory_order_relaxed);
  atomic_store_explicit(&starting, 0, memory_order_relaxed);
  atomic_store_explicit(&leaving, 0, memory_order_relaxed);
}

/* ---- the caller's side --------------------------------------------------- */

static bool is_real_time(void) {
  long policy = io_raw(SYS_sched_getscheduler, 0, 0, 0, 0, 0, 0);
  return policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}

static void slot_begin(struct slot *slot) {
  cpu_set_t allowed;
  maru_wait_policy_init(&slot->policy, MARU_WAIT_ADAPTIVE);
  /* The context may have a core when this thread is bound to one. */
  slot->policy.spare =
      sched_getaffinity(io_process.pid, sizeof allowed, &allowed) < 0 || CPU_COUNT(&allowed) > 1;
}

static struct slot *own_slot(void) {
  uint32_t epoch = atomic_load_explicit(&io_process.epoch, memory_order_relaxed);
  if (io_self.slot == 0 || io_self.epoch != epoch) {
    io_self.epoch = epoch;
    io_self.real_time = is_real_time();
  }
  if (io_self.slot != 0)
    return io_self.slot > 0 ? &slots[io_self.slot - 1] : NULL;
  io_self.slot = -1;
  for (unsigned i = 0; i < SLOTS; i++) {
    uint32_t free = 0;
    /* Acquire: what its last owner left there. */
    if (!atomic_compare_exchange_strong_explicit(&slots[i].taken, &free, 1, memory_order_acquire,
                                                 memory_order_relaxed))
      continue;
    uint32_t most = atomic_load_explicit(&used, memory_order_relaxed);
    /* Sequentially consistent: who closes looks at the slots below (files.c). */
    while (most < i + 1 && !atomic_compare_exchange_weak_explicit(
                               &used, &most, i + 1, memory_order_seq_cst, memory_order_relaxed))
      ;
    slot_begin(&slots[i]);
    io_thread_begins();
    io_self.slot = (int16_t)(i + 1);
    return &slots[i];
  }
  return NULL;
}

void io_slot_leave(void) {
  if (io_self.slot > 0)
    /* Release: the slot is idle. */
    atomic_store_explicit(&slots[io_self.slot - 1].taken, 0, memory_order_release);
  io_self.slot = -1;
}

bool io_may_delegate(void) {
  return !io_self.inside && !io_self.gone && io_self.slot >= 0 &&
         !atomic_load_explicit(&io_process.direct, memory_order_relaxed);
}

/* Until the request is done or taken back. */
static void await(struct slot *slot, int64_t patience_ns) {
  int64_t deadline = maru_now_ns() + patience_ns;
  for (;;) {
    /* Acquire: the result. */
    switch (state_of(slot, memory_order_acquire)) {
    case QUEUED:
      if (maru_wait_while(&slot->word, QUEUED, (uint32_t)STATE, &slot->policy, deadline) ==
              -ETIMEDOUT &&
          move(slot, QUEUED, BACK))
        return;
      break;
    case RUNNING: /* the call ends by itself */
      maru_wait_while(&slot->word, RUNNING, (uint32_t)STATE, &slot->policy, MARU_WAIT_FOREVER);
      break;
    default: /* done, or a handler took it back */
      return;
    }
  }
}

static void hand_over(struct context *context, struct slot *slot, const struct io_request *request,
                      int64_t patience_ns) {
  unsigned number = (unsigned)(slot - slots);
  slot->request = *request;
  atomic_store_explicit(&slot->fd, request->fd, memory_order_relaxed); /* QUEUED releases it */
  if (!io_self.inside)
    return; /* a handler jumped within itself, and may have used the slot */
  maru_notify_store(&slot->word, QUEUED);
  /* Release: the request. */
  atomic_fetch_or_explicit(&context->queued[number / 64], UINT64_C(1) << number % 64,
                           memory_order_release);
  maru_notify(&context->bell);
  await(slot, patience_ns);
}

/* Only while inside: a handler that settled the request has taken the answer already. */
static void take_answer(struct slot *slot) {
  if (!io_self.inside || state_of(slot, memory_order_acquire) != DONE || slot->stale)
    return;
  *io_self.answer = (struct io_answer){true, slot->signal, slot->result};
}

bool io_delegate(enum io_context_class class, const struct io_request *request, int64_t patience_ns,
                 long *result) {
  struct slot *slot = own_slot();
  if (slot == NULL || io_self.real_time || !io_same_process())
    return false;
  struct context *context = context_of(class);
  if (context == NULL)
    return false;
  int saved = errno;
  struct io_answer answer = {.made = false};
  pthread_testcancel();
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &io_self.cancel);
  io_self.answer = &answer;
  io_self.inside = 1;
  hand_over(context, slot, request, patience_ns);
  take_answer(slot);
  maru_notify_store(&slot->word, IDLE);
  io_self.inside = 0;
  pthread_setcancelstate(io_self.cancel, NULL);
  errno = saved;
  *result = answer.result;
  struct maru_io_line *line = io_line();
  io_add(line, answer.made ? &line->delegated : &line->handed_back, 1);
  if (answer.signal != 0)
    io_raw(SYS_tgkill, io_process.pid, io_raw(SYS_gettid, 0, 0, 0, 0, 0, 0), answer.signal, 0, 0,
           0);
  return answer.made;
}

void io_settle(void) {
  if (!io_self.inside || io_self.slot <= 0 || !io_same_process())
    return;
  struct slot *slot = &slots[io_self.slot - 1];
  int saved = errno;
  if (move(slot, QUEUED, BACK))
    maru_notify_store(&slot->word, IDLE);
  struct maru_wait_policy policy;
  maru_wait_policy_init(&policy, MARU_WAIT_SPIN_BLOCK);
  while (state_of(slot, memory_order_acquire) == RUNNING)
    maru_wait_while(&slot->word, RUNNING, (uint32_t)STATE, &policy, MARU_WAIT_FOREVER);
  /* Now: in a forked child the slot is new, and a jump may not leave the handler. */
  take_answer(slot);
  errno = saved;
}

void io_abandon(void) {
  if (!io_self.inside)
    return;
  io_settle();
  if (io_self.slot > 0)
    maru_notify_store(&slots[io_self.slot - 1].word, IDLE);
  io_self.inside = 0;
  pthread_setcancelstate(io_self.cancel, NULL);
}

void io_wait_for_requests(unsigned first, unsigned last) {
  uint32_t most = atomic_load_explicit(&used, memory_order_seq_cst); /* see files.c */
  if (most == 0 || !io_same_process())
    return;
  int saved = errno;
  struct maru_wait_policy policy;
  maru_wait_policy_init(&policy, MARU_WAIT_SPIN_BLOCK);
  for (uint32_t i = 0; i < most; i++) {
    struct slot *slot = &slots[i];
    /* Sequentially consistent: see files.c.  One that is only queued will be found stale.
     * The slot may go on under us: then we wait for one request too many. */
    if (state_of(slot, memory_order_seq_cst) != RUNNING)
      continue;
    unsigned fd = (unsigned)atomic_load_explicit(&slot->fd, memory_order_relaxed);
    /* Bounded: a device that does not answer must not keep others from closing.  A handler
     * must not wait for its own thread. */
    if (fd >= first && fd <= last && (int)i + 1 != io_self.slot)
      maru_wait_while(&slot->word, RUNNING, (uint32_t)STATE, &policy, maru_now_ns() + CLOSE_NS);
  }
  errno = saved;
}
