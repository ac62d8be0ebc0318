/* dsm_peer.c: what an MPI takes for what maru-bench-dsm measures; an ordinary MPI program. Prints
 * JSON.
 *
 *     dsm_peer ROUNDS
 *
 * Two ranks. Rank 1 gets pages of rank 0's window by MPI_Get and MPI_Win_flush, in an order in
 * which no two follow each other. It adds to a number there by MPI_Fetch_and_op. Rank 0 waits in a
 * barrier meanwhile, where MPI serves. Then both meet in MPI_Barrier, again and again. Times are
 * rank 1's.
 */
#include "times.h"

#include "arguments.h"

#include <mpi.h>
#include <string.h>
#include <time.h>

#define PAGES 1024
#define PAGE 4096
#define TURNS 1000
#define STRIDE 389 /* as maru-bench-dsm */

static MPI_Win window;
static unsigned char page[PAGE];

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void get(int turn) {
  MPI_Get(page, PAGE, MPI_BYTE, 0, (MPI_Aint)(turn * STRIDE % PAGES) * PAGE, PAGE, MPI_BYTE,
          window);
  MPI_Win_flush(0, window);
}

static void add(int turn) {
  int64_t one = 1, before;
  (void)turn;
  MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, 0, MPI_SUM, window);
  MPI_Win_flush(0, window);
}

static void meet(int turn) {
  (void)turn;
  MPI_Barrier(MPI_COMM_WORLD);
}

static const struct {
  const char *name;
  int turns;
  int both; /* ranks do it */
  void (*once)(int turn);
} ways[] = {{"one", PAGES, 0, get}, {"barrier", TURNS, 1, meet}, {"fetch_add", TURNS, 0, add}};
#define WAYS (sizeof ways / sizeof *ways)

static size_t measure(size_t way, int rank, int64_t *times) {
  size_t count = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int turn = 0; (rank == 1 || ways[way].both) && turn < ways[way].turns; turn++) {
    int64_t begin = now_ns();
    ways[way].once(turn);
    times[count++] = now_ns() - begin;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return count;
}

static void print(int64_t *const *times, const size_t *counts) {
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  mr_json_text(&json, "unit", "ns");
  for (size_t way = 0; way < WAYS; way++)
    report(&json, ways[way].name, times[way], counts[way]);
  mr_json_end_object(&json);
  putchar('\n');
}

int main(int count, char **arguments) {
  int rank, size;
  int64_t rounds, *times[WAYS];
  size_t counts[WAYS] = {0};
  unsigned char *memory;
  const struct mr_option operand = {"ROUNDS", MR_WHOLE, &rounds, "rounds", 1, 10000};
  MPI_Init(&count, &arguments);
  mr_operands("dsm_peer", &operand, 1, count - 1, arguments + 1);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (size_t way = 0; way < WAYS; way++)
    times[way] = calloc((size_t)rounds * (size_t)ways[way].turns, sizeof **times);
  if (size != 2 || times[0] == NULL || times[1] == NULL || times[2] == NULL) {
    fprintf(stderr, "dsm_peer: %s\n", size != 2 ? "it takes two ranks" : "no memory");
    MPI_Abort(MPI_COMM_WORLD, 70);
  }
  MPI_Win_allocate((MPI_Aint)PAGES * PAGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  memset(memory, 0, (size_t)PAGES * PAGE);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
  for (size_t round = 0; round < WAYS * (size_t)rounds; round++)
    counts[round % WAYS] += measure(round % WAYS, rank, times[round % WAYS] + counts[round % WAYS]);
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  if (rank == 1)
    print(times, counts);
  MPI_Finalize();
  return 0;
}
