/* A stand-in for a libc whose mutexes use the bytes that the overlay would. What it gives to
 * programs that ask for glibc's own initialiser is not zero there. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

int __pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);

int __pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
  (void)attributes;
  memset(mutex, 0, sizeof *mutex);
  memset(&mutex->__data.__list, 1, sizeof mutex->__data.__list);
  return 0;
}
