/* text.c: what libc allocates for a program that asks it for a line or a path, or to print to new
 * memory (main.c).  It is the program's memory: a created process, a thread and a checkpoint have
 * it. Libc would also enlarge a block with its own realloc, which ended the process. */
#define _GNU_SOURCE
#include <errno.h>
#include <maru/parmacs.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#define LEAST 120u

ssize_t __wrap_getdelim(char **line, size_t *room, int end, FILE *stream);
ssize_t __wrap___getdelim(char **line, size_t *room, int end, FILE *stream);
ssize_t __wrap_getline(char **line, size_t *room, FILE *stream);
int __wrap_vasprintf(char **text, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap___vasprintf_chk(char **text, int flag, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
int __wrap___asprintf_chk(char **text, int flag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Room for so many bytes. */
static int have(char **line, size_t *room, size_t size) {
  if (*line != NULL && size <= *room)
    return 0;
  size_t more = 2 * *room > size ? 2 * *room : size;
  char *larger = maru_parmacs_realloc(*line, more > LEAST ? more : LEAST);
  if (larger == NULL)
    return -1;
  *line = larger;
  *room = more > LEAST ? more : LEAST;
  return 0;
}

/* With the stream's lock: -1 where there was nothing, or no memory for it. */
static ssize_t read_to(char **line, size_t *room, int end, FILE *stream) {
  size_t length = 0;
  int byte = 0;
  while (byte != end && (byte = getc_unlocked(stream)) != EOF) {
    if (have(line, room, length + 2) < 0)
      return -1;
    (*line)[length++] = (char)byte;
  }
  if (length == 0)
    return -1;
  (*line)[length] = 0;
  return (ssize_t)length;
}

ssize_t __wrap_getdelim(char **line, size_t *room, int end, FILE *stream) {
  if (line == NULL || room == NULL) {
    errno = EINVAL;
    return -1;
  }
  flockfile(stream);
  ssize_t length = read_to(line, room, end, stream);
  funlockfile(stream);
  return length;
}
ssize_t __wrap___getdelim(char **line, size_t *room, int end, FILE *stream) {
  return __wrap_getdelim(line, room, end, stream);
}
ssize_t __wrap_getline(char **line, size_t *room, FILE *stream) {
  return __wrap_getdelim(line, room, '\n', stream);
}

int __wrap_vasprintf(char **text, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *block = length >= 0 ? maru_parmacs_malloc((size_t)length + 1) : NULL;
  if (block == NULL)
    return -1;
  *text = block;
  return vsnprintf(block, (size_t)length + 1, format, arguments);
}
int __wrap___vasprintf_chk(char **text, int flag, const char *format, va_list arguments) {
  (void)flag;
  return __wrap_vasprintf(text, format, arguments);
}

int __wrap_asprintf(char **text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = __wrap_vasprintf(text, format, arguments);
  va_end(arguments);
  return length;
}
int __wrap___asprintf_chk(char **text, int flag, const char *format, ...) {
  va_list arguments;
  (void)flag;
  va_start(arguments, format);
  int length = __wrap_vasprintf(text, format, arguments);
  va_end(arguments);
  return length;
}

/* ---- paths, where the caller gives no room ----------------------------------------------------
 */

static char *of_program(char *of_libc) {
  char *copy = of_libc != NULL ? maru_parmacs_malloc(strlen(of_libc) + 1) : NULL;
  if (copy != NULL)
    strcpy(copy, of_libc);
  maru_parmacs_free(of_libc);
  return copy;
}

#define PATH(name, parameters, arguments, room)                                                    \
  char *__real_##name parameters;                                                                  \
  char *__wrap_##name parameters;                                                                  \
  char *__wrap_##name parameters {                                                                 \
    char *path = __real_##name arguments;                                                          \
    return room != NULL ? path : of_program(path);                                                 \
  }
PATH(realpath, (const char *path_of, char *room), (path_of, room), room)
PATH(canonicalize_file_name, (const char *path_of), (path_of), NULL)
PATH(getcwd, (char *room, size_t size), (room, size), room)
PATH(get_current_dir_name, (void), (), NULL)
