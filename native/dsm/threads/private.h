/* private.h: what this library keeps of a node's threads (internal to libmaru-dsm).
 *
 * Blocks in memory of the process's own, at an address that is free in every process: another one
 * that goes on in this one's place has them where they were.
 *
 * Thread-safety: none.  Where it fails the process ends with a line (mr_node_die).
 */
#ifndef MARU_DSM_THREADS_PRIVATE_H
#define MARU_DSM_THREADS_PRIVATE_H

#include "../parmacs/image.h"

#include <stddef.h>

/* Once, before the others. */
void mr_private_prepare(void);
void *mr_private_take(size_t size);
/* The same block or a larger one, with what was in it; NULL: none yet. */
void *mr_private_widen(void *block, size_t size);
void mr_private_give(void *block);
/* All of it, for a checkpoint. */
struct mr_range mr_private_state(void);

#endif
