/*
 * Letters: closures as they are, functions and thunks too, that a process sends to one which was
 * forked from the same program before they were made (image.h says how they are written).
 *
 * What is static crosses by its address. For that a receiver must have all of the code's constants
 * (CAFs) as they were at its birth: its first major collection frees those that it does not lead to
 * itself. So a receiver takes no letter after one.
 *
 * A letter lands as ordinary objects in the nursery, one by one; its pages can be read again. All
 * functions are called unsafely: no collection happens meanwhile.
 */
#include "image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Why no letters can be sent in this program; NULL: they can. */
const char *maru_letters_refusal(void) {
  const char *why = maru_rts_refusal();
  return why != NULL || MARU_RTS_LETTERS
             ? why
             : "maru was not checked with letters of this GHC (" MARU_GHC_NAME ")";
}

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
#if MARU_RTS_LETTERS
  enum { LIFE = 128 << 20 };
  if (&oldest_gen)
    oldest_gen->max_blocks += LIFE / BLOCK_SIZE;
#endif
}

/* Has it made a major collection since? */
bool maru_letter_stale(void) { return major_collections() != at_birth; }

#if MARU_RTS_LETTERS
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

/* A letter that lands. In `image` each value's first word becomes its new address. */
struct landing {
  char *image;
  size_t end;
  size_t *starts; /* offsets of all values, where there are sites */
  size_t count, room;
};

static StgClosure *value_at(const struct landing *l, size_t at) {
  return (StgClosure *)(void *)(l->image + at);
}

static StgClosure *moved_to(const struct landing *l, size_t at) {
  StgClosure *to;
  memcpy(&to, l->image + at, sizeof to);
  return to;
}

/* The next value from that offset on, or the end. */
static size_t next_value(const struct landing *l, size_t at) {
  while (at < l->end) {
    W_ info = 0;
    if (at % IMAGE_BLOCK)
      memcpy(&info, l->image + at, sizeof info);
    if (info)
      return at;
    at = ((at - 1) | (IMAGE_BLOCK - 1)) + 1 + IMAGE_FIRST;
  }
  return l->end;
}

/* Where what comes behind a value begins (image.h: one that runs over descriptors is the last of
   its megablock). */
static size_t behind(size_t at, size_t bytes) {
  size_t stop = at + bytes, end = (at | (IMAGE_BLOCK - 1)) + 1;
  return stop > end ? ((stop - 1) | (IMAGE_BLOCK - 1)) + 1 : stop;
}

static bool note_start(struct landing *l, size_t at) {
  if (l->count == l->room) {
    size_t room = l->room ? 2 * l->room : 256;
    size_t *starts = realloc(l->starts, room * sizeof *starts);
    if (!starts)
      return false;
    l->starts = starts;
    l->room = room;
  }
  l->starts[l->count++] = at;
  return true;
}

/* An address into a byte array means that it may not move. */
static StgPtr place_for(Capability *cap, const StgClosure *value, size_t words, bool sites) {
  if (sites && get_itbl(value)->type == ARR_WORDS)
    return allocatePinned(cap, words, 16, sizeof(StgArrBytes));
  return allocate(cap, words);
}

/* Gives each value its place in the heap. */
static int64_t move_all(struct landing *l, bool sites) {
  Capability *cap = rts_unsafeGetMyCapability();
  for (size_t at = next_value(l, IMAGE_DATA), bytes; at < l->end;
       at = next_value(l, behind(at, bytes))) {
    StgClosure *value = value_at(l, at);
    size_t words = closure_sizeW(value);
    bytes = words * sizeof(W_);
    if (bytes > l->end - at || (sites && !note_start(l, at)))
      return -EBADMSG;
    StgPtr to = place_for(cap, value, words, sites);
    memcpy(to, value, bytes);
    memcpy(value, &to, sizeof to);
  }
  return 0;
}

static StgClosure *landed(const struct landing *l, const StgClosure *p) {
  W_ word = (W_)p, tag = word & TAG_MASK;
  if (word < packed_origin)
    return (StgClosure *)word;
  return (StgClosure *)((W_)moved_to(l, word - tag - packed_origin) + tag);
}

static void land_fields(const struct landing *l, StgClosure **field, size_t count) {
  for (size_t i = 0; i < count; i++)
    field[i] = landed(l, field[i]);
}

