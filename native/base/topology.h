/* topology.h: parts of a topology, for those that need no more (internal).
 *
 * Each part is read from files: at start of every program under a lock policy, and at every call
 * of a map. */
#ifndef MARU_BASE_TOPOLOGY_H
#define MARU_BASE_TOPOLOGY_H

#include <maru/topology.h>

enum mr_topology_part {
  MR_CACHES = 1,  /* some 10 files for each last-level cache */
  MR_CORES = 2,   /* 2 files a CPU; sockets and cores */
  MR_NODES = 4,   /* a file a node */
  MR_QUOTA = 8,   /* of CPU time: a file or two a control group */
  MR_MEMORY = 16, /* the limit: a file a control group */
  MR_ALL = 31
};

/* maru_topology_read of these parts (mr_topology_part, or'ed).  What was not asked for is as on the
 * flattest machine.  The CPUs and which of them are allowed are always there. */
int mr_topology_read(struct maru_topology *topology, unsigned parts);

#endif
