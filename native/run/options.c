#define _GNU_SOURCE
/* options.c: read by hand, not by arguments.h: a mistake here ends with status 125, and options
 * apply in their order. */
#include "options.h"

#include "numbers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int refuse(const char *what, const char *about) {
  fprintf(stderr, "maru-supervise: %s: %s\n", what, about);
  return -1;
}

static int set_environment(char *assignment) {
  char *equals = strchr(assignment, '=');
  if (equals == NULL || equals == assignment)
    return refuse("--setenv needs NAME=VALUE", assignment);
  *equals = '\0';
  int failed = setenv(assignment, equals + 1, 1);
  *equals = '=';
  return failed ? refuse("cannot set in the environment", assignment) : 0;
}

/* Goes before what is there, so that later --preload options come first. */
static int add_preload(const char *path) {
  /* The dynamic linker splits LD_PRELOAD there and knows no escape. */
  if (path[0] == '\0' || strpbrk(path, ": \t") != NULL)
    return refuse("--preload needs a path without colons and spaces", path);
  const char *others = getenv("LD_PRELOAD");
  if (others == NULL || others[0] == '\0')
    return setenv("LD_PRELOAD", path, 1) ? refuse("cannot preload", path) : 0;
  char *joined;
  if (asprintf(&joined, "%s:%s", path, others) < 0)
    return refuse("no memory to preload", path);
  int failed = setenv("LD_PRELOAD", joined, 1);
  free(joined);
  return failed ? refuse("cannot preload", path) : 0;
}

static int read_descriptor(const char *text, int *fd) {
  int64_t number;
  if (mr_whole(text, 3, 1 << 20, &number) < 0 || fcntl((int)number, F_GETFD) < 0)
    return refuse("--report-fd needs an open descriptor, 3 or above", text);
  *fd = (int)number;
  return 0;
}

static int read_room(const char *text, size_t *room) {
  int64_t bytes;
  if (mr_whole(text, 0, INT64_C(1) << 40, &bytes) < 0)
    return refuse("--board-room needs a number of bytes, 2^40 at most", text);
  *room = (size_t)bytes;
  return 0;
}

static int add_beside(struct options *options, char *word) {
  size_t count = 0;
  while (options->beside[count] != NULL)
    count++;
  if (count == BESIDE_WORDS)
    return refuse("too many words of --beside", word);
  options->beside[count] = word;
  return 0;
}

static int read_option(struct options *options, const char *name, char *value) {
  if (strcmp(name, "--setenv") == 0)
    return set_environment(value);
  if (strcmp(name, "--preload") == 0)
    return add_preload(value);
  if (strcmp(name, "--report-fd") == 0)
    return read_descriptor(value, &options->report_fd);
  if (strcmp(name, "--board-room") == 0)
    return read_room(value, &options->board_room);
  if (strcmp(name, "--memory") == 0)
    return memory_read(&options->memory, value)
               ? 0
               : refuse("--memory needs prefer:NODE or interleave:NODES", value);
  if (strcmp(name, "--beside") == 0)
    return add_beside(options, value);
  if (strcmp(name, "--verdict") == 0) {
    options->quiet = strcmp(value, "no") == 0;
    return options->quiet || strcmp(value, "yes") == 0 ? 0
                                                       : refuse("--verdict needs yes or no", value);
  }
  if (strcmp(name, "--reporter") == 0) {
    options->reporter = value;
    return 0;
  }
  return refuse("unknown option", name);
}

/* setenv changes the list and leaves the strings that it replaces. */
static char **environment_now(void) {
  size_t count = 0;
  while (environ != NULL && environ[count] != NULL)
    count++;
  char **copy = calloc(count + 1, sizeof *copy);
  if (copy != NULL && count > 0)
    memcpy(copy, environ, count * sizeof *copy);
  return copy;
}

static int read_all(struct options *options, int argc, char **argv) {
  int at = 1;
  while (at < argc && strcmp(argv[at], "--") != 0) {
    if (at + 1 >= argc)
      return refuse("option without a value", argv[at]);
    if (read_option(options, argv[at], argv[at + 1]) < 0)
      return -1;
    at += 2;
  }
  if (at + 1 >= argc)
    return refuse("no command", "usage: maru-supervise [OPTION VALUE]... -- COMMAND [ARGUMENT]...");
  options->command = argv + at + 1;
  return 0;
}

int options_read(struct options *options, int argc, char **argv) {
  *options = (struct options){.report_fd = -1, .found = environment_now()};
  if (options->found == NULL)
    return refuse("no memory", "environment");
  int rc = read_all(options, argc, argv);
  if (rc < 0)
    options_free(options);
  return rc;
}

void options_free(struct options *options) { free(options->found); }
