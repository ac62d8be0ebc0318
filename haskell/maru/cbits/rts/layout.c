/* Is this run-time system laid out as its headers say, and where are the parts that no header
   names? */
#include "internals.h"

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* What it repeats of the other headers it says as plain numbers. */
#undef BLOCK_SIZE
#undef MBLOCK_SIZE
#undef BLOCKS_PER_MBLOCK
#include <DerivedConstants.h>

/* DerivedConstants.h was generated when this GHC was built, from the run-time system itself. Where
   our compiler sees another layout than it did, nothing here may run. */
#define SAME(a, b) _Static_assert((a) == (b), "the headers are not those of this run-time system")
#define SAME_FIELD(type, field)                                                                    \
  SAME(offsetof(type, field), sizeof(StgHeader) + OFFSET_##type##_##field)
SAME(sizeof(W_), 8);
SAME(offsetof(bdescr, start), OFFSET_bdescr_start);
SAME(offsetof(bdescr, free), OFFSET_bdescr_free);
SAME(offsetof(bdescr, link), OFFSET_bdescr_link);
SAME(offsetof(bdescr, flags), OFFSET_bdescr_flags);
SAME(offsetof(bdescr, blocks), OFFSET_bdescr_blocks);
SAME(offsetof(generation, n_new_large_words), OFFSET_generation_n_new_large_words);
SAME(offsetof(generation, weak_ptr_list), OFFSET_generation_weak_ptr_list);
SAME(offsetof(StgCompactNFDataBlock, self), OFFSET_StgCompactNFDataBlock_self);
SAME(offsetof(StgCompactNFDataBlock, owner), OFFSET_StgCompactNFDataBlock_owner);
SAME(offsetof(StgCompactNFDataBlock, next), OFFSET_StgCompactNFDataBlock_next);
SAME(sizeof(StgCompactNFDataBlock), SIZEOF_StgCompactNFDataBlock);
SAME_FIELD(StgCompactNFData, totalW);
SAME_FIELD(StgCompactNFData, hp);
SAME_FIELD(StgCompactNFData, hpLim);
SAME_FIELD(StgCompactNFData, nursery);
SAME_FIELD(StgCompactNFData, last);
SAME_FIELD(StgArrBytes, bytes);
SAME_FIELD(StgMutArrPtrs, ptrs);
SAME_FIELD(StgMutArrPtrs, size);
SAME_FIELD(StgSmallMutArrPtrs, ptrs);
SAME_FIELD(StgWeak, key);
SAME_FIELD(StgWeak, value);
SAME_FIELD(StgWeak, finalizer);
SAME_FIELD(StgWeak, cfinalizers);
SAME_FIELD(StgWeak, link);
SAME_FIELD(StgMVar, value);
SAME_FIELD(StgInd, indirectee);
SAME_FIELD(StgUpdateFrame, updatee);
SAME_FIELD(StgBlockingQueue, owner);
SAME_FIELD(StgTSO, _link);
SAME_FIELD(StgTSO, global_link);
SAME_FIELD(StgTSO, stackobj);
SAME_FIELD(StgTSO, what_next);
SAME_FIELD(StgTSO, why_blocked);
SAME_FIELD(StgTSO, block_info);
SAME_FIELD(StgTSO, id);
SAME_FIELD(StgStack, sp);
SAME_FIELD(StgStack, stack_size);
/* prim.cmm and the walks take these for neighbours. */
_Static_assert(CONSTR < CONSTR_NOCAF && CONSTR_NOCAF - CONSTR == 6, "constructors");
_Static_assert(THUNK < THUNK_SELECTOR && THUNK_SELECTOR - THUNK == 7, "thunks");

/* --- capabilities --- */

/* Not in the public headers; how it is declared, internals.h says, and the capability that we run
   on must stand there. Where the symbol is hidden and there is but one capability, it is that one.
 */
extern W_ capabilities[] MARU_WEAK;

typedef Capability *const *Row;
enum shape { UNKNOWN, ONE, ROW };
static _Atomic enum shape shape;
static Capability *_Atomic the_one; /* where the shape is ONE */

static uint32_t number_of(const Capability *capability) {
  uint32_t number;
  memcpy(&number, (const char *)capability + OFFSET_Capability_no, sizeof number);
  return number;
}

static Row row(void) {
  return MARU_CAPABILITIES_INLINE ? (Row)(const void *)capabilities : (Row)capabilities[0];
}

static enum shape find_shape(const Capability *here) {
  uint32_t number = here ? number_of(here) : 0;
  if (!here || number >= n_capabilities)
    return UNKNOWN;
  if (!capabilities)
    return n_capabilities == 1 ? ONE : UNKNOWN;
  return row() && row()[number] == here ? ROW : UNKNOWN;
}

/* relaxed: each process that forks has looked before, by the thread that forks, and what is seen
   does not change but from UNKNOWN */
uint32_t maru_rts_capabilities(void) {
  switch (atomic_load_explicit(&shape, memory_order_relaxed)) {
  case UNKNOWN:
    return 0;
  case ONE:
    return n_capabilities == 1 ? 1 : 0;
  default:
    return n_capabilities;
  }
}

Capability *maru_rts_capability(uint32_t i) {
  return atomic_load_explicit(&shape, memory_order_relaxed) == ROW
             ? row()[i]
             : atomic_load_explicit(&the_one, memory_order_relaxed);
}

StgWeak *maru_rts_fresh_weaks(const Capability *capability) {
  StgWeak *head;
  memcpy(&head, (const char *)capability + OFFSET_Capability_weak_ptr_list_hd, sizeof head);
  return head;
}

void *maru_rts_sparks(const Capability *capability) {
  void *sparks;
  memcpy(&sparks, (const char *)capability + OFFSET_Capability_sparks, sizeof sparks);
  return sparks;
}

void maru_rts_switch(Capability *capability) {
#if defined(OFFSET_Capability_r) && defined(OFFSET_StgRegTable_rHpLim) &&                          \
    defined(OFFSET_Capability_context_switch)
  char *there = (char *)capability;
  /* relaxed, and in this order, as the ticker does it: the limit is set again where a thread is
     resumed, which looks at the other one */
  __atomic_store_n((void **)(void *)(there + OFFSET_Capability_r + OFFSET_StgRegTable_rHpLim), NULL,
                   __ATOMIC_RELAXED);
  __atomic_store_n((int *)(void *)(there + OFFSET_Capability_context_switch), 1, __ATOMIC_RELAXED);
#else
  (void)capability;
#endif
}

/* --- objects --- */

/* What a process had before a fork lies at the same address in its children. */
struct span {
  uintptr_t from, to;
};
struct objects {
  unsigned long long loaded; /* so many objects were, ever */
  size_t count, room;
  struct span spans[];
};
/* One that is replaced stays: another thread may be reading it. There are as many as times that
   libraries were loaded between forks. */
static _Atomic(struct objects *) objects;

static int count_object(struct dl_phdr_info *object, size_t size, void *result) {
  (void)size;
  struct objects *found = result;
  found->loaded = object->dlpi_adds;
  found->room += object->dlpi_phnum;
  return 0;
}

static int note_object(struct dl_phdr_info *object, size_t size, void *result) {
  (void)size;
  struct objects *found = result;
  for (int i = 0; i < object->dlpi_phnum && found->count < found->room; i++) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[i];
    uintptr_t from = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD)
      found->spans[found->count++] = (struct span){from, from + part->p_memsz};
  }
  return 0;
}

