/* From codes to grams.
 *
 * Grams are scattered by the first byte of their hash, stably, and each of the 256 parts is sorted
 * by the next 32 bits, stably again.
 */
#include "grams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* A window's code at i: a name is its family, and as far as it is from the window's first that is
 * the same. */
static uint64_t code_in(const uint32_t *window, uint32_t i) {
  uint32_t first = 0;

  if (window[i] < MARU_SIMILAR_NAME)
    return window[i];
  while (window[first] != window[i])
    first++;
  return MARU_SIMILAR_NAME + (window[i] & MARU_SIMILAR_NAME_FAMILY) + (uint64_t)(i - first);
}

static uint64_t gram_at(const uint32_t *window, uint32_t n) {
  uint64_t h = 0;

  for (uint32_t i = 0; i < n; i++)
    h = h * 0x9e3779b97f4a7c15ull + code_in(window, i) + 1;
  return mixed(h + n);
}

/* The grams of a stretch without barriers. */
static void grams_of_stretch(const uint32_t *codes, size_t n, uint32_t k, gram_seen seen,
                             void *context) {
  const uint32_t window = n < k ? (uint32_t)n : k;

  for (size_t i = 0; n > 0 && i + window <= n; i++)
    seen(context, gram_at(codes + i, window));
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

int maru_similar_grams(const uint32_t *codes, const uint64_t *offsets, uint32_t submissions,
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
