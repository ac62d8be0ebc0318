/* mwrl_waits.c: see mwrl_waits.h. */
#include "mwrl_waits.h"

static unsigned class_of(uint64_t value) {
  if (value < 256)
    return (unsigned)value;
  unsigned octave = 63 - (unsigned)__builtin_clzll(value);
  return 256 + (octave - 8) * 128 + (unsigned)(value >> (octave - 7) & 127);
}

static double middle_of(unsigned class) {
  if (class < 256)
    return class;
  unsigned octave = (class - 256) / 128 + 8;
  double width = (double)(UINT64_C(1) << (octave - 7));
  return (128 + (class - 256) % 128 + 0.5) * width;
}

void mwrl_note(struct histogram *histogram, uint64_t value) {
  histogram->counts[class_of(value)]++;
  histogram->total++;
  if (value > histogram->largest)
    histogram->largest = value;
}

void mwrl_merge(struct histogram *into, const struct histogram *from) {
  for (unsigned i = 0; i < CLASSES; i++)
    into->counts[i] += from->counts[i];
  into->total += from->total;
  if (from->largest > into->largest)
    into->largest = from->largest;
}

double mwrl_quantile(const struct histogram *histogram, double part) {
  double wanted = part * (double)histogram->total, seen = 0;
  for (unsigned i = 0; i < CLASSES; i++) {
    seen += (double)histogram->counts[i];
    if (seen >= wanted && seen > 0)
      return middle_of(i) < (double)histogram->largest ? middle_of(i) : (double)histogram->largest;
  }
  return 0;
}

double mwrl_mean_of_worst(const struct histogram *histogram) {
  double left = (double)histogram->total / 100, wanted = left, sum = 0;
  for (unsigned i = CLASSES; i-- > 0 && left > 0;) {
    double taken = (double)histogram->counts[i] < left ? (double)histogram->counts[i] : left;
    sum += taken * middle_of(i);
    left -= taken;
  }
  return wanted > 0 ? sum / wanted : 0;
}

double mwrl_share_above(const struct histogram *histogram, double limit) {
  uint64_t above = 0;
  for (unsigned i = CLASSES; i-- > 0 && middle_of(i) > limit;)
    above += histogram->counts[i];
  return histogram->total > 0 ? (double)above / (double)histogram->total : 0;
}
