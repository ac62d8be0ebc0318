/* From codes to postings: which submissions have which gram.
 *
 * Grams are scattered by the first byte of their hash, stably, and each of the 256 parts is sorted
 * by the next 32 bits, stably again. So a gram's entries come together, in the order of the
 * submissions. Two different grams meet with a probability of 2^-40; then they count as one.
 */
#include "index.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 256 };

/* The hash's low 32 bits above the submission, so that a part is sorted by its upper half. */
static uint64_t entry_of(uint64_t hash, uint32_t submission) {
  return (hash & UINT32_MAX) << 32 | submission;
}

static uint64_t mixed(uint64_t h) {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdull;
  h ^= h >> 29;
  h *= 0xc4ceb9fe1a85ec53ull;
  return h ^ h >> 32;
}

typedef void (*gram_seen)(void *context, uint64_t hash);

/* The grams of a stretch without barriers: each window's polynomial from the one before. */
static void grams_of_stretch(const uint32_t *codes, size_t n, uint32_t k, gram_seen seen,
                             void *context) {
  const uint64_t radix = 0x9e3779b97f4a7c15ull;
  uint64_t top = 1, h = 0;
  size_t window = n < k ? n : k;

  if (n == 0)
    return;
  for (size_t i = 0; i < window; i++) {
    h = h * radix + codes[i] + 1;
    if (i > 0)
      top *= radix;
  }
  seen(context, mixed(h + window));
  for (size_t i = window; i < n; i++) {
    h = (h - top * (codes[i - window] + (uint64_t)1)) * radix + codes[i] + 1;
    seen(context, mixed(h + window));
  }
}

static void grams_of(const uint32_t *codes, size_t n, uint32_t k, gram_seen seen, void *context) {
  size_t start = 0;

  for (size_t i = 0; i <= n; i++) {
    if (i < n && codes[i] != MARU_SIMILAR_BARRIER)
      continue;
    grams_of_stretch(codes + start, i - start, k, seen, context);
    start = i + 1;
  }
}

struct scatter {
  uint64_t next[PARTS + 1]; /* while counting: how many are in the part before */
  uint64_t *entries;
  uint32_t submission;
};

static void count_gram(void *context, uint64_t hash) {
  struct scatter *s = context;
  s->next[(hash >> 32 & 0xff) + 1]++;
}

static void put_gram(void *context, uint64_t hash) {
  struct scatter *s = context;
  s->entries[s->next[hash >> 32 & 0xff]++] = entry_of(hash, s->submission);
}

/* Stable, by the upper half; room for as many more entries at spare. */
static void sort_part(uint64_t *entries, uint64_t *spare, size_t n) {
  uint64_t *from = entries, *to = spare;

  for (int shift = 32; shift < 64; shift += 8) {
    size_t next[257] = {0};
    for (size_t i = 0; i < n; i++)
      next[(from[i] >> shift & 0xff) + 1]++;
    for (int b = 0; b < 256; b++)
      next[b + 1] += next[b];
    for (size_t i = 0; i < n; i++)
      to[next[from[i] >> shift & 0xff]++] = from[i];
    uint64_t *swapped = from;
    from = to;
    to = swapped;
  }
}

/* All grams as entries, the same ones beside each other. */
static int sorted_entries(const uint32_t *codes, const uint64_t *offsets, uint32_t submissions,
                          uint32_t k, uint64_t **sorted, uint64_t bounds[PARTS + 1]) {
  struct scatter s = {.entries = NULL};
  uint64_t largest = 0;

  for (uint32_t i = 0; i < submissions; i++)
    grams_of(codes + offsets[i], offsets[i + 1] - offsets[i], k, count_gram, &s);
  for (int p = 0; p < PARTS; p++) {
    if (s.next[p + 1] > largest)
      largest = s.next[p + 1];
    s.next[p + 1] += s.next[p];
  }
  memcpy(bounds, s.next, sizeof s.next);
  if (bounds[PARTS] >= UINT32_MAX)
    return -EOVERFLOW;
  s.entries = malloc((bounds[PARTS] + 1) * sizeof *s.entries);
  uint64_t *spare = malloc((largest + 1) * sizeof *spare);
  if (s.entries == NULL || spare == NULL) {
    free(s.entries);
    free(spare);
    return -ENOMEM;
  }
  for (s.submission = 0; s.submission < submissions; s.submission++)
    grams_of(codes + offsets[s.submission], offsets[s.submission + 1] - offsets[s.submission], k,
             put_gram, &s);
  for (int p = 0; p < PARTS; p++)
    sort_part(s.entries + bounds[p], spare, bounds[p + 1] - bounds[p]);
  free(spare);
  *sorted = s.entries;
  return 0;
}

/* What a gram is worth that so many of n submissions have. One that a pair alone has is as good as
 * one that nobody else has: rarity is what the others say. Few others say little about it. What
 * most of a class has says little of a pair. */
static uint32_t worth(uint32_t having, uint32_t n) {
  const double others = having > 2 ? having - 1 : 1;
  if (n >= 16 && having > n / 2)
    return 20;
  return (uint32_t)(1024 * (log((1 + n / others) / 2) + 0.05 + 5.0 / n) + 0.5) + 20;
}

/* One gram's entries: [from, to), the same upper half. */
static uint64_t end_of_gram(const uint64_t *entries, uint64_t from, uint64_t end) {
  uint64_t to = from + 1;
  while (to < end && entries[to] >> 32 == entries[from] >> 32)
    to++;
  return to;
}

