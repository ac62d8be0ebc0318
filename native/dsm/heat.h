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

/* NULL: not asked for (MARU_DSM_REPORT), or no memory. */
struct mr_heat *mr_heat_create(uint32_t pages);
void mr_heat_fault(struct mr_heat *heat, uint32_t page, bool write);
/* From now on the program may do that much.  `memory` and `twin` are the page's. */
void mr_heat_allow(struct mr_heat *heat, uint32_t page, enum mr_access access,
                   const uint8_t *memory, const uint8_t *twin);
/* `site` is kept by address. */
void mr_heat_site(struct mr_heat *heat, size_t offset, size_t size, const char *site);
/* Writes it to standard error, for the agent, a line each, and ends:
 *     maru: heat: page NUMBER READS WRITES LINES    LINES: a bit per line, hexadecimal
 *     maru: heat: site OFFSET SIZE NAME */
void mr_heat_tell(struct mr_heat *heat);

#endif
