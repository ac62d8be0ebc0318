#define _GNU_SOURCE
#include "jump.h"

#include "program.h"

#include <maru/parmacs.h>
#include <setjmp.h>
#include <string.h>

static struct mr_jumps before;

void mr_jumps_put(const struct mr_jumps *jumps) { before = *jumps; }

#if defined(__x86_64__)
/* glibc's sysdeps/x86_64/jmpbuf-offsets.h and pointer_guard.h. */
enum { FRAME = 1, STACK = 6, CODE = 7 };
#define ROTATED 17

static uint64_t drawn(void) {
  uint64_t word;
  __asm__ volatile("mov %%fs:0x30, %0" : "=r"(word));
  return word;
}
static uint64_t plain(uint64_t word, uint64_t by) {
  return (word >> ROTATED | word << (64 - ROTATED)) ^ by;
}
static uint64_t mixed(uint64_t word, uint64_t by) {
  word ^= by;
  return word << ROTATED | word >> (64 - ROTATED);
}

struct mr_jumps mr_jumps_take(void) {
  struct mr_jumps jumps = before;
  if (jumps.count == MR_JUMP_PROCESSES)
    memmove(jumps.drawn, jumps.drawn + 1, --jumps.count * sizeof *jumps.drawn);
  jumps.drawn[jumps.count++] = drawn();
  return jumps;
}

static bool within(struct mr_range range, uint64_t at) {
  return at >= (uintptr_t)range.from && at < (uintptr_t)range.to;
}

/* By a word that is not its own a place hardly ever looks like one: these are few of all addresses.
 */
static bool is_stack(uint64_t at) {
  const struct mr_range stack = {.from = MR_STACK, .to = MR_STACK + MR_STACK_SIZE};
  return within(stack, at) || within(mr_memory_heap(), at) ||
         mr_node_shares((const void *)(uintptr_t)at, 1);
}

void maru_parmacs_jump(struct __jmp_buf_tag *place) {
  static const int words[] = {FRAME, STACK, CODE};
  uint64_t *kept = (uint64_t *)(void *)place->__jmpbuf;
  for (uint64_t i = 0; i < before.count; i++) {
    if (!is_stack(plain(kept[STACK], before.drawn[i])))
      continue;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
      kept[words[k]] = mixed(plain(kept[words[k]], before.drawn[i]), drawn());
    return;
  }
}
#else
struct mr_jumps mr_jumps_take(void) {
  return before;
}
void maru_parmacs_jump(struct __jmp_buf_tag *place) { (void)place; }
#endif
