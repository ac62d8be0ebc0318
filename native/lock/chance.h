/* chance.h: the dice of a lock's holder (internal). */
#ifndef MARU_LOCK_CHANCE_H
#define MARU_LOCK_CHANCE_H

#include <stdbool.h>
#include <stdint.h>

/* Seed 5's probably(): false once in `range` (a power of two) times.  *state is not 0. */
static inline bool mr_probably(uint64_t *state, uint32_t range) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return (*state >> 16 & (range - 1)) != 0;
}

#endif
