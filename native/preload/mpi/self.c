#include "self.h"

struct mr_self mr_self = {.kind = MARU_WAIT_ADAPTIVE};
