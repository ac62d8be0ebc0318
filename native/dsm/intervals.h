/* intervals.h: which node wrote which pages, interval by interval (internal to
 * libmaru-dsm).
 *
 * A node's *interval* ends where it releases; intervals of a node are numbered
 * from 1.  An interval's *write notices* name the pages that it changed and the
 * version that each page has at its home since.  A *vector time* holds, for
 * each node, the number of its newest interval that has been acquired.
 *
 * A notice may bear what changed, as a packed diff: a node that has the version before needs no
 * fetch.
 *
 * The log keeps the intervals of every node without a gap, from the oldest that
 * somebody may still ask for to the newest known.  One allocation an interval; a
 * trim frees them.  Thread-safety: none, the owner calls one at a time.
 * Source: home-based lazy release consistency (seed 3, reference 3).
 */
#ifndef MARU_DSM_INTERVALS_H
#define MARU_DSM_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

struct mr_notice {
  uint64_t version; /* of the page at its home, this interval's changes included */
  uint32_t page;
  uint32_t length; /* of its diff, 0: none; the diffs of an interval lie one after the other */
};

struct mr_interval {
  uint32_t count;
  uint32_t bytes; /* of all diffs */
  struct mr_notice notices[];
};

static inline const uint8_t *mr_interval_diffs(const struct mr_interval *interval) {
  return (const uint8_t *)(interval->notices + interval->count);
}

struct mr_intervals;

/* An empty log of `nodes` nodes, or -ENOMEM. */
int mr_intervals_create(struct mr_intervals **log, uint16_t nodes);
void mr_intervals_destroy(struct mr_intervals *log);

/* The newest interval known of `node`, 0 if none. */
uint64_t mr_intervals_known(const struct mr_intervals *log, uint16_t node);
/* How many intervals of all nodes are held. */
uint64_t mr_intervals_held(const struct mr_intervals *log);
/* How many bytes their notices and diffs are. */
uint64_t mr_intervals_bytes(const struct mr_intervals *log);

/* Adds interval `number` of `node` with a copy of its notices and of their diffs.  One that is
 * known already changes nothing.  -EPROTO: one between is missing, or it is known
 * with other notices.  -ENOMEM. */
int mr_intervals_add(struct mr_intervals *log, uint16_t node, uint64_t number,
                     const struct mr_notice *notices, uint32_t count, const uint8_t *diffs);

/* The interval `number` of `node`; NULL if it is not held. */
const struct mr_interval *mr_intervals_at(const struct mr_intervals *log, uint16_t node,
                                          uint64_t number);

/* Nobody will ask for `node`'s intervals up to `number` any more. */
void mr_intervals_trim(struct mr_intervals *log, uint16_t node, uint64_t number);

/* ---- vector times: arrays of one number per node -------------------------- */

/* Each of `time` becomes the greater of it and `other`. */
static inline void mr_time_join(uint64_t *time, const uint64_t *other, uint16_t nodes) {
  for (uint16_t q = 0; q < nodes; q++)
    time[q] = time[q] > other[q] ? time[q] : other[q];
}

/* Each of `time` becomes the smaller. */
static inline void mr_time_meet(uint64_t *time, const uint64_t *other, uint16_t nodes) {
  for (uint16_t q = 0; q < nodes; q++)
    time[q] = time[q] < other[q] ? time[q] : other[q];
}

#endif
