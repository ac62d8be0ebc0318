/* Description: a barrier of nodes that have one memory is of one size at a time, and a lock is
 * given by its holder alone. */
#include "../commons.h"

#include "check.h"

/* A node that is there waits for another number. */
static void sizes(void) {
  struct mr_gathering barrier = {0};
  uint32_t turn;
  CHECK_EQUAL(mr_gathering_come(&barrier, 3, &turn), 0);
  CHECK_EQUAL(mr_gathering_come(&barrier, 2, &turn), -EINVAL);
  CHECK_EQUAL(mr_gathering_come(&barrier, 3, &turn), 0);
  CHECK_EQUAL(mr_gathering_come(&barrier, 3, &turn), 1);
  CHECK_EQUAL(mr_gathering_come(&barrier, 1, &turn), 1);
}

static void holders(void) {
  struct mr_latch latch = {0};
  CHECK_EQUAL(mr_latch_holder(&latch), MR_LATCH_NOBODY);
  CHECK_EQUAL(mr_latch_give(&latch, 0), -EPERM);
  CHECK(mr_latch_try(&latch, 255));
  CHECK(!mr_latch_try(&latch, 255) && !mr_latch_try(&latch, 0));
  CHECK_EQUAL(mr_latch_holder(&latch), 255);
  CHECK_EQUAL(mr_latch_give(&latch, 0), -EPERM);
  CHECK_EQUAL(mr_latch_give(&latch, 255), 0);
  CHECK(mr_latch_try(&latch, 0));
}

int main(void) {
  sizes();
  holders();
  return 0;
}
