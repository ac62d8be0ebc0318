/* command.h: starts the command of a run. */
#ifndef MARU_RUN_COMMAND_H
#define MARU_RUN_COMMAND_H

#include "memory.h"

#include <signal.h>
#include <sys/types.h>

/* What the command must find as the supervisor found it. */
struct inherited {
  sigset_t mask;
  struct sigaction on_child; /* SIGCHLD's disposition */
  struct sigaction on_large; /* SIGXFSZ's */
};

void inherited_restore(const struct inherited *inherited);

/* Forks and executes argv[0], searched in PATH, with its memory where it is asked for. Where
 * that cannot be there is a line, and it runs. 0 and *pid once the command's own code runs, or 0
 * and in *refused the negative errno of exec; else the negative errno of what we need ourselves.
 * Then no child is left. */
int command_start(char *const argv[], const struct inherited *inherited,
                  const struct memory *memory, pid_t *pid, int *refused);

#endif
