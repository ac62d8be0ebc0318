#define _GNU_SOURCE
#include "group.h"

#include "files.h"
#include "numbers.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* A program may start threads while they are moved; each pass leaves fewer. */
#define PASSES 64
/* Threads that have just ended hold their group for a moment. */
#define REMOVES 50
#define REMOVE_NS 10000000

static bool is_unified(const char *folder) {
  struct statfs status;
  return statfs(folder, &status) == 0 && status.f_type == CGROUP2_SUPER_MAGIC;
}

static const char *threads_file(const char *folder) {
  return is_unified(folder) ? "cgroup.threads" : "tasks";
}

static bool has_word(const char *text, const char *word, const char *separators) {
  size_t length = strlen(word);
  for (const char *at = text; *at != '\0'; at += strspn(at, separators)) {
    size_t size = strcspn(at, separators);
    if (size == length && strncmp(at, word, length) == 0)
      return true;
    at += size;
  }
  return false;
}

/* What a group's threads may use: of its CPUs some may be offline, or its home's no more. */
static bool read_effective(const char *path, struct mr_cpus *cpus) {
  char text[MR_CPUS_TEXT];
  const char *name = is_unified(path) ? "cpuset.cpus.effective" : "cpuset.effective_cpus";
  return mr_file_read(path, name, text, sizeof text) == 0 && mr_cpus_parse_list(text, cpus);
}

/* ---- home --------------------------------------------------------------- */

/* What /proc/TID/cgroup says of the hierarchy that has the controller cpuset, or of version 2. */
static int own_path(pid_t tid, bool unified, char path[MR_GROUP_PATH]) {
  char name[32], *line = NULL;
  size_t room = 0;
  int error = -ENOENT;
  snprintf(name, sizeof name, "/proc/%d/cgroup", (int)tid);
  FILE *file = fopen(name, "re");
  if (file == NULL)
    return errno == ENOENT ? -ESRCH : -errno;
  while (error == -ENOENT && getline(&line, &room, file) > 0) {
    char *rest = line;
    (void)strsep(&rest, ":");
    char *controllers = strsep(&rest, ":");
    if (rest == NULL || (unified ? *controllers != '\0' : !has_word(controllers, "cpuset", ",")))
      continue;
    rest[strcspn(rest, "\n")] = '\0';
    error = (size_t)snprintf(path, MR_GROUP_PATH, "%s", rest) < MR_GROUP_PATH ? 0 : -ENAMETOOLONG;
  }
  free(line);
  fclose(file);
  return error;
}

/* The mount of that hierarchy; what of it is mounted there goes to `root`. */
static bool find_mount(bool unified, char point[MR_GROUP_PATH], char root[MR_GROUP_PATH]) {
  char *line = NULL;
  size_t room = 0;
  bool found = false;
  FILE *file = fopen("/proc/self/mountinfo", "re");
  if (file == NULL)
    return false;
  while (!found && getline(&line, &room, file) > 0) {
    char type[32], options[256];
    char *behind = strstr(line, " - ");
    found = behind != NULL && sscanf(line, "%*s %*s %*s %1023s %1023s", root, point) == 2 &&
            sscanf(behind, " - %31s %*s %255s", type, options) == 2 &&
            (unified ? strcmp(type, "cgroup2") == 0
                     : strcmp(type, "cgroup") == 0 && has_word(options, "cpuset", ",\n"));
  }
  free(line);
  fclose(file);
  return found;
}

static int absolute(pid_t tid, bool unified, char path[MR_GROUP_PATH]) {
  char own[MR_GROUP_PATH], point[MR_GROUP_PATH], root[MR_GROUP_PATH];
  int error = own_path(tid, unified, own);
  if (error < 0)
    return error;
  if (!find_mount(unified, point, root))
    return -ENOENT;
  size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
  /* Outside of what is mounted here. */
  if (strncmp(own, root, skip) != 0 || (own[skip] != '/' && own[skip] != '\0') ||
      strncmp(own + skip, "/..", 3) == 0)
    return -ENOENT;
  const char *below = strcmp(own + skip, "/") == 0 ? "" : own + skip;
  return (size_t)snprintf(path, MR_GROUP_PATH, "%s%s", point, below) < MR_GROUP_PATH
             ? 0
             : -ENAMETOOLONG;
}

/* In the hierarchy that has the controller cpuset, else of version 2. */
static int find_path(pid_t tid, bool *unified, char path[MR_GROUP_PATH]) {
  *unified = own_path(tid, false, path) == -ENOENT;
  return absolute(tid, *unified, path);
}

bool mr_group_cpus(pid_t tid, struct mr_cpus *cpus) {
  char path[MR_GROUP_PATH];
  bool unified;
  if (find_path(tid, &unified, path) < 0)
    return false;
  for (char *slash; !read_effective(path, cpus); *slash = '\0')
    if ((slash = strrchr(path, '/')) == NULL || slash == path)
      return false;
  return true;
}

