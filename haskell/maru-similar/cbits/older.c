/* Looks up an archive's grams: by 16 bits of the hash a bucket, in the bucket by halves. */
#include "older.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_older(const struct older *o, int section, uint64_t offset, uint64_t bytes,
                      void *to) {
  return maru_similar_store_read(o->store, store_section(o->view, section), offset, bytes, to);
}

int maru_similar_older_open(struct older *o, const struct maru_similar_store *store, int view,
                            const uint32_t *place) {
  const uint64_t grams = maru_similar_store_bytes(store, store_section(view, STORE_GRAMS)) / 8;

  *o = (struct older){.store = store, .view = view, .place = place};
  o->submissions = maru_similar_store_submissions(store);
  o->postings = maru_similar_store_bytes(store, store_section(view, STORE_POSTINGS)) / 4;
  o->bucket_number = UINT32_MAX;
  if (grams == 0 || grams > UINT32_MAX)
    return -EBADMSG;
  o->grams = (uint32_t)grams - 1;
  o->fan = malloc((STORE_FANS + 1) * sizeof *o->fan);
  o->room = malloc((o->submissions + (size_t)1) * sizeof *o->room);
  if (o->fan == NULL || o->room == NULL)
    return -ENOMEM;
  return read_older(o, STORE_FAN, 0, (STORE_FANS + 1) * sizeof *o->fan, o->fan);
}

void maru_similar_older_close(struct older *o) {
  free(o->fan);
  free(o->room);
  free(o->bucket);
}

static int load_bucket(struct older *o, uint32_t number) {
  const uint32_t from = o->fan[number], to = o->fan[number + 1];
  if (number == o->bucket_number)
    return 0;
  if (from > to || to > o->grams)
    return -EBADMSG;
  const uint64_t size = (to - from + (uint64_t)1) * sizeof *o->bucket;
  struct store_gram *bucket = realloc(o->bucket, size);
  if (bucket == NULL)
    return -ENOMEM;
  o->bucket = bucket;
  o->bucket_number = UINT32_MAX;
  const int failure = read_older(o, STORE_GRAMS, from * (uint64_t)sizeof *bucket, size, bucket);
  if (failure < 0)
    return failure;
  o->bucket_number = number;
  o->bucket_grams = to - from;
  return 0;
}

int maru_similar_older_find(struct older *o, uint32_t part, uint32_t low, struct found *found) {
  *found = (struct found){0, 0};
  const int failure = load_bucket(o, part << 8 | low >> 24);
  if (failure < 0)
    return failure;
  uint32_t from = 0, to = o->bucket_grams;
  while (from < to) {
    const uint32_t middle = from + (to - from) / 2;
    if (o->bucket[middle].low < low)
      from = middle + 1;
    else
      to = middle;
  }
  if (from == o->bucket_grams || o->bucket[from].low != low)
    return 0;
  found->first = o->bucket[from].first;
  found->n = o->bucket[from + 1].first - found->first;
  return o->bucket[from + 1].first <= found->first || found->n > o->submissions ||
                 found->first + (uint64_t)found->n > o->postings
             ? -EBADMSG
             : 0;
}

int maru_similar_older_postings(struct older *o, struct found found, const uint32_t **postings) {
  const int failure =
      read_older(o, STORE_POSTINGS, found.first * (uint64_t)4, found.n * (uint64_t)4, o->room);
  if (failure < 0)
    return failure;
  for (uint32_t i = 0; i < found.n; i++) {
    const uint32_t submission = o->room[i] >> COUNT_BITS;
    if (submission >= o->submissions)
      return -EBADMSG;
    o->room[i] = o->place[submission] << COUNT_BITS | (o->room[i] & MOST_COUNTED);
  }
  *postings = o->room;
  return 0;
}

enum { WORDS_AHEAD = 65536 };

/* From the words [first[i], first[i + 1]) of each submission. */
static int add_totals(const struct older *o, struct maru_similar_index *x, const uint64_t *first,
                      uint32_t *words) {
  const uint64_t all = maru_similar_store_bytes(o->store, store_section(o->view, STORE_RARE)) / 4;
  uint64_t at = 0, have = 0; /* words [at, at + have) */

  for (uint32_t i = 0; i < o->submissions; i++) {
    uint64_t total = 0;
    if (first[i] > first[i + 1] || first[i + 1] > all)
      return -EBADMSG;
    for (uint64_t w = first[i]; w < first[i + 1]; w++) {
      if (w < at || w - at >= have) {
        at = w;
        have = all - w < WORDS_AHEAD ? all - w : WORDS_AHEAD;
        const int failure = read_older(o, STORE_RARE, at * 4, have * 4, words);
        if (failure < 0)
          return failure;
      }
      const uint32_t word = words[w - at], rarity = word >> RARITY_SHIFT;
      if (rarity >= RARITIES)
        return -EBADMSG;
      total += (uint64_t)x->worth[rarity] * (word & MOST_OF_RARITY);
    }
    x->total[o->place[i]] = total;
  }
  return 0;
}

int maru_similar_older_totals(const struct older *o, struct maru_similar_index *x) {
  uint64_t *first = malloc((o->submissions + (size_t)1) * sizeof *first);
  uint32_t *words = malloc(WORDS_AHEAD * sizeof *words);
  int failure = first == NULL || words == NULL ? -ENOMEM : 0;

  if (failure == 0)
    failure = read_older(o, STORE_LENGTHS, 0, o->submissions * (uint64_t)4, first);
  for (uint32_t i = 0; failure == 0 && i < o->submissions; i++)
    x->length[o->place[i]] = ((const uint32_t *)(const void *)first)[i];
  if (failure == 0)
    failure = read_older(o, STORE_RARE_FIRST, 0, (o->submissions + (uint64_t)1) * 8, first);
  if (failure == 0)
    failure = add_totals(o, x, first, words);
  free(first);
  free(words);
  return failure;
}
