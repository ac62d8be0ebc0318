/* arguments.c: see arguments.h. */
#include "arguments.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static _Noreturn void refuse_value(const char *program, const struct mr_option *option,
                                   const char *text) {
  char what[240];
  snprintf(what, sizeof what, "'%.40s' is no %s", text, option->what);
  refuse(program, option->name, what);
}

static void store(const char *program, const struct mr_option *option, const char *text) {
  int rc = 0;
  if (option->kind == MR_EACH) {
    const struct mr_each *each = option->into;
    if (each->take(each->context, text) < 0)
      refuse_value(program, option, text);
  } else if (option->kind == MR_TEXT)
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

void mr_operands(const char *program, const struct mr_option *operands, size_t count, int argc,
                 char *const *argv) {
  if (argc != (int)count) {
    fprintf(stderr, "maru: usage: %s", program);
    for (size_t i = 0; i < count; i++)
      fprintf(stderr, " %s", operands[i].name);
    fputc('\n', stderr);
    exit(MR_USAGE);
  }
  for (size_t i = 0; i < count; i++)
    store(program, &operands[i], argv[i]);
}

void mr_setting(const char *program, const struct mr_option *settings, size_t count,
                const char *argument) {
  const char *value = strchr(argument, '=');
  for (size_t i = 0; value != NULL && i < count; i++)
    if (strlen(settings[i].name) == (size_t)(value - argument) &&
        strncmp(settings[i].name, argument, (size_t)(value - argument)) == 0) {
      store(program, &settings[i], value + 1);
      return;
    }
  refuse(program, argument, "no such setting; NAME=VALUE is needed");
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
