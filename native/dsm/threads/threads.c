#define _GNU_SOURCE
#include "threads.h"
#include "input.h"
#include "private.h"

#include "../diff.h"
#include "../parmacs/memory.h"

#include <errno.h>
#include <maru/dsm.h>
#include <maru/parmacs.h>
#include <maru/threads.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>

#define STACK_SIZE ((size_t)8 << 20)

/* Before the node starts. */
static struct mr_table early;

/* One program's in a process; a checkpoint holds it. */
static struct {
  struct mr_table *table; /* NULL: the early one */
  struct mr_running first, *now;
  ucontext_t serve;
  bool waiting;  /* some thread that was created here had no node */
  uint32_t most; /* threads there were at once, main not counted, when this node last looked */
} self;

/* Of this process, whatever checkpoint it goes on from: on the system's own stack. */
static ucontext_t origin;

struct mr_table *mr_threads_table(void) {
  return self.table != NULL ? self.table : &early;
}
struct mr_running *mr_threads_now(void) {
  return self.now != NULL ? self.now : &self.first;
}

void mr_threads_begin(struct mr_table *table) { self.table = table; }

void mr_threads_lock(void) {
  if (self.table == NULL)
    return;
  mr_node_request(MR_LOCK, MR_TABLE, 0);
  /* Relaxed: another thread prints it. */
  __atomic_store_n(&self.most, self.table->most, __ATOMIC_RELAXED);
}

void mr_threads_advise(char *words, size_t size) {
  uint32_t all = __atomic_load_n(&self.most, __ATOMIC_RELAXED) + 1;
  if (all > maru_dsm_nodes())
    snprintf(words, size,
             "; it has %u threads, main included: if they wait for each other, start it with -n %u",
             all, all);
}

void mr_threads_unlock(void) {
  if (self.table != NULL)
    mr_node_request(MR_UNLOCK, MR_TABLE, 0);
}

void mr_threads_say(void) {
  mr_input_look();
  if (__fpending(stdout) > 0)
    fflush(stdout);
}

/* ---- the table, under its lock ------------------------------------------------------ */

static void append(struct mr_thread *thread) {
  struct mr_table *table = self.table;
  thread->next = NULL;
  if (table->first == NULL)
    table->first = thread;
  else
    table->last->next = thread;
  table->last = thread;
}

/* `wanted` if it is one of them, else the first; NULL: none. */
static struct mr_thread *take(const struct mr_thread *wanted) {
  struct mr_table *table = self.table;
  struct mr_thread *before = NULL, *found = table->first;
  for (struct mr_thread *at = found, *last = NULL; at != NULL; last = at, at = at->next)
    if (at == wanted) {
      found = at;
      before = last;
    }
  if (found == NULL)
    return NULL;
  if (before == NULL)
    table->first = found->next;
  else
    before->next = found->next;
  if (table->last == found)
    table->last = before;
  return found;
}

static void end_lending(uint16_t node) {
  struct mr_table *table = self.table;
  for (uint16_t i = 0; i < table->lender_count; i++)
    if (table->lenders[i] == node)
      table->lenders[i--] = table->lenders[--table->lender_count];
}

static struct mr_thread *given_here(void) {
  struct mr_thread **given = &self.table->given[maru_dsm_node()], *thread = *given;
  *given = NULL;
  return thread;
}

/* The semaphore of a node that will run it; 0: none can now. */
static uint32_t place(struct mr_thread *thread) {
  struct mr_table *table = self.table;
  if (table->idle_count == 0 && table->lender_count == 0) {
    append(thread);
    return 0;
  }
  bool idle = table->idle_count > 0;
  uint16_t node = idle ? table->idle[--table->idle_count] : table->lenders[--table->lender_count];
  table->given[node] = thread;
  return (idle ? MR_START : MR_ENDED) + node;
}

/* ---- running -------------------------------------------------------------------------- */

static _Noreturn void finish(struct mr_running *now);

static void begin(void) {
  struct mr_thread *thread = self.now->thread;
  thread->result = thread->body(thread->argument);
  finish(self.now);
}

