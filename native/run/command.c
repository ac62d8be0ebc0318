#define _GNU_SOURCE
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void inherited_restore(const struct inherited *inherited) {
  sigaction(SIGCHLD, &inherited->on_child, NULL);
  sigaction(SIGXFSZ, &inherited->on_large, NULL);
  sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
}

static void place_memory(const struct memory *memory) {
  int error = memory->mode != 0 ? memory_set(memory) : 0;
  if (error < 0)
    fprintf(stderr, "maru: the memory policy cannot be set: %s; the command runs without it\n",
            strerror(-error));
}

static _Noreturn void become(char *const argv[], const struct inherited *inherited,
                             const struct memory *memory, int failure) {
  inherited_restore(inherited);
  place_memory(memory);
  execvp(argv[0], argv);
  int error = errno;
  while (write(failure, &error, sizeof error) < 0 && errno == EINTR)
    ;
  _exit(127);
}

/* The pipe closes itself at a successful exec, so an end of file means that
 * the command runs, and an int is exec's errno. */
static int exec_error(int failure) {
  int error = 0;
  ssize_t got;
  while ((got = read(failure, &error, sizeof error)) < 0 && errno == EINTR)
    ;
  return got == (ssize_t)sizeof error ? error : 0;
}

int command_start(char *const argv[], const struct inherited *inherited,
                  const struct memory *memory, pid_t *pid, int *refused) {
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) < 0)
    return -errno;
  pid_t child = fork();
  int error = child < 0 ? -errno : 0;
  if (child == 0)
    become(argv, inherited, memory, failure[1]);
  close(failure[1]);
  *refused = child > 0 ? -exec_error(failure[0]) : 0;
  close(failure[0]);
  if (error == 0 && *refused == 0)
    *pid = child;
  else if (child > 0)
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
      ;
  return error;
}
