/* maru-guard: commands that do not outlive who started them, however that ends.
 *
 *   maru-guard                           the guard (guard.h); standard input says whom it guards
 *   maru-guard FD COMMAND [ARGUMENT]...  becomes the command, in a session of its own, whose
 * process group the guard at the other end of FD knows by then
 *
 * Written by a planner, not by people: in these forms only.
 *
 * Status: 125 maru failed, 126 the command cannot be executed, 127 it was not found, else its own.
 */
#define _GNU_SOURCE
#include "guard.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_MARU_FAILED = 125, STATUS_CANNOT_EXECUTE = 126, STATUS_NOT_FOUND = 127 };

/* It is said here, not by who starts us: that one may be killed when it has hardly begun to. */
static void join(int guard) {
  pid_t group = getpid();
  /* Not a group alone: one that asks the terminal from the background would be stopped for good. */
  setsid();
  /* A guard that somebody killed is no reason to die. */
  sighandler_t found = signal(SIGPIPE, SIG_IGN);
  (void)!write(guard, &group, sizeof group);
  signal(SIGPIPE, found);
  close(guard);
}

int main(int argc, char **argv) {
  if (argc == 1)
    mr_guard(STDIN_FILENO);
  char *end;
  long guard = strtol(argv[1], &end, 10);
  if (argc < 3 || *end != '\0' || guard <= STDERR_FILENO) {
    fprintf(stderr, "maru-guard: usage: maru-guard [FD COMMAND [ARGUMENT]...]\n");
    return STATUS_MARU_FAILED;
  }
  join((int)guard);
  execvp(argv[2], argv + 2);
  int error = errno;
  fprintf(stderr, "maru: cannot execute '%s': %s\n", argv[2], strerror(error));
  return error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_EXECUTE;
}
