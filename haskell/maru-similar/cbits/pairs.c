/* From postings to pairs: one row of cells at a time, which the cache holds. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "index.h"

/* Adds what a submission shares with the postings [from, end) of one of its grams. */
static void add_gram(const struct maru_similar_index *x, struct has own, uint32_t from,
                     uint32_t first, uint64_t *masses) {
  const uint64_t weight = x->weight[own.gram];
  const uint32_t count = x->posting[own.posting] & MOST_COUNTED, end = x->first[own.gram + 1];

  for (uint32_t p = from; p < end; p++) {
    const uint32_t theirs = x->posting[p] & MOST_COUNTED;
    masses[(x->posting[p] >> COUNT_BITS) - first] += weight * (theirs < count ? theirs : count);
  }
}

/* Postings are read as far apart as their grams' hashes: those of this many grams later are asked
 * for ahead. */
enum { AHEAD = 6 };

static void ask_ahead(const struct maru_similar_index *x, uint64_t i) {
  __builtin_prefetch(&x->posting[x->has[i + AHEAD < x->listed ? i + AHEAD : i].posting]);
}

/* The masses with all later submissions; masses[0] is its own cell. */
static void masses_after(const struct maru_similar_index *x, uint32_t submission,
                         uint64_t *masses) {
  memset(masses, 0, (x->submissions - submission) * sizeof *masses);
  for (uint64_t i = x->row[submission]; i < x->row[submission + 1]; i++) {
    ask_ahead(x, i);
    add_gram(x, x->has[i], x->has[i].posting + 1, submission, masses);
  }
}

static void masses_with_all(const struct maru_similar_index *x, uint32_t submission,
                            uint64_t *masses) {
  memset(masses, 0, x->submissions * sizeof *masses);
  for (uint64_t i = x->row[submission]; i < x->row[submission + 1]; i++)
    add_gram(x, x->has[i], x->first[x->has[i].gram], 0, masses);
}

static double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

/* The part that the embedded similarity has in the mixture: half for programs of some size. In a
 * small one, a stretch that somebody else has, too, is found by chance. */
static double embedded_part(uint32_t smaller) { return 0.5 * smaller / (smaller + 100.0); }

/* How much a view says. The skeleton of a small program says little: those of a task are all alike.
 * The lexical view says what the others say, but for the form of statements and for names. */
static double say(int view, uint32_t smaller) {
  return view == 0 ? smaller / (smaller + 60.0) : view == 1 ? 2 : 1;
}

static uint32_t smaller_length(const struct maru_similar_index *x, uint32_t left, uint32_t right) {
  return x->length[left] < x->length[right] ? x->length[left] : x->length[right];
}

/* A pair from its three masses: the quadratic mean of the views, for a disguise that lowers one
 * leaves another high. A view that neither side has says nothing. */
static void rate(const struct maru_similar_index *const *views,
                 const uint64_t mass[MARU_SIMILAR_VIEWS], struct maru_similar_pair *pair) {
  double whole = 0, embedded = 0, said = 0;

  for (int v = 0; v < MARU_SIMILAR_VIEWS; v++) {
    const uint64_t a = views[v]->total[pair->left], b = views[v]->total[pair->right];
    const double average = share(2.0 * (double)mass[v], (double)(a + b)),
                 maximum = share((double)mass[v], (double)(a < b ? a : b));
    const double say_of_view =
        a + b == 0 ? 0 : say(v, smaller_length(views[v], pair->left, pair->right));
    pair->average[v] = (float)average;
    pair->maximum[v] = (float)maximum;
    whole += say_of_view * average * average;
    embedded += say_of_view * maximum * maximum;
    said += say_of_view;
  }
  whole = sqrt(share(whole, said));
  embedded = sqrt(share(embedded, said));
  const double part = embedded_part(smaller_length(views[1], pair->left, pair->right));
  pair->by[MARU_SIMILAR_BY_BOTH] = (float)((1 - part) * whole + part * embedded);
  pair->by[MARU_SIMILAR_BY_WHOLE] = (float)whole;
  pair->by[MARU_SIMILAR_BY_EMBEDDED] = (float)embedded;
}

/* What the rows of a call have in common. */
struct rows {
  const struct maru_similar_index *const *views;
  enum maru_similar_rank rank;
  float threshold;
  uint64_t *cells; /* a row of each view */
};