/* systemd owns what it has not handed over, root may write there or not. */
static bool kept_by_systemd(const char *home) {
  char path[MR_GROUP_PATH], value[8];
  if (access("/run/systemd/system", F_OK) < 0)
    return false;
  snprintf(path, sizeof path, "%s", home);
  for (char *slash; (slash = strrchr(path, '/')) != NULL && slash != path; *slash = '\0')
    if (getxattr(path, "user.delegate", value, sizeof value) > 0 ||
        getxattr(path, "trusted.delegate", value, sizeof value) > 0)
      return false;
  return true;
}

static bool may_write(const char *home, bool unified) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", home, threads_file(home));
  bool may = access(home, W_OK) == 0 && access(path, W_OK) == 0;
  snprintf(path, sizeof path, "%s/cgroup.subtree_control", home);
  return may && (!unified || access(path, W_OK) == 0);
}

/* A folder of another kind than ours: a cgroup that its owner may want to move processes into.
 * This the kernel refuses while threaded ones are beside it. Only the root may have both. */
static bool has_domains(const char *home) {
  char path[PATH_MAX], type[32];
  bool found = false;
  DIR *folder = mr_file_read(home, "cgroup.type", type, sizeof type) == 0 ? opendir(home) : NULL;
  if (folder == NULL)
    return false;
  for (struct dirent *entry; !found && (entry = readdir(folder)) != NULL;) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.' ||
        (size_t)snprintf(path, sizeof path, "%s/%s", home, entry->d_name) >= sizeof path)
      continue;
    found =
        mr_file_read(path, "cgroup.type", type, sizeof type) == 0 && strcmp(type, "threaded") != 0;
  }
  closedir(folder);
  return found;
}

const char *mr_group_home(pid_t pid, const struct mr_cpus *base, char home[MR_GROUP_PATH],
                          char *why, size_t room) {
  char text[MR_CPUS_TEXT];
  struct mr_cpus cpus;
  bool unified;
  if (find_path(pid, &unified, home) < 0 || access(home, F_OK) < 0)
    return snprintf(why, room, "no hierarchy of cgroups is mounted here"), why;
  if (strstr(home, "/" MR_GROUP_NAME) != NULL)
    return snprintf(why, room, "another maru run has placed it"), why;
  if (strpbrk(home, " \n") != NULL)
    return snprintf(why, room, "the cgroup's name has spaces"), why;
  if (unified && (mr_file_read(home, "cgroup.controllers", text, sizeof text) < 0 ||
                  !has_word(text, "cpuset", " ")))
    return snprintf(why, room, "the controller cpuset does not serve %.150s", home), why;
  if (!may_write(home, unified))
    return snprintf(why, room, "%.150s may not be written", home), why;
  if (unified && has_domains(home))
    return snprintf(why, room, "%.150s has cgroups of its own", home), why;
  if (kept_by_systemd(home))
    return snprintf(why, room, "systemd keeps %.150s (it has no Delegate=cpuset)", home), why;
  if (!read_effective(home, &cpus))
    return snprintf(why, room, "the CPUs of %.150s cannot be read", home), why;
  if (!mr_cpus_equal(&cpus, base))
    return snprintf(why, room, "the program is bound to fewer CPUs than its cgroup"), why;
  return NULL;
}

int mr_group_of(pid_t tid, const char *home, char path[MR_GROUP_PATH]) {
  return absolute(tid, is_unified(home), path);
}

/* ---- groups ------------------------------------------------------------- */

static int home_of(const char *path, char home[MR_GROUP_PATH]) {
  const char *slash = strrchr(path, '/');
  if (slash == NULL || slash == path || slash - path >= MR_GROUP_PATH)
    return -EINVAL;
  snprintf(home, MR_GROUP_PATH, "%.*s", (int)(slash - path), path);
  return 0;
}

bool mr_group_permitted(const char *path) {
  char home[MR_GROUP_PATH];
  struct statfs status;
  return home_of(path, home) == 0 &&
         strncmp(path + strlen(home) + 1, MR_GROUP_NAME, strlen(MR_GROUP_NAME)) == 0 &&
         statfs(home, &status) == 0 &&
         (status.f_type == CGROUP2_SUPER_MAGIC || status.f_type == CGROUP_SUPER_MAGIC);
}

/* Version 1 makes them without any memory node. */
static int take_memory(const char *path) {
  char home[MR_GROUP_PATH], nodes[MR_CPUS_TEXT];
  int error = home_of(path, home);
  if (error == 0)
    error = mr_file_read(home, "cpuset.mems", nodes, sizeof nodes);
  return error < 0 ? error : mr_file_write(path, "cpuset.mems", nodes);
}

