/* stand.h: what a node counts, on its launch's board for `maru top` (internal to libmaru-dsm).
 *
 * The launcher of a host makes a board and names it in MARU_DSM_BOARD.  Each node of that host
 * writes its own line of the section "dsm", now and then.  All of it is for people to look at: a
 * reader may see a line half old and half new.  No line, or no board: nothing is shown.
 * Thread-safety: the node's mutex.
 */
#ifndef MARU_DSM_STAND_H
#define MARU_DSM_STAND_H

#include "core.h"

#include <stdint.h>

#define MR_STAND_SECTION "dsm"
#define MR_STAND_VERSION 1u
#define MR_STAND_LINES 256u

enum mr_stand_wait { MR_STAND_PAGES, MR_STAND_LOCKS, MR_STAND_BARRIERS, MR_STAND_WAITS };
/* As faults in heat.h. */
enum mr_reason { MR_FIRST, MR_CHANGED, MR_WRITTEN, MR_AT_HOME, MR_REASONS };

/* What the process counts for it besides the core. */
struct mr_stand_counts {
  /* That a message ended; by the program's thread, relaxed and without the mutex. */
  uint64_t waits[MR_STAND_WAITS], waited_ns[MR_STAND_WAITS];
  uint64_t faults[MR_REASONS];
};

/* The layout. Each word is written whole. */
struct mr_stand_line {
  uint64_t nodes;                                               /* of the job; 0: no such line */
  uint64_t messages[MR_MESSAGE_KINDS], bytes[MR_MESSAGE_KINDS]; /* sent, by enum mr_message_type */
  struct mr_stand_counts counts;
  uint64_t given, retaken; /* locks: straight to the next, without a message */
  uint64_t spare[64 - 1 - 2 * MR_MESSAGE_KINDS - 2 * MR_STAND_WAITS - MR_REASONS - 2];
};
_Static_assert(sizeof(struct mr_stand_line) == 512, "a line for each node, by its number");

struct mr_stand;

/* NULL: no launcher asked for it, `me` has no line, or the board cannot be used; a line on standard
 * error says the last. */
struct mr_stand *mr_stand_open(uint16_t me);
void mr_stand_tell(struct mr_stand *stand, uint16_t nodes, const struct mr_core_counters *counters,
                   const struct mr_stand_counts *counts);
/* NULL is allowed. */
void mr_stand_close(struct mr_stand *stand);

/* Why the node asks for the page. */
enum mr_reason mr_reason_of(const struct mr_core *core, uint32_t page);

#endif
