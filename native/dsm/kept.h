/* kept.h: what a launcher says of a job's checkpoints, on its board for `maru top` (internal to
 * libmaru-dsm and maru-launch).
 *
 * The launcher of a job with checkpoints writes the section "kept", once a second at least.  For
 * people to look at: a reader may see it half old and half new.
 */
#ifndef MARU_DSM_KEPT_H
#define MARU_DSM_KEPT_H

#include <stdint.h>

#define MR_KEPT_SECTION "kept"
#define MR_KEPT_VERSION 4u
#define MR_KEPT_WHY 160

struct mr_kept {
  uint64_t nodes;
  uint64_t epoch;       /* from 1; each recovery is one more */
  uint64_t every_ms;    /* what was asked for */
  uint64_t number;      /* the last whole checkpoint; 0: none */
  uint64_t age_ms;      /* of it; of the job where there is none */
  uint64_t gathered_ms; /* from when it was wanted until all stood still */
  uint64_t written_ms;  /* and from then until it was whole */
  uint64_t bytes;       /* of its images */
  uint64_t changed;     /* of these, what had changed since the one before, and was written */
  uint64_t folder;      /* the last one that --ckpt-dir has; 0: none */
  uint64_t stretch_ms;  /* the longest time a node's program did not come to the runtime */
  uint64_t stretch_node;
  uint64_t repeated;             /* so often a lost node alone did again what it did */
  uint64_t repeats;              /* 1: one does; 0 */
  uint64_t journal_size;         /* bytes of each node's journal; 0: there are none */
  uint64_t journaled;            /* bytes that all journals were given in this epoch */
  uint64_t journal_most;         /* the most that one of them had at once */
  char unprotected[MR_KEPT_WHY]; /* why a loss costs more than `every_ms`; "": it does not */
};
_Static_assert(sizeof(struct mr_kept) == 17 * 8 + MR_KEPT_WHY, "no gaps");

#endif
