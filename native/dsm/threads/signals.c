/* signals.c: a program's handlers of signals beside the library's (maru/threads.h).
 *
 * A handler runs on a stack of the library's, as the kernel cannot bring in a page of shared memory
 * for its frame. The library's own handler sees accesses to shared memory. It calls the program's
 * for all else.
 */
#define _GNU_SOURCE
#include "threads.h"

#include "../access.h"
#include "../node.h"
#include "../stack.h"

#include <errno.h>
#include <maru/threads.h>
#include <signal.h>

static int64_t act(uint64_t number, uint64_t action, uint64_t old) {
  return mr_access_sigaction((int)number, (const struct sigaction *)action,
                             (struct sigaction *)old);
}

/* The kernel's answer goes to the stack, and no access is seen while signals are blocked: so not on
 * a thread's stack, which is shared memory.  A handler has the library's already. */
int maru_threads_sigaction(int number, const struct sigaction *action, struct sigaction *old) {
  if (!mr_node_shares(__builtin_frame_address(0), 1))
    return mr_access_sigaction(number, action, old);
  return (int)mr_stack_call_open(act, (uint64_t)number, (uintptr_t)action, (uintptr_t)old);
}

static int64_t mask(uint64_t how, uint64_t set, uint64_t old) {
  sigset_t with, was;
  if (set != 0) {
    with = *(const sigset_t *)set;
    if (how != SIG_UNBLOCK) {
      sigdelset(&with, SIGBUS);
      sigdelset(&with, SIGSEGV);
    }
  }
  if (sigprocmask((int)how, set != 0 ? &with : NULL, &was) < 0)
    return -1;
  if (old != 0)
    *(sigset_t *)old = was;
  return 0;
}

/* An access that faults while its signal is blocked ends the process, and nobody says why.  As
 * above, what the kernel reads and writes is on the library's stack. */
int maru_threads_sigmask(int how, const sigset_t *set, sigset_t *old) {
  if (!mr_node_shares(__builtin_frame_address(0), 1))
    return (int)mask((uint64_t)how, (uintptr_t)set, (uintptr_t)old);
  return (int)mr_stack_call_open(mask, (uint64_t)how, (uintptr_t)set, (uintptr_t)old);
}

/* A stack of the program's own would be shared memory: what it says is remembered alone. */
static stack_t said = {.ss_flags = SS_DISABLE};

struct mr_range mr_signals_state(void) {
  return (struct mr_range){.from = (uint8_t *)&said, .to = (uint8_t *)(&said + 1)};
}

int maru_threads_sigaltstack(const stack_t *stack, stack_t *old) {
  stack_t before = said;
  if (stack != NULL && (stack->ss_flags & SS_DISABLE) != 0) {
    said = (stack_t){.ss_flags = SS_DISABLE};
  } else if (stack != NULL) {
    if ((stack->ss_flags & ~SS_ONSTACK) != 0 || stack->ss_size < (size_t)MINSIGSTKSZ) {
      errno = stack->ss_flags & ~SS_ONSTACK ? EINVAL : ENOMEM;
      return -1;
    }
    said = *stack;
    said.ss_flags = 0;
  }
  if (old != NULL)
    *old = before;
  return 0;
}
