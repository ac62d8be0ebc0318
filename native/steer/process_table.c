#define _GNU_SOURCE
#include "process_table.h"

#include "numbers.h"
#include "task.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A number of /proc/PID/status; 0: not there. */
static pid_t status_number(pid_t pid, const char *name) {
  char path[32], line[256];
  pid_t number = 0;
  size_t length = strlen(name);
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return 0;
  while (number == 0 && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, name, length) == 0)
      number = (pid_t)mr_leading(line + length, 0, INT32_MAX, 0);
  fclose(file);
  return number;
}

pid_t mr_process_of(pid_t tid) { return status_number(tid, "Tgid:"); }

bool mr_is_below(pid_t pid, pid_t above) {
  for (int steps = 0; pid > 0 && steps < 4096; steps++) {
    if (pid == above)
      return true;
    pid = status_number(pid, "PPid:");
  }
  return false;
}

int mr_processes_read(struct mr_processes *table) {
  size_t room = 0;
  *table = (struct mr_processes){0};
  DIR *folder = opendir("/proc");
  if (folder == NULL)
    return -errno;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    if (!isdigit((unsigned char)entry->d_name[0]))
      continue;
    if (table->count == room) {
      room = room > 0 ? 2 * room : 256;
      struct mr_process *grown = reallocarray(table->all, room, sizeof *grown);
      if (grown == NULL) {
        closedir(folder);
        mr_processes_free(table);
        return -ENOMEM;
      }
      table->all = grown;
    }
    pid_t pid = (pid_t)mr_leading(entry->d_name, 1, INT32_MAX, 0);
    table->all[table->count++] =
        (struct mr_process){.pid = pid, .parent = status_number(pid, "PPid:")};
  }
  closedir(folder);
  return 0;
}

void mr_processes_free(struct mr_processes *table) {
  free(table->all);
  *table = (struct mr_processes){0};
}

static bool is_marked(const struct mr_processes *table, pid_t pid) {
  for (size_t i = 0; i < table->count; i++)
    if (table->all[i].pid == pid)
      return table->all[i].marked;
  return false;
}

static void mark_below(struct mr_processes *table) {
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < table->count; i++)
      if (!table->all[i].marked && is_marked(table, table->all[i].parent))
        more = table->all[i].marked = true;
  }
}

static void mark_one(struct mr_processes *table, pid_t pid) {
  for (size_t i = 0; i < table->count; i++)
    if (table->all[i].pid == pid)
      table->all[i].marked = true;
}

void mr_processes_mark(struct mr_processes *table, pid_t pid, uint64_t start) {
  if (pid <= 0 || is_marked(table, pid) || mr_start_time(pid) != start)
    return;
  mark_one(table, pid);
  mark_below(table);
}

/* Up to 128 KiB of the environment are looked at. */
static bool has_board(pid_t pid, const char *assignment) {
  char path[32];
  bool found = false;
  enum { MOST = 1 << 17 };
  snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  char *text = malloc(MOST);
  ssize_t got = 0, length = 0;
  while (text != NULL && length < MOST &&
         (got = read(fd, text + length, MOST - (size_t)length)) > 0)
    length += got;
  size_t wanted = strlen(assignment);
  for (char *at = text; at != NULL && (size_t)(text + length - at) >= wanted && !found;) {
    found = memcmp(at, assignment, wanted) == 0;
    at = memchr(at, '\0', (size_t)(text + length - at));
    at = at != NULL ? at + 1 : NULL;
  }
  free(text);
  close(fd);
  return found;
}

void mr_processes_mark_run(struct mr_processes *table, pid_t run) {
  char assignment[64];
  snprintf(assignment, sizeof assignment, "MARU_BOARD=/proc/%d/fd/", (int)run);
  for (size_t i = 0; i < table->count; i++)
    if (!table->all[i].marked)
      table->all[i].marked = has_board(table->all[i].pid, assignment);
  mark_below(table);
}

void mr_processes_each(const struct mr_processes *table, void (*visit)(pid_t pid, void *argument),
                       void *argument) {
  for (size_t i = 0; i < table->count; i++)
    if (table->all[i].marked)
      visit(table->all[i].pid, argument);
}

void mr_processes_each_thread(const struct mr_processes *table,
                              void (*visit)(pid_t tid, void *argument), void *argument) {
  for (size_t i = 0; i < table->count; i++) {
    char path[32];
    if (!table->all[i].marked)
      continue;
    snprintf(path, sizeof path, "/proc/%d/task", (int)table->all[i].pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
      continue;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
      if (isdigit((unsigned char)entry->d_name[0]))
        visit((pid_t)mr_leading(entry->d_name, 1, INT32_MAX, 0), argument);
    closedir(folder);
  }
}
