#include "intervals.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* One node's: a ring, interval `number` at number % capacity. */
struct ring {
  uint64_t trimmed; /* intervals up to this one are gone */
  uint64_t known;
  uint64_t capacity; /* a power of two, or 0 */
  struct mr_interval **slots;
};

struct mr_intervals {
  uint64_t bytes;
  uint16_t nodes;
  struct ring rings[];
};

int mr_intervals_create(struct mr_intervals **log, uint16_t nodes) {
  *log = calloc(1, sizeof **log + nodes * sizeof(struct ring));
  if (*log == NULL)
    return -ENOMEM;
  (*log)->nodes = nodes;
  return 0;
}

void mr_intervals_destroy(struct mr_intervals *log) {
  for (uint16_t q = 0; q < log->nodes; q++) {
    mr_intervals_trim(log, q, log->rings[q].known);
    free(log->rings[q].slots);
  }
  free(log);
}

uint64_t mr_intervals_known(const struct mr_intervals *log, uint16_t node) {
  return log->rings[node].known;
}

uint64_t mr_intervals_held(const struct mr_intervals *log) {
  uint64_t held = 0;
  for (uint16_t q = 0; q < log->nodes; q++)
    held += log->rings[q].known - log->rings[q].trimmed;
  return held;
}

uint64_t mr_intervals_bytes(const struct mr_intervals *log) { return log->bytes; }

static struct mr_interval **slot(const struct ring *ring, uint64_t number) {
  return &ring->slots[number & (ring->capacity - 1)];
}

static int grow(struct ring *ring) {
  struct ring wider = *ring;
  wider.capacity = ring->capacity != 0 ? 2 * ring->capacity : 16;
  wider.slots = malloc(wider.capacity * sizeof(struct mr_interval *));
  if (wider.slots == NULL)
    return -ENOMEM;
  for (uint64_t number = ring->trimmed + 1; number <= ring->known; number++)
    *slot(&wider, number) = *slot(ring, number);
  free(ring->slots);
  *ring = wider;
  return 0;
}

const struct mr_interval *mr_intervals_at(const struct mr_intervals *log, uint16_t node,
                                          uint64_t number) {
  const struct ring *ring = &log->rings[node];
  return number > ring->trimmed && number <= ring->known ? *slot(ring, number) : NULL;
}

/* One that is gone is taken to be the same. */
static bool same(const struct mr_interval *interval, const struct mr_notice *notices,
                 uint32_t count, const uint8_t *diffs) {
  if (interval == NULL)
    return true;
  bool equal = interval->count == count;
  for (uint32_t i = 0; i < count && equal; i++)
    equal = interval->notices[i].page == notices[i].page &&
            interval->notices[i].version == notices[i].version &&
            interval->notices[i].length == notices[i].length;
  return equal &&
         (interval->bytes == 0 || memcmp(mr_interval_diffs(interval), diffs, interval->bytes) == 0);
}

static size_t size_of(uint32_t count, uint32_t bytes) {
  return sizeof(struct mr_interval) + count * sizeof(struct mr_notice) + bytes;
}

int mr_intervals_add(struct mr_intervals *log, uint16_t node, uint64_t number,
                     const struct mr_notice *notices, uint32_t count, const uint8_t *diffs) {
  struct ring *ring = &log->rings[node];
  if (number <= ring->known)
    return same(mr_intervals_at(log, node, number), notices, count, diffs) ? 0 : -EPROTO;
  if (number != ring->known + 1)
    return -EPROTO;
  if (ring->known - ring->trimmed == ring->capacity && grow(ring) < 0)
    return -ENOMEM;
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < count; i++)
    bytes += notices[i].length;
  struct mr_interval *interval = malloc(size_of(count, bytes));
  if (interval == NULL)
    return -ENOMEM;
  interval->count = count;
  interval->bytes = bytes;
  memcpy(interval->notices, notices, count * sizeof *notices);
  /* No diffs may be no memory. */
  if (bytes > 0)
    memcpy(interval->notices + count, diffs, bytes);
  log->bytes += size_of(count, bytes);
  *slot(ring, number) = interval;
  ring->known = number;
  return 0;
}

void mr_intervals_trim(struct mr_intervals *log, uint16_t node, uint64_t number) {
  struct ring *ring = &log->rings[node];
  uint64_t last = number < ring->known ? number : ring->known;
  while (ring->trimmed < last) {
    struct mr_interval *interval = *slot(ring, ++ring->trimmed);
    log->bytes -= size_of(interval->count, interval->bytes);
    free(interval);
  }
}
