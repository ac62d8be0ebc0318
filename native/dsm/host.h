/* host.h: which host this is, from its start to its end (internal to libmaru-dsm). */
#ifndef MARU_DSM_HOST_H
#define MARU_DSM_HOST_H

#include <stdbool.h>

#define MR_HOST_ID 36
#define MR_HOST_NAMED "/proc/sys/kernel/random/boot_id"

/* False: it cannot be read. */
bool mr_host_find(char id[MR_HOST_ID]);

#endif
