/* self.c: this process as a rank. */
#include "self.h"

struct mr_self mr_self = {.kind = MARU_WAIT_ADAPTIVE};
