/* What an operation costs by the number of nodes: messages and bytes, counted. */
#include "sim.h"

#include "json.h"

#include <inttypes.h>
#include <stdio.h>

/* Values that do not cross a page. */
#define GET(type, address) (*(const type *)(const void *)sim_touch(address, false))
#define PUT(type, address, value) (*(type *)(void *)sim_touch(address, true) = (value))

static void scale_meet(void) { sim_synchronise(MR_BARRIER, 0, sim_nodes()); }

#define TURNS 20

/* A page of each home's is read by so many of the next nodes, 20 times. As somebody reads it, its
 * home is never alone with it. */
static void fetches(uint16_t me, unsigned readers) {
  for (int turn = 1; turn <= TURNS; turn++) {
    PUT(int32_t, (size_t)me * 16 * MR_PAGE, turn);
    scale_meet();
    for (unsigned next = 1; next <= readers; next++)
      if (GET(int32_t, (size_t)((me + next) % sim_nodes()) * 16 * MR_PAGE) != turn)
        sim_fail("a wrong value");
    scale_meet();
  }
}
static void one_fetch(uint16_t me) { fetches(me, 1); }
static void two_fetches(uint16_t me) { fetches(me, 2); }
static void locks(uint16_t me) {
  (void)me;
  for (int turn = 0; turn < TURNS; turn++) {
    sim_synchronise(MR_LOCK, 1, 0);
    sim_synchronise(MR_UNLOCK, 1, 0);
  }
}
static void barriers(uint16_t me) {
  (void)me;
  for (int turn = 0; turn < TURNS; turn++)
    scale_meet();
}

static void cost(struct mr_json *json, const char *what, uint16_t nodes, uint64_t operations,
                 const struct mr_core_counters *all, const struct mr_core_counters *without) {
  mr_json_object(json, NULL);
  mr_json_text(json, "operation", what);
  mr_json_whole(json, "nodes", nodes);
  mr_json_real(json, "messages", (double)(all->messages - without->messages) / (double)operations,
               3);
  mr_json_real(json, "bytes", (double)(all->bytes - without->bytes) / (double)operations, 1);
  mr_json_end_object(json);
}

static struct mr_core_counters counted(void (*program)(uint16_t), uint16_t nodes,
                                       enum mr_fetch fetch) {
  struct mr_core_counters counters;
  struct sim_job job = {.link = {1000, 0, 1},
                        .nodes = nodes,
                        .pages = 16u * nodes,
                        .fetch = fetch,
                        .batch = 1,
                        .program = program};
  sim_run(&job, &counters);
  return counters;
}

int sim_scale(void) {
  const struct mr_core_counters none = {0};
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  mr_json_array(&json, "costs");
  for (uint16_t nodes = 1; nodes <= SIM_NODES_MAX; nodes *= 2) {
    struct mr_core_counters b = counted(barriers, nodes, MR_FETCH_PAGE);
    cost(&json, "barrier", nodes, TURNS, &b, &none);
    struct mr_core_counters l = counted(locks, nodes, MR_FETCH_PAGE);
    cost(&json, "lock", nodes, (uint64_t)TURNS * nodes, &l, &none);
    /* Of two nodes none has two others. */
    for (int fetch = MR_FETCH_PAGE; nodes > 2 && fetch <= MR_FETCH_STAMP; fetch++) {
      char name[32];
      struct mr_core_counters one = counted(one_fetch, nodes, (enum mr_fetch)fetch),
                              two = counted(two_fetches, nodes, (enum mr_fetch)fetch);
      snprintf(name, sizeof name, "fetch, %s", mr_fetch_name((enum mr_fetch)fetch));
      cost(&json, name, nodes, (uint64_t)TURNS * nodes, &two, &one);
      if (fetch != MR_FETCH_PAGE)
        continue;
      const struct mr_core_counters fetched = {.messages = two.messages - one.messages,
                                               .bytes = two.bytes - one.bytes};
      cost(&json, "barrier where every node wrote a page", nodes, 2 * TURNS, &one, &fetched);
    }
  }
  mr_json_end_array(&json);
  mr_json_end_object(&json);
  putchar('\n');
  return 0;
}
