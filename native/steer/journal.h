/* journal.h: what was changed, on disk before it is changed.
 *
 * One file a run, in /run/maru (root), $XDG_RUNTIME_DIR/maru, or ROOT/run/maru where a folder
 * stands for the machine. Its name holds the boot and the process that keeps it, and that process
 * holds a lock on it. A file without the lock is a dead run's: a run that finds it puts back what
 * it lists.  A line counts only with its checksum, so a torn one is no line; each is on disk before
 * its change is made.
 *
 *   tree PID START CPUS                 the run's processes, and what they are put back to
 *   set TID START TGID START OLD NEW    a thread
 *   set PATH OLD NEW                    a file; "-" stands for no CPU
 *   mask CPUS                           threads that are gone had it; others may have inherited it
 *   group CGROUP CPUS                   a cgroup that is made for threads in the one above it
 *   cpusets CGROUP                      those below it get their controller, which they had not
 *   back TID START | back PATH          it was put back: free for others
 *
 * Putting back never overwrites a value that is not ours: what is neither what was found
 * nor what we wrote is somebody else's by now.
 *
 * Not thread-safe.  Errors are negative errno.
 */
#ifndef MARU_STEER_JOURNAL_H
#define MARU_STEER_JOURNAL_H

#include "group.h"
#include "target.h"

#include <stdbool.h>
#include <stddef.h>

#define MR_WHY_MAX 256

struct mr_change {
  struct mr_target target;
  pid_t process; /* of a thread */
  uint64_t process_start;
  char *found; /* before the first change */
  char **wrote;
  size_t wrote_count;
  bool grouped; /* a thread that is placed by a cgroup */
  bool back;
};

struct mr_group {
  char *path;
  char *cpus;
  bool made, back;
};

struct mr_journal {
  const char *root; /* "" is this machine */
  char folder[MR_PATH_MAX];
  char name[MR_PATH_MAX];
  int fd;
  pid_t tree;
  uint64_t tree_start;
  struct mr_cpus may; /* where the run's processes may run; only of one that was opened */
  char *base;         /* what they are put back to */
  struct mr_change *changes;
  size_t count;
  char **masks; /* all that threads were given */
  size_t mask_count;
  char home[MR_GROUP_PATH]; /* the cgroup that groups are made in; "": none is wanted */
  char
      why_not[MR_WHY_MAX]; /* why threads are placed by their affinity although groups are wanted */
  struct mr_group *groups;
  size_t group_count;
  bool serves;      /* the home's controller serves groups because of us */
  bool broken;      /* a torn line could not be cut off: nothing can be noted */
  size_t shortened; /* changes when it was last */
};

/* Finds or makes the folder, puts back what dead runs left, and opens a journal: for the
 * processes below `tree`, whose threads are to be placed by cgroups if `groups`. *mended: how
 * many dead runs were wholly put back. -EBUSY: a run that is alive has these processes, a
 * process above or one below; *other is who keeps its journal. */
int mr_journal_open(struct mr_journal *journal, const char *root, pid_t tree, bool groups,
                    int *mended, pid_t *other);

/* Only the putting back; how many settings could not be, or a negative errno. */
int mr_journal_repair(const char *root);

/* Where many changes have come together: keeps those that still matter, in a new file that takes
 * the old one's place at once. It is 0 or a negative errno (then the old file goes on). */
int mr_journal_shorten(struct mr_journal *journal);

/* Notes that a target will be set, without making sure that it is on disk. -EUSERS: a run that
 * is alive has it. -EALREADY: it has the value. */
int mr_journal_note(struct mr_journal *journal, const struct mr_target *target, const char *value);
/* All that was noted is on disk. */
int mr_journal_sync(struct mr_journal *journal);

/* Sets what was noted: a thread by a cgroup where that can be, else by its affinity.  As
 * mr_target_write. */
int mr_journal_make(struct mr_journal *journal, const struct mr_target *target, const char *value);

/* Puts one target back as it was found. */
int mr_journal_back(struct mr_journal *journal, const struct mr_target *target);
/* The same where our own write has just been made into another value. */
int mr_journal_revert(struct mr_journal *journal, const struct mr_target *target);
/* Where no thread is set any more: those that inherited what one was set to, and cgroups. */
void mr_journal_back_strays(struct mr_journal *journal);
/* Puts back everything, threads that were started meanwhile and cgroups too.  How many could not
 * be. Twice is as once. */
int mr_journal_back_all(struct mr_journal *journal);

/* Closes it; removes the file unless `keep`. */
void mr_journal_close(struct mr_journal *journal, bool keep);

#endif
