/* stdlib.h as the explorer's tests see it: memory whose life is watched. */
#ifndef MARU_EXPLORE_STDLIB_H
#define MARU_EXPLORE_STDLIB_H

#include_next <stdlib.h>

#include "../explore.h"

#define aligned_alloc(alignment, size) explore_alloc(size)
#define free(memory) explore_free(memory)

#endif
