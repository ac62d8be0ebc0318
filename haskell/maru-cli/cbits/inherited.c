/* inherited.c: what the process was given when it began: ignored signals, open descriptors.
 *
 * GHC's run-time system puts handlers in their place before main, and a program that is executed
 * then finds the default.  A caller that ignores a signal (nohup, trap '' INT) means the
 * command, too.  GHC 9.10 opens descriptors that a program which is executed would keep.  Written
 * once, before any thread of ours.
 *
 * A file that would grow past the caller's limit (ulimit -f) is an error that is said.  By default
 * the kernel ends the process without a word.  A handler, not SIG_IGN: what is executed has the
 * default again.
 *
 * A standard descriptor that the caller closed is held: else the run-time system's next one takes
 * its number, and what is printed goes there.  A program that is executed finds it closed.
 */
#define _GNU_SOURCE /* O_PATH */
#include "die.h"
#include "probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

static const int taken[] = {SIGINT, SIGPIPE, SIGTSTP};
static bool was_ignored[sizeof taken / sizeof *taken];
enum { LOOKED_AT = 256 }; /* descriptors; the run-time system's are among the first that are free */
static bool was_open[LOOKED_AT];

/* One call for all: a look at each alone would cost more than the start of a small program. */
static void look(bool open[LOOKED_AT]) {
  struct pollfd each[LOOKED_AT];
  for (int fd = 0; fd < LOOKED_AT; fd++)
    each[fd] = (struct pollfd){.fd = fd};
  bool known = poll(each, LOOKED_AT, 0) >= 0; /* EINVAL: fewer may be open at a time */
  for (int fd = 0; fd < LOOKED_AT; fd++)
    open[fd] = known ? !(each[fd].revents & POLLNVAL) : fcntl(fd, F_GETFD) >= 0;
}

/* Each open takes the lowest number that is free.  Neither read nor write works on a path: EBADF,
 * as on what is closed.  What is said on a standard error that is closed is lost, no failure. */
static void hold_closed(void) {
  for (int fd = 0; fd <= STDERR_FILENO; fd++)
    if (!was_open[fd])
      (void)(fd < STDERR_FILENO ? open("/", O_PATH | O_CLOEXEC)
                                : open("/dev/null", O_WRONLY | O_CLOEXEC));
}

static void too_large(int signal) { (void)signal; }

static void outlive_large_files(void) {
  struct sigaction now, handled = {.sa_handler = too_large, .sa_flags = SA_RESTART};
  if (sigaction(SIGXFSZ, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
    sigaction(SIGXFSZ, &handled, NULL);
}

__attribute__((constructor)) static void note(void) {
  struct sigaction now;
  for (unsigned i = 0; i < sizeof taken / sizeof *taken; i++)
    was_ignored[i] = sigaction(taken[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN;
  outlive_large_files();
  look(was_open);
  hold_closed();
}

void maru_probe_keep_own_descriptors(void) {
  bool is_open[LOOKED_AT];
  look(is_open);
  for (int fd = 0; fd < LOOKED_AT; fd++)
    if (is_open[fd] && !was_open[fd])
      (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void maru_probe_ignore_again(void) {
  for (unsigned i = 0; i < sizeof taken / sizeof *taken; i++)
    if (was_ignored[i])
      signal(taken[i], SIG_IGN);
}

void maru_probe_die_of(int number) { mr_die_of(number); }
