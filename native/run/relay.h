/* relay.h: signals that come to the supervisor, and whose they are.
 *
 * The command's parent is the supervisor, and so is that of each orphan.  What they send their
 * parent is not for the command.  Without maru it would have reached another process. */
#ifndef MARU_RUN_RELAY_H
#define MARU_RUN_RELAY_H

#include <signal.h>
#include <sys/types.h>

/* All that may be sent for the command, and SIGCHLD. */
void relay_set(sigset_t *signals);

/* Hands on one signal.  From the command, or a process below it, it goes to our parent, where that
 * is in our process group: else a signal to the group (`kill 0`) would leave the group here.  The
 * parent gets such a one twice.  SIGTSTP and SIGCONT of the command stay here: they are about a
 * job, and we follow the command's stops by ourselves.  An orphan's signal goes nowhere.  All
 * others go to the command, as does that of a sender that was reaped before we looked. */
void relay(const siginfo_t *info, pid_t command);

/* Whom a signal of the keyboard is for: all of the command's group, where that is its own. */
pid_t relay_addressed(pid_t command);

#endif
