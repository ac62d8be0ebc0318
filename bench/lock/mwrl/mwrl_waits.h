/* mwrl_waits.h: how long the requests of maru-bench-lock waited. */
#ifndef MARU_MWRL_WAITS_H
#define MARU_MWRL_WAITS_H

#include <stdint.h>

/* Nanoseconds; from 256 on 128 classes an octave: the middle of a class is at most 0.4 %
 * off. */
#define CLASSES (256 + 56 * 128)

/* All zero: empty. */
struct histogram {
  uint64_t counts[CLASSES];
  uint64_t total, largest;
};

void mwrl_note(struct histogram *histogram, uint64_t value);
void mwrl_merge(struct histogram *into, const struct histogram *from);

/* The value that a share of `part` is not above; no larger than the largest. */
double mwrl_quantile(const struct histogram *histogram, double part);
/* The mean of the largest hundredth (CVaR 1 %). */
double mwrl_mean_of_worst(const struct histogram *histogram);
/* Of the values above limit, in parts of 1; 0 of none. */
double mwrl_share_above(const struct histogram *histogram, double limit);

#endif
