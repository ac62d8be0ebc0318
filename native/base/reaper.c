#define _GNU_SOURCE
#include "reaper.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

/* Each group once, so that there is room for all; pages that hold none take no memory. */
struct reaping {
  pid_t groups[MR_REAPER_GROUPS];
  unsigned count;
};

static unsigned position(const struct reaping *reaping, pid_t group) {
  unsigned i = 0;
  while (i < reaping->count && reaping->groups[i] != group)
    i++;
  return i;
}

static void hear(struct reaping *reaping, pid_t said) {
  unsigned at = position(reaping, said > 0 ? said : -said);
  bool known = at < reaping->count;
  if (said > 0 && !known && at < MR_REAPER_GROUPS)
    reaping->groups[reaping->count++] = said;
  else if (said < 0 && known)
    reaping->groups[at] = reaping->groups[--reaping->count];
}

_Noreturn void mr_reaper(int from) {
  static struct reaping reaping;
  pid_t said = 0;
  /* Nothing of the owner's stays open here, least of all the end that it writes to. */
  if (dup2(from, STDIN_FILENO) < 0)
    _exit(1);
  close_range(STDIN_FILENO + 1, ~0u, 0);
  setsid(); /* the terminal's signals are for others */
  while (read(STDIN_FILENO, &said, sizeof said) == sizeof said && said != 0)
    hear(&reaping, said);
  for (unsigned i = 0; i < reaping.count && said != 0; i++)
    kill(-reaping.groups[i], SIGKILL);
  _exit(0);
}
