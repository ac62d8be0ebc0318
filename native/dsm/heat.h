/* heat.h: which shared pages cost what, for a report (internal to libmaru-dsm).
 *
 * Per page: how often this node had to ask for it to read, to write; which lines of 64 bytes it
 * changed.  Two nodes that change different lines of a page share it falsely.  And who allocated
 * what.  Off, it costs a comparison a fault; on, also a comparison of page and twin where a release
 * ends writing.  Thread-safety: the node's mutex.
 */
#ifndef MARU_DSM_HEAT_H
#define MARU_DSM_HEAT_H

#include "core.h"

#include <stdbool.h>

struct mr_heat;

/* NULL: not asked for (MARU_DSM_REPORT, or MARU_DSM_RACES, which needs the sites), or no memory. */
struct mr_heat *mr_heat_create(uint32_t pages, uint16_t me);
/* What the program's thread waits for. */
enum mr_heat_wait { MR_HEAT_FETCH, MR_HEAT_LOCK, MR_HEAT_BARRIER, MR_HEAT_WAITS };

/* The program begins to compute; in its thread, as the next three. */
void mr_heat_start(struct mr_heat *heat);
/* It waits, until mr_heat_waited. */
void mr_heat_waits(struct mr_heat *heat);
void mr_heat_waited(struct mr_heat *heat, enum mr_heat_wait what);
void mr_heat_fault(struct mr_heat *heat, const struct mr_core *core, uint32_t page, bool write);
/* From now on the program may do that much.  `memory` and `twin` are the page's
 * (mr_core_config.compares). */
void mr_heat_allow(struct mr_heat *heat, uint32_t page, enum mr_access access,
                   const uint8_t *memory, const uint8_t *twin);
/* A lock was taken (mr_core_sink.locked); under the node's mutex, by any thread. */
void mr_heat_locked(struct mr_heat *heat, uint32_t id, uint16_t giver, bool behind, uint64_t ns);
/* `site` is kept by address. */
void mr_heat_site(struct mr_heat *heat, size_t offset, size_t size, const char *site);
/* The site that allocated the byte at `offset`, and where that begins; "?": nobody. */
const char *mr_heat_site_of(const struct mr_heat *heat, size_t offset, size_t *begin);
/* clang-format off */
/* If a report was asked for, writes it to standard error, for the agent, a line each, and ends:
 *     maru: heat: page NUMBER READS WRITES LINES
 *         LINES: a bit per line, hexadecimal
 *     maru: heat: site OFFSET SIZE NAME
 *     maru: heat: node WALL COMPUTING FETCHES LOCKS BARRIERS
 *         ns since mr_heat_start: in all, of the processor outside of waits, waiting
 *     maru: heat: waits FETCHES LONGEST LOCKS LONGEST BARRIERS LONGEST
 *         how many; ns
 *     maru: heat: faults FIRST CHANGED WRITTEN HOME
 *         by reason: the page was never here; another node changed it; it was here, to be read;
 *         its home is here, and another node has a copy or it was never used
 *     maru: heat: sent KIND MESSAGES BYTES
 *         each kind that this node sent
 *     maru: heat: lock ID TAKEN KEPT WAITED LONGEST
 *         each lock: how often taken, without a message; ns from request to grant
 *     maru: heat: behind ID NODE TIMES WAITED LONGEST
 *         the same, where it came right after that node in the queue: it waited for that node's
 *         turn, and for all turns before that which were not over
 */
/* clang-format on */
void mr_heat_tell(struct mr_heat *heat, const struct mr_core_counters *counters);

#endif
