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

#define LANES 4
#define ODD UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mixed(uint64_t sum, uint64_t word) {
  sum = (sum ^ word) * ODD;
  return sum ^ sum >> 29;
}

/* Of the body four sums beside each other, which a processor makes at once. */
static uint64_t sum_of_body(uint64_t sum, const uint8_t *at, size_t left) {
  uint64_t words[LANES] = {0}, lanes[LANES] = {sum, sum + 1, sum + 2, sum + 3};
  for (; left >= sizeof words; at += sizeof words, left -= sizeof words) {
    memcpy(words, at, sizeof words);
    for (int i = 0; i < LANES; i++)
      lanes[i] = (lanes[i] ^ words[i]) * ODD;
  }
  memset(words, 0, sizeof words);
  memcpy(words, at, left);
  for (int i = 0; i < LANES; i++)
    sum = mixed(mixed(sum, lanes[i]), words[i]);
  return sum;
}

uint64_t mr_message_sum(uint64_t sum, uint16_t to, const void *message, size_t length) {
  struct mr_header header;
  memcpy(&header, message, sizeof header);
  uint64_t detail = header.type == MR_FETCH ? 0 : header.detail;
  sum = mixed(sum, to ^ (uint64_t)header.type << 16 ^ detail << 32);
  sum = mixed(sum, header.subject ^ (uint64_t)header.value << 20);
  return sum_of_body(sum, (const uint8_t *)message + sizeof header, length - sizeof header);
}
