/* sim.h: the parts of maru-sim-dsm (see dsm_sim.c).  One thread; what fails here ends the process.
 */
#ifndef MARU_DSM_SIM_H
#define MARU_DSM_SIM_H

#include "../../../native/dsm/core.h"
#include "../../../native/dsm/diff.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NODES_MAX 64
#define SIM_OBJECTS 8192u /* ids below it */

/* A message leaves when its sender's card is free, occupies it for its bytes and arrives later by
 * the latency; `cpu`: by how much processors are slower than today's. */
struct sim_link {
  double latency_ns, ns_per_byte, cpu;
};

struct sim_job {
  struct sim_link link;
  uint16_t nodes;
  uint32_t pages;
  enum mr_fetch fetch;
  uint32_t batch; /* pages of a fetch at most */
  enum mr_homes homes;
  bool prefetch;
  uint32_t home_run;    /* 0: 16 */
  uint32_t grant_bytes; /* as the core has it; 1: none */
  bool faults; /* the program loads and stores by itself (at most 16 nodes); else by sim_touch */
  void (*program)(uint16_t me);
  void (*computed)(void); /* with `faults`: called in a fault, for sim_work to be called */
};

_Noreturn void sim_fail(const char *what);
void *sim_need(void *memory);

/* Runs it to its end; simulated nanoseconds.  `counters`: the sum of all nodes'. */
double sim_run(const struct sim_job *job, struct mr_core_counters *counters);

/* ---- for programs ---- */

uint16_t sim_node(void);
uint16_t sim_nodes(void);
double sim_now(void); /* ns since the job began */
/* The running node's memory, by faults. */
uint8_t *sim_memory(void);
/* An address, once the running node may read it, or write. */
uint8_t *sim_touch(size_t address, bool write);
int64_t sim_synchronise(enum mr_op op, uint32_t id, int64_t argument);
/* The running node computes for so long, before anything else. */
void sim_work(double ns);

/* ---- the modes ---- */

int sim_programs(int count, char **arguments); /* sim_programs.c */
int sim_homes(int count, char **arguments);    /* the same */
int sim_prefetch(int count, char **arguments); /* the same */
int sim_scale(void);                           /* sim_scale.c */

#endif
