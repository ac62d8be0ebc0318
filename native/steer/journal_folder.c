/* journal_folder.c: where journals are, and those of other runs. */
#define _GNU_SOURCE
#include "journal_parts.h"

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
#define SHORTEN_FROM 256 /* changes */

/* ---- the folder ---------------------------------------------------------- */

int mr_journal_join(char path[PATH_MAX], const char *folder, const char *name) {
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

int mr_journal_find_folder(const char *root, char folder[MR_PATH_MAX]) {
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

/* Nobody holds it for longer than a few writes; one who
 * is stopped meanwhile must not stop us. */
int mr_journal_lock(const char *folder) {
  char path[PATH_MAX];
  int error = mr_journal_join(path, folder, "lock");
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

/* ---- other runs ------------------------------------------------------------ */

/* Opens a journal of this boot: 1 and locked if its run is dead, 0 if it is alive; negative:
 * it is gone or unreadable. */
static int open_other(struct mr_journal *other, const char *root, const char *folder,
                      const char *name) {
  char path[PATH_MAX];
  *other = (struct mr_journal){.root = root, .fd = -1};
  snprintf(other->folder, sizeof other->folder, "%s", folder);
  snprintf(other->name, sizeof other->name, "%.*s", MR_PATH_MAX - 1, name);
  int error = mr_journal_join(path, folder, name);
  if (error < 0)
    return error;
  other->fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
  if (other->fd < 0)
    return -errno;
  int dead = flock(other->fd, LOCK_EX | LOCK_NB) == 0;
  struct stat status;
  /* Another one may have put it back between our two steps. */
  error = fstat(other->fd, &status) < 0 || status.st_nlink == 0 ? -ENOENT : mr_journal_load(other);
  if (error < 0) {
    close(other->fd);
    mr_journal_forget(other);
    return error;
  }
  return dead;
}

static int is_journal(const struct dirent *entry) {
  return strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0;
}

int mr_journal_each(const char *root, const char *folder,
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
      if (strcmp(boot, NO_BOOT) != 0 && mr_journal_join(path, folder, names[i]->d_name) == 0)
        unlink(path);
    } else {
      int dead = open_other(&other, root, folder, names[i]->d_name);
      if (dead >= 0)
        answer = visit(&other, dead, argument);
      if (dead >= 0 && other.fd >= 0) {
        close(other.fd);
        mr_journal_forget(&other);
      }
    }
    free(names[i]);
  }
  free(names);
  return answer;
}

pid_t mr_journal_keeper(const struct mr_journal *journal) {
  char boot[64];
  char *end;
  read_boot(journal->root, boot);
  long keeper = strtol(journal->name + strlen(PREFIX) + strlen(boot) + 1, &end, 10);
  return *end == '-' && keeper > 0 && keeper <= INT32_MAX ? (pid_t)keeper : 0;
}

/* ---- ours ------------------------------------------------------------------------ */

int mr_journal_sync(struct mr_journal *journal) { return fsync(journal->fd) < 0 ? -errno : 0; }

/* Writes the whole journal into a new file, which takes the place of the old one at once.  Under
 * another name until it is locked: without the lock it would be a dead run's.  Our caller holds the
 * folder's lock, so a draft that is there already is left of one that was killed. */
static int publish(struct mr_journal *journal) {
  char draft[PATH_MAX], path[PATH_MAX];
  int old = journal->fd;
  int error = mr_journal_join(draft, journal->folder, DRAFT);
  if (error == 0)
    error = mr_journal_join(path, journal->folder, journal->name);
  if (error < 0)
    return error;
  unlink(draft);
  journal->fd = open(draft, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (journal->fd < 0)
    error = -errno;
  if (error == 0 && flock(journal->fd, LOCK_EX | LOCK_NB) < 0)
    error = -errno;
  if (error == 0)
    error = mr_journal_append_all(journal);
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

int mr_journal_create(struct mr_journal *journal) {
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
      mr_journal_forget_change(change);
    else
      journal->changes[kept++] = *change;
  }
  journal->count = kept;
}

int mr_journal_shorten(struct mr_journal *journal) {
  if (journal->count < 2 * journal->shortened + SHORTEN_FROM)
    return 0;
  /* Others must not look while it has two names or none. */
  int lock = mr_journal_lock(journal->folder);
  if (lock < 0)
    return lock;
  drop_gone(journal);
  journal->shortened = journal->count;
  int error = publish(journal);
  close(lock);
  return error;
}
