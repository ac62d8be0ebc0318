#ifdef MARU_CC_ATOMICS
#include_next <stdatomic.h>
#else
#error                                                                                             \
    "maru-cc: atomic operations order nothing between nodes; use a mutex. -DMARU_CC_ATOMICS if they are one thread's"
#endif
