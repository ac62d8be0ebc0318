/* ring.h: a stream of bytes from one process to another, in memory that they share (internal to
 * libmaru-dsm).  One writes, one reads; neither waits.  A reader trusts no number of the writer's.
 */
#ifndef MARU_DSM_RING_H
#define MARU_DSM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* All zero: empty. */
struct mr_ring {
  _Alignas(64) _Atomic uint64_t written; /* bytes since the beginning; the writer's */
  _Alignas(64) _Atomic uint64_t read;    /* the reader's */
  _Atomic uint32_t full;                 /* 1: the writer wants to hear of room */
  _Alignas(64) uint8_t bytes[];
};

/* `capacity` is a power of two, the same on both sides. */

/* Writes what there is room for, of `size` bytes; how many. */
size_t mr_ring_write(struct mr_ring *ring, size_t capacity, const void *bytes, size_t size);
/* Reads `most` bytes, or as many as there are.  -EBADMSG: the numbers cannot be true. */
ssize_t mr_ring_read(struct mr_ring *ring, size_t capacity, void *bytes, size_t most);
bool mr_ring_waits(const struct mr_ring *ring);
/* For the writer. */
bool mr_ring_has_room(const struct mr_ring *ring, size_t capacity);

#endif
