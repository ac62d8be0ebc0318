/* arguments.h: the options of a helper program, as a table (internal).
 *
 * A program lists its options once. mr_arguments reads them, checks each number against its
 * bounds and stores it where the table says. A mistake is one line on standard error: program,
 * argument, what it may be; the program then ends with status 64.
 *
 * For main alone.
 */
#ifndef MARU_ARGUMENTS_H
#define MARU_ARGUMENTS_H

#include "numbers.h"

#include <stddef.h>
#include <stdint.h>

/* Exit status of a wrong command line, as in sysexits.h. */
#define MR_USAGE 64

enum mr_option_kind {
  MR_FLAG,  /* bool: the option takes no value */
  MR_WHOLE, /* int64_t, decimal */
  MR_REAL,  /* double */
  MR_TEXT,  /* const char *, into argv */
  MR_EACH   /* struct mr_each: may come again */
};

/* Takes a value; negative: it is none of `what`. */
struct mr_each {
  int (*take)(void *context, const char *value);
  void *context;
};

struct mr_option {
  const char *name; /* as typed: "-t", "--period" */
  enum mr_option_kind kind;
  void *into;
  const char *what;   /* of a number or MR_EACH, for messages: "threads", "microseconds" */
  double least, most; /* of a number, both allowed */
};

/* Reads argv[1] and on up to the first argument that is no option, or past "--". Returns the
 * index of the next argument, argc if there is none. */
int mr_arguments(const char *program, const struct mr_option *options, size_t count, int argc,
                 char **argv);

/* An argument for each line of the table, in its order; any other number of them is a mistake,
 * which names them all. No line is an MR_FLAG. */
void mr_operands(const char *program, const struct mr_option *operands, size_t count, int argc,
                 char *const *argv);

/* One argument NAME=VALUE, of a table whose names are bare; no line is an MR_FLAG. */
void mr_setting(const char *program, const struct mr_option *settings, size_t count,
                const char *argument);

#endif
