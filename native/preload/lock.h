/* lock.h: what the parts of a lock library share (internal). */
#ifndef MARU_PRELOAD_LOCK_H
#define MARU_PRELOAD_LOCK_H

#include "bootstrap.h"
#include "overlay.h"

#define MR_EXPORT __attribute__((visibility("default")))

extern struct mr_overlay mr_overlay __attribute__((visibility("hidden")));

/* Of the process's words at mr_overlay.process: the overlay's own, and behind it the profile's. The
 * turns follow, in the same memory, which a fork wipes. */
#define MR_PROCESS_BYTES 64

/* The library's own part of the start, before anything is turned on.  `fit`: this libc's mutexes
 * are as expected. */
void mr_calls_start(struct mr_preload *preload, bool fit);

#endif
