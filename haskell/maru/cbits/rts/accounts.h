/*
 * What the collector of this process counts of open regions: nothing, until they are released.
 *
 * A region is no work for it: nothing in it is copied, and no garbage can be freed. The run-time
 * system would count it four times: as words of the nursery, so that a worker's birth forces a
 * collection; as blocks of the old generation against its threshold, so that a major one follows;
 * as live memory, in proportion to which the next threshold is set, so that 64 MiB of garbage
 * pile up beside each region, in the parent and in every worker; and against the heap's bound (-M,
 * memoryMiB), so that two regions alone break one of 256 MiB.
 *
 * Called unsafely: no collection happens meanwhile.
 */
#ifndef MARU_RTS_ACCOUNTS_H
#define MARU_RTS_ACCOUNTS_H

#include "internals.h"

#if MARU_RTS_REGIONS
struct account;

/* NULL: no memory. Freed by free, or by account_close. */
struct account *account_new(void);

/* The compact region that begins with the block `first` has just grown by so many blocks, which
   were not charged to the nursery. */
void account_open(struct account *account, const bdescr *first, size_t blocks);

/* What open regions add to a bound of the heap, in blocks. */
size_t account_bound(void);

/* From now on what is left of it counts like anything that this process has allocated. */
void account_close(const bdescr *first);
#endif

#endif
