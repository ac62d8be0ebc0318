/* carried.h: what a process has set for all its threads, and a new thread takes along to its node
 * (internal to libmaru-dsm). That is the working directory, the umask, the locale, the
 * environment, the format of std::cout and its like, and C++'s handlers of no memory and of the
 * end.
 *
 * A node that has changed one of them tells so when it creates a thread: the value that it has
 * then. What other nodes have told of the others stays. A node takes it over when a thread begins
 * there.  What is changed while threads run reaches none of them.
 */
#ifndef MARU_DSM_THREADS_CARRIED_H
#define MARU_DSM_THREADS_CARRIED_H

#include "../parmacs/image.h"

struct mr_carried;

/* Once the node has started, before the first thread: how streams are before a program sets them.
 */
void mr_carried_begin(void);

/* With the lock of the table; `told`: what is there, or NULL; it is replaced. */
void mr_carried_tell(struct mr_carried **told);
/* The same; where this cannot be had on this node the job ends. */
void mr_carried_take(const struct mr_carried *told);
/* What this node has changed, for a checkpoint. */
struct mr_range mr_carried_state(void);

#endif
