#define _GNU_SOURCE
#include <maru/wait.h>

#include "futex.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#define ROUNDS 64
#define LEAST_ROUNDS 8
#define PATIENCE_NS INT64_C(20000000)
#define PAUSE_NS 15000 /* longer than going to sleep takes */

/* Two threads hand a turn to and fro by futex alone.  A round counts when the wake
 * found the other one asleep: a message to somebody awake is much faster. */
struct table {
  _Atomic uint32_t turn; /* whose step is next: even the caller's, odd the other's; -1: the end */
  int64_t woken_ns;      /* the answerer's last return; ordered by the turn */
  int64_t end_ns;
  int64_t times[ROUNDS];
  int done;
};

#define THE_END UINT32_MAX

/* False when nobody answered: the machine is too busy to measure. */
static int await(struct table *table, uint32_t unwanted) {
  /* Acquire and release order nothing but the turn itself. */
  while (atomic_load_explicit(&table->turn, memory_order_acquire) == unwanted) {
    if (maru_now_ns() >= table->end_ns)
      return 0;
    (void)mr_futex_wait(&table->turn, unwanted, table->end_ns);
  }
  return 1;
}

/* True when the other one slept. */
static bool pass(struct table *table, uint32_t turn) {
  atomic_store_explicit(&table->turn, turn, memory_order_release);
  return mr_futex_wake_count(&table->turn) > 0;
}

static void *answer(void *argument) {
  struct table *table = argument;
  for (uint32_t turn = 0;; turn += 2) {
    if (!await(table, turn))
      return NULL;
    if (atomic_load_explicit(&table->turn, memory_order_acquire) == THE_END)
      return NULL;
    table->woken_ns = maru_now_ns();
    pass(table, turn + 2);
  }
}

static int by_size(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

/* The other one goes to sleep meanwhile, on this CPU if it must. */
static void let_it_sleep(void) {
  int64_t end = maru_now_ns() + PAUSE_NS;
  do
    sched_yield();
  while (maru_now_ns() < end);
}

static void *call(void *argument) {
  struct table *table = argument;
  for (uint32_t turn = 1; table->done < ROUNDS; turn += 2) {
    let_it_sleep();
    int64_t begin = maru_now_ns();
    bool slept = pass(table, turn);
    if (!await(table, turn))
      break;
    if (slept)
      table->times[table->done++] = table->woken_ns - begin;
  }
  pass(table, THE_END);
  return NULL;
}

/* The CPU that we are on and another one that is allowed: two threads that share one
 * would measure a switch.  False where there is none. */
static bool two_cpus(cpu_set_t *here, cpu_set_t *there) {
  cpu_set_t allowed;
  int own = sched_getcpu(), other = -1;
  if (own < 0 || own >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) < 0)
    return false;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (cpu != own && CPU_ISSET(cpu, &allowed))
      other = cpu;
  if (other < 0)
    return false;
  CPU_ZERO(here);
  CPU_ZERO(there);
  CPU_SET(own, here);
  CPU_SET(other, there);
  return true;
}

static int start_on(pthread_t *thread, const cpu_set_t *cpus, void *(*body)(void *),
                    struct table *table) {
  pthread_attr_t attributes;
  int rc = pthread_attr_init(&attributes);
  if (rc != 0)
    return -rc;
  if (cpus != NULL)
    rc = pthread_attr_setaffinity_np(&attributes, sizeof *cpus, cpus);
  if (rc == 0)
    rc = pthread_create(thread, &attributes, body, table);
  pthread_attr_destroy(&attributes);
  return -rc;
}

int64_t maru_wait_measure_handover(void) {
  struct table table = {.end_ns = maru_now_ns() + PATIENCE_NS};
  cpu_set_t here, there;
  pthread_t caller, answerer;
  bool apart = two_cpus(&here, &there);
  int rc = start_on(&answerer, apart ? &there : NULL, answer, &table);
  if (rc < 0)
    return rc;
  rc = start_on(&caller, apart ? &here : NULL, call, &table);
  if (rc == 0)
    pthread_join(caller, NULL);
  else
    pass(&table, THE_END);
  pthread_join(answerer, NULL);
  if (rc < 0)
    return rc;
  if (table.done < LEAST_ROUNDS)
    return -ETIMEDOUT;
  qsort(table.times, (size_t)table.done, sizeof *table.times, by_size);
  return table.times[table.done / 2];
}
