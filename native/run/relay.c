#define _GNU_SOURCE
#include "relay.h"

#include "task.h"

#include <stdbool.h>
#include <unistd.h>

/* Faults, a closed pipe, limits, and the terminal's to a group in the background: these are about
 * what we do ourselves. */
static const int ours[] = {SIGILL,  SIGTRAP, SIGBUS,  SIGFPE,  SIGSEGV, SIGSYS,
                           SIGPIPE, SIGTTIN, SIGTTOU, SIGXCPU, SIGXFSZ};

void relay_set(sigset_t *signals) {
  sigfillset(signals);
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
    sigdelset(signals, ours[i]);
}

static bool is_sent(const siginfo_t *info) {
  return info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TKILL;
}

static bool is_job_control(int signal) { return signal == SIGTSTP || signal == SIGCONT; }

/* The kernel signals process groups, with two exceptions.  The loss of the terminal is told to the
 * session leader alone.  A timer that was set before us tells the process that has it: exec keeps
 * it, a fork does not. */
static bool reached_command(const siginfo_t *info, pid_t command) {
  int signal = info->si_signo;
  bool to_us_alone = (signal == SIGHUP && getsid(0) == getpid()) || signal == SIGALRM ||
                     signal == SIGVTALRM || signal == SIGPROF;
  return info->si_code == SI_KERNEL && !to_us_alone && getpgid(command) == getpgrp();
}

static void send_on(pid_t whom, const siginfo_t *info) {
  if (info->si_code != SI_QUEUE || sigqueue(whom, info->si_signo, info->si_value) < 0)
    kill(whom, info->si_signo);
}

static void send_up(const siginfo_t *info) {
  pid_t parent = getppid();
  if (!is_job_control(info->si_signo) && parent > 1 && getpgid(parent) == getpgrp())
    send_on(parent, info);
}

pid_t relay_addressed(pid_t command) { return getpgid(command) == command ? -command : command; }

void relay(const siginfo_t *info, pid_t command) {
  if (is_sent(info) && info->si_pid == command)
    send_up(info);
  else if (is_sent(info) && info->si_pid > 0 && mr_parent(info->si_pid) == getpid())
    return;
  else if (info->si_code == SI_KERNEL && !reached_command(info, command))
    kill(relay_addressed(command), info->si_signo);
  else if (info->si_code != SI_KERNEL)
    send_on(command, info);
}
