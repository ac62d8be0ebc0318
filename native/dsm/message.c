#include "message.h"

#include <stdlib.h>

void *mr_put_room(struct mr_writer *writer, size_t size) {
  if (writer->failed)
    return NULL;
  size_t needed = writer->length + size;
  if (needed > writer->capacity) {
    size_t capacity = writer->capacity != 0 ? writer->capacity : 256;
    while (capacity < needed)
      capacity *= 2;
    uint8_t *wider = realloc(writer->bytes, capacity);
    if (wider == NULL) {
      writer->failed = true;
      return NULL;
    }
    writer->bytes = wider;
    writer->capacity = capacity;
  }
  void *room = writer->bytes + writer->length;
  writer->length = needed;
  return room;
}
