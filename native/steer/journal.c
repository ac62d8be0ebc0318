#define _GNU_SOURCE
#include "journal.h"

#include "process_table.h"
#include "task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "steer-"
#define DRAFT ".draft"
#define LINE_MAX_BYTES (3 * MR_VALUE_MAX)
#define NO_CPU "-"
#define SHORTEN_FROM 256 /* changes */

/* ---- the folder ---------------------------------------------------------- */

static int join(char path[PATH_MAX], const char *folder, const char *name) {
  return (size_t)snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Others must not be able to make us write. */
static int private_folder(const char *path) {
  struct stat status;
  if (mkdir(path, 0700) < 0 && errno != EEXIST)
    return -errno;
  if (lstat(path, &status) < 0)
    return -errno;
  if (!S_ISDIR(status.st_mode))
    return -ENOTDIR;
  return status.st_uid == geteuid() && (status.st_mode & 077) == 0 ? 0 : -EPERM;
}

static int find_folder(const char *root, char folder[MR_PATH_MAX]) {
  const char *above = geteuid() == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");
  char run[MR_PATH_MAX];
  if (*root != '\0') {
    if ((size_t)snprintf(run, sizeof run, "%s/run", root) >= sizeof run)
      return -ENAMETOOLONG;
    if (mkdir(run, 0700) < 0 && errno != EEXIST)
      return -errno;
    above = run;
  }
  if (above == NULL || *above == '\0')
    return -ENODEV;
  if ((size_t)snprintf(folder, MR_PATH_MAX, "%s/maru", above) >= MR_PATH_MAX)
    return -ENAMETOOLONG;
  return private_folder(folder);
}

/* One run at a time decides who has what.  Nobody holds it for longer than a few writes; one who
 * is stopped meanwhile must not stop us. */
static int lock_folder(const char *folder) {
  char path[PATH_MAX];
  int error = join(path, folder, "lock");
  int fd = error < 0 ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return error < 0 ? error : -errno;
  for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; tries++) {
    error = -errno;
    if (error != -EWOULDBLOCK || tries == 200) {
      close(fd);
      return error == -EWOULDBLOCK ? -ETIMEDOUT : error;
    }
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  return fd;
}

#define NO_BOOT "none"

static void read_boot(const char *root, char boot[64]) {
  char path[PATH_MAX];
  snprintf(boot, 64, NO_BOOT);
  if ((size_t)snprintf(path, sizeof path, "%s/proc/sys/kernel/random/boot_id", root) >= sizeof path)
    return;
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return;
  if (fscanf(file, "%63[0-9a-f-]", boot) != 1)
    snprintf(boot, 64, NO_BOOT);
  fclose(file);
}

/* ---- lines ----------------------------------------------------------------- */

static uint32_t checksum(const char *text, size_t length) {
  uint32_t sum = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < length; i++)
    sum = (sum ^ (unsigned char)text[i]) * 16777619u;
  return sum;
}

/* In one write: a reader sees all of it, or a part that its checksum tells.  A part is cut off
 * again: what follows it would not be read. */
static int append(struct mr_journal *journal, const char *line) {
  char *whole;
  off_t before = lseek(journal->fd, 0, SEEK_END);
  if (journal->broken || before < 0)
    return -EIO;
  int length = asprintf(&whole, "%s #%08" PRIx32 "\n", line, checksum(line, strlen(line)));
  if (length < 0)
    return -ENOMEM;
  ssize_t written = write(journal->fd, whole, (size_t)length);
  int error = written == length ? 0 : written < 0 ? -errno : -ENOSPC;
  free(whole);
  if (error < 0 && ftruncate(journal->fd, before) < 0)
    journal->broken = true;
  return error;
}

static const char *shown(const char *value) { return *value != '\0' ? value : NO_CPU; }

static const char *meant(const char *text) { return strcmp(text, NO_CPU) == 0 ? "" : text; }

static int append_set(struct mr_journal *journal, const struct mr_change *change,
                      const char *value) {
  char line[LINE_MAX_BYTES];
  const struct mr_target *target = &change->target;
  int length = target->tid != 0
                   ? snprintf(line, sizeof line, "set %d %" PRIu64 " %d %" PRIu64 " %s %s",
                              (int)target->tid, target->start, (int)change->process,
                              change->process_start, shown(change->found), shown(value))
                   : snprintf(line, sizeof line, "set %s %s %s", target->path, shown(change->found),
                              shown(value));
  return (size_t)length < sizeof line ? append(journal, line) : -E2BIG;
}

