/* maru/topology.h: which CPUs this process may use and how they are joined.
 *
 * Read from a sysroot (default "/"), so that fixtures describe other machines;
 * MARU_TOPOLOGY overrides: "virtual:SxC" (S sockets of C CPUs each) or the path
 * of a fixture root.  Errors are negative errno; a file that is missing (a
 * sandbox without /sys) degrades to one socket with the allowed CPUs and sets
 * `degraded`.
 */
#ifndef MARU_TOPOLOGY_H
#define MARU_TOPOLOGY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MARU_TOPOLOGY_ENV "MARU_TOPOLOGY"
#define MARU_TOPOLOGY_MAX_CPUS 4096

struct maru_cpu {
  int32_t id;      /* as the kernel numbers it */
  int32_t core;    /* CPUs with equal core and socket are SMT siblings */
  int32_t llc;     /* smallest CPU id that shares the last-level cache */
  int32_t node;    /* NUMA node */
  int32_t socket;  /* physical package */
  uint8_t allowed; /* in this process's affinity mask */
};

struct maru_topology {
  struct maru_cpu *cpus; /* online CPUs, by id; owned by the topology */
  uint32_t cpu_count;
  uint32_t allowed_count;
  uint32_t core_count; /* allowed physical cores */
  uint32_t node_count;
  uint32_t socket_count;
  /* CPU time per second that the cgroup grants, in thousandths of a CPU; 0: no limit.  The smallest
   * on the way to the root, of cpu.max (cgroup v2) or cpu.cfs_quota_us (v1). */
  uint32_t quota_millicpus;
  uint64_t memory_limit;   /* bytes: the cgroup's, or the machine's */
  uint8_t virtual_machine; /* from MARU_TOPOLOGY, not from this machine */
  uint8_t degraded;
};

/* Fills *topology; free with maru_topology_free.  -EINVAL: MARU_TOPOLOGY is
 * malformed; -ENOENT: its fixture root is missing. */
int maru_topology_read(struct maru_topology *topology);
/* The same for an explicit sysroot, ignoring MARU_TOPOLOGY and the affinity mask. */
int maru_topology_read_root(struct maru_topology *topology, const char *sysroot);
void maru_topology_free(struct maru_topology *topology);

/* How many workers pay off by default: allowed CPUs, cut to the quota (rounded
 * up), at least 1. */
uint32_t maru_topology_workers(const struct maru_topology *topology);

#ifdef __cplusplus
}
#endif
#endif
