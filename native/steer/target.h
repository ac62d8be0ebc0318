/* target.h: what may be changed, and how: a thread's CPUs, a file that the kernel
 * keeps for an interrupt or a queue. */
#ifndef MARU_STEER_TARGET_H
#define MARU_STEER_TARGET_H

#include "cpus.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MR_PATH_MAX 256
#define MR_VALUE_MAX MR_CPUS_TEXT

struct mr_target {
  pid_t tid; /* 0: a file */
  uint64_t start;
  char path[MR_PATH_MAX]; /* below the root, without a leading slash */
};

/* Nothing else below the root is ever written. */
bool mr_target_permitted(const char *path);

bool mr_target_same(const struct mr_target *a, const struct mr_target *b);

/* The present value in one form for all ways of writing it.  0; -ESRCH: the thread is
 * gone; -ENODATA: not understood; another negative errno. */
int mr_target_read(const struct mr_target *target, const char *root, char value[MR_VALUE_MAX]);

/* The CPUs that a thread can have at present, whatever it was given: those that are online, and in
 * its cgroup.  False: nobody says which. */
bool mr_target_usable(const struct mr_target *target, const char *root, struct mr_cpus *usable);

/* All CPUs that there can be where the value is all of `usable` (NULL: nobody says), else the
 * value: what a thread is put back to.  Bound to those of now it would never get what comes online,
 * or into its cgroup, later. */
void mr_target_unbind(const struct mr_cpus *usable, char value[MR_VALUE_MAX]);
/* Brings a value into that form: 0 or -EINVAL. */
int mr_target_form(const struct mr_target *target, const char *text, char value[MR_VALUE_MAX]);

/* 0; -ESRCH; -ERANGE: the kernel made another value of it; another negative errno. */
int mr_target_write(const struct mr_target *target, const char *root, const char *value);

#endif
