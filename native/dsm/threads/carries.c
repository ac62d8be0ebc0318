/* carries.c: linked into programs that change what a new thread takes along to its node. The linker
 * sends their calls through here. */
#define _GNU_SOURCE
#include <maru/parmacs.h>
#include <maru/threads.h>

#include "../programs.h"

#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

extern const char maru_threads_here __attribute__((weak));

#define CARRIES(result, name, what, parameters, arguments)                                         \
  result __real_##name parameters;                                                                 \
  result __wrap_##name parameters;                                                                 \
  result __wrap_##name parameters {                                                                \
    result done = __real_##name arguments;                                                         \
    maru_threads_changed(what, NULL);                                                              \
    return done;                                                                                   \
  }

CARRIES(int, chdir, MARU_THREADS_FOLDER, (const char *path), (path))
CARRIES(int, fchdir, MARU_THREADS_FOLDER, (int fd), (fd))
CARRIES(mode_t, umask, MARU_THREADS_MASK, (mode_t mask), (mask))

char *__real_setlocale(int category, const char *name);
char *__wrap_setlocale(int category, const char *name);
char *__wrap_setlocale(int category, const char *name) {
  char *done = __real_setlocale(category, name);
  if (name != NULL && done != NULL)
    maru_threads_changed(MARU_THREADS_LOCALE, NULL);
  return done;
}

static int carries(int done, const char *text) {
  if (done == 0 && &maru_threads_here != NULL)
    maru_threads_changed(MARU_THREADS_ENVIRONMENT, text);
  return done;
}

#define CARRIES_NAME(function, parameters, arguments, text)                                        \
  int __real_##function parameters;                                                                \
  int __wrap_##function parameters;                                                                \
  int __wrap_##function parameters {                                                               \
    return mr_is_programs((uintptr_t)&__real_##function)                                           \
               ? __real_##function arguments                                                       \
               : carries(maru_parmacs_##function arguments, text);                                 \
  }

CARRIES_NAME(setenv, (const char *name, const char *value, int replace), (name, value, replace),
             name)
CARRIES_NAME(unsetenv, (const char *name), (name), name)
CARRIES_NAME(putenv, (char *text), (text), text)

int __real_clearenv(void);
int __wrap_clearenv(void);
int __wrap_clearenv(void) {
  if (mr_is_programs((uintptr_t)&__real_clearenv))
    return __real_clearenv();
  for (char **each = environ; each != NULL && *each != NULL; each++)
    carries(0, *each);
  return maru_parmacs_clearenv();
}
