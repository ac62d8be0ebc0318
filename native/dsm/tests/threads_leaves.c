/* threads_leaves.c: see threads_leaves.cc. */
#include <pthread.h>

void leave_through_c(void (*leave)(void), void (*clean)(void *), void *argument);

void leave_through_c(void (*leave)(void), void (*clean)(void *), void *argument) {
  pthread_cleanup_push(clean, argument);
  leave();
  pthread_cleanup_pop(0);
}