int mr_group_make(const char *path, const char *cpus) {
  bool made = mkdir(path, 0755) == 0;
  if (!made && errno != EEXIST)
    return -errno;
  int error = 0;
  if (made)
    error = is_unified(path) ? mr_file_write(path, "cgroup.type", "threaded") : take_memory(path);
  return error < 0 ? error : mr_file_write(path, "cpuset.cpus", cpus);
}

int mr_group_move(const char *path, pid_t tid) {
  char number[16];
  snprintf(number, sizeof number, "%d", (int)tid);
  return mr_file_write(path, threads_file(path), number);
}

/* Up to Linux 6.1 a move makes the thread forget what it was bound to. */
static int move_home(const char *home, pid_t tid, const struct mr_cpus *group) {
  struct mr_cpus before, after;
  bool bound = mr_cpus_get(tid, &before) == 0 && !mr_cpus_equal(&before, group);
  int error = mr_group_move(home, tid);
  if (error == 0 && bound && mr_cpus_get(tid, &after) == 0 && !mr_cpus_equal(&before, &after))
    (void)mr_cpus_set(tid, &before);
  return error;
}

/* How many were in it, or a negative errno. */
static int move_all_home(const char *path, const char *home, const struct mr_cpus *group) {
  char *line = NULL;
  size_t room = 0;
  int moved = 0, failed = 0;
  int fd = mr_file_open(path, threads_file(path), O_RDONLY);
  if (fd < 0)
    return fd;
  FILE *file = fdopen(fd, "r");
  if (file == NULL) {
    close(fd);
    return -ENOMEM;
  }
  while (getline(&line, &room, file) > 0) {
    int error = move_home(home, (pid_t)mr_leading(line, 1, INT32_MAX, 0), group);
    moved++;
    if (error < 0 && error != -ESRCH)
      failed = error;
  }
  free(line);
  fclose(file);
  return failed < 0 ? failed : moved;
}

/* The program's own, which it made in ours. */
static bool has_groups(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && status.st_nlink > 2;
}

/* One that cannot be removed does not bind what is in it. */
static void widen(const char *path, const char *home) {
  char text[MR_CPUS_TEXT];
  if (is_unified(path))
    (void)mr_file_write(path, "cpuset.cpus", "\n");
  else if (mr_file_read(home, "cpuset.cpus", text, sizeof text) == 0)
    (void)mr_file_write(path, "cpuset.cpus", text);
}

int mr_group_remove(const char *path, const char *cpus) {
  char home[MR_GROUP_PATH];
  struct mr_cpus group;
  if (!mr_group_permitted(path) || home_of(path, home) < 0 || !mr_cpus_parse_list(cpus, &group))
    return access(path, F_OK) < 0 ? 0 : -EINVAL;
  (void)read_effective(path, &group);
  int left = 1;
  for (int pass = 0; pass < PASSES && left > 0; pass++)
    left = move_all_home(path, home, &group);
  for (int tries = 0; rmdir(path) < 0; tries++) {
    int error = -errno;
    if (error == -ENOENT)
      return 0;
    if (error != -EBUSY || tries == REMOVES || has_groups(path)) {
      widen(path, home);
      return left < 0 ? left : error;
    }
    nanosleep(&(struct timespec){.tv_nsec = REMOVE_NS}, NULL);
    (void)move_all_home(path, home, &group);
  }
  return 0;
}

/* ---- the controller ------------------------------------------------------ */

int mr_group_served(const char *home) {
  char text[512];
  if (!is_unified(home))
    return 1;
  int error = mr_file_read(home, "cgroup.subtree_control", text, sizeof text);
  return error < 0 ? error : has_word(text, "cpuset", " ");
}

static bool has_value(const char *home, const char *group, const char *name) {
  char path[PATH_MAX], text[MR_CPUS_TEXT];
  snprintf(path, sizeof path, "%s/%s", home, group);
  return mr_file_read(path, name, text, sizeof text) == 0 && text[0] != '\0';
}

/* Somebody has set CPUs or nodes of a group below, which could not be while it did not serve them.
 */
static bool is_used(const char *home) {
  bool found = false;
  DIR *folder = opendir(home);
  if (folder == NULL)
    return false;
  for (struct dirent *entry; !found && (entry = readdir(folder)) != NULL;)
    found = entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
            (has_value(home, entry->d_name, "cpuset.cpus") ||
             has_value(home, entry->d_name, "cpuset.mems"));
  closedir(folder);
  return found;
}

int mr_group_serve(const char *home, bool on) {
  if (!on && is_used(home))
    return -EBUSY;
  return mr_file_write(home, "cgroup.subtree_control", on ? "+cpuset" : "-cpuset");
}
