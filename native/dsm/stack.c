#define _GNU_SOURCE
#include "stack.h"

#include "end.h"
#include "node.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#define FAULTS ((size_t)256 << 10)

/* What the requests' stack is used for. */
enum { NOTHING, REQUESTS, OPEN };

/* One program's in a process. */
static struct {
  uint8_t *top; /* NULL: the program's stack will do */
  const void *ends[MR_STACKS_MAX];
  int count;
  _Atomic int use;
} stacks;

/* mr_stack_switch(top, function, one, two, three) */
#if defined(__x86_64__)
#define SWITCHES true
__asm__(".text\n"
        ".hidden mr_stack_switch\n"
        ".type mr_stack_switch, @function\n"
        "mr_stack_switch:\n"
        "  push %rbp\n"
        "  mov %rsp, %rbp\n"
        "  mov %rdi, %rsp\n"
        "  mov %rsi, %rax\n"
        "  mov %rdx, %rdi\n"
        "  mov %rcx, %rsi\n"
        "  mov %r8, %rdx\n"
        "  call *%rax\n"
        "  leave\n"
        "  ret\n"
        ".size mr_stack_switch, . - mr_stack_switch\n");
#elif defined(__aarch64__)
#define SWITCHES true
__asm__(".text\n"
        ".hidden mr_stack_switch\n"
        ".type mr_stack_switch, %function\n"
        "mr_stack_switch:\n"
        "  stp x29, x30, [sp, #-16]!\n"
        "  mov x29, sp\n"
        "  mov sp, x0\n"
        "  mov x8, x1\n"
        "  mov x0, x2\n"
        "  mov x1, x3\n"
        "  mov x2, x4\n"
        "  blr x8\n"
        "  mov sp, x29\n"
        "  ldp x29, x30, [sp], #16\n"
        "  ret\n"
        ".size mr_stack_switch, . - mr_stack_switch\n");
#else
#define SWITCHES false
static int64_t mr_stack_switch(void *top, mr_stack_function *function, uint64_t one, uint64_t two,
                               uint64_t three) {
  (void)top;
  return function(one, two, three);
}
#endif
#if SWITCHES
extern int64_t mr_stack_switch(void *top, mr_stack_function *function, uint64_t one, uint64_t two,
                               uint64_t three);
#endif

int mr_stack_prepare(uint8_t *top) {
  if (!SWITCHES)
    return -ENOSYS;
  void *faults =
      mmap(NULL, FAULTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  const stack_t other = {.ss_sp = faults, .ss_size = FAULTS};
  if (faults == MAP_FAILED || sigaltstack(&other, NULL) < 0)
    return -errno;
  stacks.top = top;
  return 0;
}

uint8_t *mr_stack_state(size_t *size) {
  *size = sizeof stacks;
  return (uint8_t *)&stacks;
}

static int64_t call_as(int use, mr_stack_function *function, uint64_t one, uint64_t two,
                       uint64_t three) {
  if (stacks.top == NULL)
    return function(one, two, three);
  /* Relaxed, all: this thread's handlers alone see it else. */
  int before = atomic_exchange_explicit(&stacks.use, use, memory_order_relaxed);
  if (before == REQUESTS)
    mr_node_die(STATUS_INTERNAL, MR_BY_HANDLER);
  /* A handler that came while it was open is on that stack.  Who is not has jumped out of one. */
  bool there = before == OPEN && !mr_node_shares(__builtin_frame_address(0), 1);
  int64_t result =
      there ? function(one, two, three) : mr_stack_switch(stacks.top, function, one, two, three);
  atomic_store_explicit(&stacks.use, there ? OPEN : NOTHING, memory_order_relaxed);
  return result;
}

int64_t mr_stack_call(mr_stack_function *function, uint64_t one, uint64_t two, uint64_t three) {
  return call_as(REQUESTS, function, one, two, three);
}

int64_t mr_stack_call_open(mr_stack_function *function, uint64_t one, uint64_t two,
                           uint64_t three) {
  return call_as(OPEN, function, one, two, three);
}

void mr_stack_end_at(const void *page) {
  if (stacks.count < MR_STACKS_MAX)
    stacks.ends[stacks.count++] = page;
}

void mr_stack_check(const void *page) {
  for (int i = 0; i < stacks.count; i++)
    if (stacks.ends[i] == page)
      mr_node_die(STATUS_INTERNAL, "a thread has used up its stack");
}