static int by_address(const void *a, const void *b) {
  uintptr_t x = ((const struct span *)a)->from, y = ((const struct span *)b)->from;
  return (x > y) - (x < y);
}

/* NULL: no memory; then nothing counts as static, and what is gets copied. */
static const struct objects *look_at_objects(void) {
  struct objects *known = atomic_load_explicit(&objects, memory_order_acquire);
  struct objects now = {0};
  dl_iterate_phdr(count_object, &now);
  if (known && known->loaded == now.loaded)
    return known;
  struct objects *found = malloc(sizeof *found + now.room * sizeof found->spans[0]);
  if (!found)
    return known;
  *found = now;
  dl_iterate_phdr(note_object, found);
  qsort(found->spans, found->count, sizeof found->spans[0], by_address);
  /* release: its spans come before it */
  atomic_store_explicit(&objects, found, memory_order_release);
  return found;
}

bool maru_rts_in_object(const void *p) {
  const struct objects *known = atomic_load_explicit(&objects, memory_order_acquire);
  if (!known && !(known = look_at_objects()))
    return false;
  size_t low = 0, high = known->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (known->spans[middle].to <= (uintptr_t)p)
      low = middle + 1;
    else
      high = middle;
  }
  return low < known->count && known->spans[low].from <= (uintptr_t)p;
}

void maru_rts_look(void) {
  Capability *here = rts_unsafeGetMyCapability();
  enum shape seen = find_shape(here);
  if (seen == ONE)
    atomic_store_explicit(&the_one, here, memory_order_relaxed);
  atomic_store_explicit(&shape, seen, memory_order_relaxed);
  (void)look_at_objects();
}
