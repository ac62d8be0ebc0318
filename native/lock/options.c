/* options.c: what a lock is made of. */
#include "kinds.h"

#include <errno.h>

#define PASSES 64
#define MALTHUSIAN_RANGE 0x400

int maru_lock_options_init(struct maru_lock_options *options, enum maru_lock_kind kind) {
  if ((unsigned)kind >= MARU_LOCK_KINDS)
    return -EINVAL;
  *options = (struct maru_lock_options){
      .kind = kind,
      .wait = MARU_WAIT_ADAPTIVE,
      .handoff_range = kind == MARU_LOCK_MALTHUSIAN ? MALTHUSIAN_RANGE : MARU_LOCK_RANGE_MAX,
      .shuffle_reduction = 1,
      .max_bypass = MARU_LOCK_UNBOUNDED,
      .passes = PASSES,
      .seed = 1};
  return 0;
}

bool mr_is_lock_range(uint64_t range) {
  return range > 0 && range <= MARU_LOCK_RANGE_MAX && (range & (range - 1)) == 0;
}

int mr_options_check(const struct maru_lock_options *options) {
  bool good = (unsigned)options->kind < MARU_LOCK_KINDS &&
              mr_is_lock_range(options->handoff_range) &&
              mr_is_lock_range(options->shuffle_reduction) && options->deadline_ns <= INT64_MAX &&
              options->passes > 0 && options->seed > 0 &&
              (options->spin_ns == 0 || maru_wait_takes_spin(options->wait));
  return good ? 0 : -EINVAL;
}
