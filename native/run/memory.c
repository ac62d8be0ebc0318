#define _GNU_SOURCE
#include "memory.h"

#include "cpulist.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void add(void *nodes, unsigned long first, unsigned long last) {
  unsigned long *words = nodes;
  for (unsigned long node = first; node <= last; node++)
    words[node / (8 * sizeof *words)] |= 1ul << node % (8 * sizeof *words);
}

bool memory_read(struct memory *memory, const char *text) {
  const char *colon = strchr(text, ':');
  *memory = (struct memory){0};
  if (strncmp(text, "prefer:", 7) == 0)
    memory->mode = MPOL_PREFERRED;
  else if (strncmp(text, "interleave:", 11) == 0)
    memory->mode = MPOL_INTERLEAVE;
  return memory->mode != 0 && colon[1] != '\0' &&
         mr_cpu_list_read(colon + 1, MEMORY_NODES, add, memory->nodes);
}

int memory_set(const struct memory *memory) {
  /* The kernel takes one bit less than it is told. */
  return syscall(SYS_set_mempolicy, memory->mode, memory->nodes, MEMORY_NODES + 1) < 0 ? -errno : 0;
}
