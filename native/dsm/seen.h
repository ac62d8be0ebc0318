/* seen.h: where the program sees shared memory (internal to libmaru-dsm).
 *
 * Two places: what is allocated, and globals.  Not in the area, which goes: any thread that makes a
 * system call asks (syscalls.c), at any time, also in a signal handler.
 */
#ifndef MARU_DSM_SEEN_H
#define MARU_DSM_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_place { MR_ALLOCATED, MR_GLOBALS, MR_PLACES };

/* From now on it is there; size 0: it is not. */
void mr_see(enum mr_place place, const void *from, size_t size);
/* No memory is so large: a length that went below 0; or there is none. */
bool mr_is_range(const void *from, size_t size);
/* The part of a range, its end included, that is seen there; false: none. */
bool mr_part_seen(enum mr_place place, uintptr_t *first, uintptr_t *last);
/* So far behind the place's beginning. */
size_t mr_seen_offset(enum mr_place place, uintptr_t at);

#endif
