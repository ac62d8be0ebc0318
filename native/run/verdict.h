/* verdict.h: what a run came to, in words.
 *
 *   1.34 ms wall; 1.22 ms user + 0 s system; 1 MiB in the largest process
 *
 * UTF-8, whatever the locale says.  Thread-safe.
 */
#ifndef MARU_RUN_VERDICT_H
#define MARU_RUN_VERDICT_H

#include <stddef.h>
#include <stdint.h>

#define VERDICT_BYTES 160

struct verdict {
  double wall_s, user_s, system_s;
  uint64_t max_rss_kib; /* of the largest process */
};

void verdict_words(const struct verdict *verdict, char text[VERDICT_BYTES]);

#endif
