#include "heap.h"

#define LARGEST ((size_t)1 << 40)

/* In front of every block. */
struct head {
  uint32_t class;
  uint32_t back; /* from the block's first byte to what the program has */
  uint64_t unused;
};

static size_t size_of(unsigned class) { return (size_t)(4 + class % 4) << (4 + class / 4); }

static unsigned class_of(size_t size) {
  unsigned class = 0;
  while (size_of(class) < size)
    class ++;
  return class;
}

size_t mr_heap_need(size_t size, size_t alignment) {
  if (size > LARGEST || alignment > (1u << 30))
    return 0;
  return size_of(class_of(size + sizeof(struct head) + (alignment > 16 ? alignment : 0)));
}

static struct head *head_of(const void *block) { return (struct head *)block - 1; }

void *mr_heap_take(struct mr_heap *heap, size_t size, size_t alignment) {
  size_t need = mr_heap_need(size, alignment);
  if (need == 0)
    return NULL;
  unsigned class = class_of(need);
  uint8_t *first = heap->free[class];
  if (first != NULL)
    heap->free[class] = *(void **)first;
  else if (need > (size_t)(heap->end - heap->next))
    return NULL;
  else {
    first = heap->next;
    heap->next += need;
  }
  uintptr_t at = (uintptr_t)first + sizeof(struct head);
  if (alignment > 16)
    at = (at + alignment - 1) & ~(uintptr_t)(alignment - 1);
  *head_of((void *)at) = (struct head){.class = class, .back = (uint32_t)(at - (uintptr_t)first)};
  return (void *)at;
}

void mr_heap_give(struct mr_heap *heap, void *block) {
  unsigned class = head_of(block)->class;
  void **first = (void **)((uint8_t *)block - head_of(block)->back);
  *first = heap->free[class];
  heap->free[class] = first;
}

size_t mr_heap_room(const void *block) {
  return size_of(head_of(block)->class) - head_of(block)->back;
}
