#include "place.h"

#include "../diff.h"
#include "../node.h"
#include "../parmacs/memory.h"
#include "../stack.h"
#include "private.h"

#include <maru/dsm.h>
#include <stdbool.h>

/* Used on most stacks; brought in before a thread begins, so that what libraries hand to the kernel
 * lies there. */
#define TOP_PAGES 16u
#define TOP ((size_t)TOP_PAGES * MR_PAGE)

/* This process's. */
static struct mr_place_of_stack *free_stacks;

static bool is_here(const uint8_t *at) { return maru_dsm_home(at) == (int)maru_dsm_node(); }

/* The highest end, so that the pages below it have their home here; else the last. */
static uint8_t *end_of_stack(uint8_t *least, uint8_t *most) {
  for (uint8_t *end = most; end >= least; end -= MR_PAGE)
    if (is_here(end - MR_PAGE) && is_here(end - TOP))
      return end;
  return most;
}

/* A home is alone with a page once it has told of a change there; such a page costs no release. */
static void change(uint8_t *from) {
  maru_dsm_write_range(from, TOP);
  for (unsigned i = 0; i < TOP_PAGES; i++)
    from[(size_t)i * MR_PAGE] = 1;
}

static struct mr_place_of_stack *make(size_t size) {
  size_t room = size + maru_dsm_nodes() * TOP;
  struct mr_place_of_stack *stack = mr_private_take(sizeof *stack);
  uint8_t *from = mr_memory_pages(room), *end = end_of_stack(from + size, from + room);
  mr_node_site(end - size, size, "stack");
  *stack = (struct mr_place_of_stack){.from = end - size, .size = size};
  mr_stack_end_at(stack->from);
  mr_node_guard(stack->from);
  change(end - TOP);
  return stack;
}

static struct mr_place_of_stack *reuse(size_t size) {
  for (struct mr_place_of_stack **at = &free_stacks; *at != NULL; at = &(*at)->next)
    if ((*at)->size >= size) {
      struct mr_place_of_stack *stack = *at;
      *at = stack->next;
      return stack;
    }
  return NULL;
}

void mr_stack_bring(const struct mr_place_of_stack *stack) {
  maru_dsm_write_range(stack->from + stack->size - TOP, TOP);
}

struct mr_place_of_stack *mr_stack_take(size_t size) {
  size_t whole = (size + MR_PAGE - 1) & ~(size_t)(MR_PAGE - 1);
  if (whole < 2 * TOP)
    whole = 2 * TOP;
  struct mr_place_of_stack *stack = reuse(whole);
  if (stack == NULL)
    return make(whole);
  mr_stack_bring(stack);
  return stack;
}

void mr_stack_give(struct mr_place_of_stack *stack) {
  stack->next = free_stacks;
  free_stacks = stack;
}

struct mr_range mr_stack_places(void) {
  return (struct mr_range){.from = (uint8_t *)&free_stacks, .to = (uint8_t *)(&free_stacks + 1)};
}
