/*
 * What maru knows of the inside of GHC's run-time system. Everything else under cbits/rts and
 * Maru.Native goes through this header, so that a new GHC is judged in one place.
 *
 * The symbols below are not in the public headers. They are weak: where the run-time system is a
 * shared library they are hidden and come out NULL, and maru_rts_refusal says so.
 */
#ifndef MARU_RTS_INTERNALS_H
#define MARU_RTS_INTERNALS_H

#include <Rts.h>
#include <ghcversion.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The GHC whose collector, block allocator and compact regions were checked against this code
   (test/gc runs it under that GHC's debug run-time system). */
#if __GLASGOW_HASKELL__ == 900 && __GLASGOW_HASKELL_PATCHLEVEL1__ == 2 &&                          \
    defined(x86_64_HOST_ARCH) && defined(linux_HOST_OS) && !defined(PROFILING) &&                  \
    defined(USE_LARGE_ADDRESS_SPACE)
#define MARU_RTS_VALIDATED 1
#else
#define MARU_RTS_VALIDATED 0
#endif

#if MARU_RTS_VALIDATED
#define MARU_WEAK __attribute__((weak))

struct maru_address_space {
  W_ begin, end;
};
extern struct maru_address_space mblock_address_space MARU_WEAK;
extern Capability **capabilities MARU_WEAK;
extern uint32_t n_capabilities MARU_WEAK;
extern W_ mblocks_allocated MARU_WEAK;
extern generation *oldest_gen MARU_WEAK;
extern RtsConfig rtsConfig MARU_WEAK;
extern Mutex sm_mutex MARU_WEAK; /* NULL in the run-time system without threads: nothing to lock */

/* Does this (untagged) address belong to the dynamic heap? */
static inline bool maru_in_heap(const void *p) {
  return (W_)p >= mblock_address_space.begin && (W_)p < mblock_address_space.end;
}
#endif

/* In a worker: is this the variable of a Handle that it inherited? */
bool maru_rts_is_locked(const StgClosure *mvar);

/* Why results cannot cross by address in this program; NULL: they can. */
const char *maru_rts_refusal(void);

#endif
