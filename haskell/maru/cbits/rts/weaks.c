/* Weak pointers of the parent in a forked worker. */
#include "internals.h"

#include <errno.h>
#include <string.h>

/* For one offset. What it repeats of the other headers it says as plain numbers. */
#undef BLOCK_SIZE
#undef MBLOCK_SIZE
#undef BLOCKS_PER_MBLOCK
#include <DerivedConstants.h>

#if MARU_RTS_VALIDATED
static int64_t neuter(StgWeak *weak) {
  int64_t n = 0;
  for (; weak; weak = weak->link, n++) {
    weak->finalizer = &stg_NO_FINALIZER_closure;
    weak->cfinalizers = &stg_NO_FINALIZER_closure;
  }
  return n;
}

/* Weak pointers made since the last collection are not yet in a generation: each capability keeps
   its own list of them. Whoever walks the generations only finds none in a program that has not
   collected yet. */
static StgWeak *fresh_weaks(const Capability *cap) {
  StgWeak *head;
  memcpy(&head, (const char *)cap + OFFSET_Capability_weak_ptr_list_hd, sizeof head);
  return head;
}
#endif

/* Takes their finalizers from all weak pointers; they stay valid otherwise. Returns how many. */
int64_t maru_rts_neuter_weaks(void) {
#if !MARU_RTS_VALIDATED
  return -ENOSYS;
#else
  if (!&capabilities || !&n_capabilities)
    return -ENOSYS;
  int64_t n = 0;
  for (uint32_t g = 0; g < RtsFlags.GcFlags.generations; g++)
    n += neuter(generations[g].weak_ptr_list);
  for (uint32_t c = 0; c < n_capabilities; c++)
    n += neuter(fresh_weaks(capabilities[c]));
  return n;
#endif
}
