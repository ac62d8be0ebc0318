#ifdef MARU_CC_ATOMICS
#include_next <stdatomic.h>
#else
#error "maru-cc: atomics order nothing between nodes; use a mutex, or -DMARU_CC_ATOMICS"
#endif