static uint32_t submissions_among(const uint64_t *entries, uint64_t from, uint64_t to) {
  uint32_t having = 1;
  for (uint64_t i = from + 1; i < to; i++)
    having += entries[i] != entries[i - 1];
  return having;
}

/* A gram's entries [from, to): what they are worth to their submissions; where several have it,
 * appended to the index. */
static void add_gram(struct maru_similar_index *x, const uint64_t *entries, uint64_t from,
                     uint64_t to, uint32_t having) {
  const uint32_t weight = worth(having, x->submissions);

  for (uint64_t i = from, same; i < to; i = same) {
    const uint32_t submission = (uint32_t)entries[i];
    for (same = i + 1; same < to && entries[same] == entries[i];)
      same++;
    const uint32_t count = same - i < MOST_COUNTED ? (uint32_t)(same - i) : MOST_COUNTED;
    x->total[submission] += (uint64_t)weight * count;
    if (having == 1)
      return;
    x->posting[x->postings++] = submission << COUNT_BITS | count;
    x->row[submission + 1]++;
  }
  x->weight[x->grams] = weight;
  x->first[++x->grams] = (uint32_t)x->postings;
}

struct sizes {
  uint64_t grams, postings;
};

/* With an index to fill: totals and postings. Without: how much room those need. Grams that only
 * one submission has count for its total alone. */
static struct sizes walk(const uint64_t *entries, const uint64_t bounds[PARTS + 1],
                         struct maru_similar_index *x) {
  struct sizes sizes = {0, 0};

  for (int p = 0; p < PARTS; p++)
    for (uint64_t from = bounds[p], to; from < bounds[p + 1]; from = to) {
      to = end_of_gram(entries, from, bounds[p + 1]);
      const uint32_t having = submissions_among(entries, from, to);
      if (having > 1) {
        sizes.grams++;
        sizes.postings += having;
      }
      if (x != NULL)
        add_gram(x, entries, from, to, having);
    }
  return sizes;
}

static void measure(struct maru_similar_index *x, const uint32_t *codes, const uint64_t *offsets) {
  for (uint32_t i = 0; i < x->submissions; i++)
    for (uint64_t c = offsets[i]; c < offsets[i + 1]; c++)
      x->length[i] += codes[c] != MARU_SIMILAR_BARRIER;
}

static int allocate(struct maru_similar_index *x, struct sizes sizes) {
  x->total = calloc(x->submissions + (size_t)1, sizeof *x->total);
  x->length = calloc(x->submissions + (size_t)1, sizeof *x->length);
  x->row = calloc(x->submissions + (size_t)2, sizeof *x->row);
  x->first = calloc(sizes.grams + 1, sizeof *x->first);
  x->weight = malloc((sizes.grams + 1) * sizeof *x->weight);
  x->posting = malloc((sizes.postings + 1) * sizeof *x->posting);
  x->has = malloc((sizes.postings + 1) * sizeof *x->has);
  return x->length && x->total && x->row && x->first && x->weight && x->posting && x->has ? 0
                                                                                          : -ENOMEM;
}

/* For each submission, its grams. */
static void list_rows(struct maru_similar_index *x) {
  for (uint32_t i = 0; i < x->submissions; i++)
    x->row[i + 1] += x->row[i];
  for (uint32_t g = 0; g < x->grams; g++)
    for (uint32_t p = x->first[g]; p < x->first[g + 1]; p++)
      x->has[x->row[x->posting[p] >> COUNT_BITS]++] = (struct has){g, p};
  memmove(x->row + 1, x->row, x->submissions * sizeof *x->row);
  x->row[0] = 0;
}

int maru_similar_index_new(const uint32_t *codes, const uint64_t *offsets, uint32_t submissions,
                           uint32_t k, struct maru_similar_index **index) {
  if (submissions >> (32 - COUNT_BITS) != 0)
    return -EOVERFLOW;
  uint64_t *entries, bounds[PARTS + 1];
  int failure = sorted_entries(codes, offsets, submissions, k, &entries, bounds);
  if (failure < 0)
    return failure;

  struct maru_similar_index *x = calloc(1, sizeof *x);
  failure = x == NULL ? -ENOMEM : 0;
  if (x != NULL) {
    x->submissions = submissions;
    failure = allocate(x, walk(entries, bounds, NULL));
  }
  if (failure == 0) {
    measure(x, codes, offsets);
    walk(entries, bounds, x);
    list_rows(x);
    *index = x;
  } else
    maru_similar_index_free(x);
  free(entries);
  return failure;
}

void maru_similar_index_free(struct maru_similar_index *x) {
  if (x == NULL)
    return;
  free(x->length);
  free(x->total);
  free(x->row);
  free(x->first);
  free(x->weight);
  free(x->posting);
  free(x->has);
  free(x);
}

uint64_t maru_similar_total(const struct maru_similar_index *x, uint32_t submission) {
  return x->total[submission];
}

uint64_t maru_similar_row_cost(const struct maru_similar_index *x, uint32_t submission) {
  uint64_t steps = 0;
  for (uint64_t i = x->row[submission]; i < x->row[submission + 1]; i++)
    steps += x->first[x->has[i].gram + 1] - x->has[i].posting;
  return steps;
}

uint64_t maru_similar_full_row_cost(const struct maru_similar_index *x, uint32_t submission) {
  uint64_t steps = 0;
  for (uint64_t i = x->row[submission]; i < x->row[submission + 1]; i++)
    steps += x->first[x->has[i].gram + 1] - x->first[x->has[i].gram];
  return steps;
}
