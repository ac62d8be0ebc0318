#define _GNU_SOURCE
#include "carried.h"

#include "../node.h"

#include <errno.h>
#include <locale.h>
#include <maru/parmacs.h>
#include <maru/threads.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In shared memory.  The text has pieces, each with its end: a letter that says what it is, and a
 * value. */
struct mr_carried {
  uint32_t number;
  size_t size;
  char text[];
};

enum { FOLDER = 'd', MASK = 'm', LOCALE = 'l', SET = 's', UNSET = 'u' };

/* This process's. */
static struct {
  bool news, folder, mask, locale;
  char **names; /* of the environment: those that were changed */
  size_t count;
  uint32_t number; /* what was told or taken last */
} own;

static void *need(void *memory) {
  if (memory == NULL)
    mr_node_die(STATUS_UNAVAILABLE, "no memory for what threads take along");
  return memory;
}

/* `name` may be followed by a value. */
static void note_name(const char *name) {
  char *copy = need(strndup(name, strcspn(name, "=")));
  for (size_t i = 0; i < own.count; i++)
    if (strcmp(own.names[i], copy) == 0) {
      free(copy);
      return;
    }
  own.names = need(realloc(own.names, (own.count + 1) * sizeof *own.names));
  own.names[own.count++] = copy;
}

void maru_threads_changed(int what, const char *name) {
  own.news = true;
  own.folder |= what == MARU_THREADS_FOLDER;
  own.mask |= what == MARU_THREADS_MASK;
  own.locale |= what == MARU_THREADS_LOCALE;
  if (what == MARU_THREADS_ENVIRONMENT)
    note_name(name);
}

/* ---- telling --------------------------------------------------------------------------- */

static void put(FILE *to, char what, const char *value) {
  fputc(what, to);
  fputs(value, to);
  fputc(0, to);
}

static void put_folder(FILE *to) {
  char *folder = getcwd(NULL, 0);
  if (folder == NULL)
    mr_node_die(STATUS_UNAVAILABLE, "the working directory that a thread takes along: %s",
                strerror(errno));
  put(to, FOLDER, folder);
  free(folder);
}

static void put_mask(FILE *to) {
  mode_t mask = umask(0);
  umask(mask);
  fprintf(to, "%c%o%c", MASK, (unsigned)mask, 0);
}

static void put_all(FILE *to) {
  if (own.folder)
    put_folder(to);
  if (own.mask)
    put_mask(to);
  if (own.locale)
    put(to, LOCALE, setlocale(LC_ALL, NULL));
  for (size_t i = 0; i < own.count; i++) {
    const char *value = getenv(own.names[i]);
    if (value == NULL)
      put(to, UNSET, own.names[i]);
    else
      fprintf(to, "%c%s=%s%c", SET, own.names[i], value, 0);
  }
}

void mr_carried_tell(struct mr_carried **told) {
  if (!own.news)
    return;
  char *text = NULL;
  size_t size = 0;
  FILE *to = need(open_memstream(&text, &size));
  put_all(to);
  if (fclose(to) != 0)
    need(NULL);
  struct mr_carried *now = need(maru_parmacs_malloc(sizeof *now + size));
  now->number = (*told != NULL ? (*told)->number : 0) + 1;
  now->size = size;
  memcpy(now->text, text, size);
  free(text);
  maru_parmacs_free(*told);
  *told = now;
  own.number = now->number;
  own.news = false;
}

/* ---- taking ---------------------------------------------------------------------------- */

static void take_variable(char *entry) {
  char *value = strchr(entry, '=');
  note_name(entry);
  if (value != NULL)
    *value++ = 0;
  need(setenv(entry, value != NULL ? value : "", 1) == 0 ? entry : NULL);
}

static void take(char *piece) {
  char *value = piece + 1;
  switch (*piece) {
  case FOLDER:
    own.folder = true;
    if (chdir(value) != 0)
      mr_node_die(STATUS_UNAVAILABLE, "%s, the working directory of the thread's creator: %s",
                  value, strerror(errno));
    break;
  case MASK:
    own.mask = true;
    umask((mode_t)strtoul(value, NULL, 8));
    break;
  case LOCALE:
    own.locale = true;
    if (setlocale(LC_ALL, value) == NULL)
      mr_node_die(STATUS_UNAVAILABLE, "%s, the locale of the thread's creator, is not here", value);
    break;
  case SET:
    take_variable(value);
    break;
  case UNSET:
    note_name(value);
    unsetenv(value);
    break;
  }
}

void mr_carried_take(const struct mr_carried *told) {
  if (told == NULL || told->number == own.number)
    return;
  own.number = told->number;
  char *text = need(malloc(told->size + 1));
  memcpy(text, told->text, told->size);
  for (char *at = text; at < text + told->size;) {
    char *next = at + strlen(at) + 1;
    take(at);
    at = next;
  }
  free(text);
}
