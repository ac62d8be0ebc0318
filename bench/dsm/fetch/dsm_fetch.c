/* maru-bench-dsm: what a page costs that is at another node, over the loopback interface.  Prints
 * JSON.
 *
 *     maru-bench-dsm one FETCH SPIN_US TRANSPORT ROUNDS
 *
 * Starts itself as a job of two nodes by maru-launch, which lies beside it.  Node 0 is the home
 * of all pages and writes one byte of each; after a barrier node 1 reads them. It reads once in an
 * order in which no two follow each other: each fault brings one page. Then it reads in order: from
 * the third fault on batches, at last of 64. Some it reads one by one with a millisecond of
 * computing before each, so that node 0 sleeps when it is asked.  A lock is one that node 0
 * manages, taken and given back, and again with a millisecond before it; a barrier is one of both
 * nodes. A lock is handed over where both want it all the time. With them goes what it takes to
 * wake a thread here. SPIN_US is MARU_DSM_SPIN_US. A time is what the reading instruction took:
 * fault, request, answer, mapping.
 */
#define _GNU_SOURCE
#include "times.h"

#include "../../../native/dsm/access.h"
#include "arguments.h"

#include <maru/dsm.h>
#include <maru/wait.h>

#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define PAGES 1024u
#define PAGE 4096u
#define RESTED 64u
#define TURNS 1000u
#define PAUSE_NS 1000000
#define HOLD_NS 50000 /* until then the other has asked, and the holder knows */
#define HANDED (MARU_DSM_IDS - 2)
#define COUNTER 0u
#define STRIDE 389u /* no divisor of PAGES, and no neighbours */

static volatile uint8_t *memory;

static uint32_t scattered_page(uint32_t i) { return i * STRIDE % PAGES; }

/* Those that are read: another round's stay as they are. */
static void write_some(uint32_t count, uint8_t round) {
  for (uint32_t i = 0; i < count; i++)
    memory[(size_t)scattered_page(i) * PAGE] = round;
}

static void expect(uint32_t page, uint8_t round) {
  if (memory[(size_t)page * PAGE] != round) {
    fprintf(stderr, "maru: maru-bench-dsm: a read is wrong\n");
    exit(70);
  }
}

/* Each page's time; how many. */
static size_t read_some(uint32_t count, int64_t pause_ns, uint8_t round, int64_t *times) {
  for (uint32_t i = 0; i < count; i++) {
    int64_t begin = maru_now_ns();
    for (int64_t until = begin + pause_ns; begin < until;)
      begin = maru_now_ns();
    expect(scattered_page(i), round);
    times[i] = maru_now_ns() - begin;
  }
  return count;
}

static size_t scattered(uint8_t round, int64_t *times) { return read_some(PAGES, 0, round, times); }

static size_t rested(uint8_t round, int64_t *times) {
  return read_some(RESTED, PAUSE_NS, round, times);
}

/* Node 1 takes and gives back locks that node 0 manages, which waits at the barrier meanwhile. Each
 * once: a node that takes a lock twice in a row keeps it, and its next takings cost no message. */
static size_t lock_some(uint32_t count, int64_t pause_ns, int64_t *times) {
  static uint32_t id;
  for (uint32_t i = 0; i < count; i++, id += 2) {
    if (id >= HANDED) {
      fprintf(stderr, "maru: maru-bench-dsm: no lock is left for so many rounds\n");
      exit(70);
    }
    int64_t begin = maru_now_ns();
    for (int64_t until = begin + pause_ns; begin < until;)
      begin = maru_now_ns();
    maru_dsm_lock(id);
    times[i] = maru_now_ns() - begin;
    maru_dsm_unlock(id);
  }
  return count;
}

static size_t locked(uint8_t round, int64_t *times) {
  (void)round;
  return lock_some(TURNS, 0, times);
}

static size_t locked_asleep(uint8_t round, int64_t *times) {
  (void)round;
  return lock_some(RESTED, PAUSE_NS, times);
}

/* Node 1 adds to a counter that node 0 manages. */
static size_t added(uint8_t round, int64_t *times) {
  (void)round;
  for (uint32_t i = 0; i < TURNS; i++) {
    int64_t begin = maru_now_ns();
    maru_dsm_fetch_add(COUNTER, 1);
    times[i] = maru_now_ns() - begin;
  }
  return TURNS;
}

/* Both nodes, which want one lock all the time: a wait is the other's turn and two hand-overs. One
 * that is shorter is none, as the other was not there. */
static size_t handed(uint8_t round, int64_t *times) {
  size_t count = 0;
  (void)round;
  for (uint32_t i = 0; i < TURNS; i++) {
    int64_t begin = maru_now_ns();
    maru_dsm_lock(HANDED);
    int64_t taken = maru_now_ns(), waited = taken - begin;
    while (maru_now_ns() < taken + HOLD_NS)
      ;
    maru_dsm_unlock(HANDED);
    if (waited > HOLD_NS)
      times[count++] = (waited - HOLD_NS) / 2;
  }
  return count;
}

/* Both nodes: from a node's arrival to its leave. */
static size_t met(uint8_t round, int64_t *times) {
  (void)round;
  for (uint32_t i = 0; i < TURNS; i++) {
    int64_t begin = maru_now_ns();
    maru_dsm_barrier(2);
    times[i] = maru_now_ns() - begin;
  }
  return TURNS;
}

