/* slots.c: the side of the threads whose calls others make.
 *
 * A thread that wants a call made puts it into its slot, marks the slot in the context's set and
 * rings. The context makes the call (serve.c) and stores the result.
 *
 * Contexts make only calls that end by themselves (regular files; sockets, with
 * MSG_DONTWAIT). Should one take long nevertheless, the others take their requests back after their
 * patience and make them directly. No call waits behind another one for longer.
 *
 * Handlers run while their thread waits.  Their own calls go direct: the slot is not idle.  A
 * handler that forks, jumps away or switches to another stack first lets the request end
 * (io_settle). What the call reads into must not be written later. Its answer then lies in the
 * frame of the call, should that go on: after a jump within the handler, a fork, or when the stack
 * is switched back to. The thread may have made other requests meanwhile. It may be another thread
 * that switches back. So once a handler may have come between, nothing that a call does is a
 * thread's own, but what begin_request does.
 */
#define _GNU_SOURCE
#include "slots.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#define PATIENCE_NS INT64_C(10000000) /* how long a request waits to be taken */
#define CLOSE_NS INT64_C(1000000000)

/* What became of a request, in the frame of its call. */
struct io_answer {
  volatile bool over; /* somebody settled the request: the slot is no longer this call's */
  bool made;
  int signal; /* that the call sent to the context */
  long result;
};

struct slot io_slots[IO_SLOTS];
static _Atomic uint32_t used; /* slots below were taken at least once */

void io_slots_forget(void) {
  uint32_t most = atomic_load_explicit(&used, memory_order_relaxed);
  /* Those, too, that another thread had just taken, and not counted yet. */
  while (most < IO_SLOTS && atomic_load_explicit(&io_slots[most].taken, memory_order_relaxed) != 0)
    most++;
  /* Pages that nobody has touched need not be now: this is in every child. */
  memset(io_slots, 0, most * sizeof *io_slots);
  atomic_store_explicit(&used, 0, memory_order_relaxed); /* one thread is here */
}

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
    /* Sequentially consistent: a thread that closes looks at the slots below (files.c). */
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

/* A handler sees that of the call that it interrupted. */
static bool is_asking(void) {
  return io_self.slot > 0 && state_of(&io_slots[io_self.slot - 1], memory_order_relaxed) != IDLE;
}

bool io_may_delegate(void) {
  return !io_self.gone && io_self.slot >= 0 && !is_asking() &&
         !atomic_load_explicit(&io_process.direct, memory_order_relaxed);
}

/* A request, as the frame of its call knows it. */
struct turn {
  struct slot *slot;
  uint32_t number; /* as request_of */
  int cancel;
};

/* As move, of this request; false: it is over, and the slot another's. */
static bool step(const struct turn *turn, uint32_t from, uint32_t to) {
  uint32_t now = atomic_load_explicit(&turn->slot->word, memory_order_relaxed);
  while ((now & ~(uint32_t)MARU_WAIT_ARMED) == (from | turn->number))
    /* Sequentially consistent: see files.c. */
    if (atomic_compare_exchange_weak_explicit(&turn->slot->word, &now, to | (now & ~STATE),
                                              memory_order_seq_cst, memory_order_relaxed))
      return true;
  return false;
}

/* Until the request is done or taken back. */
static void await(const struct turn *turn, const struct io_answer *answer) {
  struct slot *slot = turn->slot;
  uint32_t queued = QUEUED | turn->number, running = RUNNING | turn->number;
  int64_t deadline = maru_now_ns() + PATIENCE_NS;
  while (!answer->over) {
    /* Acquire: the result. */
    uint32_t now = atomic_load_explicit(&slot->word, memory_order_acquire) & IO_UNARMED;
    if (now == queued) {
      if (maru_wait_while(&slot->word, queued, IO_UNARMED, &slot->policy, deadline) == -ETIMEDOUT &&
          step(turn, QUEUED, BACK))
        return;
    } else if (now == running) /* the call ends by itself */
      maru_wait_while(&slot->word, running, IO_UNARMED, &slot->policy, MARU_WAIT_FOREVER);
    else
      return;
  }
}

static void fill(struct slot *slot, const struct io_request *request) {
  bool placed = request->number == SYS_pread64 || request->number == SYS_pwrite64;
  uint64_t from = placed ? (uint64_t)request->arguments[3] : 0,
           length = placed ? (uint64_t)request->arguments[2] : 0;
  slot->request = *request;
  /* Relaxed: QUEUED releases them. */
  atomic_store_explicit(&slot->fd, request->fd, memory_order_relaxed);
  atomic_store_explicit(&slot->from, from, memory_order_relaxed);
  atomic_store_explicit(&slot->to, from + length, memory_order_relaxed);
}

/* To the next request, which is QUEUED.  Only who sleeps there changes the word meanwhile. */
static uint32_t queue_request(struct slot *slot) {
  uint32_t now = atomic_load_explicit(&slot->word, memory_order_relaxed), next;
  do
    next = QUEUED | (request_of(now) + ONE_REQUEST) | (now & MARU_WAIT_ARMED);
  /* Sequentially consistent: see files.c. */
  while (!atomic_compare_exchange_weak_explicit(&slot->word, &now, next, memory_order_seq_cst,
                                                memory_order_relaxed));
  return request_of(next);
}

