/* two_sockets.h: two sockets, in place of ../lock/place.c: tasks of the explorer are on each in
 * turn.  It defines the functions: one file of a program includes it. */
#ifndef MARU_TESTS_TWO_SOCKETS_H
#define MARU_TESTS_TWO_SOCKETS_H

#include "../explore/explore.h"
#include "../lock/place.h"

int mr_place_read(struct mr_place *place) {
  *place = (struct mr_place){.sockets = 2};
  return 0;
}

void mr_place_free(struct mr_place *place) { (void)place; }

uint32_t mr_place_here(const struct mr_place *place) {
  (void)place;
  return explore_task() % 2;
}

#endif
