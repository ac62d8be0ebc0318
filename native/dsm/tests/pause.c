/* pause.c: a program of maru/dsm.h that changes all its memory between two checkpoints (pause.py).
 *
 *     pause STEPS [shared]: on each node 64 MiB of its own, and 16 MiB that it shares, each step.
 */
#include <maru/dsm.h>
#include <stdio.h>
#include <stdlib.h>

#define OWN ((size_t)64 << 20)
#define SHARED ((size_t)16 << 20)

static char own[OWN];

static void change(char *at, size_t size, int step) {
  for (size_t i = 0; i < size; i += 64)
    at[i] = (char)((size_t)step + i);
}

int main(int count, char **words) {
  if (count < 2)
    return 64;
  maru_dsm_init();
  char *part = (char *)maru_dsm_alloc(SHARED * maru_dsm_nodes()) + SHARED * maru_dsm_node();
  for (int step = 0; step < atoi(words[1]); step++) {
    change(own, OWN, step);
    if (count > 2)
      change(part, SHARED, step);
    maru_dsm_barrier(1);
  }
  printf("%d\n", own[64]);
  return 0;
}
