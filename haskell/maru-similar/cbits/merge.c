/* Views of files: what a term's submissions have, and many terms as one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "grams.h"
#include "index.h"
#include "store.h"

/* A view that is being written: postings, and grams beside them. */
struct view {
  struct maru_similar_writer *writer;
  int number;
  uint32_t grams, fan[STORE_FANS + 1];
  uint64_t postings;
};

static int begin_view(struct view *v, struct maru_similar_writer *writer, int number,
                      uint64_t postings) {
  memset(v, 0, sizeof *v);
  v->writer = writer;
  v->number = number;
  if (postings > UINT32_MAX)
    return -EOVERFLOW;
  const int failure =
      maru_similar_writer_put(writer, store_section(number, STORE_POSTINGS), NULL, 0);
  return failure < 0 ? failure
                     : maru_similar_writer_beside(writer, store_section(number, STORE_GRAMS),
                                                  postings * sizeof(uint32_t));
}

/* The part and the low half of its hash. */
static int begin_gram(struct view *v, uint32_t part, uint32_t low) {
  const struct store_gram gram = {low, (uint32_t)v->postings};
  v->grams++;
  v->fan[(part << 8 | low >> 24) + 1] = v->grams;
  return maru_similar_writer_put_beside(v->writer, &gram, sizeof gram);
}

static int put_postings(struct view *v, const uint32_t *postings, uint64_t n) {
  v->postings += n;
  return maru_similar_writer_put(v->writer, store_section(v->number, STORE_POSTINGS), postings,
                                 n * sizeof *postings);
}

static int end_view(struct view *v) {
  const struct store_gram end = {0, (uint32_t)v->postings};
  for (int f = 0; f < STORE_FANS; f++)
    if (v->fan[f + 1] < v->fan[f])
      v->fan[f + 1] = v->fan[f];
  const int failure = maru_similar_writer_put_beside(v->writer, &end, sizeof end);
  return failure < 0 ? failure
                     : maru_similar_writer_put(v->writer, store_section(v->number, STORE_FAN),
                                               v->fan, sizeof v->fan);
}

/* Of submissions at hand ------------------------------------------------------------------------
 */

static uint64_t postings_among(const uint64_t *entries, uint64_t n) {
  uint64_t postings = 0;
  for (uint64_t i = 0; i < n; i++)
    postings += i == 0 || entries[i] != entries[i - 1];
  return postings;
}

/* One gram's entries [from, to). */
static int write_gram(struct view *v, int part, const uint64_t *entries, uint64_t from,
                      uint64_t to) {
  int failure = begin_gram(v, (uint32_t)part, (uint32_t)(entries[from] >> 32));
  for (uint64_t i = from, same; failure == 0 && i < to; i = same) {
    for (same = i + 1; same < to && entries[same] == entries[i];)
      same++;
    const uint32_t count = same - i < MOST_COUNTED ? (uint32_t)(same - i) : MOST_COUNTED,
                   posting = (uint32_t)entries[i] << COUNT_BITS | count;
    failure = put_postings(v, &posting, 1);
  }
  return failure;
}

static int write_lengths(struct maru_similar_writer *writer, int view, const uint32_t *codes,
                         const uint64_t *offsets, uint32_t n) {
  int failure = 0;
  for (uint32_t i = 0; failure == 0 && i < n; i++) {
    const uint32_t length = maru_similar_length(codes + offsets[i], offsets[i + 1] - offsets[i]);
    failure =
        maru_similar_writer_put(writer, store_section(view, STORE_LENGTHS), &length, sizeof length);
  }
  return failure;
}

int maru_similar_writer_view(struct maru_similar_writer *writer, int view, const uint32_t *codes,
                             const uint64_t *offsets, uint32_t k) {
  const uint32_t n = maru_similar_writer_submissions(writer);
  uint64_t *entries, bounds[PARTS + 1], postings = 0;
  struct view *v = malloc(sizeof *v);
  if (v == NULL)
    return -ENOMEM;
  int failure = maru_similar_grams(codes, offsets, n, k, &entries, bounds);
  if (failure < 0) {
    free(v);
    return failure;
  }
  for (int p = 0; p < PARTS; p++)
    postings += postings_among(entries + bounds[p], bounds[p + 1] - bounds[p]);
  failure = begin_view(v, writer, view, postings);
  for (int p = 0; p < PARTS; p++)
    for (uint64_t from = bounds[p], to; failure == 0 && from < bounds[p + 1]; from = to) {
      to = maru_similar_gram_end(entries, from, bounds[p + 1]);
      failure = write_gram(v, p, entries, from, to);
    }
  if (failure == 0)
    failure = end_view(v);
  if (failure == 0)
    failure = write_lengths(writer, view, codes, offsets, n);
  free(entries);
  free(v);
  return failure;
}

