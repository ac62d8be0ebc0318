/* The programs of examples/dsm on the simulated machine: maru/dsm.h for them, and what their
 * computing costs.
 *
 * They are compiled with names of their own for main and for the functions below (sim_names.h). The
 * flag -fsanitize-coverage=trace-pc calls a function in each basic block. A block costs what it
 * costs on the machine of the results: the time of the program alone there, over its blocks.
 */
#define _GNU_SOURCE
#include "sim_names.h"

#include "sim.h"

#include "json.h"
#include "numbers.h"

#include <maru/dsm.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NODES 8
#define PAGES 2048u
/* Which node comes first to a busy home is chance, and moves radix by three per cent. So a
 * figure is the mean of runs whose latencies differ by a twentieth each. tsp, which takes
 * longest, does with one. */
#define TURNS 5

/* Each kind of object has ids of its own. */
#define KIND (SIM_OBJECTS / 3)
enum { LOCKS = 0, BARRIERS = KIND, COUNTERS = 2 * KIND };
#define LEAVING (BARRIERS + KIND - 1)

int ocean_main(int, char **), water_main(int, char **), raytrace_main(int, char **),
    tsp_main(int, char **), radix_main(int, char **), fft_main(int, char **), lu_main(int, char **),
    matmul_main(int, char **);

static const struct program {
  const char *name;
  int (*main)(int, char **);
  const char *arguments[5];
  int turns;
  double block_ns;
} programs[] = {
    {"tsp", tsp_main, {"tsp", "-c", "0"}, 1, 0.5},
    {"raytrace", raytrace_main, {"raytrace"}, TURNS, 1.2},
    {"ocean", ocean_main, {"ocean", "-s", "1"}, TURNS, 4.0},
    {"water", water_main, {"water", "-s", "5"}, TURNS, 1.7},
    {"radix", radix_main, {"radix"}, TURNS, 2.4},
    {"fft", fft_main, {"fft"}, TURNS, 2.7},
    {"lu", lu_main, {"lu"}, TURNS, 0.75},
    {"matmul", matmul_main, {"matmul"}, TURNS, 1.0},
};

static const struct program *program;
static uint64_t blocks, all_blocks; /* since the running node was last charged; of all */
static size_t used[NODES];

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { blocks++; }

/* Blocks of the machine's own code are not counted: it is compiled without. */
static void charge(void) {
  double ns = (double)blocks * program->block_ns;
  all_blocks += blocks;
  blocks = 0;
  if (ns > 0)
    sim_work(ns);
}

static int64_t operate(enum mr_op op, uint32_t kind, uint32_t id, int64_t argument) {
  if (id >= KIND - 1)
    sim_fail("an id is too large for the simulator");
  charge();
  return sim_synchronise(op, kind + id, argument);
}

void maru_dsm_init(void) {}
uint32_t maru_dsm_node(void) { return sim_node(); }
uint32_t maru_dsm_nodes(void) { return sim_nodes(); }
void maru_dsm_lock(uint32_t id) { operate(MR_LOCK, LOCKS, id, 0); }
void maru_dsm_unlock(uint32_t id) { operate(MR_UNLOCK, LOCKS, id, 0); }
void maru_dsm_barrier(uint32_t id) { operate(MR_BARRIER, BARRIERS, id, sim_nodes()); }
int64_t maru_dsm_fetch_add(uint32_t id, int64_t delta) {
  return operate(MR_FETCH_ADD, COUNTERS, id, delta);
}

void *maru_dsm_alloc_at(size_t size, const char *site) {
  (void)site;
  size_t unit = size >= MR_PAGE ? MR_PAGE : 64, at = (used[sim_node()] + unit - 1) & ~(unit - 1);
  if (at > PAGES * (size_t)MR_PAGE || size > PAGES * (size_t)MR_PAGE - at)
    return NULL;
  used[sim_node()] = at + size;
  return sim_memory() + at;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  (void)clock;
  charge();
  *now = (struct timespec){(time_t)(sim_now() / 1e9), (long)fmod(sim_now(), 1e9)};
  return 0;
}

void maru_dsm_exit(void) { sim_synchronise(MR_BARRIER, LEAVING, sim_nodes()); }

