/* self.c: this process as a rank; what others of its job wait for. */
#include "self.h"

struct mr_self mr_self = {.kind = MARU_WAIT_ADAPTIVE};

bool mr_asleep(unsigned needs) {
  uint32_t asleep = 0;
  if (mr_self.job != NULL)
    for (int need = 0; need < MR_NEEDS; need++)
      if (needs & 1u << need)
        asleep |= LOAD(mr_self.job->needs[need]);
  return asleep != 0;
}
