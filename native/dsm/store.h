/* store.h: the pages of a node's images, in a file of slots (internal to libmaru-dsm).
 *
 * An image is a list of slots.  A page that is as it was in the last whole image keeps its slot,
 * and is not copied.  One that has changed goes to a slot that the last whole image has not.  So at
 * every moment the slots of the last whole image are untouched, and an image takes time and room by
 * what has changed.
 *
 * A page is known by a *key*, which is not 0.  Whether it has changed its bytes say, or a *stamp*:
 * of one key, equal stamps that are not 0 say equal bytes, and neither is read then.
 *
 * Time: by what has changed, and a look for each page; without a stamp, a comparison.  Memory: 24
 * bytes a page beside the file, which holds the last whole image and what changed since.
 * Thread-safety: none.  Errors are negative errno.
 */
#ifndef MARU_DSM_STORE_H
#define MARU_DSM_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_store;

/* Of that file, which it closes in the end; the caller's where it fails. */
int mr_store_open(struct mr_store **store, int file);
/* NULL: nothing. */
void mr_store_close(struct mr_store *store);

/* Counts there each page that is put. */
void mr_store_count(struct mr_store *store, _Atomic uint64_t *put);

/* Of the image that a process before made whole: that page is in that slot. -EBADMSG: the file has
 * no such slot, or the slot or the key is another page's. */
int mr_store_adopt(struct mr_store *store, uint64_t key, uint32_t slot);

/* An image of about so many pages is to be made: makes room for what will have changed, as much as
 * last time at least.  What was not foreseen finds room as well, later. */
int mr_store_expect(struct mr_store *store, size_t pages);
/* Of the image that is made: its next page, of `length` bytes, a page at most. */
int mr_store_put(struct mr_store *store, uint64_t key, uint64_t stamp, const void *bytes,
                 size_t length);
/* That image is the last whole one, or is given up.  Another begins. */
void mr_store_end(struct mr_store *store, bool whole);

/* Of the image that is made: slots in the order of pages, and how many of them are new. */
const uint32_t *mr_store_slots(const struct mr_store *store, size_t *count);
size_t mr_store_changed(const struct mr_store *store);
/* All slots; where they are until the next page is put, or room reserved. */
const uint8_t *mr_store_pages(const struct mr_store *store);

#endif
