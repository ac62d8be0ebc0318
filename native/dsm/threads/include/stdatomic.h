#ifndef MARU_CC_ATOMICS
#error "maru-cc: atomics order nothing between nodes; use a mutex, or -DMARU_CC_ATOMICS"
#endif
#include_next <stdatomic.h>
