/* task.h: which process or thread a number stands for (internal). */
#ifndef MARU_BASE_TASK_H
#define MARU_BASE_TASK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Ticks between boot and the start of a process or thread (/proc/TID/stat, field
 * 22). It tells a number that was used again from the first.  0: it has
 * ended (a zombie too), or /proc does not say. */
uint64_t mr_start_time(pid_t tid);

/* Its parent, also of a process that has ended and was not reaped.  0: /proc does not say. */
pid_t mr_parent(pid_t pid);

/* What /proc/TID/status says of a thread. */
#define MR_TASK_GROUPS 128u
struct mr_task {
  int32_t tgid;
  uid_t users[4];               /* real, effective, saved, of the file system */
  gid_t groups[MR_TASK_GROUPS]; /* the same four, then the others, as far as there is room */
  unsigned group_count;
  uint64_t capabilities; /* effective */
};

/* 0; -ESRCH: it has ended, or /proc does not say. */
int mr_task_read(pid_t tid, struct mr_task *task);

/* Thousandths of a CPU that the control groups of a process grant it: the smallest quota on the
 * way to the root. It is 0 for no limit, or /sys/fs/cgroup does not say; UINT32_MAX: the
 * process's groups cannot be read whole (their path may be too long). Reads some files for each
 * folder on that way. */
uint32_t mr_cpu_quota(pid_t pid);

/* A process that has ended with all its threads, but was not reaped. The first process of a
 * container may never reap any. */
bool mr_is_remains(pid_t pid);

#endif
