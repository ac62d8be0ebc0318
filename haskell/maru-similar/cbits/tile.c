/* All matches of a pair, the longest first. */
#include "tile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "similar.h"

enum { NONE = -1, STEPS = 4000000, STEPS_A_TOKEN = 200, MOST_STEPS = 200000000 };

static const uint64_t radix = 0x9e3779b97f4a7c15ull;

static uint32_t folded(uint64_t h) { return (uint32_t)(h * 0xff51afd7ed558ccdull >> 32); }

void maru_similar_windows(const uint32_t *codes, uint32_t n, uint32_t m, uint32_t *hashes) {
  uint64_t h = 0, top = 1;
  if (n < m)
    return;
  for (uint32_t i = 0; i < m; i++) {
    h = h * radix + codes[i] + 1;
    if (i > 0)
      top *= radix;
  }
  hashes[0] = folded(h);
  for (uint32_t i = m; i < n; i++) {
    h = (h - top * (codes[i - m] + (uint64_t)1)) * radix + codes[i] + 1;
    hashes[i - m + 1] = folded(h);
  }
}

struct maru_similar_tiler {
  uint32_t n, m, windows, mask;
  uint32_t *codes, *hashes;
  int32_t *head; /* [mask + 1]: the first window of a bucket */
  int32_t *next; /* [windows]: ascending */
};

static void link_windows(struct maru_similar_tiler *t) {
  for (uint32_t b = 0; b <= t->mask; b++)
    t->head[b] = NONE;
  for (uint32_t i = t->windows; i-- > 0;) {
    int32_t *head = &t->head[t->hashes[i] & t->mask];
    t->next[i] = *head;
    *head = (int32_t)i;
  }
}

static uint32_t windows_of(uint32_t n, uint32_t m) { return n < m ? 0 : n - m + 1; }

struct maru_similar_tiler *maru_similar_tiler_new(const uint32_t *codes, const uint32_t *hashes,
                                                  uint32_t n, uint32_t m) {
  struct maru_similar_tiler *t = calloc(1, sizeof *t);
  if (t == NULL)
    return NULL;
  t->n = n;
  t->m = m;
  t->windows = windows_of(n, m);
  size_t buckets = 16;
  while (buckets < 4 * (size_t)t->windows)
    buckets *= 2;
  t->mask = (uint32_t)(buckets - 1);
  t->codes = malloc((n + (size_t)1) * sizeof *t->codes);
  t->hashes = malloc((t->windows + (size_t)1) * sizeof *t->hashes);
  t->next = malloc((t->windows + (size_t)1) * sizeof *t->next);
  t->head = malloc(buckets * sizeof *t->head);
  if (t->codes == NULL || t->hashes == NULL || t->next == NULL || t->head == NULL) {
    maru_similar_tiler_free(t);
    return NULL;
  }
  memcpy(t->codes, codes, n * sizeof *codes);
  memcpy(t->hashes, hashes, t->windows * sizeof *hashes);
  link_windows(t);
  return t;
}

void maru_similar_tiler_free(struct maru_similar_tiler *t) {
  if (t == NULL)
    return;
  free(t->codes);
  free(t->hashes);
  free(t->next);
  free(t->head);
  free(t);
}

/* A token is covered where its mark is the number of the pair: marks need not be cleared. */
struct maru_similar_scratch {
  uint32_t *left, *right, pair;
  struct maru_similar_tile *heap;
  size_t used, room;
};

struct maru_similar_scratch *maru_similar_scratch_new(const struct maru_similar_tiler *t,
                                                      uint32_t most) {
  struct maru_similar_scratch *s = calloc(1, sizeof *s);
  if (s == NULL)
    return NULL;
  s->left = calloc(t->n + (size_t)1, sizeof *s->left);
  s->right = calloc(most + (size_t)1, sizeof *s->right);
  if (s->left == NULL || s->right == NULL) {
    maru_similar_scratch_free(s);
    return NULL;
  }
  return s;
}

void maru_similar_scratch_free(struct maru_similar_scratch *s) {
  if (s == NULL)
    return;
  free(s->left);
  free(s->right);
  free(s->heap);
  free(s);
}

uint32_t maru_similar_most_covered(const struct maru_similar_tiler *t, const uint32_t *hashes,
                                   uint32_t n) {
  uint32_t covered = 0, end = 0; /* end: of what is counted */
  for (uint32_t j = 0; j < windows_of(n, t->m); j++) {
    int32_t i = t->head[hashes[j] & t->mask];
    while (i != NONE && t->hashes[i] != hashes[j])
      i = t->next[i];
    if (i == NONE)
      continue;
    const uint32_t from = j > end ? j : end;
    end = j + t->m;
    covered += end - from;
  }
  return covered < t->n ? covered : t->n;
}

/* The heap --------------------------------------------------------------------------------------
 */

