/* new.c: what C++ calls for `new` and `delete` (threads/main.c says why). They have the names that
 * compilers give them, so that no C++ is needed to build it. All are weak: a program may have its
 * own.
 *
 * libstdc++'s other forms call these four, or the program's where it has its own: so they are
 * left to libstdc++.
 *
 * As the standard has it: memory is asked of the program's new-handler again and again, and an
 * exception ends that.
 */
#include <maru/parmacs.h>

#define WEAK(name) __asm__(name) __attribute__((weak))

/* maru-cc asks for it: this file is linked in, whichever library the linker looks into first. */
extern const char maru_new_here;
const char maru_new_here = 1;

/* libstdc++'s; nobody's in a program without it, which does not call new either. */
extern void (*new_handler(void))(void) WEAK("_ZSt15get_new_handlerv");
extern void throw_bad_alloc(void) WEAK("_ZSt17__throw_bad_allocv");

static void *allocate(size_t alignment, size_t size) {
  void *block;
  while ((block = maru_parmacs_memalign(alignment, size > 0 ? size : 1)) == NULL) {
    void (*handler)(void) = new_handler != NULL ? new_handler() : NULL;
    if (handler != NULL)
      handler();
    else if (throw_bad_alloc != NULL)
      throw_bad_alloc();
    else
      return NULL;
  }
  return block;
}

#define PLAIN 16

void *new_plain(size_t size) WEAK("_Znwm");
void *new_plain(size_t size) { return allocate(PLAIN, size); }
void *new_aligned(size_t size, size_t alignment) WEAK("_ZnwmSt11align_val_t");
void *new_aligned(size_t size, size_t alignment) { return allocate(alignment, size); }

void delete_plain(void *block) WEAK("_ZdlPv");
void delete_plain(void *block) { maru_parmacs_free(block); }
void delete_aligned(void *block, size_t alignment) WEAK("_ZdlPvSt11align_val_t");
void delete_aligned(void *block, size_t alignment) {
  (void)alignment; /* a block knows it */
  maru_parmacs_free(block);
}
