/* numbers.h: numbers in text, whole or not at all (internal).
 *
 * Thread-safety: all are safe anywhere.
 */
#ifndef MARU_NUMBERS_H
#define MARU_NUMBERS_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* All of text as a decimal number from least to most. Returns 0, -EINVAL where text is no
 * number, or -ERANGE; *number is left as it was then. */
int mr_whole(const char *text, int64_t least, int64_t most, int64_t *number);
int mr_real(const char *text, double least, double most, double *number);

/* The decimal number that text begins with, blanks before it passed over, as the kernel writes them
 * into its files: up to a blank, a line's end or the end. `otherwise` where there is none from
 * least to most. errno is left as it was. */
static inline int64_t mr_leading(const char *text, int64_t least, int64_t most, int64_t otherwise) {
  char *end;
  int before = errno;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  int in_range = errno == 0 && value >= least && value <= most;
  errno = before;
  int whole = end != text && (*end == '\0' || *end == ' ' || *end == '\t' || *end == '\n');
  return whole && in_range ? value : otherwise;
}

#endif
