#include "image.h"

#if MARU_RTS_VALIDATED
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
  size_t stop = start + bytes;
  image_at(image, stop > block_end(start + 1) ? block_end(stop) : stop);
  return start;
}

static void relocate_pointer(StgClosure **field, char *base, uintptr_t origin) {
  uintptr_t p = (uintptr_t)*field;
  if (p >= origin)
    *field = (StgClosure *)(p - origin + (uintptr_t)base);
}

/* Makes the pointers of one value right; its size in bytes, 0 when it is none. */
static size_t relocate_value(StgClosure *value, char *base, uintptr_t origin) {
  const StgInfoTable *info = get_itbl(value);
  StgClosure **field = value->payload;
  size_t pointers;
  switch (info->type) {
  case CONSTR:
  case CONSTR_1_0:
  case CONSTR_0_1:
  case CONSTR_2_0:
  case CONSTR_1_1:
  case CONSTR_0_2:
  case CONSTR_NOCAF:
    pointers = info->layout.payload.ptrs;
    break;
  case ARR_WORDS:
    pointers = 0;
    break;
  case MUT_ARR_PTRS_FROZEN_DIRTY:
  case MUT_ARR_PTRS_FROZEN_CLEAN:
    field = ((StgMutArrPtrs *)value)->payload;
    pointers = ((StgMutArrPtrs *)value)->ptrs;
    break;
  case SMALL_MUT_ARR_PTRS_FROZEN_DIRTY:
  case SMALL_MUT_ARR_PTRS_FROZEN_CLEAN:
    field = ((StgSmallMutArrPtrs *)value)->payload;
    pointers = ((StgSmallMutArrPtrs *)value)->ptrs;
    break;
  default:
    return 0;
  }
  for (size_t i = 0; i < pointers; i++)
    relocate_pointer(&field[i], base, origin);
  return closure_sizeW(value) * sizeof(W_);
}

int64_t image_relocate(char *base, size_t end, uintptr_t origin, bdescr *head) {
  size_t at = IMAGE_DATA;
  while (at < end) {
    W_ info = 0;
    if (at % IMAGE_BLOCK)
      memcpy(&info, base + at, sizeof info);
    if (!info) {
      at = block_end(at) + IMAGE_FIRST;
      if (at < end)
        image_describe(base, at, head);
      continue;
    }
    size_t bytes = relocate_value((StgClosure *)(void *)(base + at), base, origin);
    if (!bytes)
      return -EBADMSG;
    size_t stop = at + bytes;
    at = stop > block_end(at + 1) ? block_end(stop) : stop;
  }
  return 0;
}
#else
typedef int maru_image_is_not_available;
#endif
