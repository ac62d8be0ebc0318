#define _GNU_SOURCE
#include "journal_parts.h"

#include "process_table.h"
#include "task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- looking ---------------------------------------------------------------------- */

/* A thread's CPUs go offline, and its cgroup gets others.  What is left of those that it was given
 * is still ours. */
struct sight {
  char now[MR_VALUE_MAX];
  struct mr_cpus cpus;
  const struct mr_cpus *usable; /* NULL: it has all that it was given, or nobody says */
};

static int look(const struct mr_journal *journal, const struct mr_target *target,
                struct sight *sight) {
  bool limited = mr_target_usable(target, journal->root, &sight->cpus);
  sight->usable = limited ? &sight->cpus : NULL;
  return mr_target_read(target, journal->root, sight->now);
}

static bool is_ours(const struct mr_change *change, const struct sight *sight) {
  return mr_journal_wrote(change, sight->now, sight->usable);
}

/* ---- opening ------------------------------------------------------------------- */

struct mending {
  int mended, failed;
};

static int mend(struct mr_journal *other, bool dead, void *argument) {
  struct mending *mending = argument;
  if (!dead)
    return 0;
  int failed = mr_journal_back_all(other);
  mending->mended += failed == 0;
  mending->failed += failed;
  mr_journal_close(other, failed > 0);
  return 0;
}

struct claim {
  const struct mr_target *target;
  pid_t tree;
  pid_t keeper;
};

static int overlaps(struct mr_journal *other, bool dead, void *argument) {
  struct claim *claim = argument;
  if (dead || !(mr_is_below(claim->tree, other->tree) || mr_is_below(other->tree, claim->tree)))
    return 0;
  claim->keeper = mr_journal_keeper(other);
  return -EBUSY;
}

static int holds(struct mr_journal *other, bool dead, void *argument) {
  struct claim *claim = argument;
  return !dead && mr_journal_find(other, claim->target) != NULL ? -EUSERS : 0;
}

static int read_base(struct mr_journal *journal) {
  struct mr_target tree = {.tid = journal->tree, .start = mr_start_time(journal->tree)};
  struct sight sight;
  journal->tree_start = tree.start;
  int error = tree.start == 0 ? -ESRCH : look(journal, &tree, &sight);
  if (error < 0)
    return error;
  (void)mr_cpus_parse_list(sight.now, &journal->may);
  mr_target_unbind(sight.usable, sight.now);
  journal->base = strdup(sight.now);
  return journal->base != NULL ? 0 : -ENOMEM;
}

int mr_journal_open(struct mr_journal *journal, const char *root, pid_t tree, bool groups,
                    int *mended, pid_t *other) {
  struct claim claim = {.tree = tree};
  struct mending mending = {0};
  *journal = (struct mr_journal){.root = root, .fd = -1, .tree = tree};
  int error = mr_journal_find_folder(root, journal->folder);
  int lock = error < 0 ? error : mr_journal_lock(journal->folder);
  if (lock < 0)
    return lock;
  (void)mr_journal_each(root, journal->folder, mend, &mending);
  *mended = mending.mended;
  error = mr_journal_each(root, journal->folder, overlaps, &claim);
  *other = claim.keeper;
  if (error == 0)
    error = read_base(journal);
  if (error == 0) {
    if (groups)
      mr_journal_find_home(journal);
    error = mr_journal_create(journal);
  }
  close(lock);
  if (error < 0)
    mr_journal_forget(journal);
  return error;
}

int mr_journal_repair(const char *root) {
  char folder[MR_PATH_MAX];
  struct mending mending = {0};
  int error = mr_journal_find_folder(root, folder);
  int lock = error < 0 ? error : mr_journal_lock(folder);
  if (lock < 0)
    return lock;
  error = mr_journal_each(root, folder, mend, &mending);
  close(lock);
  return error < 0 ? error : mending.failed;
}

void mr_journal_close(struct mr_journal *journal, bool keep) {
  char path[PATH_MAX];
  if (journal->fd < 0)
    return;
  if (!keep && mr_journal_join(path, journal->folder, journal->name) == 0)
    unlink(path);
  close(journal->fd);
  journal->fd = -1;
  mr_journal_forget(journal);
}

/* ---- changing --------------------------------------------------------------------- */

static int claim_file(struct mr_journal *journal, const struct mr_target *target) {
  struct claim claim = {.target = target};
  return mr_journal_each(journal->root, journal->folder, holds, &claim);
}

int mr_journal_note(struct mr_journal *journal, const struct mr_target *target, const char *value) {
  struct sight sight;
  int error = look(journal, target, &sight);
  if (error < 0)
    return error;
  struct mr_change *change = mr_journal_find(journal, target);
  /* One that was started with it is put back with those that nobody saw. */
  bool inherited = change == NULL && target->tid != 0 &&
                   mr_journal_wrote_to_threads(journal, sight.now, sight.usable);
  if (strcmp(sight.now, value) == 0 && (change != NULL || inherited))
    return -EALREADY;
  if (change != NULL && !mr_journal_shows(change->found, sight.now, sight.usable) &&
      !is_ours(change, &sight))
    return -EPERM; /* somebody else's by now */
  int lock = -1;
  if (change == NULL && target->tid == 0) {
    lock = mr_journal_lock(journal->folder);
    error = lock < 0 ? lock : claim_file(journal, target);
  }
  if (error == 0 && change == NULL) {
    if (target->tid != 0)
      mr_target_unbind(sight.usable, sight.now);
    change = mr_journal_add_change(journal, target, inherited ? journal->base : sight.now);
    error = change == NULL ? -ENOMEM : 0;
    if (error == 0 && target->tid != 0) {
      change->process = mr_process_of(target->tid);
      change->process_start = mr_start_time(change->process);
    }
  }
  if (error == 0)
    error = mr_journal_add_value(journal, change, value);
  if (error == 0 && target->tid != 0)
    change->grouped = strcmp(change->found, journal->base) == 0 &&
                      mr_journal_may_group(journal, target->tid) &&
                      mr_journal_note_group(journal, value);
  if (error == 0)
    error = mr_journal_append_set(journal, change, value);
  if (lock >= 0)
    close(lock);
  return error;
}

