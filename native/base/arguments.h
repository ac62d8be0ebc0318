/* arguments.h: the options of a helper program, as a table (internal).
 *
 * A program lists its options once. mr_arguments reads them, checks each number against its
 * bounds and stores it where the table says. A mistake is one line on standard error: program,
 * argument, what it may be; the program then ends with status 64.
 *
 * Thread-safety: mr_whole and mr_real are safe anywhere; mr_arguments is for main.
 */
#ifndef MARU_ARGUMENTS_H
#define MARU_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>

/* Exit status of a wrong command line, as in sysexits.h. */
#define MR_USAGE 64

enum mr_option_kind {
  MR_FLAG,  /* bool: the option takes no value */
  MR_WHOLE, /* int64_t, decimal */
  MR_REAL,  /* double */
  MR_TEXT   /* const char *, into argv */
};

struct mr_option {
  const char *name; /* as typed: "-t", "--period" */
  enum mr_option_kind kind;
  void *into;
  const char *what;   /* of a number, for messages: "threads", "microseconds" */
  double least, most; /* of a number, both allowed */
};

/* All of text as a decimal number from least to most. Returns 0, -EINVAL where text is no
 * number, or -ERANGE; *number is left as it was then. */
int mr_whole(const char *text, int64_t least, int64_t most, int64_t *number);
int mr_real(const char *text, double least, double most, double *number);

/* Reads argv[1] and on up to the first argument that is no option, or past "--". Returns the
 * index of the next argument, argc if there is none. */
int mr_arguments(const char *program, const struct mr_option *options, size_t count, int argc,
                 char **argv);

#endif
