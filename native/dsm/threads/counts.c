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

int maru_threads_exchange_and_add(volatile int *count, int more) {
  /* acq_rel: as libstdc++ has it; the last holder sees what the others did. */
  if (maru_threads_one_memory())
    return __atomic_fetch_add(count, more, __ATOMIC_ACQ_REL);
  mr_threads_lock();
  /* acq_rel: in a program in the ANL macros that lock is none. */
  int before = __atomic_fetch_add(count, more, __ATOMIC_ACQ_REL);
  mr_threads_unlock();
  return before;
}