/* An upper bound of a row's similarities, for a fraction of what rate costs: where most pairs are
 * not reported, most end here. Whatever the rank, a similarity is at most the quadratic mean of the
 * views' maxima. */
struct bound {
  const double *inverse[MARU_SIMILAR_VIEWS];
  double own[MARU_SIMILAR_VIEWS];
  double square; /* of the threshold; what rounding may add is below it */
  double says;   /* what the structure view says at most: nobody's smaller side is larger */
  int holds;
};

static struct bound bound_of(const struct rows *r, uint32_t i) {
  struct bound b = {.square = (double)r->threshold * r->threshold * (1 - 1e-6),
                    .says = say(0, r->views[0]->length[i]),
                    .holds = r->threshold > 0};
  for (int v = 0; v < MARU_SIMILAR_VIEWS; v++) {
    b.inverse[v] = r->views[v]->inverse;
    b.own[v] = r->views[v]->inverse[i];
    /* A view that neither side has says nothing. */
    b.holds = b.holds && (v == 0 || r->views[v]->total[i] > 0);
  }
  return b;
}

/* By how much the square of a view's maximum is above that of the threshold. */
static double above(const struct bound *b, int view, uint64_t mass, uint32_t other) {
  const double theirs = b->inverse[view][other],
               maximum = (double)mass * (theirs > b->own[view] ? theirs : b->own[view]);
  return maximum * maximum - b->square;
}

static int out_of_reach(const struct bound *b, const uint64_t mass[MARU_SIMILAR_VIEWS],
                        uint32_t other) {
  const double structure = above(b, 0, mass[0], other);
  return b->holds && say(1, 0) * above(b, 1, mass[1], other) +
                             say(2, 0) * above(b, 2, mass[2], other) +
                             (structure > 0 ? b->says * structure : 0) <
                         0;
}

static int64_t row(const struct rows *r, uint32_t i, struct maru_similar_pair *pairs) {
  const uint32_t n = r->views[0]->submissions;
  const size_t width = n - i;
  const struct bound bound = bound_of(r, i);
  int64_t found = 0;

  for (int v = 0; v < MARU_SIMILAR_VIEWS; v++)
    masses_after(r->views[v], i, r->cells + v * width);
  for (uint32_t j = i + 1; j < n; j++) {
    const uint64_t *cell = r->cells + (j - i);
    const uint64_t mass[MARU_SIMILAR_VIEWS] = {cell[0], cell[width], cell[2 * width]};
    if (out_of_reach(&bound, mass, j))
      continue;
    struct maru_similar_pair pair = {.left = i, .right = j};
    rate(r->views, mass, &pair);
    if (pair.by[r->rank] >= r->threshold)
      pairs[found++] = pair;
  }
  return found;
}

int64_t maru_similar_rows(const struct maru_similar_index *const *views, uint32_t from, uint32_t to,
                          enum maru_similar_rank rank, float threshold,
                          struct maru_similar_pair *pairs) {
  struct rows r = {views, rank, threshold,
                   malloc((size_t)MARU_SIMILAR_VIEWS * views[0]->submissions * sizeof *r.cells)};
  int64_t found = 0;

  if (r.cells == NULL)
    return -ENOMEM;
  for (uint32_t i = from; i < to; i++)
    found += row(&r, i, pairs + found);
  free(r.cells);
  return found;
}

int maru_similar_against(const struct maru_similar_index *const *views, uint32_t submission,
                         enum maru_similar_rank rank, float *similarities) {
  const uint32_t n = views[0]->submissions;
  uint64_t *cells = malloc((size_t)MARU_SIMILAR_VIEWS * n * sizeof *cells);

  if (cells == NULL)
    return -ENOMEM;
  for (int v = 0; v < MARU_SIMILAR_VIEWS; v++)
    masses_with_all(views[v], submission, cells + (size_t)v * n);
  for (uint32_t j = 0; j < n; j++) {
    const uint64_t mass[MARU_SIMILAR_VIEWS] = {cells[j], cells[n + (size_t)j],
                                               cells[2 * (size_t)n + j]};
    struct maru_similar_pair pair = {.left = submission, .right = j};
    rate(views, mass, &pair);
    similarities[j] = j == submission ? 1 : pair.by[rank];
  }
  free(cells);
  return 0;
}
