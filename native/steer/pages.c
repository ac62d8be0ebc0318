#define _GNU_SOURCE
#include "pages.h"

#include "process_table.h"
#include "task.h"

#include <errno.h>
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

int mr_pages_move(pid_t tree, int node, long *stayed) {
  struct mr_processes table;
  struct moving moving = {.error = -ESRCH};
  if (node < 0 || node >= NODES)
    return -EINVAL;
  memset(moving.from, 0xff, sizeof moving.from);
  moving.to[(size_t)node / WORD] = 1ul << (size_t)node % WORD;
  moving.from[(size_t)node / WORD] &= ~moving.to[(size_t)node / WORD];
  int error = mr_processes_read(&table);
  if (error < 0)
    return error;
  mr_processes_mark(&table, tree, mr_start_time(tree));
  mr_processes_each(&table, move_one, &moving);
  mr_processes_free(&table);
  *stayed = moving.stayed;
  return moving.moved > 0 ? moving.moved : moving.error;
}
