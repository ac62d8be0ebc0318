/* process.h: what the kernel keeps of a process for its program, for checkpoints (internal to
 * libmaru-dsm).
 *
 * What the program has changed since it was given the process goes with the image: signals that it
 * ignores, the working directory, the umask. The rest stays as the other process is given it.
 *
 * Refused are timers and handlers of signals: a handler might be saved by half. So are changes of
 * SIGSEGV and SIGBUS, which the library needs, and a working directory that has no name any more.
 *
 * Thread-safety: none; the program's thread stands still, or calls it.
 */
#ifndef MARU_DSM_PROCESS_H
#define MARU_DSM_PROCESS_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#define MR_SIGNALS 65

struct mr_process {
  bool changed[MR_SIGNALS];
  struct sigaction actions[MR_SIGNALS];
  int mask;              /* -1: as it was given */
  char folder[PATH_MAX]; /* empty: as it was given */
};

/* How main finds the process, where it begins before the node does; then, the node begins; then it
 * has begun. What the library sets meanwhile is not the program's. */
void mr_process_given(void);
void mr_process_joins(void);
void mr_process_begins(bool given);

/* -EOPNOTSUPP, then `why` says it. */
int mr_process_take(struct mr_process *process, char *why, size_t size);
/* In another process.  Ends it with a line where the folder cannot be entered. */
void mr_process_put(const struct mr_process *process);

#endif