static int append_back(struct mr_journal *journal, const struct mr_target *target) {
  char line[MR_PATH_MAX + 64];
  if (target->tid != 0)
    snprintf(line, sizeof line, "back %d %" PRIu64, (int)target->tid, target->start);
  else
    snprintf(line, sizeof line, "back %s", target->path);
  return append(journal, line);
}

/* ---- changes --------------------------------------------------------------- */

static struct mr_change *find(const struct mr_journal *journal, const struct mr_target *target) {
  for (size_t i = journal->count; i-- > 0;)
    if (!journal->changes[i].back && mr_target_same(&journal->changes[i].target, target))
      return &journal->changes[i];
  return NULL;
}

static struct mr_change *add_change(struct mr_journal *journal, const struct mr_target *target,
                                    const char *found) {
  struct mr_change *grown =
      reallocarray(journal->changes, journal->count + 1, sizeof *journal->changes);
  if (grown == NULL)
    return NULL;
  journal->changes = grown;
  struct mr_change *change = &grown[journal->count];
  *change = (struct mr_change){.target = *target, .found = strdup(found)};
  if (change->found == NULL)
    return NULL;
  journal->count++;
  return change;
}

static bool wrote(const struct mr_change *change, const char *value) {
  for (size_t i = 0; i < change->wrote_count; i++)
    if (strcmp(change->wrote[i], value) == 0)
      return true;
  return false;
}

static int add_wrote(struct mr_change *change, const char *value) {
  if (wrote(change, value))
    return 0;
  char **grown = reallocarray(change->wrote, change->wrote_count + 1, sizeof *grown);
  if (grown == NULL)
    return -ENOMEM;
  change->wrote = grown;
  grown[change->wrote_count] = strdup(value);
  if (grown[change->wrote_count] == NULL)
    return -ENOMEM;
  change->wrote_count++;
  return 0;
}

/* A value that any thread of the run was given, before or now: what it starts inherits it. */
static bool wrote_to_threads(const struct mr_journal *journal, const char *value) {
  for (size_t i = 0; i < journal->mask_count; i++)
    if (strcmp(journal->masks[i], value) == 0)
      return true;
  return false;
}

static int add_mask(struct mr_journal *journal, const char *value) {
  if (wrote_to_threads(journal, value))
    return 0;
  char **grown = reallocarray(journal->masks, journal->mask_count + 1, sizeof *grown);
  if (grown == NULL)
    return -ENOMEM;
  journal->masks = grown;
  grown[journal->mask_count] = strdup(value);
  if (grown[journal->mask_count] == NULL)
    return -ENOMEM;
  journal->mask_count++;
  return 0;
}

/* Notes a value that is about to be written, or was. */
static int add_value(struct mr_journal *journal, struct mr_change *change, const char *value) {
  int error = change->target.tid != 0 ? add_mask(journal, value) : 0;
  return error < 0 ? error : add_wrote(change, value);
}

static void forget_change(struct mr_change *change) {
  for (size_t i = 0; i < change->wrote_count; i++)
    free(change->wrote[i]);
  free(change->wrote);
  free(change->found);
}

static void forget(struct mr_journal *journal) {
  for (size_t i = 0; i < journal->count; i++)
    forget_change(&journal->changes[i]);
  for (size_t i = 0; i < journal->mask_count; i++)
    free(journal->masks[i]);
  free(journal->changes);
  free(journal->masks);
  free(journal->base);
  journal->changes = NULL;
  journal->masks = NULL;
  journal->base = NULL;
  journal->count = journal->mask_count = 0;
}

/* ---- reading a journal ------------------------------------------------------- */

/* `words` are of one line; they hold what some version of us wrote and nothing else. */
static int load_set(struct mr_journal *journal, char **words, size_t count) {
  struct mr_target target = {0};
  struct mr_change read = {0};
  if (count == 7) {
    target.tid = atoi(words[1]);
    target.start = strtoull(words[2], NULL, 10);
    read.process = atoi(words[3]);
    read.process_start = strtoull(words[4], NULL, 10);
  } else if (count == 4 && strlen(words[1]) < sizeof target.path && mr_target_permitted(words[1]))
    strcpy(target.path, words[1]);
  else
    return -EINVAL;
  struct mr_change *change = find(journal, &target);
  if (change == NULL)
    change = add_change(journal, &target, meant(words[count - 2]));
  if (change == NULL)
    return -ENOMEM;
  change->process = read.process;
  change->process_start = read.process_start;
  return add_value(journal, change, meant(words[count - 1]));
}

