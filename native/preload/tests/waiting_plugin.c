/* A library whose constructor waits for a thread of its own that waits, as plugins do that start
 * their workers. No call of that thread may ask the loader, which is held meanwhile. */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int stage;

static void *worker(void *unused) {
  struct timespec past = {0}, later;
  clock_gettime(CLOCK_REALTIME, &later);
  later.tv_sec += 60;
  pthread_mutex_timedlock(&mutex, &later);
  pthread_cond_timedwait(&condition, &mutex, &past);
  pthread_mutex_unlock(&mutex);
  pthread_mutex_clocklock(&mutex, CLOCK_REALTIME, &later);
  pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &past);
  stage = 1;
  while (stage == 1)
    pthread_cond_wait(&condition, &mutex);
  pthread_mutex_unlock(&mutex);
  return unused;
}

__attribute__((constructor)) static void start(void) {
  pthread_t id;
  if (pthread_create(&id, NULL, worker, NULL) != 0)
    return;
  for (int reached = 0; !reached;) {
    pthread_mutex_lock(&mutex);
    reached = stage == 1;
    stage += reached;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
  }
  pthread_join(id, NULL);
}
