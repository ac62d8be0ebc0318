#include "private.h"

#include "../node.h"
#include "../parmacs/heap.h"
#include "../parmacs/memory.h"

#include <string.h>

/* The heap of a program without threads lies there. */
#define HEAP ((struct mr_heap *)(void *)MR_ARENA)
#define SIZE ((size_t)256 << 20)

void mr_private_prepare(void) {
  mr_memory_map(MR_ARENA, SIZE, "memory for threads");
  *HEAP = (struct mr_heap){.next = MR_ARENA + sizeof *HEAP, .end = MR_ARENA + SIZE};
}

void *mr_private_take(size_t size) {
  void *block = mr_heap_take(HEAP, size, 1);
  if (block == NULL)
    mr_node_die(STATUS_UNAVAILABLE,
                "no room for what threads of this node have of their own: it is more than %zu MiB; "
                "make thread-local variables smaller, or take more nodes",
                SIZE >> 20);
  return block;
}

void *mr_private_widen(void *block, size_t size) {
  size_t room = block != NULL ? mr_heap_room(block) : 0;
  if (size <= room)
    return block;
  void *wider = mr_private_take(size);
  if (block != NULL) {
    memcpy(wider, block, room);
    mr_heap_give(HEAP, block);
  }
  return wider;
}

void mr_private_give(void *block) { mr_heap_give(HEAP, block); }

struct mr_range mr_private_state(void) {
  return (struct mr_range){.from = MR_ARENA, .to = HEAP->next};
}
