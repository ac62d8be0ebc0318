/* A Fourier transform of 4^k complex points in six steps: the points are a square matrix, and its
 * columns, then its rows are transformed, each by one node; transpositions between make columns
 * rows.  Checked: the inverse transform gives back the points.
 *
 *     maru launch -n 4 -- ./fft [-k 8] [-t 1]
 */
#include "example.h"

#include <math.h>

struct point {
  double re, im;
};

struct plan {
  long side, levels;
  struct point *root; /* of unity, the side'th: root[i] = exp(-2 pi i / side) */
  double sign;        /* -1: the inverse */
};

static struct point times(struct point a, struct point b) {
  return (struct point){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static struct point turn(double angle) { return (struct point){cos(angle), sin(angle)}; }

static void transpose(const struct plan *p, const struct point *from, struct point *to) {
  struct band rows = band(p->side);
  for (long i = rows.first; i < rows.last; i++)
    for (long j = 0; j < p->side; j++)
      to[i * p->side + j] = from[j * p->side + i];
  maru_dsm_barrier(0);
}

/* Points whose numbers are each other's bits in reverse change places. */
static void reverse(const struct plan *p, struct point *row) {
  for (long i = 0, j = 0; i < p->side; i++) {
    if (i < j) {
      struct point kept = row[i];
      row[i] = row[j];
      row[j] = kept;
    }
    long bit = p->side / 2;
    for (; (j & bit) != 0; bit /= 2)
      j ^= bit;
    j |= bit;
  }
}

static void transform_row(const struct plan *p, struct point *row) {
  reverse(p, row);
  for (long half = 1; half < p->side; half *= 2)
    for (long first = 0; first < p->side; first += 2 * half)
      for (long i = 0; i < half; i++) {
        struct point root = p->root[i * (p->side / (2 * half))];
        root.im *= p->sign;
        struct point *a = row + first + i, *b = a + half, turned = times(*b, root);
        *b = (struct point){a->re - turned.re, a->im - turned.im};
        *a = (struct point){a->re + turned.re, a->im + turned.im};
      }
}

/* `twist`: between the two transforms each point is turned by its row times its column. */
static void transform_rows(const struct plan *p, struct point *matrix, int twist) {
  struct band rows = band(p->side);
  double part = -2 * M_PI * p->sign / (double)(p->side * p->side);
  for (long i = rows.first; i < rows.last; i++) {
    struct point *row = matrix + i * p->side;
    transform_row(p, row);
    for (long j = 0; twist && j < p->side; j++)
      row[j] = times(row[j], turn(part * (double)(i * j)));
  }
  maru_dsm_barrier(0);
}

/* `x` becomes its transform; `y` is room. */
static void transform(const struct plan *p, struct point *x, struct point *y) {
  transpose(p, x, y);
  transform_rows(p, y, 1);
  transpose(p, y, x);
  transform_rows(p, x, 0);
  transpose(p, x, y);
  struct band rows = band(p->side);
  memcpy(x + rows.first * p->side, y + rows.first * p->side,
         sizeof *x * (size_t)((rows.last - rows.first) * p->side));
  maru_dsm_barrier(0);
}

static struct point given(long i) {
  return (struct point){chance(2 * (uint64_t)i), chance(2 * (uint64_t)i + 1)};
}

static double worst_error(const struct point *x, long points) {
  double worst = 0;
  for (long i = 0; i < points; i++) {
    struct point was = given(i);
    worst = fmax(worst, fabs(x[i].re / (double)points - was.re));
    worst = fmax(worst, fabs(x[i].im / (double)points - was.im));
  }
  return worst;
}

int main(int count, char **arguments) {
  long k = flag(count, arguments, "-k", 8, 1, 13), side = 1L << k, points = side * side;
  struct plan p = {side, k, malloc(sizeof *p.root * (size_t)side), 1};
  maru_dsm_init();
  struct point *x = SHARED(sizeof *x * (size_t)points), *y = SHARED(sizeof *y * (size_t)points);
  struct band mine = band(side);
  insist(p.root != NULL, "no memory");
  for (long i = 0; i < side; i++)
    p.root[i] = turn(-2 * M_PI * (double)i / (double)side);
  double begin = seconds();
  for (long i = mine.first * side; i < mine.last * side; i++)
    x[i] = given(i);
  maru_dsm_barrier(0);
  transform(&p, x, y);
  uint64_t sum = maru_dsm_node() == 0 ? checksum(x, sizeof *x * (size_t)points) : 0;
  maru_dsm_barrier(0);
  p.sign = -1;
  transform(&p, x, y);
  took(count, arguments, begin);
  if (maru_dsm_node() == 0) {
    insist(worst_error(x, points) < 1e-12, "the inverse transform does not give the points back");
    printf("fft of %ld points: %016llx\n", points, (unsigned long long)sum);
  }
  free(p.root);
  maru_dsm_exit();
  return 0;
}
