/* words.h: locks that are one or two words (internal). */
#ifndef MARU_LOCK_WORDS_H
#define MARU_LOCK_WORDS_H

#include "waiting.h"

#include <stdbool.h>

/* MR_SET while a thread has it; the first that comes gets it. */
bool mr_word_try(_Atomic uint32_t *word);
int mr_word_acquire(_Atomic uint32_t *word, struct mr_waiting *waiting,
                    const struct mr_deadline *deadline);
void mr_word_release(_Atomic uint32_t *word);

#endif
