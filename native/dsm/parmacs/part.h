/* part.h: a program's own part of a checkpoint: its memory that no other node has (internal to
 * libmaru-dsm).
 *
 * Ranges of memory, as at CREATE (parmacs/image.h), whose pages are in the node's store. What of
 * this library's state belongs to the program is such a range, too. Libraries lie at the same
 * addresses in all processes of the job. So does the place where the program goes on.
 *
 * Files that the program has open are opened again (files.h).  What no other process can have is
 * refused, with the reason: threads, children and other descriptors that the program has made since
 * mr_part_begin. So is what process.h says, and an environment in a library's memory.
 *
 * Thread-safety: none; the program's thread stands still meanwhile.
 */
#ifndef MARU_DSM_PART_H
#define MARU_DSM_PART_H

#include "../checkpoint.h"
#include "../node.h"
#include "image.h"

#include <ucontext.h>

#define MR_PART_RANGES 1100u

struct mr_part_ranges {
  /* All there are, `most` at most; `sp`: what of the stack is in use begins there, NULL: the
   * program does not run.  Negative errno, then `why` may say it. */
  int (*list)(uint8_t *sp, struct mr_range *ranges, size_t most, char *why, size_t size);
};

/* What mr_node_part is to be given; of those ranges. */
const struct mr_part *mr_part_of(const struct mr_part_ranges *ranges);

/* What the process has now is the library's, but for what the program had made before.  Where main
 * begins before the node does, mr_part_given says how main found the process.  mr_part_joins says
 * that the node begins. */
void mr_part_begin(void);
void mr_part_given(void);
void mr_part_joins(void);

/* Before the node starts: what the program was started with. An image of one that was started
 * otherwise is refused. */
void mr_part_runs(char *const *arguments);

/* Before the node starts: what the program throws in C++ is memory that its ranges have, or shared.
 */
void mr_part_throws_own(void);

/* The word of the calling thread's stack protector (guard.h), which is the program's, is that. */
void mr_part_guarded(uint64_t word);

/* That descriptor is the library's, too, which has opened it since. */
void mr_part_owns(int fd);

/* What the program has written to its streams leaves the process, as far as it can.  That is done
 * before each request: so a file has it at the cut. */
void mr_part_flush(void);

/* At head->own of the file, and its pages to the store; fills in the head.  Negative errno, then
 * `why` says it. */
int mr_part_write(int file, struct mr_store *store, struct mr_checkpoint_head *head,
                  const struct mr_stood *stood, char *why, size_t size);

/* maru_on_restore; and what it asked for is done, by the program's thread, where it goes on. */
int mr_part_on_restore(void (*call)(void *), void *argument);
void mr_part_restored(void);
/* Whether stdio has read from the standard input what the program has not. */
bool mr_part_reads_ahead(void);

/* Of this process, mapped: opens its files, before the node's own and before it joins. */
void mr_part_open(const struct mr_checkpoint_head *head);
/* The same, and the pages of its store. */
void mr_part_found(const struct mr_checkpoint_head *head, const uint8_t *pages);
/* The memory is as it was.  Where the program goes on, in *context; NULL: it did not run.  Call it
 * where no frame matters whose stack protector's word is another: that word becomes the image's. */
const ucontext_t *mr_part_read(int *how, ucontext_t *context);

#endif
