/* start.h: how a process of a program begins that runs on several nodes (internal to libmaru-dsm).
 *
 * The program is not position-independent, and its libraries lie where they lie on node 0, so
 * pointers mean the same on every node.
 */
#ifndef MARU_DSM_PARMACS_START_H
#define MARU_DSM_PARMACS_START_H

/* Libraries at the same addresses on every node: executes the program once more without address
 * randomisation, where that is on.  Where the system refuses, it returns all the same. */
void mr_start_steadily(char **arguments);
/* Copies of them in what malloc gives the program, NULL at the end; ends the process (69) where no
 * memory is left. */
char **mr_start_copy(char **strings);

#endif