static void run_main(uint16_t me) {
  int count = 0;
  char *arguments[8] = {NULL};
  used[me] = 0;
  for (; count < 5 && program->arguments[count] != NULL; count++)
    arguments[count] = (char *)(uintptr_t)program->arguments[count];
  arguments[count++] = "-t";
  arguments[count++] = "1";
  if (program->main(count, arguments) != 0)
    sim_fail("a program failed");
}

/* What it prints; its time, as itself says, and all nodes' counters.  The caller frees the text. */
static char *run(const struct sim_job *job, double *seconds, struct mr_core_counters *counters) {
  char *printed, *said;
  size_t length;
  FILE *output = stdout, *errors = stderr;
  stdout = sim_need(open_memstream(&printed, &length));
  stderr = sim_need(open_memstream(&said, &length));
  blocks = all_blocks = 0;
  sim_run(job, counters);
  fclose(stdout);
  fclose(stderr);
  stdout = output;
  stderr = errors;
  if (sscanf(said, "seconds: %lf", seconds) != 1)
    sim_fail("a program does not say how long it took");
  free(said);
  printed[strcspn(printed, "\n")] = 0;
  return printed;
}

/* Mean seconds of its turns, which must give that result; counters of the last. */
static double mean_of_turns(struct sim_job job, const char *expected, struct mr_core_counters *c) {
  double latency_ns = job.link.latency_ns, seconds, all = 0;
  for (int turn = 0; turn < program->turns; turn++) {
    job.link.latency_ns = latency_ns * (1 + 0.05 * (turn - program->turns / 2));
    char *result = run(&job, &seconds, c);
    if (strcmp(result, expected) != 0)
      sim_fail("a result on several nodes is not that on one");
    free(result);
    all += seconds;
  }
  return all / program->turns;
}

/* Of the program on one node; all else is as zero says. */
static struct sim_job job_of(const struct sim_link *link, uint32_t batch) {
  return (struct sim_job){.link = *link,
                          .nodes = 1,
                          .pages = PAGES,
                          .batch = batch,
                          .faults = true,
                          .program = run_main,
                          .computed = charge};
}

static void write_traffic(struct mr_json *json, const struct mr_core_counters *c) {
  mr_json_whole(json, "messages", c->messages);
  mr_json_whole(json, "bytes", c->bytes);
  mr_json_whole(json, "fetches", c->fetches);
}

static void run_program(struct mr_json *json, const struct sim_link *link, uint32_t batch) {
  struct sim_job job = job_of(link, batch);
  job.grant_bytes = 1; /* as in the paper; and homes stay */
  struct mr_core_counters c;
  double alone;
  char *expected = run(&job, &alone, &c);
  job.nodes = NODES;
  for (int fetch = 0; fetch < MR_FETCH_POLICIES; fetch++) {
    job.fetch = (enum mr_fetch)fetch;
    double seconds = mean_of_turns(job, expected, &c);
    mr_json_object(json, NULL);
    mr_json_text(json, "program", program->name);
    mr_json_text(json, "fetch", mr_fetch_name((enum mr_fetch)fetch));
    mr_json_whole(json, "batch", batch);
    mr_json_real(json, "seconds", seconds, 9);
    mr_json_real(json, "alone", alone, 9);
    mr_json_whole(json, "blocks", all_blocks);
    mr_json_text(json, "result", expected);
    write_traffic(json, &c);
    mr_json_whole(json, "pages", c.pages);
    mr_json_whole(json, "parts", c.parts);
    mr_json_whole(json, "part_bytes", c.part_bytes);
    mr_json_whole(json, "searched", c.searched);
    mr_json_end_object(json);
  }
  free(expected);
}

