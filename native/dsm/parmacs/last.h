/* last.h: what a program wants called at its end, for its checkpoints (internal to libmaru-dsm).
 *
 * Libc has a list of it: functions of atexit and on_exit, destructors of objects that are static in
 * a function, or thread-local.  That is in no image.  So in a job with checkpoints what main asks
 * for is in a list in the program's own memory, too.  Libc calls it in its order; a process that
 * goes on in another's place calls what came from that one before the rest.  What was asked for
 * before main is libc's: each process asks for it again.
 *
 * Thread-safety: none; by the program's thread.
 */
#ifndef MARU_DSM_LAST_H
#define MARU_DSM_LAST_H

#include "image.h"

/* Right before main. */
void mr_last_prepare(void);
/* The program's memory becomes another one's, which has created this process: there is none of it.
 */
void mr_last_forget(void);
/* What this library knows of it, for a checkpoint. */
struct mr_range mr_last_state(void);

#endif
