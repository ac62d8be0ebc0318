/* thrown.c: what C++ calls for `throw`, by the names that compilers give it, so that no C++ is
 * needed to build it. All are weak: a program may have its own.
 *
 * An exception may be caught by one thread and thrown again by another (std::exception_ptr).  So
 * it is the program's, also where a library throws it.  Before it lies what the ABI of libstdc++
 * keeps of it: 128 bytes wherever a pointer has 64 bits.  Libstdc++'s four functions are all here,
 * so that a program that is linked with that library itself gets none of the others from there.
 */
#include <maru/parmacs.h>
#include <maru/threads.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define WEAK(name) __asm__(name) __attribute__((weak))

#define ALIGNMENT 16
#define HEADER 128

/* The linker's: libc's. */
void *__real_malloc(size_t size);
extern void terminate(void) WEAK("_ZSt9terminatev");

/* Where the program's memory is full the exception that says so lies in this process's. */
static char *allocate_exception(size_t size) {
  char *block = maru_parmacs_memalign(ALIGNMENT, size);
  if (block == NULL)
    block = __real_malloc(size);
  if (block == NULL && terminate != NULL)
    terminate();
  if (block == NULL)
    abort();
  return memset(block, 0, size);
}

void *new_exception(size_t size) WEAK("__cxa_allocate_exception");
void *new_exception(size_t size) { return allocate_exception(HEADER + size) + HEADER; }
void delete_exception(void *exception) WEAK("__cxa_free_exception");
void delete_exception(void *exception) { maru_parmacs_free((char *)exception - HEADER); }
/* One that is thrown again; it has a header alone. */
void *new_dependent(void) WEAK("__cxa_allocate_dependent_exception");
void *new_dependent(void) { return allocate_exception(HEADER); }
void delete_dependent(void *exception) WEAK("__cxa_free_dependent_exception");
void delete_dependent(void *exception) { maru_parmacs_free(exception); }

/* An exception_ptr holds it: where nodes have memory of their own, libstdc++'s count of holders
 * loses what two nodes do at once.  So one that was held there is never destroyed: the count begins
 * far from 0.  Whoever holds it first is who threw it; others learn of it in order, and see that.
 */
#define NEVER_ZERO (1 << 28)

void hold_exception(void **exception) WEAK("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
void hold_exception(void **exception) {
  if (*exception == NULL)
    return;
  int *count = (int *)((char *)*exception - HEADER);
  /* relaxed: as libstdc++ has it; a holder that comes has learnt of the exception before. */
  bool first = __atomic_load_n(count, __ATOMIC_RELAXED) < NEVER_ZERO / 2;
  int more = first && !maru_threads_one_memory() ? NEVER_ZERO : 1;
  __atomic_add_fetch(count, more, __ATOMIC_RELAXED);
}