static void enter(struct mr_running *running, ucontext_t *back) {
  getcontext(&running->context);
  running->context.uc_stack.ss_sp = running->stack->from;
  running->context.uc_stack.ss_size = running->stack->size;
  running->context.uc_link = NULL;
  makecontext(&running->context, begin, 0);
  self.now = running;
  swapcontext(back, &running->context);
}

static void tell_joiner(struct mr_thread *thread) {
  uint16_t joiner = thread->joiner;
  thread->ended = true;
  if (joiner == 0)
    return;
  end_lending((uint16_t)(joiner - 1));
  mr_node_request(MR_POST, MR_ENDED + joiner - 1u, 1);
}

/* Others may hear of its end.  The record is gone then, if nobody joins it. */
static void end(struct mr_thread *thread) {
  struct mr_table *table = self.table;
  uint16_t all = --table->live == 0 ? table->all_waiter : 0;
  bool detached = thread->detached;
  tell_joiner(thread);
  if (all != 0)
    mr_node_request(MR_POST, MR_ENDED + all - 1u, 1);
  if (detached)
    maru_parmacs_free(thread);
}

static void take_along(void) {
  mr_threads_lock();
  mr_carried_take(self.table->carried);
  mr_threads_unlock();
}

/* Until it has ended; with the lock then. */
static void run(struct mr_thread *thread) {
  struct mr_running *running = mr_private_take(sizeof *running);
  running->thread = thread;
  running->below = self.now;
  running->stack = mr_stack_take(thread->stack_size);
  mr_own_begin(&running->own);
  take_along();
  enter(running, &running->back);
  self.now = running->below;
  mr_own_end(&running->own);
  mr_stack_give(running->stack);
  mr_private_give(running);
  mr_threads_lock();
  end(thread);
}

void mr_threads_make_first(void *(*body)(void *)) {
  struct mr_thread *thread = maru_parmacs_calloc(1, sizeof *thread);
  if (thread == NULL)
    mr_node_die(STATUS_UNAVAILABLE, "no memory for a thread");
  thread->body = body;
  self.first.thread = thread;
  self.first.stack = mr_stack_take(STACK_SIZE);
}

void mr_threads_run_first(void) { enter(&self.first, &origin); }

void mr_threads_leave(void) {
  setcontext(&origin);
  abort(); /* it came from swapcontext */
}

static void serve(void) {
  uint16_t me = (uint16_t)maru_dsm_node();
  for (struct mr_thread *thread;;) {
    mr_node_request(MR_WAIT, MR_START + me, 0);
    if (self.table->libraries != stdout)
      mr_node_die(STATUS_UNAVAILABLE,
                  "libraries lie elsewhere than on node 0: address randomisation could not be "
                  "turned off, or the libraries differ");
    mr_threads_lock();
    thread = given_here();
    if (thread == NULL)
      break;
    while (thread != NULL) {
      mr_threads_unlock();
      run(thread);
      thread = take(NULL);
    }
    self.table->idle[self.table->idle_count++] = me;
    mr_threads_unlock();
  }
  mr_threads_unlock();
  mr_threads_leave();
}

void mr_threads_serve(uint8_t *stack) {
  getcontext(&self.serve);
  self.serve.uc_stack.ss_sp = stack;
  self.serve.uc_stack.ss_size = MR_SERVE_STACK;
  self.serve.uc_link = NULL;
  makecontext(&self.serve, serve, 0);
  swapcontext(&origin, &self.serve);
}

void mr_threads_go_on(const ucontext_t *context) { swapcontext(&origin, context); }

void mr_threads_came_back(void) {
  for (const struct mr_running *each = self.now; each != NULL; each = each->below)
    mr_stack_bring(each->stack);
}

struct mr_range mr_threads_state(void) {
  return (struct mr_range){.from = (uint8_t *)&self, .to = (uint8_t *)(&self + 1)};
}

