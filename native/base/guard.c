#define _GNU_SOURCE
#include "guard.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

/* Each group once, so that there is room for all; pages that hold none take no memory. */
struct guarded {
  pid_t groups[MR_GUARD_GROUPS];
  unsigned count;
};

static unsigned position(const struct guarded *guarded, pid_t group) {
  unsigned i = 0;
  while (i < guarded->count && guarded->groups[i] != group)
    i++;
  return i;
}

static void hear(struct guarded *guarded, pid_t said) {
  unsigned at = position(guarded, said > 0 ? said : -said);
  bool known = at < guarded->count;
  if (said > 0 && !known && at < MR_GUARD_GROUPS)
    guarded->groups[guarded->count++] = said;
  else if (said < 0 && known)
    guarded->groups[at] = guarded->groups[--guarded->count];
}

_Noreturn void mr_guard(int from) {
  static struct guarded guarded;
  pid_t said = 0;
  /* Nothing of the owner's stays open here, least of all the end that it writes to. */
  if (dup2(from, STDIN_FILENO) < 0)
    _exit(1);
  close_range(STDIN_FILENO + 1, ~0u, 0);
  setsid(); /* the terminal's signals are for others */
  while (read(STDIN_FILENO, &said, sizeof said) == sizeof said && said != 0)
    hear(&guarded, said);
  for (unsigned i = 0; i < guarded.count && said != 0; i++)
    kill(-guarded.groups[i], SIGKILL);
  _exit(0);
}
