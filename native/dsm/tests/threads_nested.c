/* threads_nested.c: functions within functions of gcc, which it calls by code that it writes on the
 * stack. Built by the system's compiler and by maru-cc, it prints the same.
 *
 *     threads-nested
 */
#include <pthread.h>
#include <stdio.h>

#define THREADS 2

static long each(long (*call)(long), long count) {
  long sum = 0;
  for (long i = 0; i < count; i++)
    sum += call(i);
  return sum;
}

static void *times(void *argument) {
  long factor = (long)argument;
  long multiply(long value) { return value * factor; }
  return (void *)each(multiply, 10);
}

int main(void) {
  pthread_t threads[THREADS];
  long base = 5, sum = 0;
  long add(long value) { return value + base; }
  /* Its code lies on main's stack, and another thread executes it. */
  void *body(void *argument) { return (void *)((long)argument * base); }
  for (int round = 0; round < 2; round++) {
    for (long i = 0; i < THREADS; i++)
      pthread_create(&threads[i], NULL, round == 0 ? times : body, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) {
      void *result;
      pthread_join(threads[i], &result);
      sum += (long)result;
    }
  }
  printf("%ld %ld\n", sum, each(add, 4));
  return 0;
}
