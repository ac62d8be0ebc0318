/* journal_parts.h: what the parts of the journal share (internal).
 *
 *   journal.c         opening, noting, making, putting back
 *   journal_groups.c  the same for cgroups
 *   journal_folder.c  where journals are, whose they are, their locks
 *   journal_lines.c   what one holds, and the lines that say so
 */
#ifndef MARU_STEER_JOURNAL_PARTS_H
#define MARU_STEER_JOURNAL_PARTS_H

#include "journal.h"

#include <limits.h>

/* ---- journal_lines.c ----------------------------------------------------- */

/* The one that is not put back yet; NULL: none. */
struct mr_change *mr_journal_find(const struct mr_journal *journal, const struct mr_target *target);
struct mr_change *mr_journal_add_change(struct mr_journal *journal, const struct mr_target *target,
                                        const char *found);
/* Whether a target that was given `value` shows `now`: a thread has only those of its CPUs that are
 * `usable`.  NULL: it has all. */
bool mr_journal_shows(const char *value, const char *now, const struct mr_cpus *usable);
/* The same of all that it was given by us. */
bool mr_journal_wrote(const struct mr_change *change, const char *now,
                      const struct mr_cpus *usable);
/* Of what any thread of the run was given, before or now: what it starts inherits it. */
bool mr_journal_wrote_to_threads(const struct mr_journal *journal, const char *now,
                                 const struct mr_cpus *usable);
/* Notes a value that is about to be written, or was. */
int mr_journal_add_value(struct mr_journal *journal, struct mr_change *change, const char *value);
int mr_journal_add_group(struct mr_journal *journal, const char *path, const char *cpus);
void mr_journal_forget_change(struct mr_change *change);
void mr_journal_forget(struct mr_journal *journal);

int mr_journal_append_set(struct mr_journal *journal, const struct mr_change *change,
                          const char *value);
int mr_journal_append_group(struct mr_journal *journal, const struct mr_group *group);
int mr_journal_append_served(struct mr_journal *journal);
int mr_journal_append_back(struct mr_journal *journal, const struct mr_target *target);
int mr_journal_append_back_path(struct mr_journal *journal, const char *path);
int mr_journal_append_all(struct mr_journal *journal);
/* Up to the first line that is none: what was to follow it was not done. */
int mr_journal_load(struct mr_journal *journal);

/* ---- journal_folder.c ---------------------------------------------------- */

int mr_journal_join(char path[PATH_MAX], const char *folder, const char *name);
int mr_journal_find_folder(const char *root, char folder[MR_PATH_MAX]);
/* One run at a time decides who has what: a descriptor to close, or a negative errno. */
int mr_journal_lock(const char *folder);
/* Calls `visit` for each journal of this boot; those of others are removed: what they list
 * went with it.  Stops at, and returns, the first answer that is not 0. */
int mr_journal_each(const char *root, const char *folder,
                    int (*visit)(struct mr_journal *other, bool dead, void *argument),
                    void *argument);
/* The process that keeps it. */
pid_t mr_journal_keeper(const struct mr_journal *journal);
/* Ours, on disk and locked. */
int mr_journal_create(struct mr_journal *journal);

/* ---- journal_groups.c ---------------------------------------------------- */

/* Where groups can be made for the journal's processes; else `why_not` says why not. */
void mr_journal_find_home(struct mr_journal *journal);
/* Whether the thread, which runs where it is by itself or by us, is to be placed by a group. */
bool mr_journal_may_group(const struct mr_journal *journal, pid_t tid);
/* Notes the group of these CPUs.  False: it will not be by a group. */
bool mr_journal_note_group(struct mr_journal *journal, const char *cpus);
/* Moves the thread.  -EOPNOTSUPP: groups do not work here, and from now on none is used. */
int mr_journal_group(struct mr_journal *journal, pid_t tid, const char *cpus);
/* Takes the thread out of ours; whether it was in one. */
bool mr_journal_ungroup(struct mr_journal *journal, pid_t tid);
/* Empties and removes them; how many could not be. */
int mr_journal_remove_groups(struct mr_journal *journal);

#endif
