/* shown.h: where a page lies that nodes of the same host may copy by themselves (internal to
 * libmaru-dsm).
 *
 * A home *shows* each of its pages in a word that they share. The page is in its memory, or in its
 * twin where the home itself writes it. Or the page is hidden, and has to be asked for.  A reader
 * looks at the word, copies the page, and looks again. Where the word is another, the copy counts
 * for nothing. Each change of what is shown has a number of its own. So a page that was written,
 * and is shown again as it was, does not look the same.
 *
 * A page that its home is alone with (core.h) is shown as such. The first reader *takes* it, by an
 * exchange, before it copies. The home hears of that when it hides the page, which it does before
 * it writes. So either the reader has not got the page, or the home makes a twin.
 *
 * The protocol is models/dsm-shown.pml.  A home that dies leaves each page as it showed it last.
 * Whether that still counts is the reader's caller's business, to be asked after the copy.
 *
 * Thread-safety: one owner hides and shows; any process may copy. Wait-free.
 */
#ifndef MARU_DSM_SHOWN_H
#define MARU_DSM_SHOWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum mr_place_shown { MR_HIDDEN, MR_SHOWN_ALONE, MR_SHOWN, MR_SHOWN_TWIN };

/* All zero: hidden. */
struct mr_shown {
  _Atomic uint64_t word; /* enum mr_place_shown, and from bit 2 on the number of changes */
  _Atomic uint64_t version;
};

/* What is changed afterwards is in no copy that counts.  Whether the page was shown as anybody's:
 * where the home had shown itself alone with it, a reader has taken it. */
bool mr_shown_hide(struct mr_shown *shown);
/* Hides it first: nothing else changes while a page is shown.  Release: a reader sees
 * what was written before. */
void mr_shown_show(struct mr_shown *shown, enum mr_place_shown place, uint64_t version);

/* Copies MR_PAGE bytes of `memory` or `twin`, both aligned to 8, to `bytes`.  -ENOENT: hidden;
 * -EAGAIN: it changed meanwhile, what is in `bytes` counts for nothing. */
int mr_shown_copy(struct mr_shown *shown, const void *memory, const void *twin, void *bytes,
                  uint64_t *version);

#endif
