#define _GNU_SOURCE
#include "carried.h"

#include "../node.h"
#include "../parmacs/iostreams.h"
#include "private.h"

#include <errno.h>
#include <inttypes.h>
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

enum {
  FOLDER = 'd',
  FORMAT = 'f',
  HANDLERS = 'h',
  MASK = 'm',
  LOCALE = 'l',
  SET = 's',
  UNSET = 'u'
};

/* What this process has changed since it told or took that piece. */
static struct {
  bool folder, mask, locale;
  char **names; /* of the environment */
  size_t count;
  uint32_t number;                        /* what was told or taken last, as a whole */
  struct mr_format formats[MR_IOSTREAMS]; /* as they were told or taken last */
  struct mr_handlers handlers;            /* the same */
} own;

static void *need(void *memory) {
  if (memory == NULL)
    mr_node_die(STATUS_UNAVAILABLE, "no memory for what threads take along");
  return memory;
}

/* Its place; `name` may be followed by a value.  own.count: it is not there. */
static size_t place_of(const char *name) {
  size_t length = strcspn(name, "="), at = 0;
  while (at < own.count &&
         (strncmp(own.names[at], name, length) != 0 || own.names[at][length] != 0))
    at++;
  return at;
}

static void note_name(const char *name) {
  if (place_of(name) < own.count)
    return;
  size_t length = strcspn(name, "=");
  char *kept = mr_private_take(length + 1);
  memcpy(kept, name, length);
  kept[length] = 0;
  own.names = mr_private_widen(own.names, (own.count + 1) * sizeof *own.names);
  own.names[own.count++] = kept;
}

static void forget_name(const char *name) {
  size_t at = place_of(name);
  if (at == own.count)
    return;
  mr_private_give(own.names[at]);
  own.names[at] = own.names[--own.count];
}

void maru_threads_changed(int what, const char *name) {
  own.folder |= what == MARU_THREADS_FOLDER;
  own.mask |= what == MARU_THREADS_MASK;
  own.locale |= what == MARU_THREADS_LOCALE;
  if (what == MARU_THREADS_ENVIRONMENT)
    note_name(name);
}

/* A program sets these by inline functions, so that nobody is told. */
static bool is_formatted(int stream, struct mr_format *now) {
  const struct mr_format *then = &own.formats[stream];
  return mr_iostreams_format(stream, now) && (now->precision != then->precision ||
                                              now->flags != then->flags || now->fill != then->fill);
}

static bool is_handled(struct mr_handlers *now) {
  return mr_iostreams_handlers(now) &&
         (now->no_memory != own.handlers.no_memory || now->terminates != own.handlers.terminates);
}

static bool is_cxx_changed(void) {
  struct mr_format now;
  struct mr_handlers handlers;
  for (int i = 0; i < MR_IOSTREAMS; i++)
    if (is_formatted(i, &now))
      return true;
  return is_handled(&handlers);
}

static bool is_changed(const char *piece) {
  struct mr_format now;
  struct mr_handlers handlers;
  switch (*piece) {
  case FORMAT:
    return is_formatted(piece[1] - '0', &now);
  case HANDLERS:
    return is_handled(&handlers);
  case FOLDER:
    return own.folder;
  case MASK:
    return own.mask;
  case LOCALE:
    return own.locale;
  default:
    return place_of(piece + 1) < own.count;
  }
}

static void forget_changes(void) {
  own.folder = own.mask = own.locale = false;
  while (own.count > 0)
    mr_private_give(own.names[--own.count]);
  mr_carried_begin();
}

void mr_carried_begin(void) {
  for (int i = 0; i < MR_IOSTREAMS; i++)
    mr_iostreams_format(i, &own.formats[i]);
  mr_iostreams_handlers(&own.handlers);
}

