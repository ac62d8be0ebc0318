/* end.c: how a node ends that cannot go on, and what of the environment ends it. */
#define _GNU_SOURCE
#include "end.h"

#include "launcher.h"
#include "numbers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
  uint16_t me;
  enum mr_launcher launcher; /* of `told` */
  pid_t told;                /* the process whose launcher hears of it; 0: nobody's */
} end;

void mr_end_as(uint16_t me) { end.me = me; }

void mr_end_tells(enum mr_launcher launcher) {
  end.launcher = launcher;
  end.told = launcher != MR_LAUNCHER_NONE ? getpid() : 0;
}

void mr_node_end(int status) {
  for (;;)
    syscall(SYS_exit_group, status);
}

/* One write, whatever other threads do.  The kernel's own: the library's may be what has failed. */
void mr_node_die(int status, const char *format, ...) {
  char line[256];
  int length = snprintf(line, sizeof line, "maru: node %u: ", end.me);
  va_list arguments;
  va_start(arguments, format);
  length += vsnprintf(line + length, sizeof line - 1 - (size_t)length, format, arguments);
  va_end(arguments);
  length = length < (int)sizeof line - 1 ? length : (int)sizeof line - 2;
  line[length++] = '\n';
  syscall(SYS_write, STDERR_FILENO, line, (size_t)length);
  if (end.told == getpid())
    mr_launcher_abort(end.launcher, status);
  mr_node_end(status);
}

uint64_t mr_environment_number(const char *name, uint64_t otherwise, uint64_t least,
                               uint64_t most) {
  const char *text = getenv(name);
  int64_t value;
  if (text == NULL)
    return otherwise;
  if (mr_whole(text, (int64_t)least, (int64_t)most, &value) < 0)
    mr_node_die(STATUS_USAGE, "%s is '%s'; a number from %llu to %llu is needed", name, text,
                (unsigned long long)least, (unsigned long long)most);
  return (uint64_t)value;
}
