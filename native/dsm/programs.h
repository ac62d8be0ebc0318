/* programs.h: whether a function that the linker sends elsewhere is the program's own (internal to
 * libmaru-parmacs). Its other files call that then, whatever its name is in libc. Any thread.
 */
#ifndef MARU_DSM_PROGRAMS_H
#define MARU_DSM_PROGRAMS_H

#include <stdbool.h>
#include <stdint.h>

/* The linker's. */
extern const char __executable_start[], etext[];

static inline bool mr_is_programs(uintptr_t function) {
  return function >= (uintptr_t)__executable_start && function < (uintptr_t)etext;
}

#endif
