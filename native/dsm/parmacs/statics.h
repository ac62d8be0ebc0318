/* statics.h: what libc keeps of a program in variables of its own, for its checkpoints (internal to
 * libmaru-dsm).
 *
 * Where getopt is in the options goes with the image. What libc gives out of its own memory lies
 * here instead, for programs that maru-cc built: strtok's place, the results of localtime and its
 * like.
 *
 * Thread-safety: none; the program's thread stands still, or calls it.
 */
#ifndef MARU_DSM_STATICS_H
#define MARU_DSM_STATICS_H

#include "image.h"

struct mr_options {
  char *argument;
  int next, prints, found;
};

struct mr_options mr_options_take(void);
void mr_options_put(const struct mr_options *options);

/* What the program has made that is a library's memory; NULL: nothing. */
const char *mr_statics_made(void);
/* For a checkpoint. */
struct mr_range mr_statics_state(void);

#endif
