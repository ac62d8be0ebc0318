#define _GNU_SOURCE
#include "beside.h"

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ENDS_MS 5000

static _Noreturn void become(const struct options *options, int life, int report,
                             const struct inherited *inherited) {
  char *const *argv = options->beside;
  inherited_restore(inherited);
  if (report < 0)
    report = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (dup2(life, STDIN_FILENO) == STDIN_FILENO && dup2(report, STDOUT_FILENO) == STDOUT_FILENO)
    execve(argv[0], argv, options->found);
  fprintf(stderr, "maru: cannot execute '%s': %s; the command runs without it\n", argv[0],
          strerror(errno));
  _exit(127);
}

void beside_start(struct beside *beside, const struct options *options,
                  const struct inherited *inherited) {
  int life[2];
  *beside = (struct beside){.life = -1};
  if (options->beside[0] == NULL)
    return;
  if (pipe2(life, O_CLOEXEC) < 0) {
    fprintf(stderr, "maru: nothing can run beside the command: %s\n", strerror(errno));
    return;
  }
  pid_t pid = fork();
  if (pid == 0)
    become(options, life[0], options->report_fd, inherited);
  if (pid < 0)
    fprintf(stderr, "maru: nothing can run beside the command: %s\n", strerror(errno));
  close(life[0]);
  *beside = (struct beside){.pid = pid > 0 ? pid : 0, .life = life[1]};
}

void beside_end(struct beside *beside) {
  struct maru_death death;
  if (beside->life >= 0)
    close(beside->life);
  if (beside->pid > 0) {
    int pidfd = maru_pidfd_open(beside->pid);
    if (maru_reap_wait(beside->pid, pidfd, ENDS_MS, &death) == 0)
      fprintf(stderr, "maru: process %d, which runs beside the command, does not end\n",
              (int)beside->pid);
    if (pidfd >= 0)
      close(pidfd);
  }
  *beside = (struct beside){.life = -1};
}
