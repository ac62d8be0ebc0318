#include "verdict.h"

#include <inttypes.h>
#include <stdio.h>

#define DURATION_BYTES 32

/* With three digits and a unit, as Maru.View.Table has it. */
static const char *duration(double s, char text[DURATION_BYTES]) {
  static const struct {
    double from, per_second;
    int decimals;
    const char *unit;
  } scales[] = {{100, 1, 0, "s"},     {1, 1, 2, "s"},       {0.1, 1e3, 0, "ms"},
                {1e-3, 1e3, 2, "ms"}, {1e-4, 1e6, 0, "µs"}, {1e-6, 1e6, 2, "µs"},
                {0, 1e9, 0, "ns"}};
  size_t at = 0;
  while (s < scales[at].from && at + 1 < sizeof scales / sizeof *scales)
    at++;
  if (s <= 0)
    snprintf(text, DURATION_BYTES, "0 s");
  else
    snprintf(text, DURATION_BYTES, "%.*f %s", scales[at].decimals, s * scales[at].per_second,
             scales[at].unit);
  return text;
}

void verdict_words(const struct verdict *verdict, char text[VERDICT_BYTES]) {
  char wall[DURATION_BYTES], user[DURATION_BYTES], system[DURATION_BYTES];
  snprintf(text, VERDICT_BYTES,
           "%s wall; %s user + %s system; %" PRIu64 " MiB in the largest process",
           duration(verdict->wall_s, wall), duration(verdict->user_s, user),
           duration(verdict->system_s, system), (verdict->max_rss_kib + 512) / 1024);
}
