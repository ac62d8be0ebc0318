/* What an index holds. Grams that only one submission has are in its total alone; those that the
 * same submissions have, each as often, are one here (alike.h). */
#ifndef MARU_SIMILAR_INDEX_H
#define MARU_SIMILAR_INDEX_H

#include "similar.h"

/* A posting is a submission and, below it, how often it has the gram; more than that many times
 * count as that many. So it fits a word, and the pairs' inner loop reads one stream. */
enum { COUNT_BITS = 8, MOST_COUNTED = 255 };

/* How rare a gram is: by how many submissions have it, of which the upper six bits count. So a
 * submission's grams have few rarities, and an archive keeps how many it has of each. */
static inline uint32_t rarity_of(uint32_t having) {
  if (having < 64)
    return having;
  const int shift = 26 - __builtin_clz(having);
  return (uint32_t)shift * 32 + (having >> shift);
}

/* The least number of submissions that makes it that rare. */
static inline uint32_t having_of(uint32_t rarity) {
  return rarity < 64 ? rarity : (rarity % 32 + 32) << (rarity / 32 - 1);
}

/* In an archive, a word has a rarity above how many grams have it. */
enum {
  RARITIES = 641, /* of 2^24 submissions */
  RARITY_SHIFT = 22,
  MOST_OF_RARITY = (1 << RARITY_SHIFT) - 1
};

/* Codes without barriers. */
uint32_t maru_similar_length(const uint32_t *codes, uint64_t n);

struct has {
  uint32_t gram, posting;
};

struct maru_similar_index {
  uint32_t submissions, grams;
  uint64_t postings;
  uint32_t *length; /* [submissions]: codes, without barriers */
  uint32_t *worth;  /* [RARITIES], in 1/1024 */
  uint64_t *total;  /* [submissions] */
  double *inverse;  /* [submissions]: 1 / total, or 0 */
  uint32_t
      *first; /* [grams + 1]: the first posting; postings are in the order of the submissions */
  uint32_t *weight;  /* [grams], in 1/1024 */
  uint32_t *posting; /* [postings] */
  uint64_t *row;     /* [submissions + 1]: the first of has */
  struct has *has;   /* [listed]: by submission, then gram; an archive's have none */
  uint64_t listed;
};

#endif
