#define _GNU_SOURCE
#include "priority.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RESET_ON_FORK 1u
#define LOWEST_NICE 19

/* The kernel's own structure, first version; libc has none. */
struct attributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;
  uint64_t deadline;
  uint64_t period;
};

static int get_attributes(pid_t tid, struct attributes *attributes) {
  return syscall(SYS_sched_getattr, tid, attributes, sizeof *attributes, 0) < 0 ? -errno : 0;
}

static int set_attributes(pid_t tid, struct attributes *attributes) {
  return syscall(SYS_sched_setattr, tid, attributes, 0) < 0 ? -errno : 0;
}

int mr_sched_get(pid_t tid, struct mr_sched *sched) {
  struct attributes found;
  int rc = get_attributes(tid, &found);
  if (rc < 0)
    return rc;
  *sched = (struct mr_sched){.policy = found.policy,
                             .on_fork = (found.flags & RESET_ON_FORK) != 0,
                             .nice = found.nice,
                             .priority = found.priority};
  return 0;
}

int mr_sched_set(pid_t tid, const struct mr_sched *sched) {
  struct attributes wanted = {.size = sizeof wanted,
                              .policy = sched->policy,
                              .flags = sched->on_fork ? RESET_ON_FORK : 0,
                              .nice = sched->nice,
                              .priority = sched->priority};
  return set_attributes(tid, &wanted);
}

bool mr_sched_equal(const struct mr_sched *left, const struct mr_sched *right) {
  return left->policy == right->policy && left->nice == right->nice &&
         left->priority == right->priority;
}

uint32_t mr_sched_pack(const struct mr_sched *sched) {
  return (sched->policy & 0xff) | (sched->on_fork & 1) << 8 |
         ((uint32_t)(sched->nice + 20) & 0xff) << 16 | (sched->priority & 0xff) << 24;
}

struct mr_sched mr_sched_unpack(uint32_t packed) {
  return (struct mr_sched){.policy = packed & 0xff,
                           .on_fork = packed >> 8 & 1,
                           .nice = (int32_t)(packed >> 16 & 0xff) - 20,
                           .priority = packed >> 24};
}

struct mr_sched mr_sched_lowered(const struct mr_sched *normal) {
  return (struct mr_sched){.policy = SCHED_OTHER, .on_fork = normal->on_fork, .nice = LOWEST_NICE};
}

struct trial {
  struct mr_sched normal;
  int rc;
};

static void *try_restore(void *argument) {
  struct trial *trial = argument;
  struct mr_sched lowered = mr_sched_lowered(&trial->normal), found;
  trial->rc = mr_sched_set(0, &lowered);
  if (trial->rc == 0)
    trial->rc = mr_sched_set(0, &trial->normal);
  if (trial->rc == 0)
    trial->rc = mr_sched_get(0, &found);
  if (trial->rc == 0 && !mr_sched_equal(&found, &trial->normal))
    trial->rc = -EPERM;
  return NULL;
}

int mr_sched_can_restore(const struct mr_sched *normal) {
  if (normal->policy != SCHED_OTHER && normal->policy != SCHED_BATCH &&
      normal->policy != SCHED_FIFO && normal->policy != SCHED_RR)
    return -ENOTSUP;
  /* Capabilities and limits are not asked: a user namespace grants the one
   * without the right.  Only a thread that need not come back can try. */
  struct trial trial = {.normal = *normal};
  pthread_t thread;
  int rc = pthread_create(&thread, NULL, try_restore, &trial);
  if (rc != 0)
    return -rc;
  pthread_join(thread, NULL);
  return trial.rc;
}

int mr_sched_short_slice(uint64_t ns) {
  struct attributes own;
  int rc = get_attributes(0, &own);
  if (rc < 0)
    return rc;
  if (own.policy != SCHED_OTHER)
    return -ENOTSUP;
  own.size = sizeof own;
  own.runtime = ns;
  return set_attributes(0, &own);
}
