/* task.h: which process or thread a number stands for (internal). */
#ifndef MARU_BASE_TASK_H
#define MARU_BASE_TASK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Ticks between boot and the start of a process or thread (/proc/TID/stat, field
 * 22): with it a number that was used again is told from the first.  0: it has
 * ended (a zombie too), or /proc does not say. */
uint64_t mr_start_time(pid_t tid);

/* A process that has ended with all its threads, but was not reaped: by a first process of a
 * container that reaps nobody it never will be. */
bool mr_is_remains(pid_t pid);

#endif
