/* heap.h: malloc at fixed addresses (internal to libmaru-dsm).
 *
 * Blocks of 4 sizes per power of two; a freed block serves the next request of its size, and is
 * never given back.  A heap is plain bytes: copied to the same address in another process, it is
 * that process's. Thread-safety: none.
 */
#ifndef MARU_DSM_PARMACS_HEAP_H
#define MARU_DSM_PARMACS_HEAP_H

#include <stddef.h>
#include <stdint.h>

#define MR_HEAP_CLASSES 160

struct mr_heap {
  uint8_t *next, *end;
  void *free[MR_HEAP_CLASSES];
};

/* How much `next` must have left for a block of `size` bytes, aligned to `alignment`, a power of
 * two; 0: no heap has so much. */
size_t mr_heap_need(size_t size, size_t alignment);
/* 16-byte aligned at least.  NULL: `next` has not enough left. */
void *mr_heap_take(struct mr_heap *heap, size_t size, size_t alignment);
void mr_heap_give(struct mr_heap *heap, void *block);
/* How many bytes the block has room for. */
size_t mr_heap_room(const void *block);

#endif
