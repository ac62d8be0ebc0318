/* From codes to postings: which submissions have which gram, those of an archive, too. */
#include "index.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "alike.h"
#include "grams.h"
#include "older.h"

/* What a gram is worth that so many of n submissions have. One that a pair alone has is as good as
 * one that nobody else has: rarity is what the others say. Few others say little about it. What
 * nearly all of a class have they were given, and it says little of a pair. What only most have may
 * be what they copied. */
static uint32_t worth(uint32_t having, uint32_t n) {
  const double others = having > 2 ? having - 1 : 1;
  if (n >= 16 && having > n - n / 8)
    return 20;
  return (uint32_t)(1024 * (log((1 + n / others) / 2) + 0.05 + 5.0 / n) + 0.5) + 20;
}

/* What an index is made of. */
struct source {
  const uint64_t *entries, *bounds;
  struct older *older; /* NULL: no archive */
  struct found *found; /* by gram, what the archive has */
};

/* Of one gram, how many submissions have it. */
struct gram {
  uint64_t from, to;
  uint32_t part, own;
  struct found older;
};

static int seek(const struct source *s, uint32_t part, uint64_t from, struct gram *g) {
  g->part = part;
  g->from = from;
  g->to = maru_similar_gram_end(s->entries, from, s->bounds[part + 1]);
  g->own = maru_similar_gram_having(s->entries, from, g->to);
  g->older = (struct found){0, 0};
  return s->older == NULL ? 0
                          : maru_similar_older_find(s->older, part,
                                                    (uint32_t)(s->entries[from] >> 32), &g->older);
}

struct sizes {
  uint64_t grams, postings;
};

/* How much room the grams take that several have; what the archive has of each is noted. */
static int measure(const struct source *s, struct sizes *sizes) {
  uint64_t grams = 0;

  *sizes = (struct sizes){0, 0};
  for (uint32_t p = 0; p < PARTS; p++)
    for (uint64_t from = s->bounds[p]; from < s->bounds[p + 1];) {
      struct gram g;
      const int failure = seek(s, p, from, &g);
      if (failure < 0)
        return failure;
      from = g.to;
      if (s->found != NULL)
        s->found[grams++] = g.older;
      if (g.own + g.older.n > 1) {
        sizes->grams++;
        sizes->postings += g.own + (uint64_t)g.older.n;
      }
    }
  return sizes->postings >= UINT32_MAX ? -EOVERFLOW : 0;
}

/* The archive's submissions that have the gram: what it is worth to them is another than without
 * the new ones. */
static int add_older(struct maru_similar_index *x, const struct source *s, const struct gram *g,
                     uint32_t weight) {
  const uint32_t *postings, before = x->worth[rarity_of(g->older.n)];
  const int failure = maru_similar_older_postings(s->older, g->older, &postings);
  if (failure < 0)
    return failure;
  memcpy(x->posting + x->postings, postings, g->older.n * sizeof *postings);
  x->postings += g->older.n;
  if (weight != before)
    for (uint32_t i = 0; i < g->older.n; i++)
      x->total[postings[i] >> COUNT_BITS] +=
          ((uint64_t)weight - before) * (postings[i] & MOST_COUNTED);
  return 0;
}

/* What a gram is worth to those that have it; where several do, appended to the index. */
static int add_gram(struct maru_similar_index *x, const struct source *s, const struct gram *g,
                    struct alike *alike) {
  const uint32_t having = g->own + g->older.n, weight = x->worth[rarity_of(having)];
  const uint64_t *entries = s->entries;

  for (uint64_t i = g->from, same; i < g->to; i = same) {
    const uint32_t submission = (uint32_t)entries[i];
    for (same = i + 1; same < g->to && entries[same] == entries[i];)
      same++;
    const uint32_t count = same - i < MOST_COUNTED ? (uint32_t)(same - i) : MOST_COUNTED;
    x->total[submission] += (uint64_t)weight * count;
    if (having == 1)
      return 0;
    x->posting[x->postings++] = submission << COUNT_BITS | count;
  }
  const int failure = g->older.n > 0 ? add_older(x, s, g, weight) : 0;
  x->weight[x->grams] = weight;
  x->first[++x->grams] = (uint32_t)x->postings;
  if (failure == 0 && alike->slots != NULL)
    maru_similar_alike_fold(alike, x);
  return failure;
}

