/* cores.h: the cores that the processes of one tree of maps share (internal).
 *
 * A share of the machine is one byte of a memfd, locked by the process that has taken it (a record
 * lock of POSIX). The kernel gives it back when that process dies, however it does; a fork inherits
 * the descriptor, and no share. Nobody waits for one. Errors are negative errno. A process that
 * closes any descriptor of the memfd gives all its shares back: so does POSIX.
 */
#ifndef MARU_BASE_CORES_H
#define MARU_BASE_CORES_H

#include <stdint.h>

/* Before the first fork: the descriptor. */
int maru_cores_open(void);

/* 0: the share of that number is this process's (also where it was); -EAGAIN: another has it. */
int maru_cores_take(int fd, uint32_t number);
int maru_cores_give(int fd, uint32_t number);

/* 1: another process has it; 0: none has. */
int maru_cores_taken(int fd, uint32_t number);

#endif
