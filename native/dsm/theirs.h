/* theirs.h: what another process has under the number of a descriptor, found by /proc (internal to
 * libmaru-dsm).
 *
 * Its process may have ended, and another have its number: the caller makes sure whose it was.
 * Errors are negative errno: -ENOENT and -EACCES among what the system says; -EPROTO: it is
 * something else. Thread-safe; changes nothing of the other process.
 */
#ifndef MARU_DSM_THEIRS_H
#define MARU_DSM_THEIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maps a memfd of that size and no other, for the caller to unmap. */
int mr_their_memory(int32_t pid, int32_t fd, size_t size, bool writes, void **at);
/* Both ends of a pipe, as a descriptor that is the caller's and does not block.  Without a reader
 * of its own the caller would end by SIGPIPE where the other is dead. */
int mr_their_pipe(int32_t pid, int32_t fd);

#endif
