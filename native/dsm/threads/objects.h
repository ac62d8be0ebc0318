/* objects.h: what objects that threads synchronise by have in common (internal to libmaru-dsm).
 *
 * The library's part lies in the program's own object, whose first word is the id; 0, as static
 * initialisers have it, is none yet.  It gets one when it is first used, under a lock.  A node that
 * reads the word without the lock reads 0, and asks again, or the id, which stays.
 *
 * Failure: no id is left: the process ends with a line (69).
 */
#ifndef MARU_DSM_THREADS_OBJECTS_H
#define MARU_DSM_THREADS_OBJECTS_H

#include "../parmacs/image.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Before main there is one thread, and nobody to wait for. */
bool mr_object_alone(void);
/* Ends the process (64) then, as that wait would not end. */
void mr_object_needs_main(const char *what);
/* Of that word, which gets one if it has none. */
uint32_t mr_object_id(uint32_t *word);
/* Of a new object; 0 before main. */
uint32_t mr_object_first(void);
/* Another object may get the word's id, on whatever node. */
void mr_object_forget(uint32_t *word);
/* Else what waits until then answers EINVAL. */
bool mr_object_is_time(const struct timespec *until);
/* Waits a little; whether that time had passed before. */
bool mr_object_passes(clockid_t clock, const struct timespec *until);
/* What this node knows of them, for a checkpoint: to so many ranges; how many. */
#define MR_OBJECTS_STATE 3
int mr_objects_state(struct mr_range *ranges);
/* And which mutexes it has. */
struct mr_range mr_objects_held(void);

#endif
