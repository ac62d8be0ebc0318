/* C = A B, of whole numbers.  Rows of C are handed out by a counter, so a fast node does more.
 * Checked: C x is A (B x).
 *
 *     maru launch -n 4 -- ./matmul [-n 200] [-t 1]          matrices of side n
 */
#include "example.h"

static void multiply(const long *row, const long *b, long *into, long side) {
  for (long j = 0; j < side; j++) {
    long sum = 0;
    for (long k = 0; k < side; k++)
      sum += row[k] * b[k * side + j];
    into[j] = sum;
  }
}

/* y = matrix x */
static void apply(const long *matrix, const long *x, long *y, long side) {
  for (long i = 0; i < side; i++) {
    y[i] = 0;
    for (long j = 0; j < side; j++)
      y[i] += matrix[i * side + j] * x[j];
  }
}

static void check(const long *a, const long *b, const long *c, long side) {
  long *x = calloc((size_t)(4 * side), sizeof *x), *bx = x + side, *abx = bx + side,
       *cx = abx + side;
  insist(x != NULL, "no memory");
  for (long i = 0; i < side; i++)
    x[i] = (long)(scatter((uint64_t)i) % 1000);
  apply(b, x, bx, side);
  apply(a, bx, abx, side);
  apply(c, x, cx, side);
  insist(memcmp(cx, abx, sizeof *cx * (size_t)side) == 0, "C x is not A (B x)");
  free(x);
}

int main(int count, char **arguments) {
  long side = flag(count, arguments, "-n", 200, 1, 20000);
  maru_dsm_init();
  size_t size = sizeof(long) * (size_t)(side * side);
  long *a = SHARED(size), *b = SHARED(size), *c = SHARED(size);
  double begin = seconds();
  if (maru_dsm_node() == 0)
    for (long i = 0; i < side * side; i++) {
      a[i] = i % 7;
      b[i] = i % 11;
    }
  maru_dsm_barrier(0);
  for (long i; (i = maru_dsm_fetch_add(0, 1)) < side;)
    multiply(a + i * side, b, c + i * side, side);
  maru_dsm_barrier(0);
  took(count, arguments, begin);
  if (maru_dsm_node() == 0) {
    check(a, b, c, side);
    printf("matmul of side %ld: %016llx\n", side, (unsigned long long)checksum(c, size));
  }
  maru_dsm_exit();
  return 0;
}
