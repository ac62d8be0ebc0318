/* group.h: cgroups that bind threads to CPUs.
 *
 * A thread that is moved into one runs on its CPUs, and what it starts is born there. The kernel
 * knows who was placed, also those that nobody saw being started. They are made in the cgroup in
 * which the program is, its home. So none can lead out of what a container or a service may use.
 * Version 2: threaded ones, of the controller cpuset; version 1: of the hierarchy cpuset.
 *
 * Errors are negative errno.
 */
#ifndef MARU_STEER_GROUP_H
#define MARU_STEER_GROUP_H

#include "cpus.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define MR_GROUP_PATH 1024
#define MR_GROUP_NAME "maru-steer-"

/* The home of a process that may run on `base`: NULL and its path; or why groups cannot be made
 * there, in `why`. */
const char *mr_group_home(pid_t pid, const struct mr_cpus *base, char home[MR_GROUP_PATH],
                          char *why, size_t room);
/* The cgroup of a thread in the hierarchy of `home`.  0 or a negative errno. */
int mr_group_of(pid_t tid, const char *home, char path[MR_GROUP_PATH]);

/* The CPUs that the thread's cgroup may use at present, of the nearest that has the controller.
 * False: nobody says which. */
bool mr_group_cpus(pid_t tid, struct mr_cpus *cpus);

/* A group of ours: its name begins so, and the folder above it is a cgroup. */
bool mr_group_permitted(const char *path);
/* Where it has been made already, sets its CPUs. */
int mr_group_make(const char *path, const char *cpus);
int mr_group_move(const char *path, pid_t tid);
/* Moves what is in it to its home, and removes it.  Threads that bound themselves to other CPUs
 * than the group's stay bound.  0 also if it is not there.  One in which somebody made cgroups
 * cannot be removed; it gets its home's CPUs. */
int mr_group_remove(const char *path, const char *cpus);

/* Version 2: whether the controller serves the groups below; 1 or 0.  Version 1: 1. */
int mr_group_served(const char *home);
/* Has it serve them, or not.  -EBUSY: somebody else uses it by now. */
int mr_group_serve(const char *home, bool on);

#endif
