/* maru-reaper: commands that do not outlive who started them, however that ends.
 *
 *   maru-reaper
 *       the reaper (reaper.h): standard input says whom it looks after
 *   maru-reaper PIPE COMMAND [ARGUMENT]...
 *       becomes the command, whose process group the reaper knows by then: in a session of its
 *       own, if it does not lead a group already
 *
 * PIPE is the owner's end of what the reaper reads: /proc/OWNER/fd/N. The owner keeps it to itself
 * (close-on-exec): a process that inherited it would keep the reaper waiting when the owner is
 * gone.
 *
 * Written by a planner, not by people: in these forms only.
 *
 * Status: 125 maru failed, 126 the command cannot be executed, 127 it was not found, else its own.
 */
#define _GNU_SOURCE
#include "reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATUS_MARU_FAILED = 125, STATUS_CANNOT_EXECUTE = 126, STATUS_NOT_FOUND = 127 };

/* A reaper that somebody killed is no reason to die. */
static void tell(int reaper, pid_t group) {
  sighandler_t found = signal(SIGPIPE, SIG_IGN);
  fcntl(reaper, F_SETFL, 0); /* by now it may wait */
  (void)!write(reaper, &group, sizeof group);
  signal(SIGPIPE, found);
  close(reaper);
}

/* It is said here, not by the process that starts us. That one may be killed when it has hardly
 * begun to. It is 0, or a negative errno where the owner is gone before the reaper was told. */
static int join(const char *pipe) {
  setsid(); /* who leads a group stays where it is */
  /* Without waiting for somebody who reads. */
  int reaper = open(pipe, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (reaper < 0)
    return errno == ENXIO ? 0 : -errno; /* ENXIO: nobody reads there, the reaper was killed */
  struct stat status;
  if (fstat(reaper, &status) < 0 || !S_ISFIFO(status.st_mode)) {
    close(reaper);
    return -ESRCH; /* the owner's number is a stranger's by now, whose files are none of ours */
  }
  tell(reaper, getpid());
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 1)
    mr_reaper(STDIN_FILENO);
  if (argc < 3 || argv[1][0] != '/') {
    fprintf(stderr, "maru-reaper: usage: maru-reaper [PIPE COMMAND [ARGUMENT]...]\n");
    return STATUS_MARU_FAILED;
  }
  int joined = join(argv[1]);
  if (joined < 0) {
    fprintf(stderr, "maru: '%s' is not begun: who waits for it is gone (%s: %s)\n", argv[2],
            argv[1], strerror(-joined));
    return STATUS_MARU_FAILED;
  }
  execvp(argv[2], argv + 2);
  int error = errno;
  fprintf(stderr, "maru: cannot execute '%s': %s\n", argv[2], strerror(error));
  return error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_EXECUTE;
}
