/* new.c: what C++ calls for `new` and `delete` (threads/main.c says why). They have the names that
 * compilers give them, so that no C++ is needed to build it. All are weak: a program may have its
 * own.
 *
 * As the standard has it: memory is asked of the program's new-handler again and again. Where there
 * is none, the answer is an exception, or NULL from those that do not throw.
 */
#include <maru/parmacs.h>

#define WEAK(name) __asm__(name) __attribute__((weak))

/* libstdc++'s; nobody's in a program without it, which does not call new either. */
extern void (*new_handler(void))(void) WEAK("_ZSt15get_new_handlerv");
extern void throw_bad_alloc(void) WEAK("_ZSt17__throw_bad_allocv");

static void *allocate(size_t alignment, size_t size) {
  void *block;
  while ((block = maru_parmacs_memalign(alignment, size > 0 ? size : 1)) == NULL) {
    void (*handler)(void) = new_handler != NULL ? new_handler() : NULL;
    if (handler == NULL)
      return NULL;
    handler();
  }
  return block;
}

static void *allocate_or_throw(size_t alignment, size_t size) {
  void *block = allocate(alignment, size);
  if (block == NULL && throw_bad_alloc != NULL)
    throw_bad_alloc();
  return block;
}

#define PLAIN 16

#define NEW(c_name, name)                                                                          \
  void *c_name(size_t size) WEAK(name);                                                            \
  void *c_name(size_t size) { return allocate_or_throw(PLAIN, size); }                             \
  void *c_name##_or_null(size_t size, const void *tag) WEAK(name "RKSt9nothrow_t");                \
  void *c_name##_or_null(size_t size, const void *tag) {                                           \
    (void)tag;                                                                                     \
    return allocate(PLAIN, size);                                                                  \
  }                                                                                                \
  void *c_name##_aligned(size_t size, size_t alignment) WEAK(name "St11align_val_t");              \
  void *c_name##_aligned(size_t size, size_t alignment) {                                          \
    return allocate_or_throw(alignment, size);                                                     \
  }                                                                                                \
  void *c_name##_aligned_or_null(size_t size, size_t alignment, const void *tag)                   \
      WEAK(name "St11align_val_tRKSt9nothrow_t");                                                  \
  void *c_name##_aligned_or_null(size_t size, size_t alignment, const void *tag) {                 \
    (void)tag;                                                                                     \
    return allocate(alignment, size);                                                              \
  }

NEW(new_one, "_Znwm")
NEW(new_many, "_Znam")

/* Whatever else they are told: a block knows its size. */
#define DELETE(c_name, name)                                                                       \
  void c_name(void *block) WEAK(name);                                                             \
  void c_name(void *block) { maru_parmacs_free(block); }

DELETE(delete_one, "_ZdlPv")
DELETE(delete_one_sized, "_ZdlPvm")
DELETE(delete_one_quietly, "_ZdlPvRKSt9nothrow_t")
DELETE(delete_one_aligned, "_ZdlPvSt11align_val_t")
DELETE(delete_one_sized_aligned, "_ZdlPvmSt11align_val_t")
DELETE(delete_one_aligned_quietly, "_ZdlPvSt11align_val_tRKSt9nothrow_t")
DELETE(delete_many, "_ZdaPv")
DELETE(delete_many_sized, "_ZdaPvm")
DELETE(delete_many_quietly, "_ZdaPvRKSt9nothrow_t")
DELETE(delete_many_aligned, "_ZdaPvSt11align_val_t")
DELETE(delete_many_sized_aligned, "_ZdaPvmSt11align_val_t")
DELETE(delete_many_aligned_quietly, "_ZdaPvSt11align_val_tRKSt9nothrow_t")
