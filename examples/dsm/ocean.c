/* A wind-driven ocean in a closed basin. In each step the vorticity is moved by the current and
 * stirred by the wind, then the stream function follows from it by Poisson's equation,
 *
 *     w' = w + dt (-J(p, w) + wind - w),     laplace p = w,     p = 0 at the coast,
 *
 * solved by multigrid: V-cycles of red-black Gauss-Seidel sweeps on ever coarser grids.  Each node
 * has a band of rows and reads its neighbours' edges.  Points of one colour depend on the other
 * colour alone, and residuals are compared, not added. So the result is the same, to the bit, on
 * any number of nodes. Checked: after each step the residual is below the tolerance.
 *
 *     maru launch -n 4 -- ./ocean [-k 8] [-s 4] [-t 1]      grid of side 2^k + 1, s steps
 */
#include "example.h"

#include <math.h>

#define LEVELS 12
#define CYCLES 40
#define TOLERANCE 1e-6 /* of the residual, where vorticity is about 1 */
#define SWEEPS 2

/* One resolution: laplace u = f; `rest` is f - laplace u. */
struct level {
  long side;
  double step;
  double *u, *f, *rest;
  struct band rows;
};

struct ocean {
  struct level level[LEVELS];
  int levels;
  double *moved; /* the next vorticity */
  double *worst; /* residuals, one a cycle */
};

static void meet(void) { maru_dsm_barrier(0); }

static double *row(double *grid, const struct level *l, long i) { return grid + i * l->side; }

static double laplace(const double *at, const struct level *l) {
  return (at[-1] + at[1] + at[-l->side] + at[l->side] - 4 * at[0]) / (l->step * l->step);
}

static void relax(struct level *l, int colour) {
  double h2 = l->step * l->step;
  for (long i = l->rows.first; i < l->rows.last; i++) {
    double *u = row(l->u, l, i), *f = row(l->f, l, i);
    for (long j = 1 + (i + colour) % 2; j < l->side - 1; j += 2)
      u[j] = (u[j - 1] + u[j + 1] + u[j - l->side] + u[j + l->side] - h2 * f[j]) / 4;
  }
  meet();
}

static void smooth(struct level *l, int sweeps) {
  for (int sweep = 0; sweep < 2 * sweeps; sweep++)
    relax(l, sweep % 2);
}

static double residual(struct level *l) {
  double worst = 0;
  for (long i = l->rows.first; i < l->rows.last; i++) {
    double *u = row(l->u, l, i), *f = row(l->f, l, i), *rest = row(l->rest, l, i);
    for (long j = 1; j < l->side - 1; j++) {
      rest[j] = f[j] - laplace(u + j, l);
      worst = fmax(worst, fabs(rest[j]));
    }
  }
  return worst;
}

/* What is left to solve, on the coarser grid; from zero. */
static void coarsen(const struct level *fine, struct level *coarse) {
  long side = fine->side;
  for (long i = coarse->rows.first; i < coarse->rows.last; i++)
    for (long j = 1; j < coarse->side - 1; j++) {
      const double *r = fine->rest + 2 * i * side + 2 * j;
      double edges = r[-1] + r[1] + r[-side] + r[side];
      double corners = r[-side - 1] + r[-side + 1] + r[side - 1] + r[side + 1];
      row(coarse->f, coarse, i)[j] = (4 * r[0] + 2 * edges + corners) / 16;
      row(coarse->u, coarse, i)[j] = 0;
    }
  meet();
}

/* Adds what the coarser grid found, with means between its points. */
static void refine(const struct level *coarse, struct level *fine) {
  for (long i = fine->rows.first; i < fine->rows.last; i++)
    for (long j = 1; j < fine->side - 1; j++) {
      const double *c = coarse->u + i / 2 * coarse->side + j / 2;
      long down = i % 2 * coarse->side, right = j % 2;
      row(fine->u, fine, i)[j] += (c[0] + c[down] + c[right] + c[down + right]) / 4;
    }
  meet();
}

static void cycle(struct ocean *o, int at) {
  struct level *l = &o->level[at];
  if (at == o->levels - 1) {
    smooth(l, 16);
    return;
  }
  smooth(l, SWEEPS);
  residual(l);
  meet();
  coarsen(l, &o->level[at + 1]);
  cycle(o, at + 1);
  refine(&o->level[at + 1], l);
  smooth(l, SWEEPS);
}

/* The worst residual of all nodes. */
static double agree(double mine, double *all) {
  maru_dsm_lock(0);
  *all = fmax(*all, mine);
  maru_dsm_unlock(0);
  meet();
  return *all;
}

static void solve(struct ocean *o, double *worst) {
  int cycles = 0;
  do
    cycle(o, 0);
  while (agree(residual(&o->level[0]), &worst[cycles]) > TOLERANCE && ++cycles < CYCLES);
  insist(cycles < CYCLES, "the residual stays above the tolerance");
}

static void move(struct ocean *o, double dt) {
  struct level *l = &o->level[0];
  double quarter = 1 / (4 * l->step * l->step);
  for (long i = l->rows.first; i < l->rows.last; i++)
    for (long j = 1; j < l->side - 1; j++) {
      const double *p = row(l->u, l, i) + j, *w = row(l->f, l, i) + j;
      double jacobian =
          (p[1] - p[-1]) * (w[l->side] - w[-l->side]) - (p[l->side] - p[-l->side]) * (w[1] - w[-1]);
      double wind = -sin(M_PI * (double)i * l->step);
      row(o->moved, l, i)[j] = w[0] + dt * (wind - quarter * jacobian - w[0]);
    }
  meet();
  double *before = l->f;
  l->f = o->moved;
  o->moved = before;
}

static void open_basin(struct ocean *o, long k, long steps) {
  for (long side = (1L << k) + 1; side >= 5 && o->levels < LEVELS; side = side / 2 + 1) {
    struct level *l = &o->level[o->levels++];
    size_t size = sizeof(double) * (size_t)(side * side);
    struct band rows = band(side - 2);
    *l = (struct level){.side = side,
                        .step = 1 / (double)(side - 1),
                        .u = SHARED(size),
                        .f = SHARED(size),
                        .rest = SHARED(size),
                        .rows = {1 + rows.first, 1 + rows.last}};
  }
  o->moved = SHARED(sizeof(double) * (size_t)(o->level[0].side * o->level[0].side));
  o->worst = SHARED(sizeof(double) * (size_t)(steps * CYCLES));
}

int main(int count, char **arguments) {
  long k = flag(count, arguments, "-k", 8, 2, 13),
       steps = flag(count, arguments, "-s", 4, 1, 10000);
  struct ocean o = {.levels = 0};
  maru_dsm_init();
  open_basin(&o, k, steps);
  double begin = seconds(), dt = o.level[0].step / 2;
  meet();
  for (long step = 0; step < steps; step++) {
    move(&o, dt);
    solve(&o, o.worst + step * CYCLES);
  }
  took(count, arguments, begin);
  if (maru_dsm_node() == 0) {
    long side = o.level[0].side;
    printf("ocean %ld x %ld, %ld steps: current %.6f, %016llx\n", side, side, steps,
           o.level[0].u[side / 2 * side + side / 2],
           (unsigned long long)checksum(o.level[0].u, sizeof(double) * (size_t)(side * side)));
  }
  maru_dsm_exit();
  return 0;
}
