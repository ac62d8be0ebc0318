/* contexts.c: who has calls made by others, and who starts and ends those.
 *
 * One context a (process, node, class of call).  A thread that wants a call made puts it into
 * its slot, marks the slot in the context's set and rings; the context makes the call (serve.c) and
 * stores the result.
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
#include "contexts.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS INT64_C(10000000) /* how long a request waits to be taken */
#define CLOSE_NS INT64_C(1000000000)
#define GONE_NS INT64_C(1000000000)
#define STACK_BYTES (256u << 10)
#define REFUSALS_MOST 4096u

struct slot io_slots[IO_SLOTS];
static struct context contexts[IO_NODES][IO_CONTEXT_CLASSES];
static _Atomic uint32_t used; /* slots below were taken at least once */
_Atomic uint32_t io_contexts_running;
static _Atomic uint32_t starting; /* 2: somebody starts or ends contexts */
static _Atomic uint32_t refusals;

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
  atomic_fetch_add_explicit(&io_contexts_running, 1, memory_order_relaxed);
  struct maru_io_section *section = io_section();
  if (section != NULL)
    atomic_fetch_add_explicit(&section->contexts, 1, memory_order_relaxed);
}

/* Undisturbed: its thread shall block all signals. */
static bool create(struct context *context) {
  pthread_attr_t attributes;
  atomic_store_explicit(&context->stop, 0, memory_order_relaxed); /* before it is created */
  if (pthread_attr_init(&attributes) != 0)
    return false;
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  int rc = pthread_create(&context->thread, &attributes, io_serve, context);
  if (rc == EINVAL) /* the program's thread-local data want more */
    rc = pthread_create(&context->thread, NULL, io_serve, context);
  pthread_attr_destroy(&attributes);
  return rc == 0;
}

/* Who starts or ends contexts is not left in the middle: a handler that jumps away, or a
 * cancellation, would keep `starting`, and an allocation half done. */
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

static bool take_start(void) {
  uint32_t now = atomic_load_explicit(&starting, memory_order_relaxed);
  /* Who waited for it leaves the word armed.  Acquire: what the last holder did. */
  while ((now & (uint32_t)STATE) == 0)
    if (atomic_compare_exchange_weak_explicit(&starting, &now, now | 2, memory_order_acquire,
                                              memory_order_relaxed))
      return true;
  return false;
}

/* One that ended by itself; its thread is through in a moment, if not already. */
static void join_ended(struct context *context) {
  if (atomic_load_explicit(&context->state, memory_order_relaxed) != ENDED)
    return;
  pthread_join(context->thread, NULL);
  atomic_store_explicit(&context->state, NONE, memory_order_relaxed);
}

/* With `starting`.  Who restricts the process goes direct before it ends its contexts: none is
 * started behind that. */
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
  maru_notify(&context->bell); /* who found it not ready yet did not ring */
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

static struct context *context_of(enum io_context_class class) {
  unsigned node = node_for(class);
  struct context *context = &contexts[node][class];
  if (is_ready(context))
    return context;
  if (!may_be_in_handler())
    start_context(context, class, node);
  else if (atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed) == REFUSALS_MOST)
    io_say("delegates nothing yet: the threads that make calls block signals");
  return NULL; /* this call is direct, the next one need not be */
}

void io_contexts_start(void) {
  if (!io_same_process())
    return;
  for (int class = IO_FILE_CONTEXT; class <= IO_NET_CONTEXT; class ++) {
    unsigned node = node_for((enum io_context_class) class);
    if (!is_ready(&contexts[node][class]))
      start_context(&contexts[node][class], (enum io_context_class) class, node);
  }
}

void io_context_ring(enum io_context_class class) {
  if (!io_same_process() || atomic_load_explicit(&io_process.direct, memory_order_relaxed))
    return;
  struct context *context = context_of(class);
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
  /* Relaxed: who finds it still ready takes the request back. */
  atomic_store_explicit(&context->state, NONE, memory_order_relaxed);
  atomic_store_explicit(&context->stop, 1, memory_order_relaxed);
  maru_notify(&context->bell);
  pthread_join(context->thread, NULL);
  atomic_fetch_sub_explicit(&io_contexts_running, 1, memory_order_relaxed); /* as above */
}

