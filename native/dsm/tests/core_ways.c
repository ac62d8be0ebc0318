/* Description: what a page's home sends is decided for each peer by itself, by what the way
 * between the two has been measured to cost.
 */
#include "world.h"

#include "check.h"

#define ROUNDS 200u
#define NODES 3
#define BARRIER 5 /* managed by node 2, whose way is quick */

/* A page takes 200 us to and from node 1; to and from node 2 less than it costs to make a part. */
static const uint32_t ns_per_kib[WORLD_NODES] = {0, 50000, 10};

static struct world world;

static void meet(void) {
  for (int node = 0; node < NODES; node++)
    emit(&world.nodes[node].program, sync_of(MR_BARRIER, BARRIER, NODES));
}

static void fetch(int node, uint32_t page) {
  emit(&world.nodes[node].program, read_of(0, page * MR_PAGE, 8));
  meet();
}

/* Each writes a word of its own page, which the others then fetch, one after the other. */
static void write_programs(void) {
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    for (uint32_t node = 0; node < NODES; node++) {
      emit(&world.nodes[node].program, set_of(1, round));
      emit(&world.nodes[node].program, write_of(1, node * MR_PAGE, 8));
    }
    meet();
    fetch(1, 0);
    fetch(2, 0);
    fetch(0, 1);
    fetch(0, 2);
  }
}

int main(void) {
  struct shape shape = {.nodes = NODES,
                        .pages = NODES,
                        .home_run = 1,
                        .objects = 16,
                        .limits = {.batch = 1},
                        .ns_per_kib = ns_per_kib};
  const uint64_t pages = (uint64_t)ROUNDS * MR_PAGE;
  world_create(&world, &shape, 1);
  write_programs();
  world_run(&world);
  /* A home's choice differs by who asks. */
  CHECK(world.copied[0][1] < pages / 8 && world.copied[0][2] > pages / 2);
  /* The node that asks measures each home by itself. */
  CHECK(world.copied[1][0] < pages / 8 && world.copied[2][0] > pages / 2);
  world_destroy(&world);
  return 0;
}
