/* own.c: the overlay of this process. */
#include "lock.h"

static struct maru_overlay without_board;
struct mr_overlay mr_overlay = {.off = MR_GLIBC_OWN, .board = &without_board};