void io_contexts_retire(void) {
  struct maru_wait_policy policy;
  struct undisturbed before;
  if (!io_same_process())
    return;
  maru_wait_policy_init(&policy, MARU_WAIT_SPIN_BLOCK);
  undisturbed_begin(&before);
  while (!take_start())
    maru_wait(&starting, 0, (uint32_t)STATE, &policy, MARU_WAIT_FOREVER);
  for (unsigned i = 0; i < IO_NODES * IO_CONTEXT_CLASSES; i++)
    retire(&contexts[i / IO_CONTEXT_CLASSES][i % IO_CONTEXT_CLASSES]);
  for (unsigned i = 0; i < IO_NODES * IO_CONTEXT_CLASSES; i++)
    wait_until_gone(&contexts[i / IO_CONTEXT_CLASSES][i % IO_CONTEXT_CLASSES]);
  maru_notify_store(&starting, 0);
  undisturbed_end(&before);
}

static void ring_all(void) {
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

/* Under `starting`: nobody starts its successor, or joins it, meanwhile.  Who found it ready takes
 * the request back. */
bool io_context_ends(struct context *context) {
  if (!take_start())
    return false;
  atomic_store_explicit(&context->state, ENDED, memory_order_relaxed);
  atomic_fetch_sub_explicit(&io_contexts_running, 1, memory_order_relaxed); /* as above */
  maru_notify_store(&starting, 0);
  return true;
}

/* They look from now on whether the program is still there. */
void io_contexts_outlive(void) {
  atomic_store_explicit(&io_first_thread_left, true, memory_order_relaxed); /* the bell releases */
  ring_all();
}

void io_contexts_forget(void) {
  memset(contexts, 0, sizeof contexts);
  uint32_t most = atomic_load_explicit(&used, memory_order_relaxed);
  /* Those, too, that another thread had just taken, and not counted yet. */
  while (most < IO_SLOTS && atomic_load_explicit(&io_slots[most].taken, memory_order_relaxed) != 0)
    most++;
  /* Pages that nobody has touched need not be now: this is in every child. */
  memset(io_slots, 0, most * sizeof *io_slots);
  atomic_store_explicit(&io_first_thread_left, false,
                        memory_order_relaxed); /* one thread is here */
  atomic_store_explicit(&used, 0, memory_order_relaxed);
  atomic_store_explicit(&io_contexts_running, 0, memory_order_relaxed);
  atomic_store_explicit(&starting, 0, memory_order_relaxed);
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
    return io_self.slot > 0 ? &io_slots[io_self.slot - 1] : NULL;
  io_self.slot = -1;
  for (unsigned i = 0; i < IO_SLOTS; i++) {
    uint32_t free = 0;
    /* Acquire: what its last owner left there. */
    if (!atomic_compare_exchange_strong_explicit(&io_slots[i].taken, &free, 1, memory_order_acquire,
                                                 memory_order_relaxed))
      continue;
    uint32_t most = atomic_load_explicit(&used, memory_order_relaxed);
    /* Sequentially consistent: who closes looks at the slots below (files.c). */
    while (most < i + 1 && !atomic_compare_exchange_weak_explicit(
                               &used, &most, i + 1, memory_order_seq_cst, memory_order_relaxed))
      ;
    slot_begin(&io_slots[i]);
    io_thread_begins();
    io_self.slot = (int16_t)(i + 1);
    return &io_slots[i];
  }
  return NULL;
}

void io_slot_leave(void) {
  if (io_self.slot > 0)
    /* Release: the slot is idle. */
    atomic_store_explicit(&io_slots[io_self.slot - 1].taken, 0, memory_order_release);
  io_self.slot = -1;
}

bool io_may_delegate(void) {
  return !io_self.inside && !io_self.gone && io_self.slot >= 0 &&
         !atomic_load_explicit(&io_process.direct, memory_order_relaxed);
}

/* Until the request is done or taken back. */
static void await(struct slot *slot) {
  int64_t deadline = maru_now_ns() + PATIENCE_NS;
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

static void hand_over(struct context *context, struct slot *slot,
                      const struct io_request *request) {
  unsigned number = (unsigned)(slot - io_slots);
  bool placed = request->number == SYS_pread64 || request->number == SYS_pwrite64;
  uint64_t from = placed ? (uint64_t)request->arguments[3] : 0,
           length = placed ? (uint64_t)request->arguments[2] : 0;
  slot->request = *request;
  /* Relaxed: QUEUED releases them. */
  atomic_store_explicit(&slot->fd, request->fd, memory_order_relaxed);
  atomic_store_explicit(&slot->from, from, memory_order_relaxed);
  atomic_store_explicit(&slot->to, from + length, memory_order_relaxed);
  if (!io_self.inside)
    return; /* a handler jumped within itself, and may have used the slot */
  maru_notify_store(&slot->word, QUEUED);
  /* Release: the request. */
  atomic_fetch_or_explicit(&context->queued[number / 64], UINT64_C(1) << number % 64,
                           memory_order_release);
  maru_notify(&context->bell);
  await(slot);
}

/* Only while inside: a handler that settled the request has taken the answer already. */
static void take_answer(struct slot *slot) {
  if (!io_self.inside || state_of(slot, memory_order_acquire) != DONE || slot->stale)
    return;
  *io_self.answer = (struct io_answer){true, slot->signal, slot->result};
}

bool io_delegate(enum io_context_class class, const struct io_request *request, long *result) {
  struct slot *slot = own_slot();
  if (slot == NULL || io_self.real_time || !io_same_process())
    return false;
  struct context *context = context_of(class);
  if (context == NULL)
    return false;
  int saved = errno;
  struct io_answer answer = {.made = false};
  pthread_testcancel();
  io_self.answer = &answer;
  io_self.cancel = -1;
  atomic_signal_fence(memory_order_release); /* with `inside` */
  io_self.inside = 1; /* first and last: a handler's own calls are direct and touch none of it */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &io_self.cancel);
  hand_over(context, slot, request);
  take_answer(slot);
  maru_notify_store(&slot->word, IDLE);
  pthread_setcancelstate(io_self.cancel, NULL);
  io_self.inside = 0;
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
  struct slot *slot = &io_slots[io_self.slot - 1];
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
    maru_notify_store(&io_slots[io_self.slot - 1].word, IDLE);
  io_self.inside = 0;
  if (io_self.cancel >= 0)
    pthread_setcancelstate(io_self.cancel, NULL);
  ring_all(); /* perhaps the call was about to */
}

/* Not that of the process which a child of vfork came from.  Bounded: a device that does not answer
 * must not keep others from closing. */
static void wait_for_request(struct slot *slot) {
  int saved = errno;
  struct maru_wait_policy policy;
  maru_wait_policy_init(&policy, MARU_WAIT_SPIN_BLOCK);
  if (io_same_process())
    maru_wait_while(&slot->word, RUNNING, (uint32_t)STATE, &policy, maru_now_ns() + CLOSE_NS);
  errno = saved;
}

void io_wait_for_requests(unsigned first, unsigned last) {
  uint32_t most = atomic_load_explicit(&used, memory_order_seq_cst); /* see files.c */
  for (uint32_t i = 0; i < most; i++) {
    struct slot *slot = &io_slots[i];
    /* Sequentially consistent: see files.c.  One that is only queued will be found stale.
     * The slot may go on under us: then we wait for one request too many. */
    if (state_of(slot, memory_order_seq_cst) != RUNNING)
      continue;
    unsigned fd = (unsigned)atomic_load_explicit(&slot->fd, memory_order_relaxed);
    /* A handler must not wait for its own thread. */
    if (fd >= first && fd <= last && (int)i + 1 != io_self.slot)
      wait_for_request(slot);
  }
}