/* Of files ---------------------------------------------------------------------------------------
 */

enum { GRAMS_AHEAD = 4096, POSTINGS_AHEAD = 16384 };

/* Reads a view of a file from its first gram to its last. */
struct cursor {
  const struct maru_similar_store *store;
  int view;
  const uint32_t *place;
  uint32_t gram, grams, bucket, fan[STORE_FANS + 1];
  struct store_gram ahead[GRAMS_AHEAD + 1];
  uint32_t postings[POSTINGS_AHEAD];
  uint64_t posted; /* the first of postings */
};

static int open_cursor(struct cursor *c, const struct maru_similar_store *store, int view,
                       const uint32_t *place) {
  memset(c, 0, sizeof *c);
  c->store = store;
  c->view = view;
  c->place = place;
  c->posted = UINT64_MAX;
  const uint64_t bytes = maru_similar_store_bytes(store, store_section(view, STORE_GRAMS));
  if (bytes < 8 || bytes / 8 > UINT32_MAX)
    return -EBADMSG;
  c->grams = (uint32_t)(bytes / 8 - 1);
  const int failure =
      maru_similar_store_read(store, store_section(view, STORE_FAN), 0, sizeof c->fan, c->fan);
  return failure == 0 && c->fan[STORE_FANS] != c->grams ? -EBADMSG : failure;
}

/* The gram that it is at and the next, for its postings' end. */
static int load_gram(struct cursor *c) {
  if (c->gram >= c->grams || c->gram % GRAMS_AHEAD != 0)
    return 0;
  const uint32_t left = c->grams + 1 - c->gram, n = left < GRAMS_AHEAD + 1 ? left : GRAMS_AHEAD + 1;
  return maru_similar_store_read(c->store, store_section(c->view, STORE_GRAMS),
                                 c->gram * (uint64_t)8, n * (uint64_t)8, c->ahead);
}

static const struct store_gram *here(const struct cursor *c) {
  return &c->ahead[c->gram % GRAMS_AHEAD];
}

/* Ascending from gram to gram; UINT64_MAX behind the last. */
static uint64_t key_of(struct cursor *c) {
  if (c->gram >= c->grams)
    return UINT64_MAX;
  while (c->bucket < STORE_FANS - 1 && c->gram >= c->fan[c->bucket + 1])
    c->bucket++;
  return (uint64_t)(c->bucket >> 8) << 32 | here(c)->low;
}

/* Posting i, from the buffer or with those behind it. */
static int posting_at(struct cursor *c, uint64_t i, uint32_t *posting) {
  if (i < c->posted || i - c->posted >= POSTINGS_AHEAD) {
    const uint64_t all =
        maru_similar_store_bytes(c->store, store_section(c->view, STORE_POSTINGS)) / 4;
    const uint64_t n = all - i < POSTINGS_AHEAD ? all - i : POSTINGS_AHEAD;
    const int failure =
        i >= all ? -EBADMSG
                 : maru_similar_store_read(c->store, store_section(c->view, STORE_POSTINGS), i * 4,
                                           n * 4, c->postings);
    if (failure < 0)
      return failure;
    c->posted = i;
  }
  *posting = c->postings[i - c->posted];
  return 0;
}

/* The postings of the cursor's gram at their new places, after the n of out. */
static int64_t take_postings(struct cursor *c, uint32_t *out, uint64_t room) {
  const struct store_gram *gram = here(c);
  const uint32_t n = gram[1].first - gram[0].first;
  if (gram[1].first < gram[0].first || n > room)
    return -EBADMSG;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t posting;
    const int failure = posting_at(c, gram[0].first + (uint64_t)i, &posting);
    if (failure < 0)
      return failure;
    const uint32_t submission = posting >> COUNT_BITS;
    if (submission >= maru_similar_store_submissions(c->store))
      return -EBADMSG;
    out[i] = c->place[submission] << COUNT_BITS | (posting & MOST_COUNTED);
  }
  c->gram++;
  const int failure = load_gram(c);
  return failure < 0 ? failure : (int64_t)n;
}