static int before(const struct maru_similar_tile *a, const struct maru_similar_tile *b) {
  if (a->length != b->length)
    return a->length > b->length;
  return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static int push(struct maru_similar_scratch *s, struct maru_similar_tile x) {
  if (s->used == s->room) {
    const size_t room = 2 * s->room + 64;
    struct maru_similar_tile *more = realloc(s->heap, room * sizeof *more);
    if (more == NULL)
      return -ENOMEM;
    s->heap = more;
    s->room = room;
  }
  size_t at = s->used++;
  for (size_t up; at > 0 && before(&x, &s->heap[up = (at - 1) / 2]); at = up)
    s->heap[at] = s->heap[up];
  s->heap[at] = x;
  return 0;
}

static struct maru_similar_tile pop(struct maru_similar_scratch *s) {
  const struct maru_similar_tile top = s->heap[0], x = s->heap[--s->used];
  size_t at = 0;
  for (size_t down; (down = 2 * at + 1) < s->used; at = down) {
    if (down + 1 < s->used && before(&s->heap[down + 1], &s->heap[down]))
      down++;
    if (!before(&s->heap[down], &x))
      break;
    s->heap[at] = s->heap[down];
  }
  if (s->used > 0)
    s->heap[at] = x;
  return top;
}

/* Matches ---------------------------------------------------------------------------------------
 */

/* The two sides of a call. */
struct pair {
  const struct maru_similar_tiler *t;
  const uint32_t *codes, *hashes;
  uint32_t n;
};

static int same(const struct pair *p, uint32_t i, uint32_t j) {
  return p->t->codes[i] == p->codes[j] && p->codes[j] != MARU_SIMILAR_BARRIER;
}

static uint32_t extent(const struct pair *p, uint32_t i, uint32_t j) {
  uint32_t k = 0;
  while (i + k < p->t->n && j + k < p->n && same(p, i + k, j + k))
    k++;
  return k;
}

/* All left-maximal matches into the heap. Whether that was within the bound of steps, or -ENOMEM.
 */
static int find_matches(const struct pair *p, struct maru_similar_scratch *s) {
  const struct maru_similar_tiler *t = p->t;
  const uint64_t tokens = (uint64_t)t->n + p->n, some = STEPS + STEPS_A_TOKEN * tokens,
                 bound = some < MOST_STEPS ? some : MOST_STEPS;
  uint64_t steps = 0;

  for (uint32_t j = 0; j < windows_of(p->n, t->m); j++) {
    int32_t i = t->head[p->hashes[j] & t->mask];
    if (i != NONE && steps > bound)
      return 0;
    for (; i != NONE; i = t->next[i]) {
      const uint32_t left = (uint32_t)i;
      uint32_t length = 0;
      if (t->hashes[i] == p->hashes[j] && !(i > 0 && j > 0 && same(p, left - 1, j - 1)))
        length = extent(p, left, j);
      if (length < t->m) {
        steps++;
        continue;
      }
      if (steps > bound)
        return 0;
      if (push(s, (struct maru_similar_tile){left, j, length}) < 0)
        return -ENOMEM;
      steps += length;
    }
  }
  return 1;
}

/* Tokens from there on that no tile covers, of a match. */
static uint32_t free_run(const struct maru_similar_scratch *s, uint32_t i, uint32_t j, uint32_t n) {
  uint32_t k = 0;
  while (k < n && s->left[i + k] != s->pair && s->right[j + k] != s->pair)
    k++;
  return k;
}

/* The free stretches of a match back into the heap; the first one is so long. */
static int push_pieces(const struct pair *p, struct maru_similar_scratch *s,
                       struct maru_similar_tile x, uint32_t run) {
  for (uint32_t from = 0; from < x.length;) {
    if (run >= p->t->m &&
        push(s, (struct maru_similar_tile){x.left + from, x.right + from, run}) < 0)
      return -ENOMEM;
    from += run + 1;
    if (from < x.length)
      run = free_run(s, x.left + from, x.right + from, x.length - from);
  }
  return 0;
}

static void mark(struct maru_similar_scratch *s, struct maru_similar_tile x) {
  for (uint32_t k = 0; k < x.length; k++)
    s->left[x.left + k] = s->right[x.right + k] = s->pair;
}

int64_t maru_similar_tiled(const struct maru_similar_tiler *t, struct maru_similar_scratch *s,
                           const uint32_t *codes, const uint32_t *hashes, uint32_t n,
                           uint32_t least, struct maru_similar_tile *tiles, uint32_t *found,
                           int *complete) {
  const struct pair p = {t, codes, hashes, n};
  int64_t covered = 0;

  *found = 0;
  *complete = 1;
  if (least > 0 && maru_similar_most_covered(t, hashes, n) < least)
    return 0;
  s->pair++;
  s->used = 0;
  const int within = find_matches(&p, s);
  if (within < 0)
    return within;
  *complete = within;
  while (s->used > 0) {
    const struct maru_similar_tile x = pop(s);
    const uint32_t run = free_run(s, x.left, x.right, x.length);
    if (run < x.length) {
      if (push_pieces(&p, s, x, run) < 0)
        return -ENOMEM;
      continue;
    }
    mark(s, x);
    covered += x.length;
    if (tiles != NULL)
      tiles[*found] = x;
    ++*found;
  }
  return covered;
}
