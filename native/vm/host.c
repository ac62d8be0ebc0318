#define _GNU_SOURCE
#include "vm.h"

#include "../dsm/ranks.h"
#include "shared.h"
#include "topology.h"
#include "watch.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

int maru_vm_memory(size_t bytes) { return mr_sealed_memfd("maru-vm", bytes); }

uint64_t maru_vm_memory_limit(void) {
  struct maru_topology topology;
  if (maru_topology_read(&topology))
    return UINT64_MAX;
  uint64_t limit = topology.memory_limit;
  maru_topology_free(&topology);
  return limit;
}

struct list {
  char *names;
  size_t used, room;
};

static int add_object(struct dl_phdr_info *object, size_t size, void *context) {
  struct list *list = context;
  size_t length = strlen(object->dlpi_name) + 1;
  (void)size;
  /* The program has no name here, and the kernel's part no file. */
  if (object->dlpi_name[0] != '/')
    return 0;
  if (length > list->room - list->used)
    return -ENOBUFS;
  memcpy(list->names + list->used, object->dlpi_name, length);
  list->used += length;
  return 0;
}

int maru_vm_objects(char *names, int room) {
  /* glibc opens it when a thread calls pthread_exit, as GHC's spare threads do, and aborts the
   * process where it is absent. Not closed: it is to be found below, and each time. */
  (void)dlopen("libgcc_s.so.1", RTLD_LAZY);
  struct list list = {.names = names, .room = (size_t)room};
  int rc = dl_iterate_phdr(add_object, &list);
  return rc < 0 ? rc : (int)list.used;
}

int maru_vm_spawn(char *const *command, const int given[3], int *lifeline) {
  int reading = maru_lifeline_open();
  if (reading < 0)
    return reading;
  int all[] = {given[0], given[1], given[2], reading};
  int pid = maru_ranks_spawn(command, all, 4);
  if (pid < 0) {
    close(reading);
    return pid;
  }
  *lifeline = maru_lifeline_tie(reading, pid);
  if (*lifeline < 0) {
    maru_ranks_end(pid, 0);
    return *lifeline;
  }
  return pid;
}
