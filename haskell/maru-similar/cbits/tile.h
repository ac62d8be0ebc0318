/* Exact greedy string tiling (Wise 1993): the longest common stretch of tokens that no tile covers
 * yet, on both sides, again and again, until none of the minimum length is left.
 *
 * One side is indexed once: a table of the running Karp-Rabin hashes of its m-grams, m being the
 * minimum match length. For the other side, all left-maximal matches are found through the table
 * and go into a heap. The longest is popped, the earliest of these; what earlier tiles cover splits
 * it.
 *
 * O(n + matches (length + log matches)) a pair. Two sides that repeat themselves have quadratically
 * many matches: a pair may take MOST_STEPS steps and so many a token, then it goes on with the
 * matches found so far. Steps are counted, not timed: the result is the same on every machine.
 *
 * A tiler is immutable: any threads may use it. A scratch is one thread's.
 */
#ifndef MARU_SIMILAR_TILE_H
#define MARU_SIMILAR_TILE_H

#include <stdint.h>

struct maru_similar_tiler;
struct maru_similar_scratch;

/* A stretch that both sides have: where it begins on the indexed side and on the other. */
struct maru_similar_tile {
  uint32_t left, right, length;
};

/* The hash of each window of m codes; n - m + 1 of them, none where n < m. m is at least 1. */
void maru_similar_windows(const uint32_t *codes, uint32_t n, uint32_t m, uint32_t *hashes);

/* Indexes a side of less than 2^31 codes and copies it. NULL: no memory. O(n). */
struct maru_similar_tiler *maru_similar_tiler_new(const uint32_t *codes, const uint32_t *hashes,
                                                  uint32_t n, uint32_t m);
void maru_similar_tiler_free(struct maru_similar_tiler *tiler);

/* Work space for that side and others of at most so many codes. NULL: no memory. */
struct maru_similar_scratch *maru_similar_scratch_new(const struct maru_similar_tiler *tiler,
                                                      uint32_t most);
void maru_similar_scratch_free(struct maru_similar_scratch *scratch);

/* At least as many tokens as the tiles with the other side cover: those that windows cover of which
 * the indexed side has one of the same hash. O(n). */
uint32_t maru_similar_most_covered(const struct maru_similar_tiler *tiler, const uint32_t *hashes,
                                   uint32_t n);

/* How many tokens the tiles cover, on either side. Where maru_similar_most_covered is below least,
 * nothing is tiled and 0 returned. Where tiles is not NULL it has room for n / m of them, the
 * longest first, and *found says how many. *complete: 0 where the bound of steps was met, and more
 * may be covered. -ENOMEM. */
int64_t maru_similar_tiled(const struct maru_similar_tiler *tiler,
                           struct maru_similar_scratch *scratch, const uint32_t *codes,
                           const uint32_t *hashes, uint32_t n, uint32_t least,
                           struct maru_similar_tile *tiles, uint32_t *found, int *complete);

#endif
