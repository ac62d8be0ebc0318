/* How much do programs share, weighed by how rare it is? The kernels of maru-similar.
 *
 * A view of a submission is a sequence of codes (a code a token). A gram is a window of k codes. Of
 * codes that are names counts only which of a gram's are the same. What a gram is worth falls with
 * the number of submissions that have it; the mass of a pair is the sum, over the grams that both
 * have, of the worth times the smaller of the two counts.
 *
 * All arithmetic on masses is in integers: the outcome does not depend on order, on who computes
 * which row, nor on the machine. An index is immutable once made: any number of threads and forked
 * processes may read it. Nothing here locks, blocks or keeps state between calls.
 */
#ifndef MARU_SIMILAR_H
#define MARU_SIMILAR_H

#include <stddef.h>
#include <stdint.h>

/* A code that is part of no gram: files of a submission meet here, and what is excluded was here.
 */
#define MARU_SIMILAR_BARRIER UINT32_MAX

/* From here on (below the barrier), a code is a name: of those in a gram counts only which are the
 * same. So equal stretches have equal grams, whatever their names are. Names of two families, as
 * these bits say, are never the same. */
#define MARU_SIMILAR_NAME 0x80000000u
#define MARU_SIMILAR_NAME_FAMILY 0x7e000000u

/* Structure, lexical, names. */
#define MARU_SIMILAR_VIEWS 3

struct maru_similar_index;

/* The index of one view of all submissions. Submission i has codes[offsets[i] .. offsets[i + 1]),
 * so there are submissions + 1 offsets. A stretch between barriers that is shorter than k is one
 * gram. A gram that a submission has more than 255 times counts 255 times. k is at least 1. The
 * caller frees *index. 0, -ENOMEM, or -EOVERFLOW (2^32 grams, or 2^24 submissions, and more).
 * O(codes); while it is made 8 bytes a code and up to 24 a gram that several have, afterwards up to
 * 20 a code that others share. */
int maru_similar_index_new(const uint32_t *codes, const uint64_t *offsets, uint32_t submissions,
                           uint32_t k, struct maru_similar_index **index);

/* The same with an archive's submissions behind them, its i at place[i]: as if all had been given
 * at once. Of grams that no new submission has only their worth is known, so an archive's
 * submission has no row. view: 0 to 2. Reads the file; -EBADMSG where it does not hold together.
 * O(codes, what the archive has of their grams, and its submissions). */
struct maru_similar_store;
int maru_similar_index_join(const struct maru_similar_store *archive, int view,
                            const uint32_t *place, const uint32_t *codes, const uint64_t *offsets,
                            uint32_t submissions, uint32_t k, struct maru_similar_index **index);
void maru_similar_index_free(struct maru_similar_index *index);

/* Steps that a row with all later submissions takes. For balancing. */
uint64_t maru_similar_row_cost(const struct maru_similar_index *index, uint32_t submission);

/* What pairs are ranked by. */
enum maru_similar_rank {
  MARU_SIMILAR_BY_BOTH,     /* whole and embedded, mixed by the size of the smaller */
  MARU_SIMILAR_BY_WHOLE,    /* the share of both that is common */
  MARU_SIMILAR_BY_EMBEDDED, /* the share of the smaller that is common */
};

/* A pair and how similar it is, each in [0, 1]. */
struct maru_similar_pair {
  uint32_t left, right;
  float average[MARU_SIMILAR_VIEWS]; /* 2 mass / (left + right) */
  float maximum[MARU_SIMILAR_VIEWS]; /* mass / the smaller */
  float by[3];                       /* by rank */
};

/* The pairs of the rows [from, to) that are at least that similar by the rank. A row is a
 * submission with all later ones. left < right in each pair; no pair comes in two rows. In the
 * order of the rows, then of the other submission.
 *
 * The three indices are of the same submissions. Room for all pairs of the rows in pairs. Returns
 * how many there are, or -ENOMEM. O(the rows' costs, and pairs); memory of three rows. */
int64_t maru_similar_rows(const struct maru_similar_index *const *views, uint32_t from, uint32_t to,
                          enum maru_similar_rank rank, float threshold,
                          struct maru_similar_pair *pairs);

/* How similar, by the rank, one submission is to each; 1 to itself. 0 or -ENOMEM. */
int maru_similar_against(const struct maru_similar_index *const *views, uint32_t submission,
                         enum maru_similar_rank rank, float *similarities);

#endif