/* One that has no node runs here; with the lock before and after. */
static bool run_one(const struct mr_thread *wanted) {
  struct mr_thread *thread = given_here();
  if (thread == NULL)
    thread = take(wanted);
  if (thread == NULL)
    return false;
  mr_threads_unlock();
  run(thread);
  return true;
}

/* This node's thread goes on: what was given to the node meanwhile goes to another. */
static void hand_on(void) {
  struct mr_thread *thread = given_here();
  if (thread == NULL)
    return;
  uint32_t semaphore = place(thread);
  if (semaphore != 0)
    mr_node_request(MR_POST, semaphore, 1);
  self.waiting |= semaphore == 0;
}

/* Until that thread has ended, or all have (NULL); with the lock before and after.  The semaphore
 * may tell more often than needed. */
static void await_end(struct mr_thread *thread) {
  uint16_t me = (uint16_t)maru_dsm_node();
  while (thread != NULL ? !thread->ended : self.table->live > 0) {
    if (run_one(thread))
      continue;
    if (thread != NULL)
      thread->joiner = (uint16_t)(me + 1);
    else
      self.table->all_waiter = (uint16_t)(me + 1);
    self.table->lenders[self.table->lender_count++] = me;
    mr_threads_unlock();
    mr_node_request(MR_WAIT, MR_ENDED + me, 0);
    mr_threads_lock();
    end_lending(me);
  }
  hand_on();
}

bool mr_threads_may_lend(void) { return self.waiting && self.now == &self.first; }

bool mr_threads_lend(void) {
  if (!mr_threads_may_lend())
    return false;
  mr_threads_lock();
  bool some = run_one(NULL);
  self.waiting = self.table->first != NULL;
  mr_threads_unlock();
  return some;
}

/* ---- what the program calls -------------------------------------------------------------- */

static struct mr_thread *thread_of(pthread_t thread) { return (struct mr_thread *)thread; }

int maru_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*body)(void *),
                        void *argument) {
  int detached = PTHREAD_CREATE_JOINABLE;
  size_t size = STACK_SIZE;
  if (self.table == NULL)
    mr_node_die(STATUS_USAGE, "pthread_create before main; threads begin after that");
  if (attributes != NULL) {
    pthread_attr_getdetachstate(attributes, &detached);
    pthread_attr_getstacksize(attributes, &size);
  }
  struct mr_thread *thread = maru_parmacs_malloc(sizeof *thread);
  if (thread == NULL)
    return EAGAIN;
  *thread = (struct mr_thread){.body = body,
                               .argument = argument,
                               .stack_size = size,
                               .detached = detached == PTHREAD_CREATE_DETACHED};
  *id = (pthread_t)thread;
  mr_threads_say();
  mr_threads_lock();
  mr_carried_tell(&self.table->carried);
  if (++self.table->live > self.table->most)
    self.table->most = self.table->live;
  uint32_t semaphore = place(thread);
  self.waiting |= semaphore == 0;
  mr_threads_unlock();
  if (semaphore != 0)
    mr_node_request(MR_POST, semaphore, 1);
  return 0;
}

int maru_pthread_join(pthread_t id, void **result) {
  struct mr_thread *thread = thread_of(id);
  if (thread == mr_threads_now()->thread)
    return EDEADLK;
  mr_threads_say();
  mr_threads_lock();
  if (thread->detached || thread->joiner != 0) {
    mr_threads_unlock();
    return EINVAL;
  }
  await_end(thread);
  void *value = thread->result;
  mr_threads_unlock();
  maru_parmacs_free(thread);
  if (result != NULL)
    *result = value;
  return 0;
}

int maru_pthread_detach(pthread_t id) {
  struct mr_thread *thread = thread_of(id);
  mr_threads_lock();
  int rc = thread->detached ? EINVAL : 0;
  bool ended = rc == 0 && thread->ended;
  if (rc == 0)
    thread->detached = true;
  mr_threads_unlock();
  if (ended)
    maru_parmacs_free(thread);
  return rc;
}

pthread_t maru_pthread_self(void) { return (pthread_t)mr_threads_now()->thread; }

