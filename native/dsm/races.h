/* races.h: two nodes wrote the same bytes, and nothing ordered them (internal to libmaru-dsm).
 *
 * A page's home receives every diff of it. Each diff says which bytes its writer changed, which of
 * the writer's intervals that was, and also what the writer had acquired by then (its vector time).
 * Two diffs of two writers are concurrent where the later one's writer had not acquired the earlier
 * one's interval. Bytes that both changed are a race. The other way round need not be asked: an
 * interval whose diff comes later has not ended, so nobody can have acquired it.
 *
 * Never said of what is ordered. Not found: a byte that is written with the value it had, since no
 * diff has it. A write before an acquire in the same interval, which counts as one after it. Races
 * between reads and writes. And what was forgotten: of each page the last MR_RACES_KEPT diffs that
 * some node has not acquired are kept. Cost: 512 bytes and a vector time a diff kept, and a
 * comparison with each of them for each diff that comes. Source: docs/dsm.md. Thread-safety: none.
 */
#ifndef MARU_DSM_RACES_H
#define MARU_DSM_RACES_H

#include "diff.h"

#include <stdint.h>

#define MR_RACES_KEPT 64u

struct mr_races;

/* Bytes `first` to `last` of the page, by nodes `one` and `other`.  A byte is told of once. */
typedef void mr_race(void *context, uint32_t page, uint32_t first, uint32_t last, uint16_t one,
                     uint16_t other);

/* -ENOMEM. */
int mr_races_create(struct mr_races **races, uint32_t pages, uint16_t nodes, mr_race *race,
                    void *context);
void mr_races_destroy(struct mr_races *races);

/* As the home of `page`: `diff`, with masks, came from `writer`, of its interval `interval`;
 * `time`: what the writer had acquired; `floor`: what all nodes have.  Where memory is refused, the
 * diff is not kept. */
void mr_races_diff(struct mr_races *races, uint32_t page, uint16_t writer, uint64_t interval,
                   const uint64_t *time, const uint64_t *floor, const struct mr_diff *diff);
/* The same of what the home `me` itself has written in its running interval, which overlaps the
 * diff that came just now from `writer`: what both changed is lost to the home's own diff. */
void mr_races_own(struct mr_races *races, uint32_t page, uint16_t me, uint16_t writer,
                  const struct mr_diff *own, const struct mr_diff *diff);

#endif
