/* mwrl_load.h: one lock under the load of maru-bench-lock. */
#ifndef MARU_MWRL_LOAD_H
#define MARU_MWRL_LOAD_H

#include "mwrl_waits.h"

#include <maru/lock.h>
#include <stdbool.h>
#include <stddef.h>

/* What is measured, but for the lock. */
struct plan {
  unsigned threads; /* or processes */
  double seconds;
  int64_t pause_ns; /* between two renames */
  bool processes;
};

struct result {
  bool finished;
  double seconds, jain;
  uint64_t renames, overtaken;
  struct histogram waits;
  struct maru_lock_counts counts;
};

/* Says what failed and ends the process. */
_Noreturn void mwrl_fail(int status, const char *what, const char *why);

/* Zeroes; of a cache line's alignment. The caller frees what is not shared. */
void *mwrl_memory(bool shared, size_t size);

/* To be called in a process of its own: it does not come back where the load does not end. */
void mwrl_measure(const struct maru_lock_options *options, const struct plan *plan,
                  struct result *result);

#endif
