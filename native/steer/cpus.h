/* cpus.h: sets of CPUs and how the kernel writes them. */
#ifndef MARU_STEER_CPUS_H
#define MARU_STEER_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MR_CPUS_MAX 8192
/* The longest text: every second CPU, each of up to four digits and a comma. */
#define MR_CPUS_TEXT (MR_CPUS_MAX / 2 * 5 + 1)

struct mr_cpus {
  uint64_t bits[MR_CPUS_MAX / 64];
};

/* "0-3,8" and "ffffffff,00000001"; false when the text is neither.  Empty text: no CPU. */
bool mr_cpus_parse_list(const char *text, struct mr_cpus *set);
bool mr_cpus_parse_mask(const char *text, struct mr_cpus *set);
/* As a list, ending in '\0'. */
void mr_cpus_list(const struct mr_cpus *set, char text[MR_CPUS_TEXT]);

bool mr_cpus_empty(const struct mr_cpus *set);
bool mr_cpus_equal(const struct mr_cpus *a, const struct mr_cpus *b);
void mr_cpus_keep(struct mr_cpus *set, const struct mr_cpus *others);

/* A thread's affinity; 0 or a negative errno. */
int mr_cpus_get(pid_t tid, struct mr_cpus *set);
int mr_cpus_set(pid_t tid, const struct mr_cpus *set);

#endif
