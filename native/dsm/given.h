/* given.h: pages that a repeated node gives away as it gave them, compared with its memory
 * (internal to libmaru-dsm).
 *
 * A home that is alone with a page writes it without a twin (core.h). Where another node fetches it
 * meanwhile, that gets what is there at some moment, and no repetition meets the same moment. So
 * the node kept what it gave (replay.h), and gives that again. It has to be what the repeated
 * program writes: every word of 8 bytes that is the same before that stretch of the program and
 * behind it is the same in what was given. What the stretch writes, others may not look at before
 * they hear of it.
 *
 * So a program that writes something else than it did is found. One that in one stretch changes a
 * word and changes it back may be taken for such.
 *
 * Thread-safety: none.
 */
#ifndef MARU_DSM_GIVEN_H
#define MARU_DSM_GIVEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: none. */
struct mr_given {
  struct mr_given_page *pages;
  size_t count, room;
};

/* At the begin of a stretch in which MR_PAGE bytes at `memory` were given as `gave`. -ENOMEM. */
int mr_given_add(struct mr_given *given, const uint8_t *memory, const uint8_t *gave);
/* At its end: whether all were given so; there are none then. */
bool mr_given_hold(struct mr_given *given);
void mr_given_free(struct mr_given *given);

#endif
