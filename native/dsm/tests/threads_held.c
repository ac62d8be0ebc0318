/* threads_held.c: a mutex that is held is not destroyed, whatever its kind; the next one is free
 * all the same.  Built by the system's compiler and by maru-cc, it prints the same.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static void require(int holds, const char *what) {
  if (!holds) {
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
  }
}

static pthread_cond_t goes_on = PTHREAD_COND_INITIALIZER;
static bool may_go_on;

static void *let_go_on(void *mutex) {
  pthread_mutex_lock(mutex);
  may_go_on = true;
  pthread_cond_signal(&goes_on);
  pthread_mutex_unlock(mutex);
  return NULL;
}

static void await_another(pthread_mutex_t *mutex) {
  pthread_t id;
  may_go_on = false;
  pthread_create(&id, NULL, let_go_on, mutex);
  while (!may_go_on)
    pthread_cond_wait(&goes_on, mutex);
  require(pthread_mutex_destroy(mutex) == EBUSY, "held again behind a wait");
  pthread_mutex_unlock(mutex);
  pthread_join(id, NULL);
}

/* Another mutex is free all the same. */
static void destroy_held(int kind) {
  pthread_mutexattr_t attributes;
  pthread_mutex_t mutex, other;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, kind);
  pthread_mutex_init(&mutex, &attributes);
  pthread_mutex_lock(&mutex);
  require(pthread_mutex_destroy(&mutex) == EBUSY, "a mutex that is held is not destroyed");
  pthread_mutex_init(&other, NULL);
  require(pthread_mutex_trylock(&other) == 0, "another mutex");
  pthread_mutex_unlock(&other);
  await_another(&mutex);
  require(pthread_mutex_destroy(&mutex) == 0 && pthread_mutex_destroy(&other) == 0, "free ones");
}

int main(void) {
  destroy_held(PTHREAD_MUTEX_NORMAL);
  destroy_held(PTHREAD_MUTEX_RECURSIVE);
  destroy_held(PTHREAD_MUTEX_ERRORCHECK);
  puts("held");
}