int mr_journal_make(struct mr_journal *journal, const struct mr_target *target, const char *value) {
  char now[MR_VALUE_MAX];
  struct mr_change *change = mr_journal_find(journal, target);
  /* Noting took a while: the number may be another program's thread by now, or its cgroup another.
   */
  if (target->tid != 0 && mr_start_time(target->tid) != target->start)
    return -ESRCH;
  bool grouped = change != NULL && change->grouped && mr_journal_may_group(journal, target->tid);
  int error = grouped ? mr_journal_group(journal, target->tid, value) : -EOPNOTSUPP;
  if (error == -EOPNOTSUPP) {
    /* In a group that it was moved to before it could not leave that one's CPUs. */
    if (target->tid != 0)
      (void)mr_journal_ungroup(journal, target->tid);
    return mr_target_write(target, journal->root, value);
  }
  if (error == 0)
    error = mr_target_read(target, journal->root, now);
  return error == 0 && strcmp(now, value) != 0 ? -ERANGE : error;
}

/* ---- putting back ------------------------------------------------------------------- */

static int write_found(struct mr_journal *journal, const struct mr_change *change) {
  struct sight sight;
  const struct mr_target *target = &change->target;
  if (target->tid != 0 && mr_journal_ungroup(journal, target->tid)) {
    int error = look(journal, target, &sight);
    /* Else its cgroup has other CPUs by now. */
    if (error < 0 || strcmp(sight.now, change->found) == 0 || !is_ours(change, &sight))
      return error;
  }
  int error = mr_target_write(target, journal->root, change->found);
  /* A thread's cgroup may have other CPUs by now; the kernel keeps it to these. */
  return target->tid != 0 && error == -ERANGE ? 0 : error;
}

/* 0 also when there is nothing to do: it is gone, as it was, or somebody else's. */
static int put_back(struct mr_journal *journal, struct mr_change *change) {
  struct sight sight;
  int error = look(journal, &change->target, &sight);
  if (error == 0 && strcmp(sight.now, change->found) != 0 && is_ours(change, &sight))
    error = write_found(journal, change);
  if (error < 0 && error != -ESRCH && error != -ENOENT)
    return error;
  change->back = true;
  /* It is back also where that cannot be noted; doing it once more does no harm. */
  (void)mr_journal_append_back(journal, &change->target);
  return 0;
}

int mr_journal_back(struct mr_journal *journal, const struct mr_target *target) {
  struct mr_change *change = mr_journal_find(journal, target);
  return change == NULL ? 0 : put_back(journal, change);
}

int mr_journal_revert(struct mr_journal *journal, const struct mr_target *target) {
  struct mr_change *change = mr_journal_find(journal, target);
  if (change == NULL)
    return 0;
  (void)write_found(journal, change);
  return put_back(journal, change);
}

struct strays {
  struct mr_journal *journal;
  int put_back;
};

/* A thread that was started by one that we placed, and that we never saw. */
static void put_back_stray(pid_t tid, void *argument) {
  struct strays *strays = argument;
  struct mr_target target = {.tid = tid, .start = mr_start_time(tid)};
  const struct mr_journal *journal = strays->journal;
  struct sight sight;
  if (look(journal, &target, &sight) < 0 ||
      mr_journal_shows(journal->base, sight.now, sight.usable) ||
      !mr_journal_wrote_to_threads(journal, sight.now, sight.usable))
    return;
  int error = mr_target_write(&target, journal->root, journal->base);
  strays->put_back += error == 0 || error == -ERANGE; /* as above */
}

static int back_strays(struct mr_journal *journal) {
  struct strays strays = {.journal = journal};
  struct mr_processes table;
  if (mr_processes_read(&table) < 0)
    return 0;
  mr_processes_mark(&table, journal->tree, journal->tree_start);
  for (size_t i = 0; i < journal->count; i++)
    if (journal->changes[i].target.tid != 0)
      mr_processes_mark(&table, journal->changes[i].process, journal->changes[i].process_start);
  mr_processes_mark_run(&table, journal->tree);
  mr_processes_each_thread(&table, put_back_stray, &strays);
  mr_processes_free(&table);
  return strays.put_back;
}

static bool has_thread(const struct mr_journal *journal) {
  for (size_t i = 0; i < journal->count; i++)
    if (journal->changes[i].target.tid != 0 && !journal->changes[i].back)
      return true;
  return false;
}

void mr_journal_back_strays(struct mr_journal *journal) {
  if (journal->mask_count == 0 || has_thread(journal))
    return;
  (void)mr_journal_remove_groups(journal);
  /* A thread may start another between our look and our touch; each pass leaves fewer. */
  for (int pass = 0; pass < 16 && back_strays(journal) > 0; pass++)
    ;
}

int mr_journal_back_all(struct mr_journal *journal) {
  int failed = 0;
  for (size_t i = 0; i < journal->count; i++)
    if (!journal->changes[i].back && put_back(journal, &journal->changes[i]) < 0)
      failed++;
  failed += mr_journal_remove_groups(journal);
  if (journal->base != NULL)
    mr_journal_back_strays(journal);
  return failed;
}