/* No handler comes between, so all of it is one thread's.  Not part of its caller, whose idea of
 * where the thread's own data are may be an earlier thread's.  False: a handler's call while the
 * slot is in use, or no slot. */
static __attribute__((noinline)) bool begin_request(struct context *context,
                                                    const struct io_request *request,
                                                    struct io_answer *answer, struct turn *turn) {
  struct slot *slot = own_slot();
  if (slot == NULL || state_of(slot, memory_order_relaxed) != IDLE)
    return false;
  unsigned number = (unsigned)(slot - io_slots);
  io_self.answer = answer;
  io_self.cancel = -1;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &io_self.cancel);
  fill(slot, request);
  *turn = (struct turn){.slot = slot, .number = queue_request(slot), .cancel = io_self.cancel};
  /* Release: the request. */
  atomic_fetch_or_explicit(&context->queued[number / 64], UINT64_C(1) << number % 64,
                           memory_order_release);
  maru_notify(&context->bell);
  return true;
}

/* Of a slot that is DONE. */
static struct io_answer answer_in(const struct slot *slot) {
  return (struct io_answer){.made = !slot->stale, .signal = slot->signal, .result = slot->result};
}

/* The answer of a request that nobody has settled; the slot is idle then. */
static void take_answer(const struct turn *turn, struct io_answer *answer) {
  /* Acquire: the result.  It is taken before the slot is free. */
  bool done = state_of(turn->slot, memory_order_acquire) == DONE;
  struct io_answer found = done ? answer_in(turn->slot) : (struct io_answer){.made = false};
  if (!answer->over && (step(turn, DONE, IDLE) || step(turn, BACK, IDLE)) && done)
    *answer = found;
}

static bool ask(enum io_context_class class, const struct io_request *request,
                struct io_answer *answer) {
  struct context *context = io_context_of(class);
  unsigned long all = ~0ul, before = 0;
  struct turn turn;
  pthread_testcancel();
  if (context == NULL)
    return false;
  io_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof all, 0, 0);
  bool asked = begin_request(context, request, answer, &turn);
  io_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
  if (!asked)
    return false;
  await(&turn, answer);
  if (!answer->over && turn.cancel >= 0)
    pthread_setcancelstate(turn.cancel, NULL); /* while who leaves still finds the request */
  take_answer(&turn, answer);
  return answer->made;
}

/* A handler may move the frame of a call to another thread, where errno is another word. Its
 * address must not be kept over the call. */
static __attribute__((noinline)) int errno_here(void) { return errno; }
static __attribute__((noinline)) void set_errno_here(int error) { errno = error; }

bool io_delegate(enum io_context_class class, const struct io_request *request, long *result) {
  struct slot *slot = own_slot();
  if (slot == NULL || io_self.real_time || !io_same_process())
    return false;
  int saved = errno_here();
  struct io_answer answer = {.made = false};
  bool made = ask(class, request, &answer);
  set_errno_here(saved);
  *result = answer.result;
  struct maru_io_line *line = io_line();
  io_add(line, made ? &line->delegated : &line->handed_back, 1);
  if (answer.signal != 0)
    io_raw(SYS_tgkill, io_process.pid, io_raw(SYS_gettid, 0, 0, 0, 0, 0, 0), answer.signal, 0, 0,
           0);
  return made;
}

/* Takes it back, or waits for it; the slot is its owner's then. */
static void end_request(struct slot *slot) {
  struct maru_wait_policy policy;
  maru_wait_policy_init(&policy, MARU_WAIT_SPIN_BLOCK);
  (void)move(slot, QUEUED, BACK);
  while (state_of(slot, memory_order_acquire) == RUNNING)
    maru_wait_while(&slot->word, RUNNING, STATE, &policy, MARU_WAIT_FOREVER);
}

void io_settle(void) {
  if (!is_asking() || !io_same_process())
    return;
  struct slot *slot = &io_slots[io_self.slot - 1];
  int saved = errno;
  end_request(slot);
  bool done = state_of(slot, memory_order_acquire) == DONE;
  *io_self.answer = done ? answer_in(slot) : (struct io_answer){.made = false};
  io_self.answer->over = true;
  if (io_self.cancel >= 0)
    pthread_setcancelstate(io_self.cancel, NULL);
  set_state(slot, IDLE);
  io_contexts_ring(); /* perhaps the call was about to */
  errno = saved;
}

/* The frame of the thread's last call is gone: nobody wants the answer. */
void io_slot_leave(void) {
  if (io_self.slot > 0) {
    struct slot *slot = &io_slots[io_self.slot - 1];
    end_request(slot);
    set_state(slot, IDLE);
    /* Release: the slot is idle. */
    atomic_store_explicit(&slot->taken, 0, memory_order_release);
  }
  io_self.slot = -1;
}

/* Not that of the process which a child of vfork came from.  Bounded: a device that does not answer
 * must not keep others from closing. */
static void wait_for_request(struct slot *slot) {
  int saved = errno;
  struct maru_wait_policy policy;
  maru_wait_policy_init(&policy, MARU_WAIT_SPIN_BLOCK);
  if (io_same_process())
    maru_wait_while(&slot->word, RUNNING, STATE, &policy, maru_now_ns() + CLOSE_NS);
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
