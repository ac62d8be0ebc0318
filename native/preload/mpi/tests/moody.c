/* moody.c: in the place of calm.c for tests: calm comes and goes at random, at each rank by itself.
 */
#include "calm.h"
#include "rank.h"
#include "self.h"

#include <stdatomic.h>
#include <unistd.h>

/* Threads of MPI_THREAD_MULTIPLE share it; any of its values will do. */
static _Atomic uint32_t state;
static _Atomic bool calm;

bool mr_calm_join(void) {
  atomic_store_explicit(&state, (uint32_t)getpid() * 2654435761u | 1, memory_order_relaxed);
  return true;
}

_Thread_local struct mr_mood mr_mood; /* never in a row */
_Atomic bool mr_crowded;

bool mr_own_begin_timed(unsigned ends) { return !mr_asleep(ends) && mr_calm(); }
void mr_own_end(void) {}
void mr_call_took(int64_t ns) { (void)ns; }
bool mr_more_ranks_than_cpus(void) { return true; }

bool mr_calm(void) {
  uint32_t next = atomic_load_explicit(&state, memory_order_relaxed);
  next ^= next << 13;
  next ^= next >> 17;
  next ^= next << 5;
  atomic_store_explicit(&state, next, memory_order_relaxed);
  if (next % 16 == 0)
    atomic_store_explicit(&calm, !atomic_load_explicit(&calm, memory_order_relaxed),
                          memory_order_relaxed);
  return atomic_load_explicit(&calm, memory_order_relaxed);
}
