/* What an index holds. Grams that only one submission has are in its total alone. */
#ifndef MARU_SIMILAR_INDEX_H
#define MARU_SIMILAR_INDEX_H

#include "similar.h"

/* A posting is a submission and, below it, how often it has the gram; more than that many times
 * count as that many. So it fits a word, and the pairs' inner loop reads one stream. */
enum { COUNT_BITS = 8, MOST_COUNTED = 255 };

struct has {
  uint32_t gram, posting;
};

struct maru_similar_index {
  uint32_t submissions, grams;
  uint64_t postings;
  uint32_t *length; /* [submissions]: codes, without barriers */
  uint64_t *total;  /* [submissions] */
  uint32_t
      *first; /* [grams + 1]: the first posting; postings are in the order of the submissions */
  uint32_t *weight;  /* [grams], in 1/1024 */
  uint32_t *posting; /* [postings] */
  uint64_t *row;     /* [submissions + 1]: the first of has */
  struct has *has;   /* [postings]: by submission, then gram */
};

#endif
