/* boost_cost: what the daemon takes of a core while so many channels wait.  Prints JSON.
 *
 *     boost_cost BOOST-PROGRAM CHANNELS PERIOD-US SECONDS [idle]
 *
 * All channels wait for a message that does not come ("idle": nobody waits).  The figure is
 * the CPU time of the daemon with its helpers, by getrusage, over the time that it ran.
 */
#define _GNU_SOURCE
#include "../../native/tests/check.h"

#include <maru/board.h>
#include <maru/wait.h>
#include <sys/resource.h>

static struct maru_wait_policy policies[MARU_WAIT_CHANNELS];

int main(int argc, char **argv) {
  struct maru_board board;
  struct maru_channel *channel;
  char path[64], for_ms[32];
  CHECK(argc >= 5);
  long channels = atol(argv[2]);
  CHECK(channels >= 1 && channels <= (long)MARU_WAIT_CHANNELS);
  bool idle = argc > 5 && strcmp(argv[5], "idle") == 0;
  CHECK_EQUAL(maru_board_create(&board, sizeof(struct maru_wait_table)), 0);
  for (long i = 0; i < channels; i++) {
    CHECK_EQUAL(maru_channel_register(&board, (uint32_t)i, 0, &channel), 0);
    CHECK_EQUAL(maru_wait_policy_init(&policies[i], MARU_WAIT_SPIN), 0);
    CHECK_EQUAL(maru_channel_attach(channel, &policies[i]), 0);
    /* As in a wait for the first step. */
    atomic_store(&channel->mask, ~MARU_WAIT_ARMED);
    atomic_store(&channel->until_equal, 0);
    if (!idle)
      atomic_store(&channel->state, MARU_CHANNEL_AWAKE);
  }
  snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), board.fd);
  snprintf(for_ms, sizeof for_ms, "%ld", atol(argv[4]) * 1000);
  fflush(NULL);
  int64_t begin = maru_now_ns();
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl(argv[1], argv[1], "--board", path, "--policy", "auto", "--period-us", argv[3], "--for-ms",
          for_ms, NULL);
    _exit(127);
  }
  CHECK_EQUAL(finish(pid), 0);
  struct rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  double wall = 1e-9 * (double)(maru_now_ns() - begin);
  printf("{\"channels\": %ld, \"period_us\": %s, \"wall_s\": %.3f, \"cpu_s\": %.4f, "
         "\"of_a_core\": %.5f}\n",
         channels, argv[3], wall, cpu, cpu / wall);
  return 0;
}
