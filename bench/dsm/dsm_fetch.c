/* maru-bench-dsm: what a page costs that is at another node, over the loopback interface.  Prints
 * JSON.
 *
 *     maru-bench-dsm one FETCH SPIN_US TRANSPORT ROUNDS
 *
 * Starts itself as a job of two nodes by maru-launch, which lies beside it.  Node 0 is the home
 * of all pages and writes one byte of each; after a barrier node 1 reads them: once in an
 * order in which no two follow each other (each fault brings one page), once in order (from the
 * third fault on batches, then of 64).  With SPIN_US 0 the server sleeps
 * (MARU_DSM_SPIN_US).  A time is what the reading instruction
 * took: fault, request, answer, mapping.
 */
#define _GNU_SOURCE
#include <maru/dsm.h>
#include <maru/wait.h>

#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGES 1024u
#define PAGE 4096u
#define STRIDE 389u /* no divisor of PAGES, and no neighbours */

static int by_time(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

static volatile uint8_t *memory;

static void write_all(uint8_t round) {
  for (uint32_t page = 0; page < PAGES; page++)
    memory[(size_t)page * PAGE] = round;
}

static void expect(uint32_t page, uint8_t round) {
  if (memory[(size_t)page * PAGE] != round) {
    fprintf(stderr, "maru: maru-bench-dsm: a read is wrong\n");
    exit(70);
  }
}

/* Each page's time; how many. */
static size_t scattered(uint8_t round, int64_t *times) {
  for (uint32_t i = 0; i < PAGES; i++) {
    int64_t begin = maru_now_ns();
    expect(i * STRIDE % PAGES, round);
    times[i] = maru_now_ns() - begin;
  }
  return PAGES;
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

static void report(const char *what, int64_t *times, size_t count) {
  qsort(times, count, sizeof *times, by_time);
  printf("\"%s\": {\"count\": %zu, \"min\": %" PRId64 ", \"p50\": %" PRId64 ", \"p90\": %" PRId64
         ", \"p99\": %" PRId64 "}",
         what, count, times[0], times[count / 2], times[count * 9 / 10], times[count * 99 / 100]);
}

static void node(uint32_t rounds) {
  int64_t *times[2] = {calloc((size_t)PAGES * rounds, sizeof **times),
                       calloc(rounds, sizeof **times)};
  size_t counts[2] = {0, 0};
  maru_dsm_init();
  memory = maru_dsm_alloc((size_t)PAGES * PAGE);
  if (times[0] == NULL || times[1] == NULL || memory == NULL)
    exit(70);
  for (uint32_t round = 0; round < 2 * rounds; round++) {
    uint8_t value = (uint8_t)(1 + round % 250);
    int order = (int)(round % 2);
    if (maru_dsm_node() == 0)
      write_all(value);
    maru_dsm_barrier(0);
    if (maru_dsm_node() == 1)
      counts[order] += (order == 0 ? scattered : in_order)(value, times[order] + counts[order]);
    maru_dsm_barrier(0);
  }
  if (maru_dsm_node() == 1) {
    report("one", times[0], counts[0]);
    printf(", ");
    report("batched", times[1], counts[1]);
    printf("\n");
  }
  maru_dsm_exit();
}

/* The job; prints what its node 1 printed. */
static void job(const char *rounds) {
  char self[PATH_MAX], folder[PATH_MAX], command[3 * PATH_MAX], line[512];
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
  printf("{\"unit\": \"ns\", \"pages\": %u, %s}\n", PAGES, strtok(line + 4, "\n"));
}

int main(int count, char **arguments) {
  if (getenv("MARU_DSM_NODES") != NULL && count > 1) {
    node((uint32_t)atoi(arguments[1]));
    return 0;
  }
  if (count != 6 || strcmp(arguments[1], "one") != 0 || atoi(arguments[5]) < 1 ||
      atoi(arguments[5]) > 10000) {
    fprintf(stderr, "maru: usage: maru-bench-dsm one FETCH SPIN_US TRANSPORT ROUNDS; 1 to 10000\n");
    return 64;
  }
  setenv("MARU_DSM_FETCH", arguments[2], 1);
  setenv("MARU_DSM_SPIN_US", arguments[3], 1);
  setenv("MARU_DSM_TRANSPORT", arguments[4], 1);
  setenv("MARU_DSM_HOME_RUN", "1024", 1);
  setenv("MARU_DSM_BATCH", "64", 1);
  job(arguments[5]);
  return 0;
}
