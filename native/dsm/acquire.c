#include "state.h"

/* By the diffs that came with notices; whether some copy became newer. */
static bool renew_by(struct mr_core *core, const struct mr_interval *interval) {
  const uint8_t *diff = mr_interval_diffs(interval);
  bool renewed = false;
  for (uint32_t i = 0; i < interval->count && interval->bytes > 0; i++) {
    renewed |= mr_renew(core, &interval->notices[i], diff);
    diff += interval->notices[i].length;
  }
  return renewed;
}

static bool renew_once(struct mr_core *core, const uint64_t *time) {
  bool renewed = false;
  const struct mr_interval *interval;
  for (uint16_t q = 0; q < core->config.nodes; q++)
    for (uint64_t number = core->time[q] + 1; q != core->config.me && number <= time[q] &&
                                              (interval = mr_intervals_at(core->log, q, number));
         number++)
      renewed |= renew_by(core, interval);
  return renewed;
}

int mr_acquire(struct mr_core *core, const uint64_t *time) {
  /* Again while it helps: one node's versions may lie between another's. */
  while (renew_once(core, time))
    ;
  if (core->stopped)
    return -ECANCELED;
  for (uint16_t q = 0; q < core->config.nodes; q++) {
    if (q == core->config.me)
      continue;
    for (uint64_t number = core->time[q] + 1; number <= time[q]; number++) {
      const struct mr_interval *interval = mr_intervals_at(core->log, q, number);
      if (interval == NULL)
        return mr_fail(core, -EPROTO, "a grant without the write notices of node", q);
      for (uint32_t i = 0; i < interval->count; i++)
        mr_invalidate(core, &interval->notices[i]);
    }
  }
  mr_settle(core);
  mr_time_join(core->time, time, core->config.nodes);
  return 0;
}

int mr_acquire_later(struct mr_core *core) {
  int rc = core->has_later ? mr_acquire(core, core->later) : 0;
  core->has_later = false;
  return rc;
}
