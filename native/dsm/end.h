/* end.h: how a node ends that cannot go on (internal to libmaru-dsm).
 *
 * One line on standard error, then nothing of the program's runs any more.  Any thread may end the
 * process; what is said before mr_end_as is said as node 0.
 */
#ifndef MARU_DSM_END_H
#define MARU_DSM_END_H

#include "launcher.h"

#include <stdint.h>

enum {
  STATUS_USAGE = 64,
  STATUS_DATA = 65,
  STATUS_UNAVAILABLE = 69,
  STATUS_INTERNAL = 70,
  STATUS_LOST = 75
};

/* Whose last words these will be. */
void mr_end_as(uint16_t me);
/* Another launcher than ours is told that this process fails; MR_LAUNCHER_NONE: none any more.  A
 * child of the process tells nobody. */
void mr_end_tells(enum mr_launcher launcher);
/* Without a word.  `_exit` would not do: a program of threads has the library's own, by which a
 * node leaves the job (threads/job.c).  The state of this one may be locked. */
_Noreturn void mr_node_end(int status);
_Noreturn void mr_node_die(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A whole number of the environment, `otherwise` if it is not set; what is none ends the process.
 * `least` and `most` are below 2^63. */
uint64_t mr_environment_number(const char *name, uint64_t otherwise, uint64_t least, uint64_t most);

#endif