/* Two ascending runs, the second behind the first, as one. */
static void merge_runs(uint32_t *run, uint64_t first, uint64_t second, uint32_t *spare) {
  if (first == 0 || second == 0 || run[first - 1] <= run[first])
    return;
  memcpy(spare, run, first * sizeof *run);
  for (uint64_t i = 0, j = 0, out = 0; i < first;)
    run[out++] = j < second && run[first + j] < spare[i] ? run[first + j++] : spare[i++];
}

/* The least gram of all cursors, from each that has it. */
static int merge_gram(struct view *v, struct cursor *const *cursors, uint32_t count, uint64_t key,
                      uint32_t *run, uint32_t *spare, uint32_t room) {
  uint64_t n = 0;
  for (uint32_t s = 0; s < count; s++) {
    if (key_of(cursors[s]) != key)
      continue;
    const int64_t more = take_postings(cursors[s], run + n, room - n);
    if (more < 0)
      return (int)more;
    merge_runs(run, n, (uint64_t)more, spare);
    n += (uint64_t)more;
  }
  const int failure = begin_gram(v, (uint32_t)(key >> 32), (uint32_t)key);
  return failure < 0 ? failure : put_postings(v, run, n);
}

static int merge_grams(struct view *v, struct cursor *const *cursors, uint32_t count,
                       uint32_t room) {
  uint32_t *run = malloc((room + (size_t)1) * sizeof *run),
           *spare = malloc((room + (size_t)1) * sizeof *spare);
  int failure = run == NULL || spare == NULL ? -ENOMEM : 0;

  while (failure == 0) {
    uint64_t key = UINT64_MAX;
    for (uint32_t s = 0; s < count; s++)
      if (key_of(cursors[s]) < key)
        key = key_of(cursors[s]);
    if (key == UINT64_MAX)
      break;
    failure = merge_gram(v, cursors, count, key, run, spare, room);
  }
  free(run);
  free(spare);
  return failure;
}

static int merge_lengths(struct maru_similar_writer *writer, int view,
                         const struct maru_similar_store *const *sources,
                         const uint32_t *const *places, uint32_t count) {
  const uint32_t n = maru_similar_writer_submissions(writer);
  uint32_t *lengths = calloc(n + (size_t)1, sizeof *lengths),
           *own = malloc((n + (size_t)1) * sizeof *own);
  int failure = lengths == NULL || own == NULL ? -ENOMEM : 0;

  for (uint32_t s = 0; failure == 0 && s < count; s++) {
    const uint32_t have = maru_similar_store_submissions(sources[s]);
    failure = maru_similar_store_read(sources[s], store_section(view, STORE_LENGTHS), 0,
                                      have * (uint64_t)4, own);
    for (uint32_t i = 0; failure == 0 && i < have; i++)
      lengths[places[s][i]] = own[i];
  }
  if (failure == 0)
    failure = maru_similar_writer_put(writer, store_section(view, STORE_LENGTHS), lengths,
                                      n * (uint64_t)4);
  free(lengths);
  free(own);
  return failure;
}

/* How rare are each submission's grams? -------------------------------------------------------- */

enum { STRIPE = 131072 };

/* Of the submissions [from, from + STRIPE): how many grams of each rarity. */
static int count_rarities(struct view *v, uint32_t from, uint32_t *counts, uint32_t rarities) {
  struct store_gram grams[GRAMS_AHEAD + 1];
  uint32_t *postings = NULL;
  int failure = 0;

  for (uint32_t g = 0; failure == 0 && g < v->grams; g += GRAMS_AHEAD) {
    const uint32_t n = v->grams - g < GRAMS_AHEAD ? v->grams - g : GRAMS_AHEAD;
    failure = maru_similar_writer_read(v->writer, store_section(v->number, STORE_GRAMS),
                                       g * (uint64_t)8, (n + (uint64_t)1) * 8, grams);
    if (failure < 0)
      break;
    const uint64_t size = (grams[n].first - grams[0].first) * (uint64_t)4;
    uint32_t *more = realloc(postings, size + 4);
    failure = more == NULL ? -ENOMEM : 0;
    if (more == NULL)
      break;
    postings = more;
    failure = maru_similar_writer_read(v->writer, store_section(v->number, STORE_POSTINGS),
                                       grams[0].first * (uint64_t)4, size, postings);
    for (uint32_t i = 0; failure == 0 && i < n; i++) {
      const uint32_t rarity = rarity_of(grams[i + 1].first - grams[i].first);
      for (uint32_t p = grams[i].first; p < grams[i + 1].first; p++) {
        const uint32_t posting = postings[p - grams[0].first], at = (posting >> COUNT_BITS) - from;
        if (at < STRIPE)
          counts[at * (size_t)rarities + rarity] += posting & MOST_COUNTED;
      }
    }
  }
  free(postings);
  return failure;
}

