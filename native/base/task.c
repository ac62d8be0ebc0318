#define _GNU_SOURCE
#include "task.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATE 3
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

bool mr_is_remains(pid_t pid) {
  char text[1024];
  const char *at = behind_name(pid, text, sizeof text), *threads = field(at, THREADS);
  return has_ended(at) && threads != NULL && atoi(threads) <= 1;
}
