/* times.h: what the programs that measure fetches print of their times. */
#ifndef BENCH_DSM_TIMES_H
#define BENCH_DSM_TIMES_H

#include "json.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline int by_time(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

/* A member of the object that is open. */
static inline void report(struct mr_json *json, const char *what, int64_t *times, size_t count) {
  qsort(times, count, sizeof *times, by_time);
  mr_json_object(json, what);
  mr_json_whole(json, "count", count);
  mr_json_whole(json, "min", (uint64_t)times[0]);
  mr_json_whole(json, "p50", (uint64_t)times[count / 2]);
  mr_json_whole(json, "p90", (uint64_t)times[count * 9 / 10]);
  mr_json_whole(json, "p99", (uint64_t)times[count * 99 / 100]);
  mr_json_end_object(json);
}

#endif
