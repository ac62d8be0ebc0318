/* thrown.c: what C++ calls for `throw`, by the names that compilers give it, so that no C++ is
 * needed to build it. All are weak: a program may have its own.
 *
 * An exception may be caught by one thread and thrown again by another (std::exception_ptr).  So
 * where a thread of the job throws, also within a library, the exception is the program's.  All
 * others are libstdc++'s: the program's memory is for threads of the job alone.
 *
 * Before an exception lies what the ABI of libstdc++ keeps of it: 128 bytes wherever a pointer has
 * 64 bits.  Libstdc++'s four functions are all here, so that a program that is linked with that
 * library itself gets none of the others from there.  There libc's malloc takes their place.
 */
#define _GNU_SOURCE
#include <maru/parmacs.h>
#include <maru/threads.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define WEAK(name) __asm__(name) __attribute__((weak))

#define ALIGNMENT 16
#define HEADER 128

#define NEW "__cxa_allocate_exception"
#define DELETE "__cxa_free_exception"
#define NEW_DEPENDENT "__cxa_allocate_dependent_exception"
#define DELETE_DEPENDENT "__cxa_free_dependent_exception"

/* The linker's: libc's. */
void *__real_malloc(size_t size);
void __real_free(void *block);
extern void terminate(void) WEAK("_ZSt9terminatev");

extern const char maru_threads_here __attribute__((weak));

/* maru-cc asks for it, as for new.c's. */
extern const char maru_thrown_here;
const char maru_thrown_here = 1;

/* ---- libstdc++'s -------------------------------------------------------------------------- */

static void *of_libc(size_t size) {
  void *block = __real_malloc(size);
  if (block == NULL && terminate != NULL)
    terminate();
  if (block == NULL)
    abort();
  return memset(block, 0, size);
}

/* Nothing is kept of what is looked up: the program's variables are shared. */
static void *new_of_library(size_t size) {
  void *(*call)(size_t);
  *(void **)&call = dlsym(RTLD_NEXT, NEW);
  return call != NULL ? call(size) : (char *)of_libc(HEADER + size) + HEADER;
}
static void *new_dependent_of_library(void) {
  void *(*call)(void);
  *(void **)&call = dlsym(RTLD_NEXT, NEW_DEPENDENT);
  return call != NULL ? call() : of_libc(HEADER);
}
static void delete_of_library(const char *name, void *exception, void *block) {
  void (*call)(void *);
  *(void **)&call = dlsym(RTLD_NEXT, name);
  if (call != NULL)
    call(exception);
  else
    __real_free(block);
}

/* ---- the program's ------------------------------------------------------------------------ */

static bool is_job_thread(void) { return &maru_threads_here != NULL && maru_threads_is_one(); }

/* NULL: nobody's here, or the program's memory is full. */
static char *new_of_program(size_t size) {
  void *block = is_job_thread() ? maru_parmacs_memalign(ALIGNMENT, size) : NULL;
  return block != NULL ? memset(block, 0, size) : NULL;
}

/* A library's thread leaves it there. */
static bool delete_of_program(void *block) {
  if (!maru_threads_gave(block))
    return false;
  if (is_job_thread())
    maru_parmacs_free(block);
  return true;
}

void *new_exception(size_t size) WEAK(NEW);
void *new_exception(size_t size) {
  char *block = new_of_program(HEADER + size);
  return block != NULL ? block + HEADER : new_of_library(size);
}
void delete_exception(void *exception) WEAK(DELETE);
void delete_exception(void *exception) {
  char *block = (char *)exception - HEADER;
  if (!delete_of_program(block))
    delete_of_library(DELETE, exception, block);
}
/* One that is thrown again; it has a header alone. */
void *new_dependent(void) WEAK(NEW_DEPENDENT);
void *new_dependent(void) {
  void *block = new_of_program(HEADER);
  return block != NULL ? block : new_dependent_of_library();
}
void delete_dependent(void *exception) WEAK(DELETE_DEPENDENT);
void delete_dependent(void *exception) {
  if (!delete_of_program(exception))
    delete_of_library(DELETE_DEPENDENT, exception, exception);
}

/* An exception_ptr holds it: where nodes have memory of their own, libstdc++'s count of holders
 * loses what two nodes do at once.  So one of the program's that was held there is never destroyed:
 * the count begins far from 0.  Whoever holds it first is who threw it; others learn of it in
 * order, and see that.
 */
#define NEVER_ZERO (1 << 28)

void hold_exception(void **exception) WEAK("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
void hold_exception(void **exception) {
  if (*exception == NULL)
    return;
  char *block = (char *)*exception - HEADER;
  int *count = (int *)block;
  bool lasts = maru_threads_gave(block) && !maru_threads_one_memory();
  /* relaxed: as libstdc++ has it; a holder that comes has learnt of the exception before. */
  bool first = __atomic_load_n(count, __ATOMIC_RELAXED) < NEVER_ZERO / 2;
  __atomic_add_fetch(count, first && lasts ? NEVER_ZERO : 1, __ATOMIC_RELAXED);
}
