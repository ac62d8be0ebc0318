#define _GNU_SOURCE
#include "pages.h"

#include "cpulist.h"
#include "process_table.h"
#include "task.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES 1024 /* as many as Linux knows */
#define WORD (8 * sizeof(unsigned long))

struct moving {
  unsigned long from[NODES / WORD], to[NODES / WORD];
  int moved, error;
  long stayed;
};

static void move_one(pid_t pid, void *argument) {
  struct moving *moving = argument;
  /* The kernel takes one bit less than it is told. */
  long stayed = syscall(SYS_migrate_pages, pid, NODES + 1, moving->from, moving->to);
  if (stayed < 0) {
    moving->error = -errno;
    return;
  }
  moving->moved++;
  moving->stayed += stayed;
}

static void add(void *nodes, unsigned long first, unsigned long last) {
  unsigned long *words = nodes;
  for (unsigned long node = first; node <= last; node++)
    words[node / WORD] |= 1ul << node % WORD;
}

/* Those that are there: a number that the kernel was not built for it refuses. */
static int find_nodes(unsigned long nodes[NODES / WORD]) {
  char text[4096];
  FILE *file = fopen("/sys/devices/system/node/online", "re");
  if (file == NULL)
    return -errno;
  bool read = fgets(text, sizeof text, file) != NULL && mr_cpu_list_read(text, NODES, add, nodes);
  fclose(file);
  return read ? 0 : -ENODATA;
}

int mr_pages_move(pid_t tree, int node, long *stayed) {
  struct mr_processes table;
  struct moving moving = {.error = -ESRCH};
  if (node < 0 || node >= NODES)
    return -EINVAL;
  int error = find_nodes(moving.from);
  moving.to[(size_t)node / WORD] = 1ul << (size_t)node % WORD;
  moving.from[(size_t)node / WORD] &= ~moving.to[(size_t)node / WORD];
  if (error == 0)
    error = mr_processes_read(&table);
  if (error < 0)
    return error;
  mr_processes_mark(&table, tree, mr_start_time(tree));
  mr_processes_each(&table, move_one, &moving);
  mr_processes_free(&table);
  *stayed = moving.stayed;
  return moving.moved > 0 ? moving.moved : moving.error;
}
