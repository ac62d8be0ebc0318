/* The kernels under sanitizers: random submissions, seeded, all entries, every byte that they may
 * touch and none else. What the values are is compared with a model elsewhere (WeighTest.hs); here:
 * no report of a sanitizer, symmetry, bounds, equals are 1.
 *
 * Usage: kernels [ROUNDS]. Status 0, or 1 and one line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "similar.h"

static uint64_t state;

static uint32_t draw(uint32_t below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(state >> 33) % below;
}

static int fail(const char *what, int round) {
  fprintf(stderr, "kernels: round %d: %s\n", round, what);
  return 1;
}

/* So many submissions of a few codes each, the first two equal; in blocks of exact size. */
static uint64_t *make(uint32_t n, uint32_t **codes) {
  uint64_t *offsets = malloc((n + (size_t)1) * sizeof *offsets);
  if (offsets == NULL)
    abort();
  offsets[0] = 0;
  for (uint32_t i = 0; i < n; i++)
    offsets[i + 1] = offsets[i] + draw(60);
  if (n > 1)
    offsets[1] = draw(60);
  if (n > 1) {
    const uint64_t was = offsets[2];
    offsets[2] = 2 * offsets[1];
    for (uint32_t i = 3; i <= n; i++)
      offsets[i] = offsets[i] - was + offsets[2];
  }
  *codes = malloc((offsets[n] + 1) * sizeof **codes);
  if (*codes == NULL)
    abort();
  *codes = realloc(*codes, offsets[n] > 0 ? offsets[n] * sizeof **codes : 1);
  for (uint64_t i = 0; i < offsets[n]; i++)
    (*codes)[i] = draw(20) == 0  ? MARU_SIMILAR_BARRIER
                  : draw(4) == 0 ? MARU_SIMILAR_NAME + draw(4)
                                 : draw(4);
  if (n > 1)
    memcpy(*codes + offsets[1], *codes, offsets[1] * sizeof **codes);
  return offsets;
}

static int in_range(const struct maru_similar_pair *p, uint32_t n) {
  if (p->left >= p->right || p->right >= n)
    return 0;
  for (int v = 0; v < MARU_SIMILAR_VIEWS; v++)
    if (!(p->average[v] >= 0 && p->average[v] <= 1 && p->maximum[v] >= 0 && p->maximum[v] <= 1))
      return 0;
  for (int r = 0; r < 3; r++)
    if (!(p->by[r] >= 0 && p->by[r] <= 1.000001f))
      return 0;
  return 1;
}

static int round_of(int round) {
  const uint32_t n = 1 + draw(40),
                 lengths[MARU_SIMILAR_VIEWS] = {1 + draw(6), 1 + draw(12), 1 + draw(6)};
  struct maru_similar_index *views[MARU_SIMILAR_VIEWS];
  uint32_t *codes;
  uint64_t *offsets = make(n, &codes);
  const int some = offsets[n > 0 ? 1 : 0] > 0 && codes[0] != MARU_SIMILAR_BARRIER;

  for (int v = 0; v < MARU_SIMILAR_VIEWS; v++)
    if (maru_similar_index_new(codes, offsets, n, lengths[v], &views[v]) != 0)
      return fail("no index", round);
  free(codes);
  free(offsets);

  struct maru_similar_pair *pairs = malloc((size_t)n * n * sizeof *pairs + 1);
  float *similar = malloc(n * sizeof *similar);
  if (pairs == NULL || similar == NULL)
    abort();
  const struct maru_similar_index *const *const all =
      (const struct maru_similar_index *const *)views;
  const int64_t found = maru_similar_rows(all, 0, n, MARU_SIMILAR_BY_BOTH, 0, pairs);
  if (found != (int64_t)n * (n - 1) / 2)
    return fail("not all pairs", round);
  if (n > 1 && some && pairs[0].by[MARU_SIMILAR_BY_BOTH] != 1)
    return fail("equals are not 1", round);
  for (int64_t p = 0; p < found; p++)
    if (!in_range(&pairs[p], n))
      return fail("a pair out of range", round);
  for (uint32_t i = 0; i < n; i++) {
    if (maru_similar_against(all, i, MARU_SIMILAR_BY_BOTH, similar) != 0)
      return fail("no row", round);
    for (int64_t p = 0; p < found; p++)
      if (pairs[p].left == i && similar[pairs[p].right] != pairs[p].by[MARU_SIMILAR_BY_BOTH])
        return fail("a row says otherwise", round);
  }
  const int64_t apart = maru_similar_rows(all, 0, n / 2, MARU_SIMILAR_BY_WHOLE, 0.5f, pairs);
  for (int64_t p = 0; p < apart; p++)
    if (!in_range(&pairs[p], n) || pairs[p].left >= n / 2)
      return fail("a pair of another row", round);

  for (int v = 0; v < MARU_SIMILAR_VIEWS; v++)
    maru_similar_index_free(views[v]);
  free(pairs);
  free(similar);
  return 0;
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 300;

  state = 108;
  for (int round = 0; round < rounds; round++)
    if (round_of(round) != 0)
      return 1;
  maru_similar_index_free(NULL);
  return 0;
}
