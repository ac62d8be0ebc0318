/* save.h: a core as bytes, for a checkpoint (internal to libmaru-dsm).
 *
 * All nodes of a job are saved at a *cut*. Each node's computing thread makes no request then, or
 * waits for a grant (mr_core_rests). No message is on its way. Whether one is, the counts of
 * mr_core_traffic say: if all nodes rest, and none has received a message since, and as many were
 * received as sent.  A node that rests has nothing of its own: one that waits is asked to send it
 * home (mr_core_clean). So what the homes have is all there is.  Saved are: the pages of which this
 * node is the home and that were ever written; the objects that it manages; its locks; what its
 * thread waits for.
 *
 * Where histories begin anew (mr_core_load_own) copies of pages stay, for to fetch them again costs
 * more than the rest of a checkpoint. So all have to know which are old: a node that stands still
 * tells all of its intervals, and acquires what others tell. Then a copy that is valid is what its
 * home has, or its home is alone. Saved are copies as well, which others are old, and with which
 * pages a home is alone. So is what a node has learnt: which pages it uses with one that it asks
 * for, and which it writes beside one.
 *
 * Pages are given one by one, each with a *stamp*.  Of one page that a core gives twice, equal
 * stamps that are not 0 say equal bytes: so a page that nobody changed need not be looked at.
 *
 * A loaded core begins a history of its own: vector times are zero, copies elsewhere are invalid,
 * and each page is at the home that saved it.  So nothing of times and intervals is saved.
 * Each node reads of all nodes' bytes which pages are where.
 *
 * Thread-safety: as the core.  Errors are negative errno.
 */
#ifndef MARU_DSM_SAVE_H
#define MARU_DSM_SAVE_H

#include "core.h"

/* The computing thread makes no request or waits for a grant, and has nothing of its own that
 * others have not heard of. */
bool mr_core_rests(const struct mr_core *core);
/* It waits for a grant, and sends nothing home meanwhile. */
bool mr_core_waits(const struct mr_core *core);
/* The computing thread waits for a grant, or stands still without a request: what it wrote goes
 * home now, and where histories begin anew all hear of it. To be called again when that has come to
 * rest: others may have told of theirs. A grant that comes before takes effect when it is done:
 * `done` is not called before, nor by this call. Nothing is done while the thread waits for
 * something else. 0; -ECANCELED. */
int mr_core_clean(struct mr_core *core);
/* Messages, but those that look (deadlock.c). */
void mr_core_traffic(const struct mr_core *core, uint64_t *sent, uint64_t *received);

/* How many pages mr_core_save would give now.  In proportion to the job's pages. */
size_t mr_core_saved_pages(const struct mr_core *core);

struct mr_save {
  void *context;
  /* Take the next bytes; the next page.  What they return below 0 ends the saving. */
  int (*put)(void *context, const void *bytes, size_t length);
  int (*page)(void *context, uint32_t page, uint64_t stamp, const uint8_t *bytes);
};

/* -EBUSY: the core does not rest; -ENOMEM; what `to` said. */
int mr_core_save(const struct mr_core *core, const struct mr_save *to);

struct mr_saved {
  const uint8_t *bytes;
  size_t length;
};

/* Of this node: the page that was given as that one, from 0; NULL: there were not so many. */
typedef const uint8_t *mr_saved_page(void *context, size_t number);
/* Calls for each such page, in their order, with its number; below 0: what it returned, or
 * -EBADMSG. */
int mr_core_list_pages(const struct mr_saved *saved, int (*each)(void *context, uint32_t page),
                       void *context);

/* Into a core that is new, of the same nodes, pages and objects: what all nodes saved at one cut,
 * `saved` by their numbers.  Its computing thread waits afterwards as it did. Its memory holds its
 * pages.  `protect` is not called: the shell allows nothing yet, and the first access asks.
 * -EBADMSG: these bytes are no such cut; then, and with -ENOMEM, the core is good for nothing but
 * mr_core_destroy. */
int mr_core_load(struct mr_core *core, const struct mr_saved *saved, mr_saved_page *page_of,
                 void *context);

/* The same with a history that begins anew, from this node's own bytes, where all nodes do that at
 * one cut: by mr_core_renew where they go on, by this in a new core.  Both cores are alike then, so
 * what the one did after the cut the other does again if it is asked and told the same (journal.h).
 * Times are zero, and every page is to be asked for again: what is here comes without a message.
 * `page_of` NULL: the core's memory holds its pages.  -EPROTO: they were saved where no history
 * begins anew, without copies. */
int mr_core_load_own(struct mr_core *core, const struct mr_saved *saved, mr_saved_page *page_of,
                     void *context);
/* Of a core that rests.  `protect` allows nothing.  Time and memory: about the job's pages. -EBUSY:
 * it does not rest; -ENOMEM: nothing has changed. */
int mr_core_renew(struct mr_core *core);

#endif
