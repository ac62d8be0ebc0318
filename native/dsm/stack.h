/* stack.h: a stack for what the library does where the program's own stack is shared memory
 * (internal to libmaru-dsm).
 *
 * The core protects pages while it runs, so it cannot run on one of them.  Where the program's
 * threads have their stacks in shared memory (threads.c), each request changes to a stack of this
 * process's own, and the handlers of faults run on another.  Elsewhere nothing changes.
 *
 * One thread of a process makes requests, one at a time: hence one such stack.
 */
#ifndef MARU_DSM_STACK_H
#define MARU_DSM_STACK_H

#include <stddef.h>
#include <stdint.h>

typedef int64_t mr_stack_function(uint64_t one, uint64_t two, uint64_t three);

#define MR_BY_HANDLER "a signal handler used the shared memory while a request was under way"

/* From now on such a stack is there, MR_STACK_REQUESTS bytes below `top`, and one for the handlers
 * of faults in this thread.  -ENOMEM; -ENOSYS: not on this processor. */
#define MR_STACK_REQUESTS ((size_t)256 << 10)
int mr_stack_prepare(uint8_t *top);
/* What is known of both, for a checkpoint: so many bytes. */
uint8_t *mr_stack_state(size_t *size);
/* Calls it there, where that is; what its arguments point to must not be shared memory.  Ends the
 * process where that is under way already: a handler of a signal would overwrite it. */
int64_t mr_stack_call(mr_stack_function *function, uint64_t one, uint64_t two, uint64_t three);
/* The same for what is no request.  A handler that comes meanwhile is on that stack itself, and may
 * make one there. */
int64_t mr_stack_call_open(mr_stack_function *function, uint64_t one, uint64_t two, uint64_t three);

/* An access to that page is an overflow, and ends the process where it is checked.  At most
 * MR_STACKS_MAX; more are not remembered. */
#define MR_STACKS_MAX 64
void mr_stack_end_at(const void *page);
void mr_stack_check(const void *page);

#endif