/* A count that does not fit a word takes several. *words grows by what was written. */
static int write_rarities(struct view *v, const uint32_t *counts, uint32_t rarities,
                          uint64_t *words) {
  int failure = 0;
  for (uint32_t r = 0; r < rarities; r++)
    for (uint32_t left = counts[r]; failure == 0 && left > 0; ++*words) {
      const uint32_t some = left < MOST_OF_RARITY ? left : MOST_OF_RARITY,
                     word = r << RARITY_SHIFT | some;
      failure = maru_similar_writer_put(v->writer, store_section(v->number, STORE_RARE), &word,
                                        sizeof word);
      left -= some;
    }
  return failure;
}

static int merge_rarities(struct view *v) {
  const uint32_t n = maru_similar_writer_submissions(v->writer), rarities = rarity_of(n) + 1,
                 stripe = n < STRIPE ? n : STRIPE;
  uint32_t *counts = malloc((stripe * (size_t)rarities + 1) * sizeof *counts);
  uint64_t *first = calloc(n + (size_t)1, sizeof *first);
  int failure = counts == NULL || first == NULL ? -ENOMEM : 0;

  for (uint32_t from = 0; failure == 0 && from < n; from += STRIPE) {
    memset(counts, 0, stripe * (size_t)rarities * sizeof *counts);
    failure = count_rarities(v, from, counts, rarities);
    for (uint32_t i = from; failure == 0 && i < n && i - from < STRIPE; i++) {
      first[i + 1] = first[i];
      failure = write_rarities(v, counts + (i - from) * (size_t)rarities, rarities, &first[i + 1]);
    }
  }
  if (failure == 0)
    failure = maru_similar_writer_put(v->writer, store_section(v->number, STORE_RARE_FIRST), first,
                                      (n + (uint64_t)1) * 8);
  free(counts);
  free(first);
  return failure;
}

/* The view from cursors at the first gram. */
static int merge_view(struct view *v, struct maru_similar_writer *writer, int view,
                      const struct maru_similar_store *const *sources,
                      const uint32_t *const *places, struct cursor **cursors, uint32_t count) {
  uint64_t postings = 0;
  int failure = 0;

  for (uint32_t s = 0; failure == 0 && s < count; s++) {
    postings += maru_similar_store_bytes(sources[s], store_section(view, STORE_POSTINGS)) / 4;
    failure = open_cursor(cursors[s], sources[s], view, places[s]);
    if (failure == 0)
      failure = load_gram(cursors[s]);
  }
  if (failure == 0)
    failure = begin_view(v, writer, view, postings);
  if (failure == 0)
    failure = merge_grams(v, cursors, count, maru_similar_writer_submissions(writer));
  if (failure == 0)
    failure = v->postings == postings ? end_view(v) : -EBADMSG;
  if (failure == 0)
    failure = merge_lengths(writer, view, sources, places, count);
  return failure < 0 ? failure : merge_rarities(v);
}

int maru_similar_writer_merge(struct maru_similar_writer *writer, int view,
                              const struct maru_similar_store *const *sources,
                              const uint32_t *const *places, uint32_t count) {
  struct view *v = malloc(sizeof *v);
  struct cursor **cursors = calloc(count + (size_t)1, sizeof *cursors);
  int failure = v == NULL || cursors == NULL ? -ENOMEM : 0;

  for (uint32_t s = 0; failure == 0 && s < count; s++) {
    cursors[s] = malloc(sizeof **cursors);
    failure = cursors[s] == NULL ? -ENOMEM : 0;
  }
  if (failure == 0)
    failure = merge_view(v, writer, view, sources, places, cursors, count);
  for (uint32_t s = 0; cursors != NULL && s < count; s++)
    free(cursors[s]);
  free(cursors);
  free(v);
  return failure;
}
