/* maru/histogram.h: the classes in which maru counts durations: log-linear, 64 an octave.
 *
 * Values below 128 have a class each.  From there on a class is 2^e wide and begins at 64 * 2^e
 * or above.  So its middle is at most 1/128 (0.8 %) off any of its values.  What is
 * 2^40 (18 minutes, in nanoseconds) or more counts in the last class.
 */
#ifndef MARU_HISTOGRAM_H
#define MARU_HISTOGRAM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MARU_OCTAVE_CLASSES 64u
#define MARU_HISTOGRAM_OCTAVES 35u /* the first holds the values below 64 */
#define MARU_HISTOGRAM_CLASSES (MARU_HISTOGRAM_OCTAVES * MARU_OCTAVE_CLASSES)

/* The class of a value: pure, constant time. */
static inline uint32_t maru_histogram_class(uint64_t value) {
  if (value >> 40 != 0)
    return MARU_HISTOGRAM_CLASSES - 1;
  /* The highest bit of value | 64 is bit 6 or above. */
  uint32_t e = 57u - (uint32_t)__builtin_clzll(value | 64);
  return e * MARU_OCTAVE_CLASSES + (uint32_t)(value >> e);
}

/* The smallest value of a class, and how many it has (1, 2, 4, ...). */
static inline uint64_t maru_histogram_first(uint32_t at) {
  uint32_t e = at < 2 * MARU_OCTAVE_CLASSES ? 0 : at / MARU_OCTAVE_CLASSES - 1;
  return (uint64_t)(at - e * MARU_OCTAVE_CLASSES) << e;
}
static inline uint64_t maru_histogram_width(uint32_t at) {
  return at < 2 * MARU_OCTAVE_CLASSES ? 1 : UINT64_C(1) << (at / MARU_OCTAVE_CLASSES - 1);
}

#ifdef __cplusplus
}
#endif
#endif
