/* main.c: what is linked into every PARMACS program; the linker sends the program's own main, and
 * its calls of malloc and exit, through here (ld's --wrap).  It has no data: a program's
 * globals are exactly the program's.
 */
#include <errno.h>
#include <maru/parmacs.h>
#include <string.h>

int __real_main(int count, char **arguments, char **environment);
int __wrap_main(int count, char **arguments, char **environment);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_memalign(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_valloc(size_t size);
int __wrap_posix_memalign(void **block, size_t alignment, size_t size);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t most);
void __wrap_exit(int status) __attribute__((noreturn));

/* The linker's. */
extern char data_start[], _end[];

int __wrap_main(int count, char **arguments, char **environment) {
  const struct maru_parmacs_program program = {__real_main, data_start, _end};
  return maru_parmacs_main(&program, count, arguments, environment);
}

void *__wrap_malloc(size_t size) { return maru_parmacs_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return maru_parmacs_calloc(count, size); }
void *__wrap_realloc(void *old, size_t size) { return maru_parmacs_realloc(old, size); }
void *__wrap_memalign(size_t alignment, size_t size) {
  return maru_parmacs_memalign(alignment, size);
}
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return maru_parmacs_memalign(alignment, size);
}
void *__wrap_valloc(size_t size) { return maru_parmacs_memalign(PAGE_SIZE, size); }
void __wrap_free(void *block) { maru_parmacs_free(block); }
void __wrap_exit(int status) { maru_parmacs_exit(status); }

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
