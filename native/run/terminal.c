#define _GNU_SOURCE
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

struct terminal terminal_open(void) {
  struct terminal terminal = {.fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY),
                              .home = getpgrp()};
  if (terminal.fd >= 0 && tcgetpgrp(terminal.fd) != terminal.home) {
    close(terminal.fd);
    terminal.fd = -1;
  }
  return terminal;
}

/* A background group that changes the foreground group is stopped by SIGTTOU
 * unless it blocks the signal. */
static bool set_foreground(int fd, pid_t group) {
  sigset_t output, before;
  sigemptyset(&output);
  sigaddset(&output, SIGTTOU);
  sigprocmask(SIG_BLOCK, &output, &before);
  bool done = tcsetpgrp(fd, group) == 0;
  sigprocmask(SIG_SETMASK, &before, NULL);
  return done;
}

bool terminal_lend(const struct terminal *terminal, pid_t group) {
  return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == terminal->home &&
         set_foreground(terminal->fd, group);
}

void terminal_take_back(const struct terminal *terminal, pid_t lent_to) {
  if (terminal->fd < 0)
    return;
  pid_t owner = tcgetpgrp(terminal->fd);
  if (owner <= 0 || owner == terminal->home)
    return;
  bool dead = kill(-owner, 0) < 0 && errno == ESRCH;
  if (owner == lent_to || dead)
    set_foreground(terminal->fd, terminal->home);
}
