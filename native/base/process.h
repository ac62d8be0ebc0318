/* process.h: what a coordinator and a forked worker need from the kernel.
 *
 * Internal to maru (not installed): used by the parallel map and the
 * supervisor.  Errors are negative errno.
 */
#ifndef MARU_BASE_PROCESS_H
#define MARU_BASE_PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- the inherited world ------------------------------------------------ */

/* The descriptors that a child inherits, so that it can tell them from those that its own runtime
 * opens after the fork. */
struct maru_fd_snapshot;

/* In the parent, of nothing yet; NULL without memory. */
struct maru_fd_snapshot *maru_fd_snapshot_new(void);
void maru_fd_snapshot_free(struct maru_fd_snapshot *snapshot);

/* In the parent: `fd` stays open in the child. -ENOMEM. */
int maru_fd_snapshot_spare(struct maru_fd_snapshot *snapshot, int fd);

/* In the child, as one of its first things: what is open now, but for the spared. (In the parent
 * another thread may open one between a look and the fork.) -errno, without memory or
 * /proc/self/fd; `seal` says it again. Without effect on NULL. */
int maru_fd_snapshot_take(struct maru_fd_snapshot *snapshot);

/* In the child: every descriptor of the snapshot that is still the same file is replaced by one
 * whose reads fail with EBADF. Standard output and error stay as they are. So do event, timer and
 * process descriptors: they have no data that two processes could steal from each other. Returns
 * how many were replaced, or -errno. */
int maru_fd_snapshot_seal(const struct maru_fd_snapshot *snapshot);

/* Later: those that `seal` replaced and nobody has closed become the wall (waits.h).  Returns how
 * many. */
int maru_fd_snapshot_wall(const struct maru_fd_snapshot *snapshot, int wall);

/* ---- life and death ------------------------------------------------------ */

/* A descriptor that becomes readable when the process ends; -ENOSYS where
 * the kernel or a sandbox refuses it. */
int maru_pidfd_open(pid_t pid);

/* SIGKILL to a child.  By its pidfd where there is one: its number may be another
 * process's once somebody else has reaped it. */
int maru_kill(pid_t pid, int pidfd);

/* How a process ended.  code: exit status, or signal number. */
struct maru_death {
  int signalled;
  int code;
};

/* Reaps `pid` if it has ended: 1 and *death; 0: it lives.  -ECHILD: somebody
 * else reaped it (a SIGCHLD handler, SIG_IGN): *death is {0, -1}. */
int maru_reap(pid_t pid, struct maru_death *death);
/* Waits up to `timeout_ms` for it (negative: without bound).  As maru_reap. */
int maru_reap_wait(pid_t pid, int pidfd, int timeout_ms, struct maru_death *death);

/* Waits up to `timeout_ms` in all until the processes of these pidfds have ended (negative: none,
 * not waited for), and a moment more; 1: all of them have.  Reaps none.  For many at once, before
 * maru_reap_wait: a pidfd tells of the end while the last thread still takes the process's entries
 * out of /proc. A reaper that comes at once takes that thread's CPU, and turns round in the kernel
 * until it has run: half of what a short map cost its caller. */
int maru_ends_wait(const int *pidfds, size_t count, int timeout_ms);

/* Signals of a worker: interrupts from the terminal are the coordinator's
 * business; a request to end ends it, unless the coordinator ignores that. */
void maru_worker_signals(void);

/* How many workers pay off in this process (maru_topology_workers), or an error of
 * maru_topology_read.  Reads some 5 files for each control group. */
int maru_default_workers(void);

/* Bytes that the machine could give without swapping, at most its control group's limit. All, where
 * nothing tells. */
uint64_t maru_memory_left(void);

/* Resident memory of this process in bytes; 0 when /proc does not tell. */
uint64_t maru_resident_bytes(void);

/* Ends this process without running anything. */
void maru_exit_now(int status) __attribute__((noreturn));

#endif
