/* A drop of water: molecules of three atoms that move by Newton's law. Every pair of molecules
 * attracts and repels each other (Coulomb between all atoms, Lennard-Jones between oxygens). The
 * atoms of one are held together by springs. Each node sums the forces of its pairs for itself,
 * then adds them to everybody's, a block of molecules at a time, under a lock. Forces and energies
 * are added as whole numbers, so their order does not matter. The result is the same, to the bit,
 * on any number of nodes. Checked: all forces together are zero, exactly; energy is kept.
 *
 *     maru launch -n 4 -- ./water [-n 216] [-s 10] [-t 1]       n molecules, s steps
 *
 * Units: A, kcal/mol, atomic mass units; time in 48.888 fs.  Constants of the SPC/Fw model, its
 * angle as a spring between the hydrogens.
 */
#include "example.h"

#include <math.h>

#define ATOMS 3 /* O, H, H */
#define BLOCK 16
#define STEP 0.005 /* 0.24 fs */
#define WHOLE 0x1p24
#define ROOM 3.1 /* A between molecules at first */

struct vector {
  double x, y, z;
};

struct molecule {
  struct vector at[ATOMS], speed[ATOMS];
};

struct force {
  int64_t x, y, z;
};

struct pull {
  struct force on[ATOMS];
};

struct drop {
  long molecules;
  struct molecule *molecule;
  struct pull *pull;
  int64_t *kinetic, *potential; /* one a step */
};

static const double mass[ATOMS] = {15.9994, 1.008, 1.008};
static const double charge[ATOMS] = {-0.82, 0.41, 0.41};

static struct vector minus(struct vector a, struct vector b) {
  return (struct vector){a.x - b.x, a.y - b.y, a.z - b.z};
}

static double square(struct vector a) { return a.x * a.x + a.y * a.y + a.z * a.z; }

static int64_t whole(double value) { return llrint(value * WHOLE); }

/* `strength` times `along` on the one, the opposite on the other. */
static void push(struct force *one, struct force *other, struct vector along, double strength) {
  struct force f = {whole(along.x * strength), whole(along.y * strength),
                    whole(along.z * strength)};
  one->x += f.x, one->y += f.y, one->z += f.z;
  other->x -= f.x, other->y -= f.y, other->z -= f.z;
}

/* Below, each function adds to forces and returns the energy. */

static double spring(const struct molecule *m, struct pull *p, int a, int b, double k,
                     double length) {
  struct vector between = minus(m->at[a], m->at[b]);
  double now = sqrt(square(between)), longer = now - length;
  push(&p->on[a], &p->on[b], between, -k * longer / now);
  return k * longer * longer / 2;
}

static double within(const struct molecule *m, struct pull *p) {
  return spring(m, p, 0, 1, 1059.162, 1.012) + spring(m, p, 0, 2, 1059.162, 1.012) +
         spring(m, p, 1, 2, 200, 1.6554);
}

static double between(const struct molecule *m, struct pull *p, const struct molecule *n,
                      struct pull *q) {
  double energy = 0;
  for (int a = 0; a < ATOMS; a++)
    for (int b = 0; b < ATOMS; b++) {
      struct vector apart = minus(m->at[a], n->at[b]);
      double r2 = square(apart), coulomb = 332.0637 * charge[a] * charge[b] / sqrt(r2);
      double strength = coulomb / r2;
      energy += coulomb;
      if (a == 0 && b == 0) {
        double s2 = 3.165492 * 3.165492 / r2, s6 = s2 * s2 * s2;
        energy += 4 * 0.1554253 * (s6 * s6 - s6);
        strength += 24 * 0.1554253 * (2 * s6 * s6 - s6) / r2;
      }
      push(&p->on[a], &q->on[b], apart, strength);
    }
  return energy;
}

/* A molecule meets the half of the others that follow it, round the end. */
static int64_t sum_pairs(const struct drop *d, struct pull *own) {
  struct band mine = band(d->molecules);
  long n = d->molecules;
  int64_t energy = 0;
  for (long i = mine.first; i < mine.last; i++) {
    energy += whole(within(&d->molecule[i], &own[i]));
    long met = (n - 1) / 2 + (n % 2 == 0 && i < n / 2);
    for (long k = 1; k <= met; k++) {
      long j = (i + k) % n;
      energy += whole(between(&d->molecule[i], &own[i], &d->molecule[j], &own[j]));
    }
  }
  return energy;
}

/* Begins with its own molecules, where the others begin with theirs. */
static void add_pulls(const struct drop *d, const struct pull *own) {
  long blocks = (d->molecules + BLOCK - 1) / BLOCK;
  long begin = band(blocks).first;
  for (long b = 0; b < blocks; b++) {
    long block = (begin + b) % blocks, end = (block + 1) * BLOCK;
    maru_dsm_lock(1 + (uint32_t)block);
    for (long i = block * BLOCK; i < end && i < d->molecules; i++)
      for (int a = 0; a < ATOMS; a++) {
        d->pull[i].on[a].x += own[i].on[a].x;
        d->pull[i].on[a].y += own[i].on[a].y;
        d->pull[i].on[a].z += own[i].on[a].z;
      }
    maru_dsm_unlock(1 + (uint32_t)block);
  }
}

