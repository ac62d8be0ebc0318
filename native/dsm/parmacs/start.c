#define _GNU_SOURCE
#include "start.h"

#include "../launcher.h"
#include "../node.h"

#include <maru/parmacs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#define STEADY "MARU_PARMACS_STEADY"

void mr_start_steadily(char **arguments) {
  int now = personality(0xffffffff);
  bool launched = getenv("MARU_DSM_NODES") != NULL || mr_launcher_find() != MR_LAUNCHER_NONE;
  if (getenv(STEADY) == NULL && launched && now >= 0 && !(now & ADDR_NO_RANDOMIZE) &&
      personality((unsigned)now | ADDR_NO_RANDOMIZE) >= 0) {
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = 0;
    setenv(STEADY, "1", 1);
    execv(self, arguments);
  }
  unsetenv(STEADY);
}

static void *need(void *memory) {
  if (memory == NULL)
    mr_node_die(STATUS_UNAVAILABLE, "no memory");
  return memory;
}

char **mr_start_copy(char **strings) {
  size_t count = 0;
  while (strings[count] != NULL)
    count++;
  char **copy = need(maru_parmacs_calloc(count + 1, sizeof *copy));
  for (size_t i = 0; i < count; i++)
    copy[i] = strcpy(need(maru_parmacs_malloc(strlen(strings[i]) + 1)), strings[i]);
  return copy;
}