struct mr_range mr_carried_state(void) {
  return (struct mr_range){.from = (uint8_t *)&own, .to = (uint8_t *)(&own + 1)};
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

static void put_formats(FILE *to) {
  struct mr_format now;
  for (int i = 0; i < MR_IOSTREAMS; i++)
    if (is_formatted(i, &now))
      fprintf(to, "%c%d %td %" PRIu32 " %" PRIu64 "%c", FORMAT, i, now.precision, now.flags,
              now.fill, 0);
}

static void put_handlers(FILE *to) {
  struct mr_handlers now;
  if (is_handled(&now))
    fprintf(to, "%c%" PRIxPTR " %" PRIxPTR "%c", HANDLERS, (uintptr_t)now.no_memory,
            (uintptr_t)now.terminates, 0);
}

static void put_changes(FILE *to) {
  put_formats(to);
  put_handlers(to);
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

/* What others have told stays. */
static void put_rest(FILE *to, const struct mr_carried *told) {
  if (told == NULL)
    return;
  for (const char *at = told->text; at < told->text + told->size; at += strlen(at) + 1)
    if (!is_changed(at))
      put(to, *at, at + 1);
}

static struct mr_carried *merged(const struct mr_carried *told) {
  char *text = NULL;
  size_t size = 0;
  FILE *to = need(open_memstream(&text, &size));
  put_changes(to);
  put_rest(to, told);
  if (fclose(to) != 0)
    need(NULL);
  struct mr_carried *now = need(maru_parmacs_malloc(sizeof *now + size));
  now->number = (told != NULL ? told->number : 0) + 1;
  now->size = size;
  memcpy(now->text, text, size);
  free(text);
  return now;
}

void mr_carried_tell(struct mr_carried **told) {
  if (!own.folder && !own.mask && !own.locale && own.count == 0 && !is_cxx_changed())
    return;
  struct mr_carried *now = merged(*told);
  /* Else what others told meanwhile is still to be taken. */
  if (own.number == now->number - 1)
    own.number = now->number;
  forget_changes();
  maru_parmacs_free(*told);
  *told = now;
}

/* ---- taking ---------------------------------------------------------------------------- */

static void take_variable(char *entry) {
  char *value = strchr(entry, '=');
  if (value != NULL)
    *value++ = 0;
  need(maru_parmacs_setenv(entry, value != NULL ? value : "", 1) == 0 ? entry : NULL);
}

static void take_format(const char *value) {
  struct mr_format format;
  int stream;
  if (sscanf(value, "%d %td %" SCNu32 " %" SCNu64, &stream, &format.precision, &format.flags,
             &format.fill) != 4)
    return;
  mr_iostreams_set_format(stream, &format);
  own.formats[stream] = format;
}

/* The program and its libraries lie at the same addresses on every node. */
static void take_handlers(const char *value) {
  uintptr_t no_memory, terminates;
  if (sscanf(value, "%" SCNxPTR " %" SCNxPTR, &no_memory, &terminates) != 2)
    return;
  own.handlers = (struct mr_handlers){(void (*)(void))no_memory, (void (*)(void))terminates};
  mr_iostreams_set_handlers(&own.handlers);
}

static void take(char *piece) {
  char *value = piece + 1;
  switch (*piece) {
  case FORMAT:
    take_format(value);
    break;
  case HANDLERS:
    take_handlers(value);
    break;
  case FOLDER:
    own.folder = false;
    if (chdir(value) != 0)
      mr_node_die(STATUS_UNAVAILABLE, "%s, the working directory of the thread's creator: %s",
                  value, strerror(errno));
    break;
  case MASK:
    own.mask = false;
    umask((mode_t)strtoul(value, NULL, 8));
    break;
  case LOCALE:
    own.locale = false;
    if (setlocale(LC_ALL, value) == NULL)
      mr_node_die(STATUS_UNAVAILABLE, "%s, the locale of the thread's creator, is not here", value);
    break;
  case SET:
    forget_name(value);
    take_variable(value);
    break;
  case UNSET:
    forget_name(value);
    maru_parmacs_unsetenv(value);
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