static int fill(struct maru_similar_index *x, const struct source *s, struct alike *alike) {
  uint64_t grams = 0;
  int failure = 0;

  for (uint32_t p = 0; p < PARTS; p++)
    for (uint64_t from = s->bounds[p]; failure == 0 && from < s->bounds[p + 1];) {
      struct gram g = {.from = from, .part = p};
      g.to = maru_similar_gram_end(s->entries, from, s->bounds[p + 1]);
      g.own = maru_similar_gram_having(s->entries, from, g.to);
      if (s->found != NULL)
        g.older = s->found[grams++];
      failure = add_gram(x, s, &g, alike);
      from = g.to;
    }
  return failure;
}

uint32_t maru_similar_length(const uint32_t *codes, uint64_t n) {
  uint32_t length = 0;
  for (uint64_t i = 0; i < n; i++)
    length += codes[i] != MARU_SIMILAR_BARRIER;
  return length;
}

static int allocate(struct maru_similar_index *x, struct sizes sizes) {
  x->total = calloc(x->submissions + (size_t)1, sizeof *x->total);
  x->inverse = calloc(x->submissions + (size_t)1, sizeof *x->inverse);
  x->length = calloc(x->submissions + (size_t)1, sizeof *x->length);
  x->row = calloc(x->submissions + (size_t)2, sizeof *x->row);
  x->first = calloc(sizes.grams + 1, sizeof *x->first);
  x->weight = malloc((sizes.grams + 1) * sizeof *x->weight);
  x->posting = malloc((sizes.postings + 1) * sizeof *x->posting);
  x->worth = malloc(RARITIES * sizeof *x->worth);
  return x->inverse && x->length && x->total && x->row && x->first && x->weight && x->posting &&
                 x->worth
             ? 0
             : -ENOMEM;
}

/* The room of what was folded. */
static void give_back(struct maru_similar_index *x) {
  uint32_t *posting = realloc(x->posting, (x->postings + 1) * sizeof *posting);
  if (posting != NULL)
    x->posting = posting;
}

/* What a share of a submission's total is multiplied with. */
static void invert_totals(struct maru_similar_index *x) {
  for (uint32_t i = 0; i < x->submissions; i++)
    x->inverse[i] = x->total[i] > 0 ? 1 / (double)x->total[i] : 0;
}

/* Behind the postings of a gram that are of the first submissions: the archive's follow these. */
static uint32_t end_of_own(const struct maru_similar_index *x, uint32_t gram, uint32_t own) {
  uint32_t p = x->first[gram];
  while (p < x->first[gram + 1] && x->posting[p] >> COUNT_BITS < own)
    p++;
  return p;
}

/* For each of the first submissions, its grams; the archive's have no row. */
static int list_rows(struct maru_similar_index *x, uint32_t own) {
  for (uint32_t g = 0; g < x->grams; g++)
    for (uint32_t p = x->first[g], end = end_of_own(x, g, own); p < end; p++)
      x->row[(x->posting[p] >> COUNT_BITS) + 1]++;
  for (uint32_t i = 0; i < x->submissions; i++)
    x->row[i + 1] += x->row[i];
  x->listed = x->row[own];
  x->has = malloc((x->listed + 1) * sizeof *x->has);
  if (x->has == NULL)
    return -ENOMEM;
  for (uint32_t g = 0; g < x->grams; g++)
    for (uint32_t p = x->first[g], end = end_of_own(x, g, own); p < end; p++)
      x->has[x->row[x->posting[p] >> COUNT_BITS]++] = (struct has){g, p};
  memmove(x->row + 1, x->row, x->submissions * sizeof *x->row);
  x->row[0] = 0;
  return 0;
}

