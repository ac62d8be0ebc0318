/* maru-sim-dsm: the shipped protocol core on a network that is described.  Prints JSON.
 *
 *     maru-sim-dsm programs LATENCY_NS PS_PER_BYTE CPU [BATCH [PROGRAM]]
 *
 * runs the programs of examples/dsm, as they are, on 8 nodes, by each fetch policy;
 *
 *     maru-sim-dsm homes LATENCY_NS PS_PER_BYTE CPU [PROGRAM]
 *
 * runs them by each policy of homes, with and without diffs on grants;
 *
 *     maru-sim-dsm prefetch LATENCY_NS PS_PER_BYTE CPU [PROGRAM]
 *
 * runs them without pages that come unasked, and with them;
 *
 *     maru-sim-dsm scale
 *
 * counts what a fetch, a lock and a barrier cost on 1 to 64 nodes.
 *
 * Method.  N cores in one process; simulated time (sim.c).  A message leaves when its sender's card
 * is free, occupies it PS_PER_BYTE for each byte and arrives LATENCY_NS later. A node handles one
 * at a time. Programs are coroutines that really compute, on memory of their node's whose accesses
 * really fault: their results are checked, their accesses are what they are. Their computing costs
 * a time for each basic block that they run, which the compiler counts (sim_programs.c). What
 * faults and the handling of messages cost are the constants at the top of
 * sim.c.  All of it times CPU: the paper's Pentium III is taken for 20 of today's.  Nothing is
 * random: the same on every run and machine.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

int main(int count, char **arguments) {
  if (count == 2 && strcmp(arguments[1], "scale") == 0)
    return sim_scale();
  if (count >= 5 && count <= 7 && strcmp(arguments[1], "programs") == 0)
    return sim_programs(count - 2, arguments + 2);
  if (count >= 5 && count <= 6 && strcmp(arguments[1], "homes") == 0)
    return sim_homes(count - 2, arguments + 2);
  if (count >= 5 && count <= 6 && strcmp(arguments[1], "prefetch") == 0)
    return sim_prefetch(count - 2, arguments + 2);
  fprintf(stderr, "maru: usage: maru-sim-dsm scale | programs LATENCY_NS PS_PER_BYTE CPU [BATCH "
                  "[PROGRAM]] | homes LATENCY_NS PS_PER_BYTE CPU [PROGRAM] | prefetch LATENCY_NS "
                  "PS_PER_BYTE CPU [PROGRAM]\n");
  return 64;
}
