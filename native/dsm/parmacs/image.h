/* image.h: the private memory of a process, written where another reads it (internal to
 * libmaru-dsm).
 *
 * An image is a number of ranges and, of them, each piece of a page that is not zero.  It is plain
 * bytes, for a reader that has the same addresses: CREATE writes it to shared memory, a checkpoint
 * to slots of a file (part.h, store.h).  A range is memory that every process has (globals, heap,
 * stack), or a mapping of the program's, which the reader makes anew (maps.h).
 *
 * Time and room in proportion to what is not zero, and some for each page of what was ever used.
 * Thread-safety: none.  Where it cannot set or make a mapping the process ends with a line
 * (mr_node_die).
 */
#ifndef MARU_DSM_PARMACS_IMAGE_H
#define MARU_DSM_PARMACS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_range {
  uint8_t *from, *to;
  bool mapped;    /* a mapping of the program's, of whole pages */
  bool anonymous; /* and of no file: pages that it does not have are zero */
  int protection; /* of it, as of mprotect */
};

struct mr_image {
  size_t count, pieces;
  struct mr_range *ranges; /* `count` of them */
  uint8_t **addresses;     /* `pieces`, ascending within a range, in the ranges' order */
  uint8_t *contents;       /* a page each */
  const uint32_t *slots;   /* which page of `contents` each has; NULL: the first has the first */
};

/* Takes a piece; what it returns below 0 ends the walk. */
typedef int mr_image_piece(void *context, uint8_t *at, size_t length);
/* Calls for each piece of those ranges, in their order, and tells of no other.  A range that
 * reaches past its file's end is cut there first.  Below 0: what `take` said, or the system. */
int mr_image_walk(struct mr_range *ranges, size_t count, mr_image_piece *take, void *context);

/* Gives room for so many bytes, at the beginning of a page; it is the image's until the next.
 * NULL: there is none. */
typedef uint8_t *mr_image_room(size_t size);

/* Of those ranges, as mr_image_walk; they are copied. Asks for room again if memory comes into use
 * meanwhile.  -EAGAIN: it goes on coming into use; -ENOMEM:
 * no room; what the system said. */
int mr_image_write(struct mr_image *image, struct mr_range *ranges, size_t count,
                   mr_image_room *room);
/* Afterwards those ranges are as they were, and no mapping of this process's program is left. */
void mr_image_read(const struct mr_image *image);

#endif