static void land_application(const struct landing *l, StgPAP *value) {
  W_ raw = 0;
  land_fields(l, &value->fun, 1);
  closure_raw_arguments(value, &raw);
  for (size_t i = 0; i < value->n_args; i++)
    if (!(raw >> i & 1))
      land_fields(l, &value->payload[i], 1);
}

/* Makes the pointers of a value right, in its place. */
static void land_value(const struct landing *l, StgClosure *value) {
  const StgInfoTable *info = get_itbl(value);
  switch (info->type) {
  case ARR_WORDS:
    return;
  case MUT_ARR_PTRS_FROZEN_DIRTY:
  case MUT_ARR_PTRS_FROZEN_CLEAN:
    land_fields(l, ((StgMutArrPtrs *)value)->payload, ((StgMutArrPtrs *)value)->ptrs);
    return;
  case SMALL_MUT_ARR_PTRS_FROZEN_DIRTY:
  case SMALL_MUT_ARR_PTRS_FROZEN_CLEAN:
    land_fields(l, ((StgSmallMutArrPtrs *)value)->payload, ((StgSmallMutArrPtrs *)value)->ptrs);
    return;
  case PAP:
    land_application(l, (StgPAP *)value);
    return;
  case THUNK_SELECTOR:
    land_fields(l, &((StgSelector *)value)->selectee, 1);
    return;
  case THUNK:
  case THUNK_1_0:
  case THUNK_0_1:
  case THUNK_2_0:
  case THUNK_1_1:
  case THUNK_0_2:
    land_fields(l, ((StgThunk *)value)->payload, info->layout.payload.ptrs);
    return;
  default: /* constructors and functions: image_copy writes nothing else */
    land_fields(l, value->payload, info->layout.payload.ptrs);
  }
}

static void land_all(const struct landing *l) {
  for (size_t at = next_value(l, IMAGE_DATA); at < l->end;) {
    StgClosure *value = moved_to(l, at);
    land_value(l, value);
    at = next_value(l, behind(at, closure_sizeW(value) * sizeof(W_)));
  }
}

/* The value in which that offset lies. */
static size_t start_of(const struct landing *l, size_t offset) {
  size_t low = 0, high = l->count;
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (l->starts[middle] <= offset)
      low = middle;
    else
      high = middle;
  }
  return l->starts[low];
}

/* Raw addresses: each points into a byte array, or one past it, behind its header. */
static int64_t land_site(const struct landing *l, size_t at) {
  W_ address;
  if (l->count == 0 || at < IMAGE_DATA || at > l->end - sizeof address)
    return -EBADMSG;
  size_t from = start_of(l, at);
  char *field = (char *)moved_to(l, from) + (at - from);
  memcpy(&address, field, sizeof address);
  size_t target = address - packed_origin, array = start_of(l, target - sizeof(StgArrBytes));
  address = (W_)moved_to(l, array) + (target - array);
  memcpy(field, &address, sizeof address);
  return 0;
}

/* Lands a letter: the address of what it holds, which the next collection changes. -EBADMSG: it is
   none; -ESTALE: see maru_letter_stale; -ENOMEM. */
int64_t maru_letter_land(const char *bytes, int64_t size) {
  struct packed header;
  if ((size_t)size < sizeof header)
    return -EBADMSG;
  memcpy(&header, bytes, sizeof header);
  if (!packed_valid(&header, (size_t)size))
    return -EBADMSG;
  if (maru_letter_stale()) /* here, where no collection can come between this look and the rest */
    return -ESTALE;
  size_t length = header.end - IMAGE_DATA;
  char *copy = malloc(length);
  if (!copy)
    return -ENOMEM;
  memcpy(copy, bytes + sizeof header, length);
  struct landing l = {.image = (char *)((uintptr_t)copy - IMAGE_DATA), .end = header.end};
  int64_t r = move_all(&l, header.sites > 0);
  if (r == 0)
    land_all(&l);
  for (size_t i = 0; r == 0 && i < header.sites; i++) {
    size_t at;
    memcpy(&at, bytes + sizeof header + length + i * sizeof at, sizeof at);
    r = land_site(&l, at);
  }
  if (r == 0)
    r = (int64_t)landed(&l, (const StgClosure *)header.root);
  free(copy);
  free(l.starts);
  return r;
}
#else
int64_t maru_letter_land(const char *bytes, int64_t size) {
  (void)bytes, (void)size;
  return -ENOSYS;
}
#endif
