#include "seen.h"

#include "diff.h"
#include "node.h"

#include <maru/dsm.h>

#include <stdatomic.h>

/* Relaxed: a thread that uses shared memory knows that it is there. */
static struct { _Atomic uintptr_t from, size; } seen[MR_PLACES];

void mr_see(enum mr_place i, const void *from, size_t size) {
  atomic_store_explicit(&seen[i].from, (uintptr_t)from, memory_order_relaxed);
  atomic_store_explicit(&seen[i].size, size, memory_order_relaxed);
}

bool mr_part_seen(enum mr_place i, uintptr_t *first, uintptr_t *last) {
  uintptr_t from = atomic_load_explicit(&seen[i].from, memory_order_relaxed),
            size = atomic_load_explicit(&seen[i].size, memory_order_relaxed);
  if (size == 0 || *last < from || *first > from + size - 1)
    return false;
  *first = *first > from ? *first : from;
  *last = *last < from + size - 1 ? *last : from + size - 1;
  return true;
}

bool mr_is_range(const void *from, size_t size) {
  return size != 0 && (uintptr_t)from + size - 1 >= (uintptr_t)from;
}

bool mr_node_shares(const void *from, size_t size) {
  for (enum mr_place i = MR_ALLOCATED; i < MR_PLACES && mr_is_range(from, size); i++) {
    uintptr_t first = (uintptr_t)from, last = first + size - 1;
    if (mr_part_seen(i, &first, &last))
      return true;
  }
  return false;
}

size_t mr_seen_offset(enum mr_place i, uintptr_t at) {
  return at - atomic_load_explicit(&seen[i].from, memory_order_relaxed);
}
