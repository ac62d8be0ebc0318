#define _GNU_SOURCE
#include <maru/wait.h>

#include "futex.h"

#include <pthread.h>
#include <stdlib.h>

#define ROUNDS 64
#define PATIENCE_NS INT64_C(20000000)

/* Two threads hand a turn to and fro by futex alone; half a round trip is a
 * hand-over. */
struct table {
  _Atomic uint32_t turn; /* whose step is next: even ours, odd the other's; -1: the end */
};

#define THE_END UINT32_MAX

/* False when nobody answered: the machine is too busy to measure. */
static int await(struct table *table, uint32_t unwanted) {
  int64_t end = maru_now_ns() + PATIENCE_NS;
  /* Acquire and release order nothing but the turn itself. */
  while (atomic_load_explicit(&table->turn, memory_order_acquire) == unwanted) {
    if (maru_now_ns() >= end)
      return 0;
    (void)mr_futex_wait(&table->turn, unwanted, end);
  }
  return 1;
}

static void pass(struct table *table, uint32_t turn) {
  atomic_store_explicit(&table->turn, turn, memory_order_release);
  mr_futex_wake_all(&table->turn);
}

static void *answer(void *argument) {
  struct table *table = argument;
  for (uint32_t turn = 0;; turn += 2) {
    if (!await(table, turn))
      return NULL;
    if (atomic_load_explicit(&table->turn, memory_order_acquire) == THE_END)
      return NULL;
    pass(table, turn + 2);
  }
}

static int by_size(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

int64_t maru_wait_measure_handover(void) {
  struct table table = {.turn = 0};
  int64_t times[ROUNDS];
  int done = 0;
  pthread_t thread;
  int rc = pthread_create(&thread, NULL, answer, &table);
  if (rc != 0)
    return -rc;
  while (done < ROUNDS) {
    uint32_t turn = 2 * (uint32_t)done + 1;
    int64_t begin = maru_now_ns();
    pass(&table, turn);
    if (!await(&table, turn))
      break;
    times[done++] = (maru_now_ns() - begin) / 2;
  }
  pass(&table, THE_END);
  pthread_join(thread, NULL);
  if (done < ROUNDS / 2)
    return -ETIMEDOUT;
  qsort(times, (size_t)done, sizeof *times, by_size);
  return times[done / 2];
}
