#define _GNU_SOURCE
#include "target.h"

#include "files.h"
#include "group.h"
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum form { LIST, MASK, NUMBER };

static const struct {
  const char *pattern;
  enum form form;
} permitted[] = {
    {"proc/irq/[0-9]*/smp_affinity_list", LIST},
    {"sys/class/net/*/queues/rx-[0-9]*/rps_cpus", MASK},
    {"sys/class/net/*/queues/tx-[0-9]*/xps_cpus", MASK},
    {"sys/class/net/*/queues/rx-[0-9]*/rps_flow_cnt", NUMBER},
    {"proc/sys/net/core/rps_sock_flow_entries", NUMBER},
};
enum { PATTERNS = sizeof permitted / sizeof *permitted };

static int pattern_of(const char *path) {
  for (int i = 0; i < PATTERNS; i++)
    if (fnmatch(permitted[i].pattern, path, FNM_PATHNAME | FNM_PERIOD) == 0)
      return i;
  return -1;
}

bool mr_target_permitted(const char *path) { return pattern_of(path) >= 0; }

bool mr_target_same(const struct mr_target *a, const struct mr_target *b) {
  return a->tid == b->tid && a->start == b->start && strcmp(a->path, b->path) == 0;
}

static enum form form_of(const struct mr_target *target) {
  return target->tid != 0 ? LIST : permitted[pattern_of(target->path)].form;
}

int mr_target_form(const struct mr_target *target, const char *text, char value[MR_VALUE_MAX]) {
  struct mr_cpus set;
  unsigned number;
  char rest;
  switch (form_of(target)) {
  case NUMBER:
    if (sscanf(text, "%9u %c", &number, &rest) != 1)
      return -EINVAL;
    snprintf(value, MR_VALUE_MAX, "%u", number);
    return 0;
  case MASK:
    if (!mr_cpus_parse_mask(text, &set))
      return -EINVAL;
    break;
  case LIST:
    if (!mr_cpus_parse_list(text, &set))
      return -EINVAL;
    break;
  }
  mr_cpus_list(&set, value);
  return 0;
}

static bool lives(const struct mr_target *target) {
  return mr_start_time(target->tid) == target->start;
}

static int read_file(const struct mr_target *target, const char *root, char value[MR_VALUE_MAX]) {
  char text[MR_VALUE_MAX];
  int error = mr_file_read(root, target->path, text, sizeof text);
  if (error < 0)
    return error;
  return mr_target_form(target, text, value) < 0 ? -ENODATA : 0;
}

bool mr_target_usable(const struct mr_target *target, const char *root, struct mr_cpus *usable) {
  char text[MR_VALUE_MAX];
  struct mr_cpus group;
  if (target->tid == 0 ||
      mr_file_read(root, "sys/devices/system/cpu/online", text, sizeof text) < 0 ||
      !mr_cpus_parse_list(text, usable))
    return false;
  if (mr_group_cpus(target->tid, &group))
    mr_cpus_keep(usable, &group);
  return true;
}

void mr_target_unbind(const struct mr_cpus *usable, char value[MR_VALUE_MAX]) {
  struct mr_cpus set;
  if (usable == NULL || !mr_cpus_parse_list(value, &set) || !mr_cpus_equal(&set, usable))
    return;
  memset(&set, 0xff, sizeof set);
  mr_cpus_list(&set, value);
}

int mr_target_read(const struct mr_target *target, const char *root, char value[MR_VALUE_MAX]) {
  struct mr_cpus set;
  if (target->tid == 0)
    return read_file(target, root, value);
  int error = mr_cpus_get(target->tid, &set);
  if (error == 0)
    mr_cpus_list(&set, value);
  /* Asked last: the number was this thread's all the time. */
  return lives(target) ? error : -ESRCH;
}

/* The kernel reads masks in groups of 32 bits. */
static void as_mask(const char *list, char text[MR_VALUE_MAX]) {
  struct mr_cpus set;
  (void)mr_cpus_parse_list(list, &set);
  int group = MR_CPUS_MAX / 32 - 1;
  while (group > 0 && (uint32_t)(set.bits[group / 2] >> group % 2 * 32) == 0)
    group--;
  size_t at = 0;
  for (; group >= 0; group--)
    at += (size_t)snprintf(text + at, MR_VALUE_MAX - at, "%08x%s",
                           (uint32_t)(set.bits[group / 2] >> group % 2 * 32), group > 0 ? "," : "");
}

static int write_file(const struct mr_target *target, const char *root, const char *value) {
  char text[MR_VALUE_MAX];
  if (form_of(target) == MASK)
    as_mask(value, text);
  else
    snprintf(text, sizeof text, "%s", value);
  int fd = mr_file_open(root, target->path, O_WRONLY);
  if (fd < 0)
    return fd;
  /* In a folder that stands for a machine a longer value would keep its end.  Overwritten, not cut
   * off: one write is done wholly or not, whenever we are killed. */
  struct stat status;
  size_t length = strlen(text);
  if (*root != '\0' && fstat(fd, &status) == 0)
    while ((off_t)length < status.st_size && length < sizeof text)
      text[length++] = '\n';
  int error = write(fd, text, length) < 0 ? -errno : 0;
  close(fd);
  return error;
}

static int write_thread(const struct mr_target *target, const char *value) {
  struct mr_cpus set;
  if (!mr_cpus_parse_list(value, &set) || mr_cpus_empty(&set))
    return -EINVAL;
  return lives(target) ? mr_cpus_set(target->tid, &set) : -ESRCH;
}

int mr_target_write(const struct mr_target *target, const char *root, const char *value) {
  char now[MR_VALUE_MAX];
  int error = target->tid != 0 ? write_thread(target, value) : write_file(target, root, value);
  if (error == 0)
    error = mr_target_read(target, root, now);
  if (error == 0 && strcmp(now, value) != 0)
    error = -ERANGE;
  return error;
}
