/* Which grams do the same submissions have, as often? Internal. */
#ifndef MARU_SIMILAR_ALIKE_H
#define MARU_SIMILAR_ALIKE_H

#include "index.h"

/* A table of an index's grams by their postings, while the index is made. Without slots: none. */
struct alike {
  uint64_t *slots; /* a hash above a gram's number and 1; 0: none */
  uint64_t mask;
};

/* Room for so many grams: 12 to 24 bytes each. 0 or -ENOMEM; close it in either case. */
int maru_similar_alike_open(struct alike *alike, uint64_t grams);
void maru_similar_alike_close(struct alike *alike);

/* Where an earlier gram has just the postings of the index's last one, it is worth what both are,
 * and the last one goes. Every mass is the same as before. O(its postings). */
void maru_similar_alike_fold(struct alike *alike, struct maru_similar_index *x);

#endif
