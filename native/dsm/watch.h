/* watch.h: looks now and then whether a job can go on (internal to libmaru-dsm).
 */
#ifndef MARU_DSM_WATCH_H
#define MARU_DSM_WATCH_H

#include "core.h"

struct mr_watch;

/* Starts a thread that calls `look` every second.  Negative errno. */
int mr_watch_start(struct mr_watch **watch, void (*look)(void));
/* Returns when `look` will not be called any more; frees what it had.  Not from `look`. */
void mr_watch_stop(struct mr_watch *watch);

/* For a line: which nodes wait for what. */
void mr_watch_words(const struct mr_wait *waits, uint16_t nodes, char *words, size_t size);

#endif
