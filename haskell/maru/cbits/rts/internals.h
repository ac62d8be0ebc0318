/*
 * What maru knows of the inside of GHC's run-time system, and all that differs between GHCs.
 * Everything else under cbits/rts and Maru.Native goes through this header (of what Haskell sees,
 * Maru.Native.Ghc), so that a new GHC is judged in one place.
 *
 * Two kinds of knowledge. How closures, threads and weak pointers lie in memory: from the headers
 * of the GHC that compiles this; layout.c compares them with the offsets that this GHC was
 * generated with. And how the block allocator, compact regions and the collector's books work
 * together, which no header says: that is taken for known only of the GHCs listed below.
 *
 * Some symbols are not in the public headers. They are weak: where the run-time system is a shared
 * library they are hidden and come out NULL, and maru_rts_refusal says so.
 */
#ifndef MARU_RTS_INTERNALS_H
#define MARU_RTS_INTERNALS_H

#include <Rts.h>
#include <ghcversion.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- which GHC --- */

#define MARU_GHC_NAME __GLASGOW_HASKELL_FULL_VERSION__
#define MARU_GHC (__GLASGOW_HASKELL__ * 100 + __GLASGOW_HASKELL_PATCHLEVEL1__)

/* The GHCs whose collector, block allocator, compact regions and letters (letter.c) were checked
   against this code: test/gc runs it under their debug run-time systems (make test-ghc). To see
   what another GHC would do, compile with -DMARU_GHC_UNSEEN. */
#if (MARU_GHC == 90002 || MARU_GHC == 90606 || MARU_GHC == 91003) && defined(x86_64_HOST_ARCH) &&  \
    defined(linux_HOST_OS) && !defined(PROFILING) && defined(USE_LARGE_ADDRESS_SPACE) &&           \
    !defined(MARU_GHC_UNSEEN)
#define MARU_RTS_REGIONS 1
#define MARU_RTS_NO_REGIONS NULL
#else
#define MARU_RTS_REGIONS 0
#if defined(PROFILING)
#define MARU_RTS_NO_REGIONS "the program is built for profiling"
#else
#define MARU_RTS_NO_REGIONS                                                                        \
  "maru was not checked with this GHC (" MARU_GHC_NAME ") on this platform"
#endif
#endif

/* Closures for processes that were not forked from this one: of these GHCs those under which the
   property suite of test/closures has passed (test/gc, 39-cluster). -DMARU_CLOSURES_ANY: to see
   what another one would do. */
#if MARU_RTS_REGIONS &&                                                                            \
    (MARU_GHC == 90002 || MARU_GHC == 90606 || MARU_GHC == 91003 || defined(MARU_CLOSURES_ANY))
#define MARU_RTS_NO_CLOSURES NULL
#else
#define MARU_RTS_NO_CLOSURES "maru's closures were not checked with this GHC (" MARU_GHC_NAME ")"
#endif

/* `capabilities` is an array of pointers, or a pointer to one. */
#define MARU_CAPABILITIES_INLINE (MARU_GHC >= 90400 && MARU_GHC < 91000)

/* Bytes of a capability's allocation area, where nobody says otherwise. */
#define MARU_DEFAULT_AREA (MARU_GHC >= 90200 ? 4 << 20 : 1 << 20)

/* How the library under all others names what it has in a module: GHC 9.10 has split it. Compiled
   with -DMARU_GHC_STRANGE this is what a GHC would be that names it in yet another way. */
#if defined(MARU_GHC_STRANGE)
#define MARU_BASE(module, name) strange_##module##_##name
#elif __GLASGOW_HASKELL__ >= 910
#define MARU_BASE(module, name) ghczminternal_GHCziInternalzi##module##_##name
#else
#define MARU_BASE(module, name) base_GHCzi##module##_##name
#endif

/* --- what has no public header --- */

#define MARU_WEAK __attribute__((weak))

/* GHC 9.10 has it there. */
#if __has_include(<rts/storage/HeapAlloc.h>)
#include <rts/storage/HeapAlloc.h>
#else
struct mblock_address_range {
  W_ begin, end;
};
#endif
extern struct mblock_address_range mblock_address_space MARU_WEAK;
extern W_ mblocks_allocated MARU_WEAK;
extern W_ n_alloc_blocks MARU_WEAK; /* of these, what is in use */
extern generation *oldest_gen MARU_WEAK;
extern RtsConfig rtsConfig MARU_WEAK;
extern Mutex sm_mutex MARU_WEAK; /* NULL in the run-time system without threads: nothing to lock */

#define MARU_CONSTRUCTOR(module, name)                                                             \
  extern const StgInfoTable MARU_BASE(module, name##_con_info) MARU_WEAK
MARU_CONSTRUCTOR(ForeignPtr, PlainPtr); /* without these maru_rts_hazard lets no value be copied */
MARU_CONSTRUCTOR(ForeignPtr, MallocPtr);
MARU_CONSTRUCTOR(ForeignPtr, PlainForeignPtr);
MARU_CONSTRUCTOR(ForeignPtr, FinalPtr);
MARU_CONSTRUCTOR(Stable, StablePtr);
MARU_CONSTRUCTOR(Ptr, FunPtr);
MARU_CONSTRUCTOR(IOziHandleziTypes, Handlezuzu);
extern StgClosure MARU_BASE(ForeignPtr, FinalPtr_closure) MARU_WEAK;

/* --- what can be told only while the program runs (layout.c) --- */

/* Looks at this process once more: what objects are loaded, and where the run-time system has its
   capabilities. Called unsafely, by each process before it forks workers. */
void maru_rts_look(void);

/* So many capabilities, and one of them. None where they are not found as they are known. */
uint32_t maru_rts_capabilities(void);
Capability *maru_rts_capability(uint32_t i);

/* Weak pointers made since the last collection are not yet in a generation: each capability keeps
   its own list of them. A walk of the generations alone finds none in a program that has not
   collected yet. */
StgWeak *maru_rts_fresh_weaks(const Capability *capability);
void *maru_rts_sparks(const Capability *capability);

/* At its next allocation the thread that runs there lets others run: what the ticker says, too. By
   any thread of the system, at any time. */
void maru_rts_switch(Capability *capability);

/* Does this address belong to the program, or to a library that was loaded at the last look? */
bool maru_rts_in_object(const void *p);

/* Does this (untagged) address belong to the dynamic heap? */
static inline bool maru_in_heap(const void *p) {
  if (&mblock_address_space)
    return (W_)p >= mblock_address_space.begin && (W_)p < mblock_address_space.end;
  return !maru_rts_in_object(p);
}

/* In a worker: is this the variable of a Handle that it inherited? */
bool maru_rts_is_locked(const StgClosure *mvar);

/* Why results cannot cross by address in this program; NULL: they can. */
const char *maru_rts_refusal(void);

/* The same of closures that go to a process which was not forked from this one (private.c). */
const char *maru_rts_closures_refusal(void);

/* Why no worker may be forked in it; NULL: they may. */
const char *maru_rts_hazard(void);

#endif
