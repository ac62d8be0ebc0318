/* shared.c: the heap of maru/dsm.h: that of the PARMACS programs, in shared memory, under a lock of
 * the job.  So a block that one node gave back is ordered before the next node that gets it. */
#include "heap.h"

#include <maru/dsm.h>
#include <stdalign.h>

struct maru_dsm_heap {
  alignas(64) struct mr_heap heap; /* the first block begins behind it */
  uint32_t lock;
};

struct maru_dsm_heap *maru_dsm_heap_create(size_t size, uint32_t id) {
  struct maru_dsm_heap *heap = size <= SIZE_MAX - sizeof *heap
                                   ? maru_dsm_alloc_at(sizeof *heap + size, "maru_dsm_heap_create")
                                   : NULL;
  if (heap == NULL)
    return NULL;
  if (maru_dsm_node() == 0) {
    uint8_t *first = (uint8_t *)(heap + 1);
    *heap = (struct maru_dsm_heap){.heap = {.next = first, .end = first + size}, .lock = id};
  }
  maru_dsm_barrier(id);
  return heap;
}

void *maru_dsm_heap_take(struct maru_dsm_heap *heap, size_t size, size_t alignment) {
  maru_dsm_lock(heap->lock);
  void *block = mr_heap_take(&heap->heap, size, alignment);
  maru_dsm_unlock(heap->lock);
  return block;
}

void maru_dsm_heap_give(struct maru_dsm_heap *heap, void *block) {
  if (block == NULL)
    return;
  maru_dsm_lock(heap->lock);
  mr_heap_give(&heap->heap, block);
  maru_dsm_unlock(heap->lock);
}