/* The time of the last 64 × 14 of 1024 pages, when batches are full; a page's. */
static size_t in_order(uint8_t round, int64_t *times) {
  uint32_t page = 0;
  for (; page < 2 * 64; page++)
    expect(page, round);
  int64_t begin = maru_now_ns();
  for (; page < PAGES; page++)
    expect(page, round);
  times[0] = (maru_now_ns() - begin) / (PAGES - 2 * 64);
  return 1;
}

static const struct way {
  const char *name;
  size_t (*read)(uint8_t round, int64_t *times);
  size_t most;
  uint32_t pages; /* that it reads */
  bool both;      /* nodes do it */
} ways[] = {{"one", scattered, PAGES, PAGES, false},
            {"batched", in_order, 1, PAGES, false},
            {"rested", rested, RESTED, RESTED, false},
            {"lock", locked, TURNS, 0, false},
            {"lock_rested", locked_asleep, RESTED, 0, false},
            {"barrier", met, TURNS, 0, true},
            {"fetch_add", added, TURNS, 0, false},
            {"handed", handed, TURNS, 0, true}};
#define WAYS (sizeof ways / sizeof *ways)

static void node(uint32_t rounds) {
  int64_t *times[WAYS];
  size_t counts[WAYS] = {0};
  maru_dsm_init();
  memory = maru_dsm_alloc((size_t)PAGES * PAGE);
  for (size_t way = 0; way < WAYS; way++)
    if (memory == NULL || (times[way] = calloc(rounds * ways[way].most, sizeof **times)) == NULL)
      exit(70);
  for (uint32_t round = 0; round < WAYS * rounds; round++) {
    uint8_t value = (uint8_t)(1 + round % 250);
    size_t way = round % WAYS;
    if (maru_dsm_node() == 0)
      write_some(ways[way].pages, value);
    maru_dsm_barrier(0);
    if (maru_dsm_node() == 1 || ways[way].both)
      counts[way] += ways[way].read(value, times[way] + counts[way]);
    maru_dsm_barrier(0);
  }
  if (maru_dsm_node() == 1) {
    struct mr_json json = {.out = stdout};
    mr_json_object(&json, NULL);
    mr_json_text(&json, "unit", "ns");
    mr_json_whole(&json, "pages", PAGES);
    int64_t handover = maru_wait_measure_handover();
    if (handover > 0) /* else the machine was too busy */
      mr_json_whole(&json, "handover", (uint64_t)handover);
    for (size_t way = 0; way < WAYS; way++)
      if (counts[way] > 0)
        report(&json, ways[way].name, times[way], counts[way]);
    mr_json_end_object(&json);
    putchar('\n');
  }
  maru_dsm_exit();
}

/* The job; prints what its node 1 printed. */
static void job(const char *rounds) {
  char self[PATH_MAX], folder[PATH_MAX], command[3 * PATH_MAX], line[1024];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0)
    exit(70);
  self[length] = 0;
  strcpy(folder, self);
  const char *launch = getenv("MARU_LAUNCH");
  if (launch != NULL)
    snprintf(command, sizeof command, "exec '%s' -n 2 -- '%s' '%s'", launch, self, rounds);
  else
    snprintf(command, sizeof command, "exec '%s/maru-launch' -n 2 -- '%s' '%s'", dirname(folder),
             self, rounds);
  FILE *output = popen(command, "r");
  if (output == NULL || fgets(line, sizeof line, output) == NULL || strncmp(line, "[1] ", 4) != 0 ||
      pclose(output) != 0) {
    fprintf(stderr, "maru: maru-bench-dsm: the job failed\n");
    exit(70);
  }
  fputs(line + 4, stdout);
}

int main(int count, char **arguments) {
  if (getenv("MARU_DSM_NODES") != NULL && count > 1) {
    int64_t own;
    const struct mr_option operand = {"ROUNDS", MR_WHOLE, &own, "rounds", 1, 10000};
    mr_operands("maru-bench-dsm", &operand, 1, count - 1, arguments + 1);
    node((uint32_t)own);
    return 0;
  }
  const char *one, *fetch, *spin_us, *transport;
  int64_t rounds;
  const struct mr_option operands[] = {
      {"one", MR_TEXT, &one, NULL, 0, 0},
      {"FETCH", MR_TEXT, &fetch, NULL, 0, 0},
      {"SPIN_US", MR_TEXT, &spin_us, NULL, 0, 0},
      {"TRANSPORT", MR_TEXT, &transport, NULL, 0, 0},
      {"ROUNDS", MR_WHOLE, &rounds, "rounds", 1, 10000},
  };
  mr_operands("maru-bench-dsm", operands, sizeof operands / sizeof *operands, count - 1,
              arguments + 1);
  setenv("MARU_DSM_FETCH", fetch, 1);
  setenv("MARU_DSM_SPIN_US", spin_us, 1);
  setenv("MARU_DSM_TRANSPORT", transport, 1);
  /* Else nodes of one host have one memory, and no page is remote. */
  enum mr_access_way way =
      mr_access_probe(MR_BY_USERFAULTFD) == 0 ? MR_BY_USERFAULTFD : MR_BY_MPROTECT;
  setenv("MARU_DSM_ACCESS", mr_access_way_name(way), 0);
  setenv("MARU_DSM_HOME_RUN", "1024", 1);
  setenv("MARU_DSM_BATCH", "64", 1);
  setenv("MARU_DSM_PREFETCH", "0", 1); /* each round reads in the same order */
  job(arguments[5]);
  return 0;
}