static int load_line(struct mr_journal *journal, char *line) {
  char *words[8], *rest = line;
  size_t count = 0;
  for (char *word; count < 8 && (word = strsep(&rest, " ")) != NULL;)
    words[count++] = word;
  if (count == 4 && strcmp(words[0], "tree") == 0) {
    journal->tree = atoi(words[1]);
    journal->tree_start = strtoull(words[2], NULL, 10);
    journal->base = strdup(meant(words[3]));
    return journal->base != NULL ? 0 : -ENOMEM;
  }
  if (count == 2 && strcmp(words[0], "mask") == 0)
    return add_mask(journal, words[1]);
  if (strcmp(words[0], "set") == 0)
    return load_set(journal, words, count);
  if (strcmp(words[0], "back") != 0 || (count != 2 && count != 3))
    return -EINVAL;
  struct mr_target target = {0};
  if (count == 3) {
    target.tid = atoi(words[1]);
    target.start = strtoull(words[2], NULL, 10);
  } else
    snprintf(target.path, sizeof target.path, "%s", words[1]);
  struct mr_change *change = find(journal, &target);
  if (change != NULL)
    change->back = true;
  return 0;
}

/* Up to the first line that is none: what was to follow it was not done. */
static int load(struct mr_journal *journal) {
  char *line = NULL;
  size_t room = 0;
  int error = 0;
  int copy = dup(journal->fd);
  FILE *file = copy < 0 ? NULL : fdopen(copy, "r");
  if (file == NULL)
    return -errno;
  rewind(file);
  for (ssize_t length; error == 0 && (length = getline(&line, &room, file)) > 0;) {
    char *mark = strrchr(line, '#');
    if (mark == NULL || mark == line || line[length - 1] != '\n' ||
        strtoul(mark + 1, NULL, 16) != checksum(line, (size_t)(mark - 1 - line)))
      break;
    mark[-1] = '\0';
    error = load_line(journal, line);
  }
  free(line);
  fclose(file);
  return error;
}

/* ---- other runs ------------------------------------------------------------ */

/* Opens a journal of this boot: 1 and locked if its run is dead, 0 if it is alive; negative:
 * it is gone or unreadable. */
static int open_other(struct mr_journal *other, const char *root, const char *folder,
                      const char *name) {
  char path[PATH_MAX];
  *other = (struct mr_journal){.root = root, .fd = -1};
  snprintf(other->folder, sizeof other->folder, "%s", folder);
  snprintf(other->name, sizeof other->name, "%.*s", MR_PATH_MAX - 1, name);
  int error = join(path, folder, name);
  if (error < 0)
    return error;
  other->fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
  if (other->fd < 0)
    return -errno;
  int dead = flock(other->fd, LOCK_EX | LOCK_NB) == 0;
  struct stat status;
  /* Another one may have put it back between our two steps. */
  error = fstat(other->fd, &status) < 0 || status.st_nlink == 0 ? -ENOENT : load(other);
  if (error < 0) {
    close(other->fd);
    forget(other);
    return error;
  }
  return dead;
}

static int is_journal(const struct dirent *entry) {
  return strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0;
}

/* Calls `visit` for each journal of this boot; those of others are removed: what they list
 * went with it.  Stops at, and returns, the first answer that is not 0. */
static int each_journal(const char *root, const char *folder,
                        int (*visit)(struct mr_journal *other, bool dead, void *argument),
                        void *argument) {
  char boot[64], of_boot[80];
  struct dirent **names;
  read_boot(root, boot);
  snprintf(of_boot, sizeof of_boot, PREFIX "%s-", boot);
  int count = scandir(folder, &names, is_journal, NULL), answer = 0;
  if (count < 0)
    return -errno;
  for (int i = 0; i < count; i++) {
    struct mr_journal other;
    char path[PATH_MAX];
    if (answer != 0) {
    } else if (strncmp(names[i]->d_name, of_boot, strlen(of_boot)) != 0) {
      /* Where ours is not known none is another's. */
      if (strcmp(boot, NO_BOOT) != 0 && join(path, folder, names[i]->d_name) == 0)
        unlink(path);
    } else {
      int dead = open_other(&other, root, folder, names[i]->d_name);
      if (dead >= 0)
        answer = visit(&other, dead, argument);
      if (dead >= 0 && other.fd >= 0) {
        close(other.fd);
        forget(&other);
      }
    }
    free(names[i]);
  }
  free(names);
  return answer;
}

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

static pid_t keeper_of(const struct mr_journal *journal) {
  char boot[64];
  read_boot(journal->root, boot);
  return atoi(journal->name + strlen(PREFIX) + strlen(boot) + 1);
}

static int overlaps(struct mr_journal *other, bool dead, void *argument) {
  struct claim *claim = argument;
  if (dead || !(mr_is_below(claim->tree, other->tree) || mr_is_below(other->tree, claim->tree)))
    return 0;
  claim->keeper = keeper_of(other);
  return -EBUSY;
}

