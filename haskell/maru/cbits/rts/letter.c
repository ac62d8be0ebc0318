/*
 * Letters: closures as they are, functions and thunks too. A process sends them to one which was
 * forked from the same program before they were made, or runs the same program at the same
 * addresses. image.h says how they are written.
 *
 * What is static crosses by its address. For that a receiver must have all of the code's constants
 * (CAFs) as they were at its birth. Its first major collection frees those that it does not lead to
 * itself. So a receiver takes no letter after one; or it keeps all constants from its start, where
 * MARU_CLOSURES=1 asks for that.
 *
 * A letter lands as ordinary objects in the nursery, one by one; its pages can be read again. All
 * functions are called unsafely: no collection happens meanwhile.
 */
#include "image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t major_collections(void) {
  RTSStats stats;
  if (RtsFlags.GcFlags.giveStats == NO_GC_STATS)
    RtsFlags.GcFlags.giveStats = COLLECT_GC_STATS;
  getRTSStats(&stats);
  return stats.major_gcs;
}

static uint64_t at_birth;

/* Once, in a process that is to receive letters, before its first collection. Most of what lands
   and is made dies young: the threshold of a major collection is raised, so that it need not be
   born anew often. */
void maru_letter_receiver(void) {
  at_birth = major_collections();
#if MARU_RTS_REGIONS
  enum { LIFE = 128 << 20 };
  if (&oldest_gen)
    oldest_gen->max_blocks += LIFE / BLOCK_SIZE;
#endif
}

/* Has it made a major collection since? */
bool maru_letter_stale(void) { return major_collections() != at_birth; }

static bool keeps_constants;

/* Before the run-time system begins: a constant that was evaluated earlier is not kept. */
__attribute__((constructor)) static void keep_constants(void) {
  const char *asked = getenv("MARU_CLOSURES");
  keeps_constants = asked && strcmp(asked, "1") == 0;
  if (keeps_constants)
    setKeepCAFs();
}

/* Does it keep all constants that it evaluates? */
bool maru_letter_keeps(void) { return keeps_constants; }

/* The code of a function as it is; of one that some of its arguments were given, that function's,
   and how many they are. All such applications share one info table. */
W_ maru_letter_code(const StgClosure *function) {
  const StgClosure *f = UNTAG_CLOSURE((StgClosure *)function);
  if (get_itbl(f)->type != PAP)
    return (W_)f->header.info;
  const StgPAP *application = (const StgPAP *)f;
  return (W_)UNTAG_CLOSURE(application->fun)->header.info ^ (W_)application->n_args << 48;
}

#if MARU_RTS_REGIONS
bool closure_raw_arguments(const StgPAP *application, W_ *raw) {
  const StgFunInfoTable *info = get_fun_itbl(UNTAG_CLOSURE(application->fun));
  switch (info->f.fun_type) {
  case ARG_GEN_BIG:
  case ARG_BCO:
    return false;
  case ARG_GEN:
    *raw = BITMAP_BITS(info->f.b.bitmap);
    return true;
  default:
    *raw = BITMAP_BITS(stg_arg_bitmaps[info->f.fun_type]);
    return true;
  }
}

size_t closure_fields(StgClosure *value, StgClosure ***fields, size_t *count) {
  const StgInfoTable *info = get_itbl(value);
  *count = info->layout.payload.ptrs;
  if (info->type >= FUN && info->type <= FUN_0_2) {
    *fields = value->payload;
  } else if (info->type >= THUNK && info->type <= THUNK_0_2) {
    *fields = ((StgThunk *)value)->payload;
  } else if (info->type == THUNK_SELECTOR) {
    *fields = &((StgSelector *)value)->selectee;
    *count = 1;
  } else if (info->type == PAP) {
    *fields = &((StgPAP *)value)->fun;
    *count = 1;
  } else {
    return 0;
  }
  return closure_sizeW(value) * sizeof(W_);
}

/* Lands a letter: the address of what it holds, which the next collection changes. -EBADMSG: it is
   none; -ESTALE: see maru_letter_stale; -ENOMEM. */
int64_t maru_letter_land(const char *bytes, int64_t size) {
  struct packed header;
  if (!packed_header(&header, bytes, (size_t)size))
    return -EBADMSG;
  if (!keeps_constants &&
      maru_letter_stale()) /* here, where no collection can come between this look and the rest */
    return -ESTALE;
  return unpack_pieces(bytes, size, true);
}
#else
bool closure_raw_arguments(const StgPAP *application, W_ *raw) {
  (void)application, (void)raw;
  return false;
}
size_t closure_fields(StgClosure *value, StgClosure ***fields, size_t *count) {
  (void)value, (void)fields, (void)count;
  return 0;
}
int64_t maru_letter_land(const char *bytes, int64_t size) {
  (void)bytes, (void)size;
  return -ENOSYS;
}
#endif
