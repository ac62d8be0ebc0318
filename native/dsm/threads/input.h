/* input.h: the standard input of a program of threads is node 0's (internal to libmaru-dsm).
 *
 * Other nodes have an empty one.  A thread that reads it there would take its end for the input's.
 * So the job ends with a line, unless node 0's is empty as well, or the program has put another
 * file in its place.
 */
#ifndef MARU_DSM_THREADS_INPUT_H
#define MARU_DSM_THREADS_INPUT_H

#include <stdbool.h>

/* Whether this process has none: closed, or /dev/null. */
bool mr_input_is_empty(void);
/* On another node than 0, each process once: from now on an end that `read` finds is refused at
 * once. */
void mr_input_begin(void (*refuse)(void));
/* Calls `refuse` if stdio has met its end.  On node 0 never. */
void mr_input_look(void);

#endif
