/* section.h: the section "without" of a run's board: processes that ran without maru's libraries,
 * because a sanitizer is in them.  Maru.Cli.Fitting decodes it and knows this layout.  Written by
 * any process of the run: `path` by the one that counts the first.
 */
#ifndef MARU_PRELOAD_FIRST_SECTION_H
#define MARU_PRELOAD_FIRST_SECTION_H

#include <stdatomic.h>
#include <stdint.h>

#define MR_WITHOUT_SECTION "without"
#define MR_WITHOUT_VERSION 1u

struct mr_without {
  _Atomic uint64_t processes;
  char path[248]; /* of the first of them, perhaps cut off; ends with a 0 */
};

/* What the decoder knows. */
_Static_assert(sizeof(struct mr_without) == 256, "a number and a path");

#endif
