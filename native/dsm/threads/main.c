/* main.c: what is linked into every program of maru-cc's. The linker sends the program's own main,
 * and its calls of malloc, mmap and exit, through here (ld's --wrap). It has no data: a program's
 * globals are exactly the program's.
 *
 * Libraries' calls do not come here, and what they allocate is theirs.  But what C++ calls for
 * `new` the standard says a program may define, and then libraries call the program's. So these are
 * defined here. What a container of the program's holds is the program's, whatever library asked
 * for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <maru/threads.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

int __real_main(int count, char **arguments, char **environment);
int __wrap_main(int count, char **arguments, char **environment);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
void *__wrap_memalign(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_valloc(size_t size);
int __wrap_posix_memalign(void **block, size_t alignment, size_t size);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t most);
void __wrap_exit(int status) __attribute__((noreturn));

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *address, size_t length);
void *__wrap_mremap(void *old, size_t old_length, size_t length, int flags, ...);
int __wrap_mprotect(void *address, size_t length, int protection);

/* The linker's. */
extern char data_start[], _end[];

/* Only of programs that create threads (create.c), or call maru_dsm_init (alike.c). */
extern const char maru_threads_here __attribute__((weak));
extern const char maru_alike_here __attribute__((weak));

int __wrap_main(int count, char **arguments, char **environment) {
  const struct maru_parmacs_program program = {__real_main, data_start, _end};
  if (&maru_threads_here != NULL)
    return maru_threads_main(&program, count, arguments);
  if (&maru_alike_here != NULL)
    return maru_alike_main(&program, count, arguments);
  return maru_parmacs_main(&program, count, arguments, environment);
}

void *__wrap_malloc(size_t size) { return maru_parmacs_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return maru_parmacs_calloc(count, size); }
void *__wrap_realloc(void *old, size_t size) { return maru_parmacs_realloc(old, size); }
void *__wrap_reallocarray(void *old, size_t count, size_t size) {
  size_t whole;
  if (!__builtin_mul_overflow(count, size, &whole))
    return maru_parmacs_realloc(old, whole);
  errno = ENOMEM;
  return NULL;
}
void *__wrap_memalign(size_t alignment, size_t size) {
  return maru_parmacs_memalign(alignment, size);
}
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return maru_parmacs_memalign(alignment, size);
}
void *__wrap_valloc(size_t size) { return maru_parmacs_memalign(PAGE_SIZE, size); }
void __wrap_free(void *block) { maru_parmacs_free(block); }
void __wrap_exit(int status) { maru_parmacs_exit(status); }

/* Also what atexit comes to, and C++'s objects that are static in a function. */
int __real___cxa_atexit(void (*call)(void *), void *argument, void *file);
int __wrap___cxa_atexit(void (*call)(void *), void *argument, void *file);
int __wrap___cxa_atexit(void (*call)(void *), void *argument, void *file) {
  int kept = maru_parmacs_at_exit(call, argument);
  return kept == 0 ? __real___cxa_atexit(call, argument, file) : kept < 0 ? -1 : 0;
}

/* std::locale::classic(); nobody's in a program without libstdc++. */
extern const void *classic_locale(void) __asm__("_ZNSt6locale7classicEv") __attribute__((weak));

/* Before those of the program, which may allocate; after those of libraries.  A program's streams
 * refer to the locale that libstdc++ makes when it first needs one.  A process that goes on in the
 * place of another has those streams, and has called nothing yet. */
__attribute__((constructor(101))) static void prepare(void) {
  if (&maru_threads_here != NULL)
    maru_threads_prepare();
  else
    maru_parmacs_prepare();
  if (classic_locale != NULL)
    classic_locale();
}

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
  return maru_parmacs_mmap(address, length, protection, flags, fd, offset);
}
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
  return maru_parmacs_mmap(address, length, protection, flags, fd, offset);
}
int __wrap_munmap(void *address, size_t length) { return maru_parmacs_munmap(address, length); }
int __wrap_mprotect(void *address, size_t length, int protection) {
  return maru_parmacs_mprotect(address, length, protection);
}
void *__wrap_mremap(void *old, size_t old_length, size_t length, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  void *address = flags & MREMAP_FIXED ? va_arg(rest, void *) : NULL;
  va_end(rest);
  return maru_parmacs_mremap(old, old_length, length, flags, address);
}

int __wrap_posix_memalign(void **block, size_t alignment, size_t size) {
  if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0)
    return EINVAL;
  void *found = maru_parmacs_memalign(alignment, size);
  if (found != NULL)
    *block = found;
  return found != NULL ? 0 : ENOMEM;
}

char *__wrap_strndup(const char *text, size_t most) {
  size_t length = strnlen(text, most);
  char *copy = maru_parmacs_malloc(length + 1);
  if (copy != NULL) {
    memcpy(copy, text, length);
    copy[length] = 0;
  }
  return copy;
}

char *__wrap_strdup(const char *text) { return __wrap_strndup(text, SIZE_MAX); }
