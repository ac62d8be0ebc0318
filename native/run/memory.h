/* memory.h: where the command's memory is to come from. */
#ifndef MARU_RUN_MEMORY_H
#define MARU_RUN_MEMORY_H

#include <stdbool.h>

#define MEMORY_NODES 1024 /* as many as Linux knows */

struct memory {
  int mode; /* of set_mempolicy; 0: nothing is asked for */
  unsigned long nodes[MEMORY_NODES / (8 * sizeof(unsigned long))];
};

/* "prefer:NODE" or "interleave:NODES". */
bool memory_read(struct memory *memory, const char *text);

/* For this process and what it starts, also over exec; it ends with them.  0 or a negative errno.
 */
int memory_set(const struct memory *memory);

#endif
