/* history.h: what has changed in a home's pages since a version (internal to libmaru-dsm).
 *
 * A page's home receives diffs; each makes a version.  A node that has a copy of version v
 * needs only the blocks that later diffs touched.  Two indexes tell which, and a
 * history may keep either or both:
 *
 *     diffs    the bitmaps of the last `gap` diffs of the page; their union is exact to the
 *              block.  Costs a bitmap per diff to search, and 64 bytes each to keep.
 *              Source: seed 3, section 3.2 (diff range).
 *     stamps   for each line of 64 bytes the version that changed it last; exact to the line,
 *              whatever the gap.  Costs the same always, and 256 bytes a page.
 *
 * Memory is taken where a page changes first.  Where it is refused, older versions are
 * unknown, and the caller sends the page.  Thread-safety: none.
 */
#ifndef MARU_DSM_HISTORY_H
#define MARU_DSM_HISTORY_H

#include "diff.h"

#include <stdbool.h>
#include <stdint.h>

#define MR_LINE 64u
#define MR_LINES (MR_PAGE / MR_LINE)

struct mr_history;

/* `gap` diffs a page, 0 for no such index.  -ENOMEM. */
int mr_history_create(struct mr_history **history, uint32_t pages, uint32_t gap, bool stamps);
void mr_history_destroy(struct mr_history *history);

/* `page` changed where `bitmap` says, and has `version` since.  Where that is not one more than
 * before, what was before is forgotten. */
void mr_history_add(struct mr_history *history, uint32_t page, uint64_t version,
                    const uint64_t *bitmap);

/* Nobody knows what changed up to the newest version. */
void mr_history_forget(struct mr_history *history, uint32_t page);

/* Unites in `bitmap` what changed after version `have`; how many blocks. -ENOENT: that is not
 * known any more. -EFBIG: more than `most` blocks (the search ends there). `searched` grows by
 * the diffs that were looked at. */
int mr_history_diffs(const struct mr_history *history, uint32_t page, uint64_t have, uint32_t most,
                     uint64_t *bitmap, uint64_t *searched);
/* The same from the stamps, in whole lines; never -EFBIG. */
int mr_history_stamps(const struct mr_history *history, uint32_t page, uint64_t have,
                      uint64_t *bitmap);

#endif
