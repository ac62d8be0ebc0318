#define _GNU_SOURCE
#include "relay.h"

#include "task.h"

#include <stdbool.h>
#include <unistd.h>

/* So far up we look from a sender. */
enum { ANCESTORS = 64 };

/* Faults, a closed pipe, a file's limit, and the terminal's to a group in the background: these are
 * about what we do ourselves. */
static const int ours[] = {SIGILL, SIGTRAP, SIGBUS,  SIGFPE,  SIGSEGV,
                           SIGSYS, SIGPIPE, SIGTTIN, SIGTTOU, SIGXFSZ};

/* Of a signal: the command or a process below it, an orphan or a process below it, another. */
enum sender { COMMAND, ORPHAN, ANOTHER };

void relay_set(sigset_t *signals) {
  sigfillset(signals);
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
    sigdelset(signals, ours[i]);
}

static bool is_sent(const siginfo_t *info) {
  return info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TKILL;
}

/* A process that has ended can be looked up until it is reaped. */
static enum sender sender_of(const siginfo_t *info, pid_t command) {
  pid_t pid = is_sent(info) ? info->si_pid : 0;
  for (int climbed = 0; pid > 0 && climbed < ANCESTORS; climbed++) {
    if (pid == command)
      return COMMAND;
    pid = mr_parent(pid);
    if (pid == getpid())
      return ORPHAN;
  }
  return ANOTHER;
}

/* A timer that was set before us tells the process that has it: exec keeps it, a fork does not. */
static bool is_timers(const siginfo_t *info) {
  int signal = info->si_signo;
  return info->si_code == SI_KERNEL &&
         (signal == SIGALRM || signal == SIGVTALRM || signal == SIGPROF);
}

static bool is_job_control(int signal) { return signal == SIGTSTP || signal == SIGCONT; }

/* The kernel signals process groups, but tells the loss of the terminal to the session leader
 * alone. */
static bool reached_command(int signal, pid_t command) {
  bool to_us_alone = signal == SIGHUP && getsid(0) == getpid();
  return !to_us_alone && getpgid(command) == getpgrp();
}

/* The kernel's word on our own limit of CPU time does what it does to any process. */
static void take_ourselves(int number) {
  sigset_t it;
  sigemptyset(&it);
  sigaddset(&it, number);
  sigprocmask(SIG_UNBLOCK, &it, NULL);
  raise(number);
  sigprocmask(SIG_BLOCK, &it, NULL);
}

static void send_on(pid_t whom, const siginfo_t *info) {
  if (info->si_code != SI_QUEUE || sigqueue(whom, info->si_signo, info->si_value) < 0)
    kill(whom, info->si_signo);
}

static void send_up(const siginfo_t *info) {
  pid_t parent = getppid();
  if (!is_job_control(info->si_signo) && parent > 0 && getpgid(parent) == getpgrp())
    send_on(parent, info);
}

pid_t relay_addressed(pid_t command) { return getpgid(command) == command ? -command : command; }

void relay(const siginfo_t *info, pid_t command) {
  int signal = info->si_signo;
  enum sender sender = sender_of(info, command);
  if (sender == COMMAND)
    send_up(info);
  else if (sender == ORPHAN)
    return;
  else if (signal == SIGXCPU && !is_sent(info))
    take_ourselves(signal);
  else if (info->si_code != SI_KERNEL || is_timers(info))
    send_on(command, info);
  else if (!reached_command(signal, command))
    kill(relay_addressed(command), signal);
}
