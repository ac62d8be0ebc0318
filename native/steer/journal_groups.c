/* journal_groups.c: cgroups in the journal: noted before they are made, emptied and removed at the
 * end. */
#define _GNU_SOURCE
#include "journal_parts.h"

#include "task.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void forgo(struct mr_journal *journal, const char *why) {
  if (journal->why_not[0] == '\0')
    snprintf(journal->why_not, sizeof journal->why_not, "%s", why);
}

void mr_journal_find_home(struct mr_journal *journal) {
  (void)mr_group_home(journal->tree, &journal->may, journal->home, journal->why_not,
                      sizeof journal->why_not);
}

static struct mr_group *find_cpus(const struct mr_journal *journal, const char *cpus) {
  for (size_t i = 0; i < journal->group_count; i++)
    if (!journal->groups[i].back && strcmp(journal->groups[i].cpus, cpus) == 0)
      return &journal->groups[i];
  return NULL;
}

static bool is_ours(const struct mr_journal *journal, const char *path) {
  for (size_t i = 0; i < journal->group_count; i++)
    if (!journal->groups[i].back && strcmp(journal->groups[i].path, path) == 0)
      return true;
  return false;
}

bool mr_journal_may_group(const struct mr_journal *journal, pid_t tid) {
  char path[MR_GROUP_PATH];
  return journal->home[0] != '\0' && journal->why_not[0] == '\0' &&
         mr_group_of(tid, journal->home, path) == 0 &&
         (strcmp(path, journal->home) == 0 || is_ours(journal, path));
}

/* ---- noting -------------------------------------------------------------- */

static int serves_home(struct mr_journal *other, bool dead, void *argument) {
  const struct mr_journal *journal = argument;
  /* The run that puts back what a dead one left switches it off, too. */
  (void)dead;
  return other->serves && strcmp(other->home, journal->home) == 0 ? -EUSERS : 0;
}

/* What another run has switched on it will switch off: nobody may count on that. */
static int note_served(struct mr_journal *journal) {
  int lock = mr_journal_lock(journal->folder);
  if (lock < 0)
    return lock;
  /* In this order: one that has ended meanwhile switched it off before it said so. */
  int error = mr_journal_each(journal->root, journal->folder, serves_home, journal);
  int served = mr_group_served(journal->home);
  if (error == 0 && served == 0) {
    error = mr_journal_append_served(journal);
    journal->serves = error == 0;
  }
  close(lock);
  return served < 0 ? served : error;
}

bool mr_journal_note_group(struct mr_journal *journal, const char *cpus) {
  char path[2 * MR_GROUP_PATH];
  int error = 0;
  if (find_cpus(journal, cpus) != NULL)
    return true;
  if (!journal->serves)
    error = note_served(journal);
  snprintf(path, sizeof path, "%s/" MR_GROUP_NAME "%d-%" PRIu64 "-%zu", journal->home,
           (int)getpid(), mr_start_time(getpid()), journal->group_count);
  if (error == 0 && strlen(path) >= MR_GROUP_PATH)
    error = -ENAMETOOLONG;
  if (error == 0)
    error = mr_journal_add_group(journal, path, cpus);
  if (error == 0)
    error = mr_journal_append_group(journal, &journal->groups[journal->group_count - 1]);
  if (error < 0)
    forgo(journal, error == -EUSERS ? "another maru run keeps the cpusets of this cgroup"
                                    : strerror(-error));
  return error == 0;
}

/* ---- making --------------------------------------------------------------- */

static int make(struct mr_journal *journal, struct mr_group *group) {
  if (group->made)
    return 0;
  int error = journal->serves ? mr_group_serve(journal->home, true) : 0;
  if (error == 0)
    error = mr_group_make(group->path, group->cpus);
  group->made = error == 0;
  return error;
}

int mr_journal_group(struct mr_journal *journal, pid_t tid, const char *cpus) {
  char why[MR_WHY_MAX];
  struct mr_group *group = find_cpus(journal, cpus);
  int error = group == NULL ? -EOPNOTSUPP : make(journal, group);
  if (error == 0)
    error = mr_group_move(group->path, tid);
  if (error == 0 || error == -ESRCH)
    return error;
  snprintf(why, sizeof why, "a cgroup below %.150s: %s", journal->home, strerror(-error));
  forgo(journal, why);
  return -EOPNOTSUPP;
}

/* ---- putting back ------------------------------------------------------------ */

bool mr_journal_ungroup(struct mr_journal *journal, pid_t tid) {
  char path[MR_GROUP_PATH];
  return journal->group_count > 0 && mr_group_of(tid, journal->home, path) == 0 &&
         is_ours(journal, path) && mr_group_move(journal->home, tid) == 0;
}

int mr_journal_remove_groups(struct mr_journal *journal) {
  int failed = 0;
  for (size_t i = 0; i < journal->group_count; i++) {
    struct mr_group *group = &journal->groups[i];
    if (group->back)
      continue;
    if (mr_group_remove(group->path, group->cpus) < 0) {
      failed++;
      group->made = false; /* its CPUs are others now */
      continue;
    }
    group->back = true;
    (void)mr_journal_append_back_path(journal, group->path);
  }
  if (!journal->serves || failed > 0)
    return failed;
  /* Where somebody else uses it by now it stays. */
  int error = mr_group_serve(journal->home, false);
  if (error < 0 && error != -EBUSY && error != -ENOENT)
    return 1;
  journal->serves = false;
  (void)mr_journal_append_back_path(journal, journal->home);
  return 0;
}
