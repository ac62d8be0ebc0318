/* arguments.c: see arguments.h. */
#include "arguments.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mr_whole(const char *text, int64_t least, int64_t most, int64_t *number) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  /* strtoll passes over spaces; a number of ours has none. */
  if (end == text || *end != '\0' || isspace((unsigned char)*text))
    return -EINVAL;
  if (errno == ERANGE || value < least || value > most)
    return -ERANGE;
  *number = value;
  return 0;
}

int mr_real(const char *text, double least, double most, double *number) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end != '\0' || isspace((unsigned char)*text))
    return -EINVAL;
  if (!(value >= least && value <= most)) /* nor is it NaN */
    return -ERANGE;
  *number = value;
  return 0;
}

static _Noreturn void refuse(const char *program, const char *name, const char *what) {
  fprintf(stderr, "maru: %s: %s: %s\n", program, name, what);
  exit(MR_USAGE);
}

static _Noreturn void refuse_number(const char *program, const struct mr_option *option,
                                    const char *text) {
  char what[160];
  snprintf(what, sizeof what, "'%.40s' is not %s of %s from %.12g to %.12g", text,
           option->kind == MR_WHOLE ? "a whole number" : "a number", option->what, option->least,
           option->most);
  refuse(program, option->name, what);
}

static void store(const char *program, const struct mr_option *option, const char *text) {
  int rc = 0;
  if (option->kind == MR_TEXT)
    *(const char **)option->into = text;
  else if (option->kind == MR_WHOLE)
    rc = mr_whole(text, (int64_t)option->least, (int64_t)option->most, option->into);
  else
    rc = mr_real(text, option->least, option->most, option->into);
  if (rc < 0)
    refuse_number(program, option, text);
}

static const struct mr_option *find(const struct mr_option *options, size_t count,
                                    const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(options[i].name, name) == 0)
      return &options[i];
  return NULL;
}

int mr_arguments(const char *program, const struct mr_option *options, size_t count, int argc,
                 char **argv) {
  int at = 1;
  for (; at < argc && argv[at][0] == '-' && argv[at][1] != '\0'; at++) {
    if (strcmp(argv[at], "--") == 0)
      return at + 1;
    const struct mr_option *option = find(options, count, argv[at]);
    if (option == NULL)
      refuse(program, argv[at], "no such option");
    if (option->kind == MR_FLAG)
      *(bool *)option->into = true;
    else if (at + 1 == argc)
      refuse(program, argv[at], "its value is missing");
    else
      store(program, option, argv[++at]);
  }
  return at;
}
