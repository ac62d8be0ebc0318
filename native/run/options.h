/* options.h: the argument vector of maru-supervise.
 *
 *   maru-supervise [--setenv NAME=VALUE]... [--preload PATH]...
 *                  [--report-fd N] [--reporter PATH] [--beside WORD]...
 *                  [--verdict yes|no] [--board-room BYTES] [--memory prefer:NODE|interleave:NODES]
 *                  -- COMMAND [ARGUMENT]...
 *
 * Written by a planner, not by people: strict, in this form only.
 */
#ifndef MARU_RUN_OPTIONS_H
#define MARU_RUN_OPTIONS_H

#include "memory.h"

#include <stdbool.h>
#include <stddef.h>

#define BESIDE_WORDS 32

struct options {
  char **command; /* NULL-terminated tail of argv */
  const char *reporter;
  int report_fd;                  /* -1: none; with a reporter: nothing was planned */
  bool quiet;                     /* without a report: no line of what was measured */
  size_t board_room;              /* bytes on the board beyond the usual */
  struct memory memory;           /* the command's */
  char *beside[BESIDE_WORDS + 1]; /* the words of what runs beside; NULL-terminated */
  char **found;                   /* the environment before; for what runs beside */
};

/* Reads argv and applies --setenv and --preload to this process's environment
 * The command inherits it; the supervisor itself reads nothing there. It is 0, or -1 after one
 * line on standard error. */
int options_read(struct options *options, int argc, char **argv);
void options_free(struct options *options);

#endif
