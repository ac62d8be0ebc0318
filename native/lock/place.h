/* place.h: which socket the calling thread runs on (internal).
 *
 * A socket is a set of CPUs that share a last-level cache, numbered from 0.  On a
 * machine from MARU_TOPOLOGY a thread's CPU is its number modulo that machine's. */
#ifndef MARU_LOCK_PLACE_H
#define MARU_LOCK_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct mr_place {
  uint32_t *socket_of; /* by the kernel's number of a CPU */
  uint32_t cpus;
  uint32_t sockets;
  bool imagined;
};

/* Errors of maru_topology_read.  Free with mr_place_free. */
int mr_place_read(struct mr_place *place);
void mr_place_free(struct mr_place *place);

/* The answer may be old by the time it is used: threads migrate. */
uint32_t mr_place_here(const struct mr_place *place);

#endif
