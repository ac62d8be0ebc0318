/* inherited.c: signals that were ignored when the process began.
 *
 * GHC's run-time system puts handlers in their place before main, and a program that is executed
 * then finds the default.  A caller that ignores a signal (nohup, trap '' INT) means the
 * command, too.  Written once, before any thread of ours.
 */
#include "probe.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

static const int taken[] = {SIGINT, SIGPIPE, SIGTSTP};
static bool was_ignored[sizeof taken / sizeof *taken];

__attribute__((constructor)) static void note(void) {
  struct sigaction now;
  for (unsigned i = 0; i < sizeof taken / sizeof *taken; i++)
    was_ignored[i] = sigaction(taken[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void maru_probe_ignore_again(void) {
  for (unsigned i = 0; i < sizeof taken / sizeof *taken; i++)
    if (was_ignored[i])
      signal(taken[i], SIG_IGN);
}