static void add(int64_t *to, int64_t value) {
  maru_dsm_lock(0);
  *to += value;
  maru_dsm_unlock(0);
}

static void find_pulls(const struct drop *d, struct pull *own, long step) {
  struct band mine = band(d->molecules);
  memset(own, 0, sizeof *own * (size_t)d->molecules);
  memset(d->pull + mine.first, 0, sizeof *own * (size_t)(mine.last - mine.first));
  maru_dsm_barrier(0);
  add(&d->potential[step], sum_pairs(d, own));
  add_pulls(d, own);
  maru_dsm_barrier(0);
}

/* Half a step's force on the speed; what energy of motion that leaves. */
static int64_t kick(const struct drop *d) {
  struct band mine = band(d->molecules);
  int64_t energy = 0;
  for (long i = mine.first; i < mine.last; i++)
    for (int a = 0; a < ATOMS; a++) {
      struct vector *speed = &d->molecule[i].speed[a];
      double part = STEP / 2 / mass[a] / WHOLE;
      speed->x += part * (double)d->pull[i].on[a].x;
      speed->y += part * (double)d->pull[i].on[a].y;
      speed->z += part * (double)d->pull[i].on[a].z;
      energy += whole(mass[a] * square(*speed) / 2);
    }
  return energy;
}

static void drift(const struct drop *d) {
  struct band mine = band(d->molecules);
  for (long i = mine.first; i < mine.last; i++)
    for (int a = 0; a < ATOMS; a++) {
      struct vector *at = &d->molecule[i].at[a], speed = d->molecule[i].speed[a];
      at->x += STEP * speed.x, at->y += STEP * speed.y, at->z += STEP * speed.z;
    }
}

/* On a lattice, each turned by chance about an axis, with chance speeds. */
static void fill(const struct drop *d) {
  struct band mine = band(d->molecules);
  long side = lround(ceil(cbrt((double)d->molecules)));
  for (long i = mine.first; i < mine.last; i++) {
    struct molecule *m = &d->molecule[i];
    double angle = 2 * M_PI * chance((uint64_t)i), opening = 109.47 / 180 * M_PI;
    struct vector o = {ROOM * (double)(i % side), ROOM * (double)(i / side % side),
                       ROOM * (double)(i / side / side)};
    for (int a = 0; a < ATOMS; a++) {
      double turned = angle + (a == 2 ? opening : 0), bond = a == 0 ? 0 : 1.012;
      uint64_t seed = (uint64_t)(1000000 + 9 * i + 3 * a);
      m->at[a] = (struct vector){o.x + bond * cos(turned), o.y + bond * sin(turned), o.z};
      m->speed[a] =
          (struct vector){chance(seed) - 0.5, chance(seed + 1) - 0.5, chance(seed + 2) - 0.5};
    }
  }
}

static void check(const struct drop *d, long steps) {
  struct force sum = {0, 0, 0};
  double before = (double)(d->potential[0] + d->kinetic[0]) / WHOLE;
  double after = (double)(d->potential[steps] + d->kinetic[steps]) / WHOLE;
  for (long i = 0; i < d->molecules; i++)
    for (int a = 0; a < ATOMS; a++) {
      sum.x += d->pull[i].on[a].x;
      sum.y += d->pull[i].on[a].y;
      sum.z += d->pull[i].on[a].z;
    }
  insist(sum.x == 0 && sum.y == 0 && sum.z == 0, "the forces are not in balance");
  insist(fabs(after - before) < 1e-2 * (double)d->kinetic[0] / WHOLE, "energy is not kept");
}

int main(int count, char **arguments) {
  struct drop d = {.molecules = flag(count, arguments, "-n", 216, 1, 100000)};
  long steps = flag(count, arguments, "-s", 10, 1, 100000);
  maru_dsm_init();
  size_t n = (size_t)d.molecules, sums = (size_t)steps + 1;
  d.molecule = SHARED(sizeof *d.molecule * n);
  d.pull = SHARED(sizeof *d.pull * n);
  d.kinetic = SHARED(sizeof *d.kinetic * sums);
  d.potential = SHARED(sizeof *d.potential * sums);
  struct pull *own = malloc(sizeof *own * n);
  insist(own != NULL, "no memory");
  double begin = seconds();
  fill(&d);
  find_pulls(&d, own, 0);
  for (long step = 0; step < steps; step++) {
    int64_t energy = kick(&d);
    if (step == 0)
      add(&d.kinetic[0], energy);
    drift(&d);
    maru_dsm_barrier(0);
    find_pulls(&d, own, step + 1);
    energy = kick(&d);
    add(&d.kinetic[step + 1], energy);
  }
  maru_dsm_barrier(0);
  took(count, arguments, begin);
  if (maru_dsm_node() == 0) {
    check(&d, steps);
    printf("water, %ld molecules, %ld steps: energy %.6f, %016llx\n", d.molecules, steps,
           (double)(d.potential[steps] + d.kinetic[steps]) / WHOLE,
           (unsigned long long)checksum(d.molecule, sizeof *d.molecule * n));
  }
  free(own);
  maru_dsm_exit();
  return 0;
}
