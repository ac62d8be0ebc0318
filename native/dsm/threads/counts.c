/* counts.c: counts that the runtime of C++ keeps of who holds an object (maru/threads.h).
 *
 * Where all threads have one memory an atomic operation serves.  Else two nodes that change a count
 * at once would each keep its own, so the lock of the table of threads orders them.  What a holder
 * wrote before it let go is then seen by whoever destroys the object.
 */
#define _GNU_SOURCE
#include "threads.h"

#include <maru/threads.h>

int maru_threads_one_memory(void) { return !mr_node_started() || mr_node_lone(); }

/* A library's own thread may run the program's copy of what libstdc++ has inline; it takes no lock
 * of the job, nor has it anything that is shared. */
static bool needs_no_lock(void) { return maru_threads_one_memory() || !maru_threads_is_one(); }

int maru_threads_exchange_and_add(volatile int *count, int more) {
  /* acq_rel: as libstdc++ has it; the last holder sees what the others did. */
  if (needs_no_lock())
    return __atomic_fetch_add(count, more, __ATOMIC_ACQ_REL);
  mr_threads_lock();
  /* acq_rel: in a program in the ANL macros that lock is none. */
  int before = __atomic_fetch_add(count, more, __ATOMIC_ACQ_REL);
  mr_threads_unlock();
  return before;
}

static int compare_exchange(volatile int *count, int *expected, int wanted) {
  /* acq_rel, relaxed: as libstdc++ has it; acq_rel as above. */
  return __atomic_compare_exchange_n(count, expected, wanted, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

int maru_threads_compare_exchange(volatile int *count, int *expected, int wanted) {
  if (needs_no_lock())
    return compare_exchange(count, expected, wanted);
  mr_threads_lock();
  int done = compare_exchange(count, expected, wanted);
  mr_threads_unlock();
  return done;
}
