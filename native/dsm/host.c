#define _GNU_SOURCE
#include "host.h"

#include <fcntl.h>
#include <unistd.h>

bool mr_host_find(char id[MR_HOST_ID]) {
  int fd = open(MR_HOST_NAMED, O_RDONLY | O_CLOEXEC);
  bool known = fd >= 0 && read(fd, id, MR_HOST_ID) == MR_HOST_ID;
  if (fd >= 0)
    close(fd);
  return known;
}
