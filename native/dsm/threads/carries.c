/* carries.c: linked into programs that change what a new thread takes along to its node. The linker
 * sends their calls through here. */
#define _GNU_SOURCE
#include <maru/threads.h>

#include <stddef.h>
#include <sys/stat.h>

#define CARRIES(result, name, what, changed, parameters, arguments)                                \
  result __real_##name parameters;                                                                 \
  result __wrap_##name parameters;                                                                 \
  result __wrap_##name parameters {                                                                \
    result done = __real_##name arguments;                                                         \
    maru_threads_changed(what, changed);                                                           \
    return done;                                                                                   \
  }

CARRIES(int, chdir, MARU_THREADS_FOLDER, NULL, (const char *path), (path))
CARRIES(int, fchdir, MARU_THREADS_FOLDER, NULL, (int fd), (fd))
CARRIES(mode_t, umask, MARU_THREADS_MASK, NULL, (mode_t mask), (mask))

char *__real_setlocale(int category, const char *name);
char *__wrap_setlocale(int category, const char *name);
char *__wrap_setlocale(int category, const char *name) {
  char *done = __real_setlocale(category, name);
  if (name != NULL && done != NULL)
    maru_threads_changed(MARU_THREADS_LOCALE, NULL);
  return done;
}

#define CARRIES_NAME(function, parameters, arguments, text)                                        \
  int __real_##function parameters;                                                                \
  int __wrap_##function parameters;                                                                \
  int __wrap_##function parameters {                                                               \
    int done = __real_##function arguments;                                                        \
    if (done == 0)                                                                                 \
      maru_threads_changed(MARU_THREADS_ENVIRONMENT, text);                                        \
    return done;                                                                                   \
  }

CARRIES_NAME(setenv, (const char *name, const char *value, int replace), (name, value, replace),
             name)
CARRIES_NAME(unsetenv, (const char *name), (name), name)
CARRIES_NAME(putenv, (char *text), (text), text)
