/* memory.h: the memory of a program in the ANL macros (internal to libmaru-dsm): what is shared,
 * what malloc gives, what is mapped. The calls themselves are in maru/parmacs.h.
 *
 * malloc's blocks come from a heap at the same address in every process, or, where globals are
 * shared, from shared memory. What is allocated before the node starts (static constructors) always
 * comes from that heap. Blocks of libraries, which no call here gave, are given back to libc.
 *
 * Thread-safety: none.  Where it fails the process ends with a line (mr_node_die), or NULL and
 * errno where the call says so.
 */
#ifndef MARU_DSM_PARMACS_MEMORY_H
#define MARU_DSM_PARMACS_MEMORY_H

#include "image.h"

#include <stdbool.h>

/* Behind the largest shared memory (node_start.c). */
#define MR_ARENA ((uint8_t *)UINT64_C(0x320000000000))
#define MR_ARENA_SIZE ((size_t)64 << 30)

/* Maps memory of zeros there, where nothing may lie. */
void mr_memory_map(uint8_t *address, size_t size, const char *what);
/* The heap, in that memory: from now on malloc's blocks come from there. */
void mr_memory_prepare(uint8_t *from, size_t size);
/* From now on they come from shared memory. */
void mr_memory_share_all(void);
/* So are anonymous shared mappings. */
void mr_memory_share_anonymous(void);
/* For threads: they have one memory.  The heap so far is gone; what was there is shared memory now,
 * as its content is once somebody has put it back.  So are mappings from now on. */
void mr_memory_forget(void);
void mr_memory_share_maps(void);
/* What of the heap is in use; nothing where it is gone. */
struct mr_range mr_memory_heap(void);
/* What this library knows of it, for a checkpoint. */
struct mr_range mr_memory_state(void);
/* Whole pages of shared memory. */
uint8_t *mr_memory_pages(size_t size);

#endif
