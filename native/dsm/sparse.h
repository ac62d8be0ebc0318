/* sparse.h: memory that is mostly zeros (internal to libmaru-dsm).  Pages of zeros are neither
 * copied nor written: one that nobody has written takes no memory.
 */
#ifndef MARU_DSM_SPARSE_H
#define MARU_DSM_SPARSE_H

#include "diff.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Where the page of `from` ends, or `to`. */
static inline const uint8_t *mr_sparse_end(const uint8_t *from, const uint8_t *to) {
  size_t rest = MR_PAGE - (uintptr_t)from % MR_PAGE;
  return rest < (size_t)(to - from) ? from + rest : to;
}

static inline bool mr_sparse_is_zero(const uint8_t *from, const uint8_t *to) {
  return from == to || (*from == 0 && memcmp(from, from + 1, (size_t)(to - from) - 1) == 0);
}

/* `copy` is zero at first. */
static inline void mr_sparse_copy(uint8_t *copy, const uint8_t *from, size_t size) {
  const uint8_t *to = from + size;
  for (const uint8_t *at = from, *end; at < to; at = end) {
    end = mr_sparse_end(at, to);
    if (!mr_sparse_is_zero(at, end))
      memcpy(copy + (at - from), at, (size_t)(end - at));
  }
}

static inline void mr_sparse_clear(uint8_t *from, size_t size) {
  const uint8_t *to = from + size;
  for (const uint8_t *at = from, *end; at < to; at = end) {
    end = mr_sparse_end(at, to);
    if (!mr_sparse_is_zero(at, end))
      memset(from + (at - from), 0, (size_t)(end - at));
  }
}

#endif
