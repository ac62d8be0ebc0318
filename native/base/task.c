#define _GNU_SOURCE
#include "task.h"

#include "numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATE 3
#define PARENT 4
#define THREADS 20
#define START 22

/* What /proc says of it from the end of its name on; NULL: nothing. */
static const char *behind_name(pid_t tid, char *text, size_t size) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)tid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return NULL;
  ssize_t got = read(fd, text, size - 1);
  close(fd);
  text[got > 0 ? got : 0] = '\0';
  /* The name, field 2, may hold anything but ends at the last parenthesis. */
  return strrchr(text, ')');
}

/* The n-th field, behind a blank; NULL. */
static const char *field(const char *at, int n) {
  for (int before = 2; at != NULL && before < n; before++)
    at = strchr(at + 1, ' ');
  return at;
}

static bool has_ended(const char *at) {
  const char *state = field(at, STATE);
  return state != NULL && (state[1] == 'Z' || state[1] == 'X');
}

uint64_t mr_start_time(pid_t tid) {
  char text[1024];
  const char *at = behind_name(tid, text, sizeof text);
  const char *start = has_ended(at) ? NULL : field(at, START);
  return start != NULL ? strtoull(start, NULL, 10) : 0;
}

pid_t mr_parent(pid_t pid) {
  char text[1024];
  const char *parent = field(behind_name(pid, text, sizeof text), PARENT);
  return parent != NULL ? (pid_t)mr_leading(parent, 0, INT32_MAX, 0) : 0;
}

/* Numbers up to the end of the line; how many. */
static unsigned read_numbers(const char *at, unsigned *numbers, unsigned most) {
  unsigned count = 0;
  char *end;
  for (; count < most; count++, at = end) {
    unsigned long number = strtoul(at, &end, 10);
    if (end == at)
      break;
    numbers[count] = (unsigned)number;
  }
  return count;
}

/* Behind "NAME:"; NULL: another line. */
static const char *value_of(const char *line, const char *name) {
  size_t length = strlen(name);
  return strncmp(line, name, length) == 0 && line[length] == ':' ? line + length + 1 : NULL;
}

int mr_task_read(pid_t tid, struct mr_task *task) {
  char path[32], line[2048];
  unsigned found = 0, ids[4];
  const char *at;
  snprintf(path, sizeof path, "/proc/%d/status", (int)tid);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return -ESRCH;
  *task = (struct mr_task){0};
  while (found < 5 && fgets(line, sizeof line, file) != NULL)
    if ((at = value_of(line, "Tgid")) != NULL) {
      task->tgid = (pid_t)mr_leading(at, 1, INT32_MAX, 0);
      found++;
    } else if ((at = value_of(line, "Uid")) != NULL) {
      found += read_numbers(at, task->users, 4) == 4;
    } else if ((at = value_of(line, "Gid")) != NULL) {
      found += read_numbers(at, ids, 4) == 4;
      memcpy(task->groups, ids, sizeof ids);
    } else if ((at = value_of(line, "Groups")) != NULL) {
      task->group_count = 4 + read_numbers(at, task->groups + 4, MR_TASK_GROUPS - 4);
      found++;
    } else if ((at = value_of(line, "CapEff")) != NULL) {
      task->capabilities = strtoull(at, NULL, 16);
      found++;
    }
  fclose(file);
  return found == 5 ? 0 : -ESRCH;
}

bool mr_is_remains(pid_t pid) {
  char text[1024];
  const char *at = behind_name(pid, text, sizeof text), *threads = field(at, THREADS);
  return has_ended(at) && threads != NULL && mr_leading(threads, 0, INT32_MAX, INT32_MAX) <= 1;
}
