#error "maru-cc: a futex wakes no thread on another node; use a mutex and a condition variable"
#include_next <linux/futex.h>