static void run_homes(struct mr_json *json, const struct sim_link *link, uint32_t batch) {
  static const struct {
    const char *name;
    enum mr_homes homes;
    bool block;
  } policies[] = {{"cyclic", MR_HOMES_STAY, false},
                  {"block", MR_HOMES_STAY, true},
                  {"first-writer", MR_HOMES_FIRST_WRITER, false},
                  {"migrate", MR_HOMES_MIGRATE, false}};
  struct sim_job job = job_of(link, batch);
  struct mr_core_counters c;
  double seconds;
  char *expected = run(&job, &seconds, &c);
  uint32_t share = (uint32_t)((used[0] + NODES * MR_PAGE - 1) / (NODES * MR_PAGE));
  job.nodes = NODES;
  for (size_t i = 0; i < 2 * sizeof policies / sizeof *policies; i++) {
    uint32_t bytes = i % 2 != 0 ? MR_GRANT_BYTES : 0;
    job.homes = policies[i / 2].homes;
    job.home_run = policies[i / 2].block ? share : 0;
    job.grant_bytes = bytes != 0 ? bytes : 1;
    seconds = mean_of_turns(job, expected, &c);
    mr_json_object(json, NULL);
    mr_json_text(json, "program", program->name);
    mr_json_text(json, "homes", policies[i / 2].name);
    mr_json_whole(json, "grant_bytes", bytes);
    mr_json_real(json, "seconds", seconds, 9);
    write_traffic(json, &c);
    mr_json_whole(json, "diffs", c.diffs);
    mr_json_whole(json, "moved", c.moved);
    mr_json_whole(json, "passed_on", c.passed_on);
    mr_json_whole(json, "carried", c.carried);
    mr_json_whole(json, "renewed", c.spared);
    mr_json_end_object(json);
  }
  free(expected);
}

/* With the defaults of a job, and no page unasked; then with them. */
static void run_prefetch(struct mr_json *json, const struct sim_link *link, uint32_t batch) {
  struct sim_job job = job_of(link, batch);
  job.homes = MR_HOMES_MIGRATE;
  struct mr_core_counters c;
  double seconds;
  char *expected = run(&job, &seconds, &c);
  job.nodes = NODES;
  for (int prefetch = 0; prefetch < 2; prefetch++) {
    job.prefetch = prefetch != 0;
    seconds = mean_of_turns(job, expected, &c);
    mr_json_object(json, NULL);
    mr_json_text(json, "program", program->name);
    mr_json_text(json, "prefetch", job.prefetch ? "on" : "off");
    mr_json_real(json, "seconds", seconds, 9);
    write_traffic(json, &c);
    mr_json_whole(json, "foreseen", c.foreseen);
    mr_json_whole(json, "unused", c.unused);
    mr_json_end_object(json);
  }
  free(expected);
}

static int usage(void) {
  fprintf(stderr,
          "maru: maru-sim-dsm: a latency, a byte's time, a processor's slowness (above 0), for "
          "programs a batch from 1 to %u, and no or a known program are needed\n",
          MR_BATCH_MAX);
  return 64;
}

static bool read_link(struct sim_link *link, char **arguments) {
  double ps_per_byte = 0;
  bool good = mr_real(arguments[0], 0, 1e12, &link->latency_ns) == 0 &&
              mr_real(arguments[1], 0, 1e12, &ps_per_byte) == 0 &&
              mr_real(arguments[2], 1e-9, 1e9, &link->cpu) == 0;
  link->ns_per_byte = ps_per_byte / 1e3;
  return good;
}

/* The programs that are chosen, each by `run`; the exit status. */
static int each(const char *only, void (*run)(struct mr_json *, const struct sim_link *, uint32_t),
                const struct sim_link *link, uint32_t batch) {
  struct mr_json json = {.out = stdout};
  bool known = only == NULL;
  for (size_t p = 0; p < sizeof programs / sizeof *programs; p++)
    known = known || strcmp(only, programs[p].name) == 0;
  if (!known)
    return usage();
  mr_json_object(&json, NULL);
  mr_json_whole(&json, "nodes", NODES);
  mr_json_array(&json, "runs");
  for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
    program = &programs[p];
    if (only == NULL || strcmp(only, program->name) == 0)
      run(&json, link, batch);
  }
  mr_json_end_array(&json);
  mr_json_end_object(&json);
  putchar('\n');
  return 0;
}

int sim_programs(int count, char **arguments) {
  struct sim_link link;
  int64_t batch = 1;
  if (!read_link(&link, arguments) ||
      (count > 3 && mr_whole(arguments[3], 1, MR_BATCH_MAX, &batch) < 0))
    return usage();
  return each(count > 4 ? arguments[4] : NULL, run_program, &link, (uint32_t)batch);
}

int sim_homes(int count, char **arguments) {
  struct sim_link link;
  if (!read_link(&link, arguments))
    return usage();
  return each(count > 3 ? arguments[3] : NULL, run_homes, &link, MR_BATCH);
}

int sim_prefetch(int count, char **arguments) {
  struct sim_link link;
  if (!read_link(&link, arguments))
    return usage();
  return each(count > 3 ? arguments[3] : NULL, run_prefetch, &link, MR_BATCH);
}
