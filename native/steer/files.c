#define _GNU_SOURCE
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int mr_file_open(const char *folder, const char *name, int flags) {
  char path[PATH_MAX];
  if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
    return -ENAMETOOLONG;
  int fd = open(path, flags | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

int mr_file_read(const char *folder, const char *name, char *text, size_t room) {
  int fd = mr_file_open(folder, name, O_RDONLY);
  if (fd < 0)
    return fd;
  ssize_t got = read(fd, text, room - 1);
  int error = got < 0 ? -errno : 0;
  close(fd);
  text[got > 0 ? got : 0] = '\0';
  text[strcspn(text, "\n")] = '\0';
  return error;
}

int mr_file_write(const char *folder, const char *name, const char *text) {
  int fd = mr_file_open(folder, name, O_WRONLY);
  if (fd < 0)
    return fd;
  int error = write(fd, text, strlen(text)) < 0 ? -errno : 0;
  close(fd);
  return error;
}
