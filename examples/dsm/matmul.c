/* C = A B.  Rows of C are handed out by a counter, so a fast node does more; each adds
 * what it found to a sum under a lock.
 *
 *     maru launch -n 4 -- ./matmul [SIDE]
 */
#include <maru/dsm.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
  long side = count > 1 ? atol(arguments[1]) : 200;
  maru_dsm_init();
  size_t size = sizeof(long) * (size_t)(side * side);
  long *a = maru_dsm_alloc(size), *b = maru_dsm_alloc(size), *c = maru_dsm_alloc(size);
  long *trace = maru_dsm_alloc(sizeof *trace);
  if (side < 1 || a == NULL || b == NULL || c == NULL || trace == NULL) {
    fprintf(stderr, "matmul: no room for matrices of side %ld\n", side);
    return 1;
  }
  if (maru_dsm_node() == 0)
    for (long i = 0; i < side * side; i++) {
      a[i] = i % 7;
      b[i] = i % 11;
    }
  maru_dsm_barrier(0);
  for (long i; (i = maru_dsm_fetch_add(0, 1)) < side;) {
    for (long j = 0; j < side; j++) {
      long sum = 0;
      for (long k = 0; k < side; k++)
        sum += a[i * side + k] * b[k * side + j];
      c[i * side + j] = sum;
    }
    maru_dsm_lock(0);
    *trace += c[i * side + i];
    maru_dsm_unlock(0);
  }
  maru_dsm_barrier(0);
  if (maru_dsm_node() == 0) {
    long sum = 0;
    for (long i = 0; i < side * side; i++)
      sum += c[i];
    printf("side %ld: trace %ld, sum %ld\n", side, *trace, sum);
  }
  maru_dsm_exit();
}
