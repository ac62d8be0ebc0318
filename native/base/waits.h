/* waits.h: what the threads of this process wait for, as the kernel tells.
 *
 * Internal to maru (not installed). A forked worker must notice that it waits for what only its
 * parent has, or for nothing at all. The kernel names the call that a thread sleeps in
 * (/proc/self/task/TID/syscall); a look costs some 20 us a thread and takes no lock. Errors are
 * negative errno.
 */
#ifndef MARU_BASE_WAITS_H
#define MARU_BASE_WAITS_H

#include <stdbool.h>
#include <sys/types.h>

/* 0: this process may look.  -EACCES: it is not dumpable (it has changed its user, or is set-uid);
 * -ENOENT: no /proc, that of another PID namespace, or a kernel that does not tell; -EPERM: a
 * sandbox refuses process_vm_readv. */
int maru_waits_visible(void);

/* ---- the wall ------------------------------------------------------------ */

/* A socket to which nothing comes and that takes nothing: a thread that reads or writes it waits
 * for ever. */
struct maru_wall {
  dev_t device;
  ino_t inode;
  int fd;
  int other; /* its other end: open as long as the process lives, or a read would find an end */
};

int maru_wall_build(struct maru_wall *wall);

/* Is it still open? An initialiser may close all descriptors that it does not know. */
bool maru_wall_stands(const struct maru_wall *wall);

/* Does a thread of this process wait for a descriptor that is the wall: to read or write it, by
 * poll, select or epoll? */
bool maru_wall_is_met(const struct maru_wall *wall);

/* ---- waits without an end ------------------------------------------------- */

/* Descriptors whose other end is this process alone; numbers from 1024 on are none. */
struct maru_own {
  unsigned long bits[1024 / (8 * sizeof(unsigned long))];
};

/* Those below 1024 that can be waited for now: no standard output or error, nor what is sealed
 * (maru_fd_snapshot_seal). */
int maru_own_note(struct maru_own *own);

/* Did every thread but the calling one and `spared` sleep at one and the same moment, without a
 * time limit? In a futex of this process alone or on own descriptors? Then nothing will ever
 * happen here but by the caller, by `spared` or by a signal. So the caller must hold nothing
 * that another thread waits for. False also where that cannot be seen. Two walks over the threads;
 * one that only reads a timer descriptor may move between them. */
bool maru_waits_are_endless(const struct maru_own *own, pid_t spared);

#endif
