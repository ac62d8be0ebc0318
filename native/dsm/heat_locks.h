/* heat_locks.h: how often locks were taken, and behind whom that waited (internal to libmaru-dsm).
 *
 * Thread-safety: none.  Cost: a look into a hash table for each lock that is taken.
 */
#ifndef MARU_DSM_HEAT_LOCKS_H
#define MARU_DSM_HEAT_LOCKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct mr_lock_row;

struct mr_heat_locks {
  struct mr_lock_row *rows;
  uint32_t count, room; /* room: 0 or a power of two */
};

/* As mr_core_sink.locked says it; `kept`: this node gave it to itself.  Without memory, it is not
 * counted. */
void mr_heat_locks_note(struct mr_heat_locks *locks, uint32_t id, uint16_t giver, bool kept,
                        bool behind, uint64_t ns);
/* The lines that heat.h describes, by id. */
void mr_heat_locks_tell(const struct mr_heat_locks *locks, FILE *stream);
void mr_heat_locks_destroy(struct mr_heat_locks *locks);

#endif
