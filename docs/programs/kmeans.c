/* A program of threads, as docs/dsm.md names one: points on a line are drawn to two centres. */
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 3, POINTS = 300, ROUNDS = 10 };

static double points[POINTS], centres[2] = {0, 1}, sums[THREADS][2];
static int counts[THREADS][2];
static pthread_barrier_t barrier;

static void *assign(void *argument) {
  int me = (int)(size_t)argument;
  for (int round = 0; round < ROUNDS; round++) {
    for (int c = 0; c < 2; c++)
      sums[me][c] = counts[me][c] = 0;
    for (int i = me; i < POINTS; i += THREADS) {
      double to0 = points[i] - centres[0], to1 = points[i] - centres[1];
      int c = to0 * to0 > to1 * to1;
      sums[me][c] += points[i];
      counts[me][c]++;
    }
    pthread_barrier_wait(&barrier);
    for (int c = 0; me == 0 && c < 2; c++) {
      double sum = 0, count = 0;
      for (int t = 0; t < THREADS; t++) {
        sum += sums[t][c];
        count += counts[t][c];
      }
      centres[c] = count > 0 ? sum / count : centres[c];
    }
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < POINTS; i++)
    points[i] = i % 2 ? 10 + i % 7 : i % 5;
  pthread_barrier_init(&barrier, NULL, THREADS);
  for (size_t t = 0; t < THREADS; t++)
    pthread_create(&threads[t], NULL, assign, (void *)t);
  for (int t = 0; t < THREADS; t++)
    pthread_join(threads[t], NULL);
  printf("%.2f %.2f\n", centres[0], centres[1]);
  return 0;
}
