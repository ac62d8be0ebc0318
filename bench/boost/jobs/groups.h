/* groups.h: a control group with a cpu controller for each of some jobs, for what measures
 * containers.  Version 2 where the controller is handed down, else version 1's. */
#ifndef MARU_BENCH_GROUPS_H
#define MARU_BENCH_GROUPS_H

#include "../../../native/tests/check.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static char groups[96];
static long group_count;
static pid_t group_owner;

static inline bool write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  if (fd >= 0)
    close(fd);
  return written;
}

static inline bool hands_down_cpu(const char *root) {
  char path[128], text[256] = "";
  snprintf(path, sizeof path, "%s/cgroup.subtree_control", root);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return false;
  bool cpu = fgets(text, sizeof text, file) != NULL && strstr(text, "cpu") != NULL;
  fclose(file);
  return cpu;
}

/* They can be removed once their processes are reaped; the kernel may take a moment. */
static inline void remove_groups(void) {
  char path[128];
  for (int tries = 0; groups[0] != '\0' && tries < 100; tries++) {
    for (long i = 0; i < group_count; i++) {
      snprintf(path, sizeof path, "%s/%ld", groups, i);
      (void)rmdir(path);
    }
    if (rmdir(groups) == 0 || errno == ENOENT)
      return;
    usleep(10000);
  }
}

/* Outlives the parent, however that ends, and then removes the groups. */
static inline void remove_afterwards(void *unused) {
  sigset_t death;
  int number;
  (void)unused;
  setsid();
  close(STDOUT_FILENO); /* who reads it waits for its end */
  close(STDERR_FILENO);
  sigemptyset(&death);
  sigaddset(&death, SIGUSR1);
  sigprocmask(SIG_BLOCK, &death, NULL);
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (getppid() == group_owner)
    (void)sigwait(&death, &number);
  remove_groups();
}

/* By the parent, before its children; removed when it is gone.  Exits with 77 where there can be
 * none. */
static inline void make_groups(long count) {
  static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
  const char *root = "/sys/fs/cgroup/cpu";
  char path[128];
  for (size_t i = 2; i-- > 0;)
    if (hands_down_cpu(roots[i]))
      root = roots[i];
  snprintf(groups, sizeof groups, "%s/maru-bench-%d", root, (int)getpid());
  if (mkdir(groups, 0755) < 0)
    skip("no control groups with a cpu controller can be made here");
  group_owner = getpid();
  snprintf(path, sizeof path, "%s/cgroup.subtree_control", groups);
  (void)write_text(path, "+cpu"); /* version 1 has no such file */
  for (group_count = 0; group_count < count; group_count++) {
    snprintf(path, sizeof path, "%s/%ld", groups, group_count);
    if (mkdir(path, 0755) < 0)
      break;
  }
  (void)start(remove_afterwards, NULL);
  if (group_count < count)
    skip("no control group a job can be made here");
}

/* By a child; without groups it stays where it is. */
static inline void join_group(long number) {
  char path[128];
  snprintf(path, sizeof path, "%s/%ld/cgroup.procs", groups, number);
  if (groups[0] != '\0')
    CHECK(write_text(path, "0"));
}

#endif
