/* maru/run.h: the section "run" on a board: what one `maru run` is running.
 *
 * The supervisor alone writes it, any process reads it.  It stores `state` last, with release
 * order, after the fields that belong to it.  So a reader that loads it with acquire order sees
 * `pid` and its kin once it sees MARU_RUN_RUNNING, and `status` once it sees MARU_RUN_ENDED.
 */
#ifndef MARU_RUN_H
#define MARU_RUN_H

#include <maru/wait.h> /* MARU_ATOMIC */
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MARU_RUN_SECTION "run"
#define MARU_RUN_VERSION 1u
#define MARU_RUN_COMMAND_MAX 3040u

enum maru_run_state {
  MARU_RUN_STARTING = 0,
  MARU_RUN_RUNNING,
  MARU_RUN_STOPPED, /* by job control */
  MARU_RUN_ENDED
};

struct maru_run {
  MARU_ATOMIC(uint32_t) state; /* enum maru_run_state */
  int32_t pid;                 /* the command's */
  uint64_t start_time;         /* of the command, /proc/PID/stat field 22; 0: unknown */
  int64_t started_ns;          /* CLOCK_REALTIME */
  int32_t status;              /* exit status as `maru run` reports it */
  uint32_t command_length;
  /* The argument vector, each argument ended by NUL; cut to fit. */
  char command[MARU_RUN_COMMAND_MAX];
};

#ifdef __cplusplus
}
#endif
#endif
