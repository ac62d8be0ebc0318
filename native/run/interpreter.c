#define _GNU_SOURCE
#include "interpreter.h"

#include "text.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* So much of a file is looked at; linkers put what we look for there. */
#define HEAD_BYTES 4096

static int open_found(const char *name) {
  const char *folder = getenv("PATH");
  int fd = -1;
  if (strchr(name, '/') != NULL || folder == NULL)
    return open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  for (size_t length; fd < 0; folder += length + 1) {
    char path[PATH_MAX];
    length = strcspn(folder, ":");
    int size = snprintf(path, sizeof path, "%.*s/%s", (int)length, length > 0 ? folder : ".", name);
    if (size < PATH_MAX)
      fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (folder[length] == '\0')
      break;
  }
  return fd;
}

/* Where the word begins; 0: nowhere. Its end is the first of `stops`. */
static size_t in_script(const char *head, const char **stops) {
  *stops = " \t\n";
  return strncmp(head, "#!", 2) == 0 ? 2 + strspn(head + 2, " \t") : 0;
}

static size_t in_program(const char *head, size_t size) {
  Elf64_Ehdr header;
  if (size < sizeof header || memcmp(head, ELFMAG, SELFMAG) != 0 || head[EI_CLASS] != ELFCLASS64)
    return 0;
  memcpy(&header, head, sizeof header);
  for (size_t i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr part;
    size_t at = header.e_phoff + i * sizeof part;
    if (header.e_phoff > size || at + sizeof part > size)
      return 0;
    memcpy(&part, head + at, sizeof part);
    if (part.p_type == PT_INTERP)
      return part.p_offset < size ? part.p_offset : 0;
  }
  return 0;
}

bool interpreter_of(const char *name, char interpreter[INTERPRETER_BYTES]) {
  char head[HEAD_BYTES + 1];
  int fd = open_found(name);
  ssize_t got = fd < 0 ? -1 : read(fd, head, HEAD_BYTES);
  if (fd >= 0)
    close(fd);
  if (got <= 0)
    return false;
  head[got] = '\0';
  const char *stops;
  size_t at = in_script(head, &stops);
  if (at == 0) {
    at = in_program(head, (size_t)got);
    stops = "";
  }
  snprintf(interpreter, INTERPRETER_BYTES, "%.*s", (int)strcspn(head + at, stops), head + at);
  mr_plain(interpreter);
  return at > 0 && interpreter[0] != '\0';
}
