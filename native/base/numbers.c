/* numbers.c: see numbers.h. */
#include "numbers.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

int mr_whole(const char *text, int64_t least, int64_t most, int64_t *number) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  /* strtoll passes over spaces; a number of ours has none. */
  if (end == text || *end != '\0' || isspace((unsigned char)*text))
    return -EINVAL;
  if (errno == ERANGE || value < least || value > most)
    return -ERANGE;
  *number = value;
  return 0;
}

int mr_real(const char *text, double least, double most, double *number) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end != '\0' || isspace((unsigned char)*text))
    return -EINVAL;
  if (!(value >= least && value <= most)) /* nor is it NaN */
    return -ERANGE;
  *number = value;
  return 0;
}
