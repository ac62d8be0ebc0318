/* environment.h: the environment that a program changes, for its checkpoints (internal to
 * libmaru-dsm).
 *
 * Libc puts what setenv is given into memory of its own, which is in no image. So in a job with
 * checkpoints it goes into the program's, and getenv finds it there.
 *
 * Thread-safety: none; by the program's thread.
 */
#ifndef MARU_DSM_ENVIRONMENT_H
#define MARU_DSM_ENVIRONMENT_H

#include "image.h"

/* Right before main. */
void mr_environment_prepare(void);
/* The program's memory becomes another one's, which has created this process: the environment is
 * again what the process was given. */
void mr_environment_forget(void);
/* What this library knows of it, for a checkpoint. */
struct mr_range mr_environment_state(void);

#endif