static int holds(struct mr_journal *other, bool dead, void *argument) {
  struct claim *claim = argument;
  return !dead && find(other, claim->target) != NULL ? -EUSERS : 0;
}

/* ---- opening ------------------------------------------------------------------- */

static int append_tree(struct mr_journal *journal) {
  char line[MR_VALUE_MAX + 64];
  snprintf(line, sizeof line, "tree %d %" PRIu64 " %s", (int)journal->tree, journal->tree_start,
           shown(journal->base));
  return append(journal, line);
}

static int append_all(struct mr_journal *journal) {
  char line[MR_VALUE_MAX + 64];
  int error = append_tree(journal);
  for (size_t i = 0; error == 0 && i < journal->mask_count; i++) {
    snprintf(line, sizeof line, "mask %s", journal->masks[i]);
    error = append(journal, line);
  }
  for (size_t i = 0; error == 0 && i < journal->count; i++)
    for (size_t j = 0; error == 0 && j < journal->changes[i].wrote_count; j++)
      error = append_set(journal, &journal->changes[i], journal->changes[i].wrote[j]);
  return error;
}

/* Writes the whole journal into a new file, which takes the place of the old one at once.  Under
 * another name until it is locked: without the lock it would be a dead run's.  Our caller holds the
 * folder's lock, so a draft that is there already is left of one that was killed. */
