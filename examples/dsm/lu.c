/* A dense matrix as the product of a lower and an upper triangular one, by blocks that lie together
 * in memory. Each block has an owner, the only one to change it; blocks are dealt out in two
 * dimensions.  No pivots: the diagonal dominates.  Checked: L (U x) is A x.
 *
 *     maru launch -n 4 -- ./lu [-n 256] [-b 16] [-t 1]      side n, blocks of side b
 */
#include "example.h"

#include <math.h>

struct matrix {
  long side, block, blocks; /* numbers of rows, of rows of a block, of blocks in a row */
  long rows, columns;       /* of nodes */
  double *at;
};

static double *block(const struct matrix *m, long i, long j) {
  return m->at + (i * m->blocks + j) * m->block * m->block;
}

static int is_mine(const struct matrix *m, long i, long j) {
  return (i % m->rows) * m->columns + j % m->columns == (long)maru_dsm_node();
}

/* What the matrix was. */
static double given(const struct matrix *m, long i, long j) {
  return chance((uint64_t)(i * m->side + j)) - 0.5 + (i == j ? (double)m->side : 0);
}

static void fill(const struct matrix *m) {
  for (long i = 0; i < m->blocks; i++)
    for (long j = 0; j < m->blocks; j++)
      for (long r = 0; is_mine(m, i, j) && r < m->block; r++)
        for (long c = 0; c < m->block; c++)
          block(m, i, j)[r * m->block + c] = given(m, i * m->block + r, j * m->block + c);
  maru_dsm_barrier(0);
}

/* The block itself becomes L and U; L's diagonal is 1. */
static void factor(double *a, long n) {
  for (long k = 0; k < n; k++)
    for (long i = k + 1; i < n; i++) {
      double part = a[i * n + k] /= a[k * n + k];
      for (long j = k + 1; j < n; j++)
        a[i * n + j] -= part * a[k * n + j];
    }
}

/* a = a / U of the diagonal block d. */
static void divide_right(double *a, const double *d, long n) {
  for (long i = 0; i < n; i++)
    for (long k = 0; k < n; k++) {
      double part = a[i * n + k] /= d[k * n + k];
      for (long j = k + 1; j < n; j++)
        a[i * n + j] -= part * d[k * n + j];
    }
}

/* a = L of the diagonal block d \ a. */
static void divide_left(double *a, const double *d, long n) {
  for (long k = 0; k < n; k++)
    for (long i = k + 1; i < n; i++)
      for (long j = 0; j < n; j++)
        a[i * n + j] -= d[i * n + k] * a[k * n + j];
}

/* a -= left right */
static void subtract(double *a, const double *left, const double *right, long n) {
  for (long i = 0; i < n; i++)
    for (long k = 0; k < n; k++)
      for (long j = 0; j < n; j++)
        a[i * n + j] -= left[i * n + k] * right[k * n + j];
}

static void decompose(const struct matrix *m) {
  for (long k = 0; k < m->blocks; k++) {
    if (is_mine(m, k, k))
      factor(block(m, k, k), m->block);
    maru_dsm_barrier(0);
    for (long i = k + 1; i < m->blocks; i++) {
      if (is_mine(m, i, k))
        divide_right(block(m, i, k), block(m, k, k), m->block);
      if (is_mine(m, k, i))
        divide_left(block(m, k, i), block(m, k, k), m->block);
    }
    maru_dsm_barrier(0);
    for (long i = k + 1; i < m->blocks; i++)
      for (long j = k + 1; j < m->blocks; j++)
        if (is_mine(m, i, j))
          subtract(block(m, i, j), block(m, i, k), block(m, k, j), m->block);
    maru_dsm_barrier(0);
  }
}

static double entry(const struct matrix *m, long i, long j) {
  long n = m->block;
  return block(m, i / n, j / n)[i % n * n + j % n];
}

/* How far L (U x) is from A x, where A x is largest. */
static double error_of(const struct matrix *m) {
  double worst = 0, largest = 0, *ux = calloc((size_t)m->side, sizeof *ux);
  insist(ux != NULL, "no memory");
  for (long i = 0; i < m->side; i++)
    for (long j = i; j < m->side; j++)
      ux[i] += entry(m, i, j) * chance((uint64_t)j);
  for (long i = 0; i < m->side; i++) {
    double lux = ux[i], ax = 0;
    for (long j = 0; j < i; j++)
      lux += entry(m, i, j) * ux[j];
    for (long j = 0; j < m->side; j++)
      ax += given(m, i, j) * chance((uint64_t)j);
    worst = fmax(worst, fabs(lux - ax));
    largest = fmax(largest, fabs(ax));
  }
  free(ux);
  return worst / largest;
}

int main(int count, char **arguments) {
  struct matrix m = {.side = flag(count, arguments, "-n", 256, 2, 16384),
                     .block = flag(count, arguments, "-b", 16, 1, 1024),
                     .rows = 1};
  maru_dsm_init();
  long nodes = maru_dsm_nodes();
  /* As square as the number of nodes allows. */
  for (long r = 2; r * r <= nodes; r++)
    m.rows = nodes % r == 0 ? r : m.rows;
  m.columns = nodes / m.rows;
  m.blocks = m.side / m.block;
  insist(m.blocks * m.block == m.side, "-n is no multiple of -b");
  size_t size = sizeof(double) * (size_t)(m.side * m.side);
  m.at = SHARED(size);
  fill(&m);
  double begin = seconds();
  decompose(&m);
  took(count, arguments, begin);
  if (maru_dsm_node() == 0) {
    insist(error_of(&m) < 1e-12, "L U is not the matrix");
    printf("lu of side %ld: last %.6f, %016llx\n", m.side, entry(&m, m.side - 1, m.side - 1),
           (unsigned long long)checksum(m.at, size));
  }
  maru_dsm_exit();
  return 0;
}
