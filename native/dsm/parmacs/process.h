/* process.h: what the kernel keeps of a process for its program, for checkpoints (internal to
 * libmaru-dsm).
 *
 * What the program has changed since it was given the process goes with the image: signals that it
 * ignores or handles, the working directory, the umask. So do timers of setitimer and alarm, with
 * the time that was left, and signals that waited. The rest stays as the other process is given it.
 *
 * Refused are handlers that are no functions of the program's file, as what a library's needs is in
 * no image, and timers of timer_create. So are changes of SIGSEGV and SIGBUS, which the library
 * needs, and a working directory that has no name any more.
 *
 * Thread-safety: none; the program's thread stands still, or calls it.
 */
#ifndef MARU_DSM_PROCESS_H
#define MARU_DSM_PROCESS_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/time.h>

#define MR_SIGNALS 65
#define MR_TIMERS 3

struct mr_process {
  bool changed[MR_SIGNALS];
  struct sigaction actions[MR_SIGNALS];
  bool lent[MR_SIGNALS]; /* on a stack of the library's (access.h) */
  bool waits[MR_SIGNALS];
  struct itimerval timers[MR_TIMERS];
  int mask;              /* -1: as it was given */
  char folder[PATH_MAX]; /* empty: as it was given */
};

/* How main finds the process, where it begins before the node does; then, the node begins; then it
 * has begun. What the library sets meanwhile is not the program's. */
void mr_process_given(void);
void mr_process_joins(void);
void mr_process_begins(bool given);

/* Whether the program handles a signal: then its thread is to be held while it is taken. */
bool mr_process_handles(void);
/* By a thread that blocks all signals.  `blocked`: the program does, NULL: it does not run.
 * `waiting`: those that waited for its thread when that was held; NULL: it was not.  -EOPNOTSUPP,
 * then `why` says it. */
int mr_process_take(struct mr_process *process, const sigset_t *blocked, const sigset_t *waiting,
                    char *why, size_t size);

/* In another process, as soon as its image is known: what the program handles waits until it can.
 */
void mr_process_expect(const struct mr_process *process);
/* Ends it with a line where the folder cannot be entered.  The calling thread is to have the
 * program's mask next, or: */
void mr_process_put(const struct mr_process *process);
/* The program does not run, which has no mask. */
void mr_process_lets_come(const struct mr_process *process);

/* Whether that is in the program's file: its code, or a constant.  maru-cc's programs lie at fixed
 * addresses. */
bool mr_process_is_file(const void *at);

#endif
