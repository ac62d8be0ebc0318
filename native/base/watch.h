/* watch.h: the thread that looks after a forked worker.
 *
 * Internal to maru (not installed). It is the worker's, and none of the language runtime's. It goes
 * on when the worker's own threads are held by calls that do not return. Errors are negative errno.
 */
#ifndef MARU_BASE_WATCH_H
#define MARU_BASE_WATCH_H

#include "waits.h"

#include <stdint.h>
#include <sys/types.h>

/* What the worker is doing, and what to do when that cannot be finished here. */
struct maru_task {
  int64_t (*item)(void *context); /* negative: none now */
  void (*seal)(void *context, int64_t item, const char *reason);
  void *context;
};

/* From now on this process ends (_exit 0) as soon as `parent` does.  `parent_pidfd` may be
 * negative: then the parent is looked for every 100 ms.  A thread waits, not PR_SET_PDEATHSIG: that
 * signal comes when the *thread* that forked ends, and a language runtime's threads come and go.
 * The pid is checked once more inside, so a parent that has died already is noticed.  Call it
 * before maru_fd_snapshot_seal.  */
int maru_watch_parent(pid_t parent, int parent_pidfd);

/* From now on every 100 ms, while an item takes longer than that: is a thread of this process
 * before the wall?  Then the item is sealed.  At most once in a process; both live as long as it.
 */
void maru_watch_wall(const struct maru_wall *wall, const struct maru_task *task);

/* The thread's number; 0: there is none. */
pid_t maru_watch_tid(void);

/* ---- the lifeline ---------------------------------------------------------- */

/* The thread above cannot end a worker that is stopped (SIGSTOP, a debugger); the kernel can, from
 * the worker's first instruction on.  A lifeline is a pipe of one worker, which has the reading
 * end; its writing end is made by its coordinator after the fork. When that is closed, by the
 * coordinator's death too, the kernel kills the worker.
 *
 * Workers that are forked later have copies of the writing end until they seal what they inherited.
 * They do not keep the worker alive: the coordinator's death kills the youngest, whose end closes
 * the copies, and so on.  Any other process that the coordinator forks does, until it executes a
 * program or ends. */

/* Before the fork: the reading end, which the worker must keep. */
int maru_lifeline_open(void);
/* After it: the writing end, to be closed when the worker has ended.  Closes `reading` here, also
 * on failure, which leaves the thread above.  The coordinator must not die between the fork and
 * this, else a worker that is stopped there outlives it. */
int maru_lifeline_tie(int reading, pid_t worker);

#endif
