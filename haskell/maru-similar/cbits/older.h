/* What an archive has of one view, beside new submissions. Internal. */
#ifndef MARU_SIMILAR_OLDER_H
#define MARU_SIMILAR_OLDER_H

#include "index.h"
#include "store.h"

/* Submission i of the archive is at place[i]. */
struct older {
  const struct maru_similar_store *store;
  int view;
  const uint32_t *place;
  uint32_t submissions, grams;
  uint64_t postings;
  uint32_t *fan, *room; /* room: for the postings of one gram */
  struct store_gram *bucket;
  uint32_t bucket_number, bucket_grams; /* the grams of those 16 bits, and the next one */
};

/* The postings of a gram in the archive; n is 0 where it has none. */
struct found {
  uint32_t first, n;
};

/* Each 0 or a negative errno; -EBADMSG where the file does not hold together. */
int maru_similar_older_open(struct older *o, const struct maru_similar_store *store, int view,
                            const uint32_t *place);
void maru_similar_older_close(struct older *o);
int maru_similar_older_find(struct older *o, uint32_t part, uint32_t low, struct found *found);

/* The postings of a gram, at their places; valid until the next call. */
int maru_similar_older_postings(struct older *o, struct found found, const uint32_t **postings);

/* Lengths, and what all grams of each are worth, into the index, for the archive's submissions. */
int maru_similar_older_totals(const struct older *o, struct maru_similar_index *x);

#endif
