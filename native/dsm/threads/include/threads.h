#error "maru-cc: C11's threads do not run on the nodes of a job; use those of pthread.h"
#include_next <threads.h>
