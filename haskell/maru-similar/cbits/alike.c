/* Grams with equal postings as one. What a class has in common, and what runs through a copy, is
 * many grams that the same submissions have. A pair's mass adds them once. */
#include "alike.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int maru_similar_alike_open(struct alike *alike, uint64_t grams) {
  uint64_t slots = 2;
  while (slots < grams + grams / 2)
    slots *= 2;
  alike->mask = slots - 1;
  alike->slots = calloc(slots, sizeof *alike->slots);
  return alike->slots == NULL ? -ENOMEM : 0;
}

void maru_similar_alike_close(struct alike *alike) { free(alike->slots); }

static uint64_t hash_of(const uint32_t *postings, uint64_t n) {
  uint64_t h = n;
  for (uint64_t i = 0; i < n; i++) {
    h = (h ^ postings[i]) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 32;
  }
  return h;
}

static int equal(const struct maru_similar_index *x, uint32_t a, uint32_t b) {
  const uint32_t n = x->first[a + 1] - x->first[a];
  return n == x->first[b + 1] - x->first[b] &&
         memcmp(x->posting + x->first[a], x->posting + x->first[b], n * sizeof *x->posting) == 0;
}

void maru_similar_alike_fold(struct alike *alike, struct maru_similar_index *x) {
  const uint32_t last = x->grams - 1, from = x->first[last];
  const uint64_t hash = hash_of(x->posting + from, x->postings - from);
  uint64_t at = hash & alike->mask;

  for (; alike->slots[at] != 0; at = (at + 1) & alike->mask) {
    const uint32_t earlier = (uint32_t)alike->slots[at] - 1;
    /* A weight that has no room for more stays, and another gram begins. */
    if (alike->slots[at] >> 32 == hash >> 32 && equal(x, earlier, last) &&
        x->weight[earlier] <= UINT32_MAX - x->weight[last]) {
      x->weight[earlier] += x->weight[last];
      x->postings = from;
      x->grams = last;
      return;
    }
  }
  alike->slots[at] = hash >> 32 << 32 | x->grams;
}
