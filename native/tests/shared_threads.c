/* Description: threads of one process share locks of each kind: a count that only the lock guards
 * is right.  For ThreadSanitizer above all, which sees one process, and nothing of
 * pthread_mutex_clocklock: so nobody has a deadline. */
#include <maru/lock.h>

#include "check.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>

#define THREADS 4

static alignas(64) char memory[32768];
static struct maru_shared_lock *lock;
static long count, rounds; /* count: under the lock */

static void *work(void *argument) {
  long *mine = argument;
  for (long round = 0; round < rounds; round++) {
    CHECK_EQUAL(maru_shared_lock_acquire(lock), 0);
    count++;
    ++*mine;
    CHECK_EQUAL(maru_shared_lock_release(lock), 0);
  }
  return NULL;
}

static void together(const char *text) {
  struct maru_lock_options options;
  pthread_t threads[THREADS];
  long mine[THREADS] = {0}, sum = 0;
  CHECK(maru_shared_lock_size() <= sizeof memory);
  CHECK_EQUAL(maru_lock_options_parse(&options, text, NULL), 0);
  CHECK_EQUAL(maru_shared_lock_init(memory, &options), 0);
  CHECK_EQUAL(maru_shared_lock_attach(&lock, memory), 0);
  count = 0;
  for (int i = 0; i < THREADS; i++)
    CHECK_EQUAL(pthread_create(&threads[i], NULL, work, &mine[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    sum += mine[i];
  }
  CHECK(sum > 0);
  CHECK_EQUAL(count, sum);
  maru_shared_lock_detach(lock);
}

int main(void) {
  rounds = (long)(20000 * setting("MARU_TEST_SCALE", 1));
  CHECK_EQUAL(setenv("MARU_TOPOLOGY", "virtual:2x1", 1), 0);
  together("pthread");
  together("mcs:wait=block");
  together("mcs:wait=adaptive");
  together("cna:wait=block,deadline=25us");
  return 0;
}
