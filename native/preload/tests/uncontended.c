/* Takes and releases a free mutex so many times: for a count of instructions. */
#include <pthread.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  }
  return 0;
}