static _Noreturn void finish(struct mr_running *now) {
  mr_input_look();
  mr_own_finish(&now->own, &mr_threads_table()->keys);
  fflush(NULL);
  if (now == &self.first) {
    mr_threads_lock();
    tell_joiner(now->thread);
    await_end(NULL);
    mr_threads_unlock();
    maru_parmacs_exit(0);
  }
  setcontext(&now->back);
  abort(); /* it came from swapcontext */
}

/* Before a frame is left; destructors of those below it have run. */
static _Unwind_Reason_Code leave_frame(int version, _Unwind_Action actions,
                                       _Unwind_Exception_Class kind,
                                       struct _Unwind_Exception *leaving,
                                       struct _Unwind_Context *frame, void *running) {
  struct mr_running *now = running;
  bool last = (actions & _UA_END_OF_STACK) != 0;
  (void)version, (void)kind, (void)leaving;
  mr_own_clean_up(&now->own, last ? UINTPTR_MAX : _Unwind_GetCFA(frame));
  if (last)
    finish(now);
  return _URC_NO_REASON;
}

static void caught(_Unwind_Reason_Code reason, struct _Unwind_Exception *leaving) {
  (void)reason, (void)leaving;
  mr_node_die(STATUS_USAGE, "pthread_exit was caught and not thrown again");
}

/* As libc: frames are left one by one, as by an exception, so that C++ destroys what is in them. */
void maru_pthread_exit(void *result) {
  struct mr_running *now = mr_threads_now();
  now->thread->result = result;
  now->leaving = (struct _Unwind_Exception){.exception_cleanup = caught};
  _Unwind_ForcedUnwind(&now->leaving, leave_frame, now);
  abort(); /* the stack cannot be read */
}

/* ---- keys ------------------------------------------------------------------------------------ */

int maru_pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
  mr_threads_lock();
  struct mr_keys *keys = &mr_threads_table()->keys;
  uint32_t place = 0;
  while (place < keys->count && keys->used[place])
    place++;
  bool room = place < MR_KEYS;
  if (room) {
    bool again = place < keys->count;
    keys->numbers[place] = again ? keys->numbers[place] + MR_KEYS : place;
    keys->count += !again;
    keys->used[place] = true;
    keys->destructors[place] = destructor;
    *key = keys->numbers[place];
  }
  mr_threads_unlock();
  return room ? 0 : EAGAIN;
}

static bool is_key(const struct mr_keys *keys, pthread_key_t key) {
  return keys->used[key % MR_KEYS] && keys->numbers[key % MR_KEYS] == key;
}

int maru_pthread_key_delete(pthread_key_t key) {
  mr_threads_lock();
  struct mr_keys *keys = &mr_threads_table()->keys;
  bool known = is_key(keys, key);
  if (known) {
    keys->used[key % MR_KEYS] = false;
    keys->destructors[key % MR_KEYS] = NULL;
  }
  mr_threads_unlock();
  return known ? 0 : EINVAL;
}

/* Without the lock: a thread uses a key only after another has made it. */
int maru_pthread_setspecific(pthread_key_t key, const void *value) {
  if (!is_key(&mr_threads_table()->keys, key))
    return EINVAL;
  struct mr_own *own = &mr_threads_now()->own;
  own->keys[key % MR_KEYS] = key;
  own->values[key % MR_KEYS] = (void *)value;
  return 0;
}

/* Nothing that is shared is read: this is called often. */
void *maru_pthread_getspecific(pthread_key_t key) {
  const struct mr_own *own = &mr_threads_now()->own;
  return own->keys[key % MR_KEYS] == key ? own->values[key % MR_KEYS] : NULL;
}

void maru_pthread_cleanup_push(void (*call)(void *), void *argument) {
  mr_own_push(&mr_threads_now()->own, call, argument, (uintptr_t)__builtin_frame_address(0));
}

void maru_pthread_cleanup_pop(int call) { mr_own_pop(&mr_threads_now()->own, call != 0); }
