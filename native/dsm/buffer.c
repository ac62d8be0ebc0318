#include "buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int mr_buffer_reserve(struct mr_buffer *buffer, size_t size) {
  /* From the front, or what comes next might have to be moved there. */
  if (buffer->begin == buffer->end)
    buffer->begin = buffer->end = 0;
  if (buffer->begin > 0 && buffer->capacity - buffer->end < size) {
    memmove(buffer->bytes, buffer->bytes + buffer->begin, buffer->end - buffer->begin);
    buffer->end -= buffer->begin;
    buffer->begin = 0;
  }
  if (buffer->capacity - buffer->end >= size)
    return 0;
  size_t capacity = buffer->capacity != 0 ? buffer->capacity : 16384;
  while (capacity - buffer->end < size)
    capacity *= 2;
  uint8_t *wider = realloc(buffer->bytes, capacity);
  if (wider == NULL)
    return -ENOMEM;
  buffer->bytes = wider;
  buffer->capacity = capacity;
  return 0;
}

int mr_buffer_append(struct mr_buffer *buffer, const void *bytes, size_t size) {
  if (mr_buffer_reserve(buffer, size) < 0)
    return -ENOMEM;
  memcpy(buffer->bytes + buffer->end, bytes, size);
  buffer->end += size;
  return 0;
}
