#define _GNU_SOURCE
#include "self.h"

struct mr_self mr_self = {.lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP};
