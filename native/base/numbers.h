/* numbers.h: numbers in text, whole or not at all (internal).
 *
 * Thread-safety: all are safe anywhere.
 */
#ifndef MARU_NUMBERS_H
#define MARU_NUMBERS_H

#include <stdint.h>

/* All of text as a decimal number from least to most. Returns 0, -EINVAL where text is no
 * number, or -ERANGE; *number is left as it was then. */
int mr_whole(const char *text, int64_t least, int64_t most, int64_t *number);
int mr_real(const char *text, double least, double most, double *number);

#endif
