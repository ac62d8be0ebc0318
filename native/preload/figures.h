/* figures.h: words on a board that one thread at a time writes and anybody may read at any time
 * (internal).  All relaxed: each stands for itself. */
#ifndef MARU_PRELOAD_FIGURES_H
#define MARU_PRELOAD_FIGURES_H

#include <stdatomic.h>

#define MR_LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define MR_STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)
#define MR_ADD(word, more) MR_STORE(word, MR_LOAD(word) + (more))
/* Of what several may write at once. */
#define MR_COUNT(word) atomic_fetch_add_explicit(&(word), 1, memory_order_relaxed)

#endif
