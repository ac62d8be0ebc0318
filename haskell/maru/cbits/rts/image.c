#include "image.h"

#include <errno.h>
#include <string.h>

static size_t block_end(size_t at) { return ((at - 1) | (IMAGE_BLOCK - 1)) + 1; }

void image_at(struct image *image, size_t at) {
  size_t end = block_end(at);
  image->at = at;
  image->stretch = end < image->limit ? end : image->limit;
  if (image->stretch < at)
    image->stretch = at;
}

void image_describe(char *base, size_t offset, bdescr *head) {
  char *megablock = base + (offset & ~(size_t)(IMAGE_BLOCK - 1));
  for (size_t block = IMAGE_FIRST / BLOCK_SIZE; block < IMAGE_BLOCK / BLOCK_SIZE; block++) {
    bdescr *bd = (bdescr *)(void *)(megablock + block * sizeof(bdescr));
    bd->start = bd->free = (StgPtr)(void *)(megablock + block * BLOCK_SIZE);
    bd->link = head;
    bd->blocks = 0;
    bd->flags = BF_COMPACT;
  }
}

size_t image_reserve_slow(struct image *image, size_t bytes) {
  size_t at = image->at, end = block_end(at), start = at;
  if (at == end || (bytes > end - at && bytes <= IMAGE_BLOCK - IMAGE_FIRST))
    start = end + IMAGE_FIRST;
  if (bytes > image->limit || start > image->limit - bytes) {
    if (!image->grow || !image->grow(image, start + bytes))
      return 0;
  }
  if (start != at) {
    if (at != end)
      memset(image->base + at, 0, sizeof(W_)); /* for image_relocate: nothing more here */
    if (image->head)
      image_describe(image->base, start, image->head);
  }
  image_at(image, image_behind(start, bytes));
  return start;
}

size_t image_fields(StgClosure *value, StgClosure ***fields, size_t *count) {
  const StgInfoTable *info = get_itbl(value);
  *fields = value->payload;
  switch (info->type) {
  case CONSTR:
  case CONSTR_1_0:
  case CONSTR_0_1:
  case CONSTR_2_0:
  case CONSTR_1_1:
  case CONSTR_0_2:
  case CONSTR_NOCAF:
    *count = info->layout.payload.ptrs;
    break;
  case ARR_WORDS:
    *count = 0;
    break;
  case MUT_ARR_PTRS_FROZEN_DIRTY:
  case MUT_ARR_PTRS_FROZEN_CLEAN:
    *fields = ((StgMutArrPtrs *)value)->payload;
    *count = ((StgMutArrPtrs *)value)->ptrs;
    break;
  case SMALL_MUT_ARR_PTRS_FROZEN_DIRTY:
  case SMALL_MUT_ARR_PTRS_FROZEN_CLEAN:
    *fields = ((StgSmallMutArrPtrs *)value)->payload;
    *count = ((StgSmallMutArrPtrs *)value)->ptrs;
    break;
  default:
    return 0;
  }
  return closure_sizeW(value) * sizeof(W_);
}

size_t image_next(const char *base, size_t at, size_t end) {
  while (at < end) {
    W_ info = 0;
    if (at % IMAGE_BLOCK)
      memcpy(&info, base + at, sizeof info);
    if (info)
      return at;
    at = block_end(at) + IMAGE_FIRST;
  }
  return end;
}

size_t image_behind(size_t at, size_t bytes) {
  size_t stop = at + bytes;
  return stop > block_end(at + 1) ? block_end(stop) : stop;
}

int64_t image_relocate(char *base, size_t end, uintptr_t origin, bdescr *head) {
  size_t described = IMAGE_DATA / IMAGE_BLOCK;
  for (size_t at = IMAGE_DATA; (at = image_next(base, at, end)) < end;) {
    StgClosure **field;
    size_t count;
    /* Offsets beyond the first megablock are only where there is a head. */
    if (at / IMAGE_BLOCK != described) {
      described = at / IMAGE_BLOCK;
      image_describe(base, at, head);
    }
    size_t bytes = image_fields((StgClosure *)(void *)(base + at), &field, &count);
    if (!bytes)
      return -EBADMSG;
    for (size_t i = 0; i < count; i++)
      if ((uintptr_t)field[i] >= origin)
        field[i] = (StgClosure *)((uintptr_t)field[i] - origin + (uintptr_t)base);
    at = image_behind(at, bytes);
  }
  return 0;
}

const char *maru_rts_refused(int64_t error) {
  switch (-error) {
  case COPY_FOREIGN:
    return "foreign memory";
  case COPY_STABLE:
    return "a stable pointer";
  case COPY_CODE:
    return "a foreign function made at run time";
  case COPY_LOADED:
    return "code that was loaded at run time";
  }
  switch (-error - COPY_REFUSED) {
  case FUN:
  case FUN_1_0:
  case FUN_0_1:
  case FUN_2_0:
  case FUN_1_1:
  case FUN_0_2:
  case FUN_STATIC:
  case PAP:
    return "a function";
  case BCO:
    return "an interpreted function";
  case MVAR_CLEAN:
  case MVAR_DIRTY:
    return "an MVar";
  case TVAR:
    return "a TVar";
  case MUT_ARR_PTRS_CLEAN:
  case MUT_ARR_PTRS_DIRTY:
  case SMALL_MUT_ARR_PTRS_CLEAN:
  case SMALL_MUT_ARR_PTRS_DIRTY:
    return "a mutable array";
  case MUT_VAR_CLEAN:
  case MUT_VAR_DIRTY:
    return "an IORef or STRef";
  case WEAK:
    return "a weak pointer";
  case PRIM:
  case MUT_PRIM:
    return "a stable name or another run-time object";
  case TSO:
  case STACK:
    return "a thread";
  case COMPACT_NFDATA:
    return "a compact region";
  case AP_STACK:
    return "an evaluation that was interrupted";
  default:
    return "another run-time object";
  }
}
