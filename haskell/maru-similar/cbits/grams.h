/* Grams of submissions, sorted. Internal. */
#ifndef MARU_SIMILAR_GRAMS_H
#define MARU_SIMILAR_GRAMS_H

#include "similar.h"

enum { PARTS = 256 };

/* All grams as entries: the low half of the hash above the submission. Part p is [bounds[p],
 * bounds[p + 1]): the grams whose hash has p in its next byte. A gram's entries come together, in
 * the order of the submissions. Two different grams meet with a probability of 2^-40; then they
 * count as one. The caller frees *sorted. 0, -ENOMEM or -EOVERFLOW. O(codes). */
int maru_similar_grams(const uint32_t *codes, const uint64_t *offsets, uint32_t submissions,
                       uint32_t k, uint64_t **sorted, uint64_t bounds[PARTS + 1]);

/* One gram's entries: [from, what is returned), the same upper half. */
static inline uint64_t maru_similar_gram_end(const uint64_t *entries, uint64_t from, uint64_t end) {
  uint64_t to = from + 1;
  while (to < end && entries[to] >> 32 == entries[from] >> 32)
    to++;
  return to;
}

/* How many submissions have it. */
static inline uint32_t maru_similar_gram_having(const uint64_t *entries, uint64_t from,
                                                uint64_t to) {
  uint32_t having = 1;
  for (uint64_t i = from + 1; i < to; i++)
    having += entries[i] != entries[i - 1];
  return having;
}

#endif