/* To look for equal postings takes about as long as a row does with them. */
enum { ROWS_TO_FOLD_FOR = 4 };

static int build(struct maru_similar_index *x, const struct source *s, const uint32_t *codes,
                 const uint64_t *offsets, uint32_t own) {
  struct sizes sizes;
  struct alike alike = {NULL, 0};
  int failure = measure(s, &sizes);
  if (failure == 0)
    failure = allocate(x, sizes);
  if (failure < 0)
    return failure;
  for (uint32_t r = 0; r < RARITIES; r++)
    x->worth[r] = r == 0 || having_of(r) > x->submissions ? 0 : worth(having_of(r), x->submissions);
  for (uint32_t i = 0; i < own; i++)
    x->length[i] = maru_similar_length(codes + offsets[i], offsets[i + 1] - offsets[i]);
  if (s->older != NULL)
    failure = maru_similar_older_totals(s->older, x);
  if (failure == 0 && own >= ROWS_TO_FOLD_FOR)
    failure = maru_similar_alike_open(&alike, sizes.grams);
  if (failure == 0)
    failure = fill(x, s, &alike);
  maru_similar_alike_close(&alike);
  give_back(x);
  invert_totals(x);
  return failure == 0 ? list_rows(x, own) : failure;
}

static int index_of(const uint32_t *codes, const uint64_t *offsets, uint32_t own, uint32_t k,
                    struct older *older, struct maru_similar_index **index) {
  const uint64_t submissions = own + (uint64_t)(older == NULL ? 0 : older->submissions);
  uint64_t *entries, bounds[PARTS + 1];
  if (submissions >> (32 - COUNT_BITS) != 0)
    return -EOVERFLOW;
  int failure = maru_similar_grams(codes, offsets, own, k, &entries, bounds);
  if (failure < 0)
    return failure;

  struct source s = {entries, bounds, older, NULL};
  struct maru_similar_index *x = calloc(1, sizeof *x);
  if (older != NULL)
    s.found = malloc((bounds[PARTS] + 1) * sizeof *s.found);
  failure = x == NULL || (older != NULL && s.found == NULL) ? -ENOMEM : 0;
  if (failure == 0) {
    x->submissions = (uint32_t)submissions;
    failure = build(x, &s, codes, offsets, own);
  }
  free(entries);
  free(s.found);
  if (failure == 0)
    *index = x;
  else
    maru_similar_index_free(x);
  return failure;
}

int maru_similar_index_new(const uint32_t *codes, const uint64_t *offsets, uint32_t submissions,
                           uint32_t k, struct maru_similar_index **index) {
  return index_of(codes, offsets, submissions, k, NULL, index);
}

int maru_similar_index_join(const struct maru_similar_store *store, int view, const uint32_t *place,
                            const uint32_t *codes, const uint64_t *offsets, uint32_t submissions,
                            uint32_t k, struct maru_similar_index **index) {
  struct older older;
  int failure = maru_similar_older_open(&older, store, view, place);
  if (failure == 0)
    failure = index_of(codes, offsets, submissions, k, &older, index);
  maru_similar_older_close(&older);
  return failure;
}

void maru_similar_index_free(struct maru_similar_index *x) {
  if (x == NULL)
    return;
  free(x->length);
  free(x->worth);
  free(x->total);
  free(x->inverse);
  free(x->row);
  free(x->first);
  free(x->weight);
  free(x->posting);
  free(x->has);
  free(x);
}

uint64_t maru_similar_row_cost(const struct maru_similar_index *x, uint32_t submission) {
  uint64_t steps = 0;
  for (uint64_t i = x->row[submission]; i < x->row[submission + 1]; i++)
    steps += x->first[x->has[i].gram + 1] - x->has[i].posting;
  return steps;
}
