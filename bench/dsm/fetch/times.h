/* times.h: what the programs that measure fetches print of their times. */
#ifndef BENCH_DSM_TIMES_H
#define BENCH_DSM_TIMES_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline int by_time(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

/* A member of a JSON object. */
static inline void report(const char *what, int64_t *times, size_t count) {
  qsort(times, count, sizeof *times, by_time);
  printf("\"%s\": {\"count\": %zu, \"min\": %" PRId64 ", \"p50\": %" PRId64 ", \"p90\": %" PRId64
         ", \"p99\": %" PRId64 "}",
         what, count, times[0], times[count / 2], times[count * 9 / 10], times[count * 99 / 100]);
}

#endif
