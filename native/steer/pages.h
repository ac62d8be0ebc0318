/* pages.h: moves memory that processes have. */
#ifndef MARU_STEER_PAGES_H
#define MARU_STEER_PAGES_H

#include <sys/types.h>

/* Of the process and all below it, to that node.  How many processes; *stayed: pages that could not
 * be moved.  A negative errno if none of them could. */
int mr_pages_move(pid_t tree, int node, long *stayed);

#endif
