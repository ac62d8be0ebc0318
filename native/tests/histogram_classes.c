/* Description: the classes of maru/histogram.h have no gap, keep order, and their middles are at
 * most 1 % off, over the whole range. */
#include "check.h"

#include <maru/histogram.h>

static void every_class(void) {
  uint64_t next = 0;
  for (uint32_t at = 0; at < MARU_HISTOGRAM_CLASSES; at++) {
    CHECK_EQUAL(maru_histogram_first(at), next);
    next += maru_histogram_width(at);
    CHECK_EQUAL(maru_histogram_class(maru_histogram_first(at)), at);
    CHECK_EQUAL(maru_histogram_class(next - 1), at);
  }
  CHECK_EQUAL(next, UINT64_C(1) << 40);
  CHECK_EQUAL(maru_histogram_class(next), MARU_HISTOGRAM_CLASSES - 1);
  CHECK_EQUAL(maru_histogram_class(UINT64_MAX), MARU_HISTOGRAM_CLASSES - 1);
}

static void every_error(void) {
  for (uint64_t value = 1; value < UINT64_C(1) << 40; value += 1 + value / 1000) {
    uint32_t at = maru_histogram_class(value);
    double first = (double)maru_histogram_first(at),
           last = first + (double)maru_histogram_width(at) - 1;
    double off = (first + last) / 2 - (double)value;
    CHECK((off < 0 ? -off : off) <= 0.01 * (double)value);
  }
}

int main(void) {
  every_class();
  every_error();
  return 0;
}
