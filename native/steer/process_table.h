/* process_table.h: which processes belong to a run. */
#ifndef MARU_STEER_PROCESS_TABLE_H
#define MARU_STEER_PROCESS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mr_process {
  pid_t pid, parent;
  bool marked;
};

struct mr_processes {
  struct mr_process *all;
  size_t count;
};

/* All that /proc shows.  0 or a negative errno. */
int mr_processes_read(struct mr_processes *table);
void mr_processes_free(struct mr_processes *table);

/* Marks the process that started then, if it lives, and all below it. */
void mr_processes_mark(struct mr_processes *table, pid_t pid, uint64_t start);
/* Marks all that were started below this `maru run`, also where their parents are gone: those whose
 * environment has its MARU_BOARD. */
void mr_processes_mark_run(struct mr_processes *table, pid_t run);
void mr_processes_each(const struct mr_processes *table, void (*visit)(pid_t pid, void *argument),
                       void *argument);
void mr_processes_each_thread(const struct mr_processes *table,
                              void (*visit)(pid_t tid, void *argument), void *argument);

/* `pid` is `above` or below it. */
bool mr_is_below(pid_t pid, pid_t above);
/* Of a thread; 0: gone. */
pid_t mr_process_of(pid_t tid);

#endif
