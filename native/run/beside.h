/* beside.h: a program that runs beside the command, such as what steers it. */
#ifndef MARU_RUN_BESIDE_H
#define MARU_RUN_BESIDE_H

#include "command.h"
#include "options.h"

#include <sys/types.h>

struct beside {
  pid_t pid; /* 0: none, or it has ended */
  int life;  /* while this is open, the run goes on */
};

/* Starts options->beside (a path and arguments), if there is any, in the environment that maru
 * found: what is preloaded is for the command. Its standard input ends when the run does, also
 * when the supervisor is killed. What it writes goes to the report, a line of JSON at most. A
 * failure is one line on standard error: the command runs without it. */
void beside_start(struct beside *beside, const struct options *options,
                  const struct inherited *inherited);

/* Says that the run is over and waits for it, five seconds at most. */
void beside_end(struct beside *beside);

#endif