static int publish(struct mr_journal *journal) {
  char draft[PATH_MAX], path[PATH_MAX];
  int old = journal->fd;
  int error = join(draft, journal->folder, DRAFT);
  if (error == 0)
    error = join(path, journal->folder, journal->name);
  if (error < 0)
    return error;
  unlink(draft);
  journal->fd = open(draft, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (journal->fd < 0)
    error = -errno;
  if (error == 0 && flock(journal->fd, LOCK_EX | LOCK_NB) < 0)
    error = -errno;
  if (error == 0)
    error = append_all(journal);
  if (error == 0)
    error = mr_journal_sync(journal);
  if (error == 0 && rename(draft, path) < 0)
    error = -errno;
  int unwanted = error == 0 ? old : journal->fd;
  if (error < 0) {
    unlink(draft);
    journal->fd = old;
  }
  if (unwanted >= 0)
    close(unwanted);
  return error;
}

static int create(struct mr_journal *journal) {
  char boot[64];
  read_boot(journal->root, boot);
  snprintf(journal->name, sizeof journal->name, PREFIX "%s-%d-%" PRIu64, boot, (int)getpid(),
           mr_start_time(getpid()));
  return publish(journal);
}

/* Threads come and go for as long as a server runs.  Drops those that are gone or were put back;
 * what they had been given is remembered for those that they started. */
static void drop_gone(struct mr_journal *journal) {
  size_t kept = 0;
  for (size_t i = 0; i < journal->count; i++) {
    struct mr_change *change = &journal->changes[i];
    bool gone =
        change->target.tid != 0 && mr_start_time(change->target.tid) != change->target.start;
    if (change->back || gone)
      forget_change(change);
    else
      journal->changes[kept++] = *change;
  }
  journal->count = kept;
}

int mr_journal_shorten(struct mr_journal *journal) {
  if (journal->count < 2 * journal->shortened + SHORTEN_FROM)
    return 0;
  /* Others must not look while it has two names or none. */
  int lock = lock_folder(journal->folder);
  if (lock < 0)
    return lock;
  drop_gone(journal);
  journal->shortened = journal->count;
  int error = publish(journal);
  close(lock);
  return error;
}

static int read_base(struct mr_journal *journal) {
  struct mr_cpus set;
  char text[MR_CPUS_TEXT];
  int error = mr_cpus_get(journal->tree, &set);
  journal->tree_start = mr_start_time(journal->tree);
  if (error < 0 || journal->tree_start == 0)
    return error < 0 ? error : -ESRCH;
  mr_cpus_list(&set, text);
  journal->base = strdup(text);
  return journal->base != NULL ? 0 : -ENOMEM;
}

int mr_journal_open(struct mr_journal *journal, const char *root, pid_t tree, int *mended,
                    pid_t *other) {
  struct claim claim = {.tree = tree};
  struct mending mending = {0};
  *journal = (struct mr_journal){.root = root, .fd = -1, .tree = tree};
  int error = find_folder(root, journal->folder);
  int lock = error < 0 ? error : lock_folder(journal->folder);
  if (lock < 0)
    return lock;
  (void)each_journal(root, journal->folder, mend, &mending);
  *mended = mending.mended;
  error = each_journal(root, journal->folder, overlaps, &claim);
  *other = claim.keeper;
  if (error == 0)
    error = read_base(journal);
  if (error == 0)
    error = create(journal);
  close(lock);
  if (error < 0)
    forget(journal);
  return error;
}

int mr_journal_repair(const char *root) {
  char folder[MR_PATH_MAX];
  struct mending mending = {0};
  int error = find_folder(root, folder);
  int lock = error < 0 ? error : lock_folder(folder);
  if (lock < 0)
    return lock;
  error = each_journal(root, folder, mend, &mending);
  close(lock);
  return error < 0 ? error : mending.failed;
}

void mr_journal_close(struct mr_journal *journal, bool keep) {
  char path[PATH_MAX];
  if (journal->fd < 0)
    return;
  if (!keep && join(path, journal->folder, journal->name) == 0)
    unlink(path);
  close(journal->fd);
  journal->fd = -1;
  forget(journal);
}

/* ---- changing --------------------------------------------------------------------- */

int mr_journal_sync(struct mr_journal *journal) { return fsync(journal->fd) < 0 ? -errno : 0; }

static int claim_file(struct mr_journal *journal, const struct mr_target *target) {
  struct claim claim = {.target = target};
  return each_journal(journal->root, journal->folder, holds, &claim);
}

int mr_journal_note(struct mr_journal *journal, const struct mr_target *target, const char *value) {
  char now[MR_VALUE_MAX];
  int error = mr_target_read(target, journal->root, now);
  if (error < 0)
    return error;
  struct mr_change *change = find(journal, target);
  /* One that was started with it is put back with those that nobody saw. */
  bool inherited = change == NULL && target->tid != 0 && wrote_to_threads(journal, now);
  if (strcmp(now, value) == 0 && (change != NULL || inherited))
    return -EALREADY;
  if (change != NULL && strcmp(now, change->found) != 0 && !wrote(change, now))
    return -EPERM; /* somebody else's by now */
  int lock = -1;
  if (change == NULL && target->tid == 0) {
    lock = lock_folder(journal->folder);
    error = lock < 0 ? lock : claim_file(journal, target);
  }
  if (error == 0 && change == NULL) {
    change = add_change(journal, target, inherited ? journal->base : now);
    error = change == NULL ? -ENOMEM : 0;
    if (error == 0 && target->tid != 0) {
      change->process = mr_process_of(target->tid);
      change->process_start = mr_start_time(change->process);
    }
  }
  if (error == 0)
    error = add_value(journal, change, value);
  if (error == 0)
    error = append_set(journal, change, value);
  if (lock >= 0)
    close(lock);
  return error;
}

/* ---- putting back ------------------------------------------------------------------- */

/* 0 also when there is nothing to do: it is gone, as it was, or somebody else's. */
static int put_back(struct mr_journal *journal, struct mr_change *change) {
  char now[MR_VALUE_MAX];
  int error = mr_target_read(&change->target, journal->root, now);
  if (error == 0 && strcmp(now, change->found) != 0 && wrote(change, now))
    error = mr_target_write(&change->target, journal->root, change->found);
  if (error < 0 && error != -ESRCH && error != -ENOENT)
    return error;
  change->back = true;
  /* It is back also where that cannot be noted; doing it once more does no harm. */
  (void)append_back(journal, &change->target);
  return 0;
}

int mr_journal_back(struct mr_journal *journal, const struct mr_target *target) {
  struct mr_change *change = find(journal, target);
  return change == NULL ? 0 : put_back(journal, change);
}

int mr_journal_revert(struct mr_journal *journal, const struct mr_target *target) {
  struct mr_change *change = find(journal, target);
  if (change == NULL)
    return 0;
  (void)mr_target_write(target, journal->root, change->found);
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
  char now[MR_VALUE_MAX];
  if (mr_target_read(&target, "", now) == 0 && strcmp(now, strays->journal->base) != 0 &&
      wrote_to_threads(strays->journal, now) &&
      mr_target_write(&target, "", strays->journal->base) == 0)
    strays->put_back++;
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
  /* A thread may start another between our look and our touch; each pass leaves fewer. */
  for (int pass = 0; pass < 16 && back_strays(journal) > 0; pass++)
    ;
}

int mr_journal_back_all(struct mr_journal *journal) {
  int failed = 0;
  for (size_t i = 0; i < journal->count; i++)
    if (!journal->changes[i].back && put_back(journal, &journal->changes[i]) < 0)
      failed++;
  if (journal->base != NULL)
    mr_journal_back_strays(journal);
  return failed;
}
