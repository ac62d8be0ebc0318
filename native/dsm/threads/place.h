/* place.h: stacks of threads, in shared memory (internal to libmaru-dsm).
 *
 * A pointer to a variable on a stack means the same on every node.  A stack's home, as far as that
 * can be chosen, is the node that runs on it: as long as no other node looks at it, it costs
 * nothing.  Its last page may not be touched.  A stack is given back to its node, for later ones.
 *
 * Thread-safety: none.  Where it fails the process ends with a line (mr_node_die).
 */
#ifndef MARU_DSM_THREADS_PLACE_H
#define MARU_DSM_THREADS_PLACE_H

#include "../parmacs/image.h"

#include <stddef.h>
#include <stdint.h>

struct mr_place_of_stack {
  uint8_t *from;
  size_t size;
  struct mr_place_of_stack *next; /* of those that are free */
};

struct mr_place_of_stack *mr_stack_take(size_t size);
void mr_stack_give(struct mr_place_of_stack *stack);
/* Brings its first pages in, as mr_stack_take does: for a process that goes on in another's place.
 */
void mr_stack_bring(const struct mr_place_of_stack *stack);
/* What is free, for a checkpoint. */
struct mr_range mr_stack_places(void);

#endif
