#include <maru/dsm.h>
#include <stdio.h>

int main(void) {
  maru_dsm_init();
  long *sum = maru_dsm_alloc(sizeof *sum);
  maru_dsm_lock(0);
  *sum += maru_dsm_node() + 1;
  maru_dsm_unlock(0);
  maru_dsm_barrier(0);
  printf("node %u of %u: the sum is %ld\n", maru_dsm_node(), maru_dsm_nodes(), *sum);
  maru_dsm_exit();
}
