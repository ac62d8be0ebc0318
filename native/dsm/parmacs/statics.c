#define _GNU_SOURCE
#include "statics.h"

#include <maru/parmacs.h>
#include <unistd.h>

static struct maru_parmacs_statics statics;

struct maru_parmacs_statics *maru_parmacs_statics(void) {
  return &statics;
}

struct mr_range mr_statics_state(void) {
  return (struct mr_range){.from = (uint8_t *)&statics, .to = (uint8_t *)(&statics + 1)};
}

const char *mr_statics_made(void) {
  static const char *const names[MARU_PARMACS_MADE] = {"iconv_open", "newlocale",
                                                       "std::locale(NAME)"};
  for (int i = 0; i < MARU_PARMACS_MADE; i++)
    if (statics.made[i] > 0)
      return names[i];
  return NULL;
}

struct mr_options mr_options_take(void) {
  return (struct mr_options){.argument = optarg, .next = optind, .prints = opterr, .found = optopt};
}

void mr_options_put(const struct mr_options *options) {
  optarg = options->argument;
  optind = options->next;
  opterr = options->prints;
  optopt = options->found;
}
