/* waits.c: a library whose constructor waits for a thread that makes a call. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>

static void *call(void *unused) {
  (void)tee(-1, -1, 1, 0); /* one that nothing else in the program makes */
  return unused;
}

__attribute__((constructor)) static void begin(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, call, NULL) == 0)
    pthread_join(thread, NULL);
}
