#define _GNU_SOURCE
#include "guard.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

static unsigned forget(pid_t *groups, unsigned count, pid_t group) {
  for (unsigned i = 0; i < count; i++)
    if (groups[i] == group) {
      groups[i] = groups[count - 1];
      return count - 1;
    }
  return count;
}

_Noreturn void mr_guard(int from) {
  pid_t groups[MR_GUARD_GROUPS], group = 0;
  unsigned count = 0;
  /* Nothing of the owner's stays open here, least of all the end that it writes to. */
  if (dup2(from, STDIN_FILENO) < 0)
    _exit(1);
  close_range(STDIN_FILENO + 1, ~0u, 0);
  setsid(); /* the terminal's signals are for others */
  while (read(STDIN_FILENO, &group, sizeof group) == sizeof group && group != 0)
    if (group > 0 && count < MR_GUARD_GROUPS)
      groups[count++] = group;
    else
      count = forget(groups, count, -group);
  for (unsigned i = 0; i < count && group != 0; i++)
    kill(-groups[i], SIGKILL);
  _exit(0);
}
