#include "shown.h"

#include "diff.h"

#include <errno.h>

#define PLACE UINT64_C(3)
#define CHANGE UINT64_C(4)

static enum mr_place_shown place_of(uint64_t word) { return (enum mr_place_shown)(word & PLACE); }

static uint64_t after(uint64_t word, enum mr_place_shown place) {
  return (word | PLACE) - PLACE + CHANGE + (uint64_t)place;
}

bool mr_shown_hide(struct mr_shown *shown) {
  /* Relaxed: only the owner changes the number. */
  uint64_t word = atomic_load_explicit(&shown->word, memory_order_relaxed);
  if (place_of(word) == MR_HIDDEN)
    return false;
  /* One exchange: a reader takes the page before it, or not at all.  Acquire: as a reader may. */
  word = atomic_exchange_explicit(&shown->word, after(word, MR_HIDDEN), memory_order_acq_rel);
  /* A reader that meets what is written from here on finds another word at its second look. */
  atomic_thread_fence(memory_order_release);
  return place_of(word) == MR_SHOWN;
}

void mr_shown_show(struct mr_shown *shown, enum mr_place_shown place, uint64_t version) {
  mr_shown_hide(shown);
  uint64_t word = atomic_load_explicit(&shown->word, memory_order_relaxed);
  /* Relaxed: the word that follows releases it, and nobody looks while the page is hidden. */
  atomic_store_explicit(&shown->version, version, memory_order_relaxed);
  atomic_store_explicit(&shown->word, after(word, place), memory_order_release);
  /* Before the program may write, where the twin is shown instead: as in mr_shown_hide. */
  atomic_thread_fence(memory_order_release);
}

/* Atomic, as another process may write there: a torn page is found by the second look. */
static void copy_page(uint64_t *to, const _Atomic uint64_t *from) {
  for (unsigned i = 0; i < MR_PAGE / sizeof *to; i++)
    to[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
}

int mr_shown_copy(struct mr_shown *shown, const void *memory, const void *twin, void *bytes,
                  uint64_t *version) {
  /* Acquire: pairs with the release that showed it. */
  uint64_t word = atomic_load_explicit(&shown->word, memory_order_acquire);
  if (place_of(word) == MR_HIDDEN)
    return -ENOENT;
  if (place_of(word) == MR_SHOWN_ALONE) {
    uint64_t taken = (word & ~PLACE) | MR_SHOWN;
    /* Another reader may take it as well. */
    if (!atomic_compare_exchange_strong_explicit(&shown->word, &word, taken, memory_order_acq_rel,
                                                 memory_order_acquire) &&
        word != taken)
      return -EAGAIN;
    word = taken;
  }
  *version = atomic_load_explicit(&shown->version, memory_order_relaxed);
  copy_page(bytes, place_of(word) == MR_SHOWN_TWIN ? twin : memory);
  /* What was copied was read before the second look. */
  atomic_thread_fence(memory_order_acquire);
  return atomic_load_explicit(&shown->word, memory_order_relaxed) == word ? 0 : -EAGAIN;
}
