/* example.h: what the larger programs of this folder share.  No function here has state. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <maru/dsm.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The number after `name` on the command line, `otherwise` if it is not there. */
static inline long flag(int count, char **arguments, const char *name, long otherwise, long least,
                        long most) {
  long value = otherwise;
  char *end = "";
  for (int i = 1; i < count; i++)
    if (strcmp(arguments[i], name) == 0)
      value = i + 1 < count ? strtol(arguments[i + 1], &end, 10) : least - 1;
  if (value >= least && value <= most && *end == 0)
    return value;
  fprintf(stderr, "%s: %s needs a number from %ld to %ld\n", arguments[0], name, least, most);
  exit(64);
}

/* Shared memory, or the end. */
static inline void *need(void *memory) {
  if (memory != NULL)
    return memory;
  fprintf(stderr, "not so much shared memory; `maru launch --memory MIB` gives more\n");
  exit(69);
}
#define SHARED(size) need(maru_dsm_alloc(size))

/* This node's part of `count` things. */
struct band {
  long first, last;
};

static inline struct band band_of(long count, long node, long nodes) {
  return (struct band){count * node / nodes, count * (node + 1) / nodes};
}

static inline struct band band(long count) {
  return band_of(count, maru_dsm_node(), maru_dsm_nodes());
}

/* A number that only `seed` decides: a step of SplitMix64. */
static inline uint64_t scatter(uint64_t seed) {
  uint64_t x = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* The same in [0, 1). */
static inline double chance(uint64_t seed) { return (double)(scatter(seed) >> 11) * 0x1p-53; }

/* FNV-1a over words: equal to the bit, or another number. */
static inline uint64_t checksum(const void *memory, size_t size) {
  uint64_t sum = UINT64_C(14695981039346656037), word;
  for (size_t at = 0; at + sizeof word <= size; at += sizeof word) {
    memcpy(&word, (const char *)memory + at, sizeof word);
    sum = (sum ^ word) * UINT64_C(1099511628211);
  }
  return sum;
}

static inline double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Node 0 says how long it took, where `-t 1` asks for it. */
static inline void took(int count, char **arguments, double since) {
  if (maru_dsm_node() == 0 && flag(count, arguments, "-t", 0, 0, 1) == 1)
    fprintf(stderr, "seconds: %.6f\n", seconds() - since);
}

/* A result that is checked and wrong ends the job. */
static inline void insist(int right, const char *what) {
  if (right)
    return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}

#endif
