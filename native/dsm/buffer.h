/* buffer.h: bytes that wait, in their order (internal to libmaru-dsm).  All zero: an empty one; its
 * owner frees `bytes`.
 */
#ifndef MARU_DSM_BUFFER_H
#define MARU_DSM_BUFFER_H

#include <stddef.h>
#include <stdint.h>

struct mr_buffer {
  uint8_t *bytes;
  size_t begin, end, capacity; /* those from begin to end wait */
};

/* Room for so many more at `end`.  -ENOMEM. */
int mr_buffer_reserve(struct mr_buffer *buffer, size_t size);
int mr_buffer_append(struct mr_buffer *buffer, const void *bytes, size_t size);

#endif
