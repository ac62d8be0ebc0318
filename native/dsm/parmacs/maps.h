/* maps.h: the program's own mappings (internal to libmaru-dsm).
 *
 * What the program maps without saying where lies in a part of the address space that is kept free
 * in every process. So a created process can have it at the same address. Which there are, with
 * their rights, the kernel knows (/proc/self/maps). What the program maps at an address of its own
 * is remembered, MR_MAPS_ELSEWHERE places at most.
 *
 * Thread-safety: none.  Where it fails in a way that mmap cannot say, the process ends with a line
 * (mr_node_die).
 */
#ifndef MARU_DSM_PARMACS_MAPS_H
#define MARU_DSM_PARMACS_MAPS_H

#include "image.h"

#include <sys/types.h>

#define MR_MAPS_ELSEWHERE 64

/* As mmap, mremap and munmap; for private mappings, and those of files. */
void *mr_maps_map(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *mr_maps_move(void *old, size_t old_length, size_t length, int flags, void *address);
int mr_maps_unmap(void *address, size_t length);

/* All there are now, to `ranges`, `most` at most; how many.  Below 0, and `why` says it: there are
 * more; or one changes a file, or is shared with other processes of this host, so that no other
 * node can have it. */
ssize_t mr_maps_list(struct mr_range *ranges, size_t most, char *why, size_t size);
/* There are none any more. */
void mr_maps_clear(void);
/* Such a one, readable, writable and zero, on another node. */
void mr_maps_make(const struct mr_range *range);

#endif
