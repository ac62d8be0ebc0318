#define _GNU_SOURCE
#include "environment.h"

#include "../checkpoint.h"

#include <errno.h>
#include <maru/parmacs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of pointers to lines NAME=VALUE, with room for some more. */
static struct {
  char **lines;
  size_t room;
} ours;
static bool keeps;
static char **given;

void mr_environment_prepare(void) {
  keeps = mr_checkpoints_asked();
  given = environ;
}

void mr_environment_forget(void) {
  ours.lines = NULL;
  ours.room = 0;
  environ = given;
}

struct mr_range mr_environment_state(void) {
  return (struct mr_range){.from = (uint8_t *)&ours, .to = (uint8_t *)(&ours + 1)};
}

static size_t count_lines(void) {
  size_t count = 0;
  while (environ != NULL && environ[count] != NULL)
    count++;
  return count;
}

static bool is_of(const char *line, const char *name, size_t length) {
  return strncmp(line, name, length) == 0 && line[length] == '=';
}

static char **find(const char *name, size_t length) {
  for (char **at = environ; at != NULL && *at != NULL; at++)
    if (is_of(*at, name, length))
      return at;
  return NULL;
}

static char *copy_of(const char *line) {
  size_t size = strlen(line) + 1;
  char *copy = maru_parmacs_malloc(size);
  return copy != NULL ? memcpy(copy, line, size) : NULL;
}

/* In memory of the program's, where lines that the process was given are not. */
static int fill(char **lines, size_t count) {
  for (size_t i = 0; i < count; i++) {
    lines[i] = environ == ours.lines ? environ[i] : copy_of(environ[i]);
    if (lines[i] == NULL)
      return -1;
  }
  return 0;
}

/* For those that there are and one more. */
static int make_room(void) {
  size_t had = count_lines(), room = 2 * had + 16;
  if (environ == ours.lines && had + 1 < ours.room)
    return 0;
  char **lines = maru_parmacs_calloc(room, sizeof *lines);
  if (lines == NULL || fill(lines, had) < 0)
    return -1;
  maru_parmacs_free(ours.lines);
  environ = ours.lines = lines;
  ours.room = room;
  return 0;
}

static int put(char *line, size_t length) {
  if (make_room() < 0)
    return -1;
  char **at = find(line, length);
  size_t count = count_lines();
  if (at == NULL)
    environ[count + 1] = NULL;
  *(at != NULL ? at : environ + count) = line;
  return 0;
}

static bool is_name(const char *name) {
  if (name != NULL && *name != 0 && strchr(name, '=') == NULL)
    return true;
  errno = EINVAL;
  return false;
}

int maru_parmacs_setenv(const char *name, const char *value, int replaces) {
  if (!keeps)
    return setenv(name, value, replaces);
  if (!is_name(name))
    return -1;
  size_t length = strlen(name), rest = strlen(value) + 1;
  if (!replaces && find(name, length) != NULL)
    return 0;
  char *line = maru_parmacs_malloc(length + 1 + rest);
  if (line == NULL)
    return -1;
  memcpy(line, name, length);
  line[length] = '=';
  memcpy(line + length + 1, value, rest);
  return put(line, length);
}

int maru_parmacs_unsetenv(const char *name) {
  if (!keeps)
    return unsetenv(name);
  if (!is_name(name))
    return -1;
  size_t length = strlen(name);
  for (char **at = find(name, length); at != NULL; at = find(name, length))
    memmove(at, at + 1, (count_lines() - (size_t)(at - environ)) * sizeof *at);
  return 0;
}

int maru_parmacs_putenv(char *line) {
  if (!keeps)
    return putenv(line);
  const char *equals = strchr(line, '=');
  return equals != NULL ? put(line, (size_t)(equals - line)) : maru_parmacs_unsetenv(line);
}

int maru_parmacs_clearenv(void) {
  if (!keeps)
    return clearenv();
  if (make_room() < 0)
    return -1;
  environ[0] = NULL;
  return 0;
}
