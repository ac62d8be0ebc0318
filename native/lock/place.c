/* place.c: from the CPU of a thread to its socket. */
#define _GNU_SOURCE
#include "place.h"

#include "topology.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Numbers the caches in the order of their first CPU.  CPUs by number, so `id` of
 * the last is the largest. */
static int number_sockets(struct mr_place *place, const struct maru_topology *topology) {
  place->cpus = (uint32_t)topology->cpus[topology->cpu_count - 1].id + 1;
  place->socket_of = calloc(place->cpus, sizeof *place->socket_of);
  if (place->socket_of == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < topology->cpu_count; i++) {
    const struct maru_cpu *cpu = &topology->cpus[i];
    uint32_t j = 0;
    while (topology->cpus[j].llc != cpu->llc)
      j++;
    place->socket_of[cpu->id] = j < i ? place->socket_of[topology->cpus[j].id] : place->sockets++;
  }
  return 0;
}

int mr_place_read(struct mr_place *place) {
  struct maru_topology topology;
  int rc = mr_topology_read(&topology, MR_CACHES);
  if (rc < 0)
    return rc;
  *place = (struct mr_place){.imagined = topology.virtual_machine};
  rc = number_sockets(place, &topology);
  maru_topology_free(&topology);
  return rc;
}

void mr_place_free(struct mr_place *place) { free(place->socket_of); }

uint32_t mr_place_here(const struct mr_place *place) {
  /* glibc reads the CPU from the thread's rseq area, or asks the kernel. */
  int cpu = place->imagined ? gettid() % (int)place->cpus : sched_getcpu();
  /* A CPU that came online later has no known neighbours. */
  return cpu >= 0 && (uint32_t)cpu < place->cpus ? place->socket_of[cpu] : 0;
}
