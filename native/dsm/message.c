#include "message.h"

#include <stdlib.h>

const char *mr_message_name(enum mr_message_type type) {
  static const char *const names[MR_MESSAGE_TYPES] = {
      [MR_FETCH] = "fetch",      [MR_PAGE_COPY] = "page",   [MR_DIFF] = "diff",
      [MR_DIFF_KEPT] = "kept",   [MR_DIFF_AGAIN] = "again", [MR_SYNC] = "request",
      [MR_GRANT] = "grant",      [MR_REFUSED] = "refused",  [MR_NEWS] = "news",
      [MR_NEWS_HEARD] = "heard", [MR_LOOK] = "look",        [MR_SEEN] = "seen",
      [MR_NAMES_NEXT] = "next",  [MR_HOLDS] = "holds",      [MR_MEET] = "meet"};
  return names[type];
}

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
