#include "ring.h"

#include <errno.h>
#include <string.h>

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

size_t mr_ring_write(struct mr_ring *ring, size_t capacity, const void *bytes, size_t size) {
  uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed); /* its own */
  /* Acquire: what was there has been read. */
  uint64_t used = written - atomic_load_explicit(&ring->read, memory_order_acquire);
  size = used > capacity ? 0 : least(size, capacity - used);
  size_t at = written & (capacity - 1), first = least(size, capacity - at);
  memcpy(ring->bytes + at, bytes, first);
  memcpy(ring->bytes, (const uint8_t *)bytes + first, size - first);
  /* Release: the bytes are there. */
  atomic_store_explicit(&ring->written, written + size, memory_order_release);
  return size;
}

ssize_t mr_ring_read(struct mr_ring *ring, size_t capacity, void *bytes, size_t most) {
  uint64_t done = atomic_load_explicit(&ring->read, memory_order_relaxed); /* its own */
  /* Acquire: the bytes are there. */
  uint64_t there = atomic_load_explicit(&ring->written, memory_order_acquire) - done;
  if (there > capacity)
    return -EBADMSG;
  size_t size = least(most, there), at = done & (capacity - 1), first = least(size, capacity - at);
  memcpy(bytes, ring->bytes + at, first);
  memcpy((uint8_t *)bytes + first, ring->bytes, size - first);
  /* Release: they have been read. */
  atomic_store_explicit(&ring->read, done + size, memory_order_release);
  return (ssize_t)size;
}

bool mr_ring_waits(const struct mr_ring *ring) {
  /* Relaxed: a hint, or after a fence of the caller's. */
  return atomic_load_explicit(&ring->written, memory_order_relaxed) !=
         atomic_load_explicit(&ring->read, memory_order_relaxed);
}

bool mr_ring_has_room(const struct mr_ring *ring, size_t capacity) {
  return atomic_load_explicit(&ring->written, memory_order_relaxed) -
             atomic_load_explicit(&ring->read, memory_order_relaxed) <
         capacity;
}
