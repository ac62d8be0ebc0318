/* screen.c: what a terminal says of itself. */
#include "probe.h"

#include <errno.h>
#include <sys/ioctl.h>

int maru_probe_window(int fd, int *columns, int *lines) {
  struct winsize size;
  if (ioctl(fd, TIOCGWINSZ, &size) < 0)
    return -errno;
  *columns = size.ws_col;
  *lines = size.ws_row;
  return 0;
}
