#include "names.h"

#include <errno.h>
#include <stdlib.h>

/* Its slot, or the free one that it would have. */
static struct name *slot_of(const struct names *names, uint64_t hash) {
  size_t i = (hash ^ hash >> 29) & (names->room - 1);
  while (names->slots[i].hash != 0 && names->slots[i].hash != hash)
    i = (i + 1) & (names->room - 1);
  return &names->slots[i];
}

static int grow(struct names *names) {
  struct names more = {.count = names->count, .room = names->room == 0 ? 256 : 2 * names->room};

  more.slots = calloc(more.room, sizeof *more.slots);
  if (more.slots == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < names->room; i++)
    if (names->slots[i].hash != 0)
      *slot_of(&more, names->slots[i].hash) = names->slots[i];
  free(names->slots);
  *names = more;
  return 0;
}

int maru_names_met(struct names *names, uint64_t hash) {
  if (2 * (names->count + 1) > names->room && grow(names) < 0)
    return -ENOMEM;
  struct name *slot = slot_of(names, hash);
  names->count += slot->hash == 0;
  slot->hash = hash;
  slot->times++;
  return 0;
}

uint32_t maru_names_times(const struct names *names, uint64_t hash) {
  return names->room == 0 ? 0 : slot_of(names, hash)->times;
}

uint64_t maru_names_hash(const char *from, const char *end) {
  uint64_t h = 0xcbf29ce484222325u;
  for (; from < end; from++)
    h = (h ^ (unsigned char)*from) * 0x100000001b3u;
  return h | 1;
}
