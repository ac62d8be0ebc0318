/* ring.h: an io_uring of one thread (internal).
 *
 * Without a descriptor: the program's numbers stay what they are, and whoever closes all of them
 * does not close ours.  That needs Linux 6.5.  Raw system calls: the library that would make them
 * for us would be loaded into every program. */
#ifndef MARU_PRELOAD_IO_RING_H
#define MARU_PRELOAD_IO_RING_H

#include <stdbool.h>
#include <stdint.h>

#define IO_RING_ENTRIES 64u

struct io_ring {
  unsigned index; /* as it is registered with the thread */
  char *rings;    /* page of both rings, then the page of entries; NULL: there is none */
  uint32_t *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
  void *entries, *completions;
  unsigned unsent; /* added, and not seen by the kernel yet */
  unsigned flying; /* seen, and not taken back */
};

/* -errno: this kernel, or a sandbox, has none.  In the thread that uses it. */
int io_ring_open(struct io_ring *ring);
/* By the thread that opened it, with nothing in flight. */
void io_ring_close(struct io_ring *ring);
/* Adds a call: `number` and `arguments` as syscall(2) takes them.  False: such calls are not made
 * by a ring, or it is full. */
bool io_ring_add(struct io_ring *ring, long number, const long arguments[6], uint64_t tag);
/* Has what was added made, and waits until one call at least is done.  False: none is in flight;
 * those that io_ring_take has not told of were not made. */
bool io_ring_wait(struct io_ring *ring);
/* One that is done; false: there is none. */
bool io_ring_take(struct io_ring *ring, uint64_t *tag, long *result);

#endif
