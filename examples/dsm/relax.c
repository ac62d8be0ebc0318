/* Red-black Gauss-Seidel relaxation of a square grid with one hot edge, the kernel
 * of ocean simulations.  Each node has a band of rows and reads its neighbours' edges.
 * Points of one colour depend on the other colour alone, so the grid is the same, to the
 * bit, on any number of nodes.
 *
 *     maru launch -n 4 -- ./relax [SIDE [SWEEPS]]
 */
#include <maru/dsm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void sweep(double *grid, int side, int first, int last, int colour) {
  for (int i = first; i < last; i++)
    for (int j = 1 + (i + colour) % 2; j < side - 1; j += 2) {
      double *at = grid + (size_t)i * side + j;
      *at += 1.5 * ((at[-1] + at[1] + at[-side] + at[side]) / 4 - *at);
    }
}

/* FNV-1a over the grid's bytes. */
static uint64_t checksum(const double *grid, int side) {
  uint64_t sum = UINT64_C(14695981039346656037), bits;
  for (size_t i = 0; i < (size_t)side * side; i++) {
    memcpy(&bits, &grid[i], sizeof bits);
    for (int byte = 0; byte < 8; byte++)
      sum = (sum ^ (bits >> 8 * byte & 255)) * UINT64_C(1099511628211);
  }
  return sum;
}

int main(int count, char **arguments) {
  int side = count > 1 ? atoi(arguments[1]) : 258, sweeps = count > 2 ? atoi(arguments[2]) : 50;
  maru_dsm_init();
  int node = (int)maru_dsm_node(), nodes = (int)maru_dsm_nodes(), rows = side - 2;
  double *grid = side > 2 ? maru_dsm_alloc(sizeof *grid * side * side) : NULL;
  if (grid == NULL) {
    fprintf(stderr, "relax: no room for a grid of side %d\n", side);
    return 1;
  }
  int first = 1 + rows * node / nodes, last = 1 + rows * (node + 1) / nodes;
  if (node == 0)
    for (int j = 0; j < side; j++)
      grid[j] = 1;
  maru_dsm_barrier(0);
  for (int s = 0; s < 2 * sweeps; s++) {
    sweep(grid, side, first, last, s % 2);
    maru_dsm_barrier(0);
  }
  if (node == 0)
    printf("side %d, %d sweeps: %016llx\n", side, sweeps, (unsigned long long)checksum(grid, side));
  maru_dsm_exit();
}
