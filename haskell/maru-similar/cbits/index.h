/* What an index holds. Grams that only one submission has are in its total alone. */
#ifndef MARU_SIMILAR_INDEX_H
#define MARU_SIMILAR_INDEX_H

#include "similar.h"

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
  uint32_t *weight;     /* [grams], in 1/1024 */
  uint32_t *submission; /* [postings] */
  uint16_t *count;      /* [postings] */
  uint64_t *row;        /* [submissions + 1]: the first of has */
  struct has *has;      /* [postings]: by submission, then gram */
};

#endif
