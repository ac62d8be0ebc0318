#error "maru-cc: a futex wakes no thread on another node; use a mutex and a condition variable"
