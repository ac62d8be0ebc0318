/* words.c: test and test-and-set.
 *
 * A release wakes all who sleep; each arms the word again before it sleeps again, and
 * one that takes it leaves the mark of the others in place.  So whoever sleeps has its
 * mark in the word, and the next release sees it. */
#include "words.h"

#include <stdatomic.h>

bool mr_word_try(_Atomic uint32_t *word) {
  /* Relaxed: the exchange below decides. */
  uint32_t seen = atomic_load_explicit(word, memory_order_relaxed);
  while (!(seen & MR_SET))
    /* Acquire: what the last holder did is visible. */
    if (atomic_compare_exchange_weak_explicit(word, &seen, seen | MR_SET, memory_order_acquire,
                                              memory_order_relaxed))
      return true;
  return false;
}

int mr_word_acquire(_Atomic uint32_t *word, struct mr_waiting *waiting,
                    const struct mr_deadline *deadline) {
  int rc = 0;
  while (rc == 0 && !mr_word_try(word))
    rc = mr_waiting_for(waiting, word, 0, MR_SET, deadline);
  return rc;
}

void mr_word_release(_Atomic uint32_t *word) { maru_notify_store(word, 0); }
