/* variables.h: the program's own thread-local variables, in the thread that asks (internal).
 * Those of the program's file, not of its libraries.  Thread-safe; nothing can fail. */
#ifndef MARU_BASE_VARIABLES_H
#define MARU_BASE_VARIABLES_H

#include <stddef.h>
#include <stdint.h>

struct mr_variables {
  uint8_t *at;
  const uint8_t *first; /* what they are when a thread begins: `given` bytes, then zeros */
  size_t given, size;   /* size 0: there are none */
};

struct mr_variables mr_variables_find(void);

#endif
