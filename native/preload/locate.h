/* locate.h: which file of the process an address belongs to (internal). */
#ifndef MARU_PRELOAD_LOCATE_H
#define MARU_PRELOAD_LOCATE_H

#include <maru/lockprof.h>
#include <stdbool.h>
#include <stddef.h>

/* The program's own file. */
void mr_locate_program(char *path, size_t size);

/* Before the first of the next, once a process.  False: this libc cannot say without taking its
 * own locks (it is older than 2.35). */
bool mr_locate_start(void);
/* MARU_LOCKPROF_PLACE, or 0: in no file, or no room for its name.  Takes no lock, and may be called
 * from anywhere. */
uint64_t mr_locate(struct maru_lockprof *board, const void *address);

#endif
