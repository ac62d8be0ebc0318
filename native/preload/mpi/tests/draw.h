/* draw.h: random numbers from a seed (splitmix64), and a hash of bytes (FNV-1a). */
#ifndef MARU_PRELOAD_MPI_TESTS_DRAW_H
#define MARU_PRELOAD_MPI_TESTS_DRAW_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t draw_from(uint64_t *state) {
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static inline uint64_t hash(const void *bytes, size_t length, uint64_t sum) {
  const unsigned char *at = bytes;
  for (size_t i = 0; i < length; i++)
    sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
  return sum;
}

#endif
