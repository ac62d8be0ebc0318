/* boost_cost: what the daemon takes of a core while so many channels wait.  Prints JSON.
 *
 *     boost_cost BOOST-PROGRAM CHANNELS PERIOD-US SECONDS [idle|young|busy]...
 *
 * All channels wait for a message that does not come ("idle": nobody waits; "young": one of them
 * has always just begun to).  The figure is
 * the CPU time of the daemon with its helpers, by getrusage, over the time that it ran. Its start
 * is left out: a run of START_S more than SECONDS less one of START_S. CHANNELS 0: no daemon, but a
 * process that sleeps for the period and does nothing else: the
 * floor.  "busy": a process on each CPU computes meanwhile, as is usual where a daemon is of
 * use; waking an idle virtual CPU costs more.
 */
#define _GNU_SOURCE
#include "../../../native/tests/check.h"
#include "arguments.h"
#include "json.h"

#include <maru/board.h>
#include <maru/wait.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#define START_S 2

static struct maru_wait_policy policies[MARU_WAIT_CHANNELS];
static struct maru_channel *channels[MARU_WAIT_CHANNELS];

/* As the daemon sleeps, and no more. */
static void be_floor(int64_t period_ns, int64_t end_ns) {
  struct sched_param fifo = {.sched_priority = 90};
  (void)sched_setscheduler(0, SCHED_FIFO, &fifo);
  prctl(PR_SET_TIMERSLACK, 1);
  for (int64_t next = maru_now_ns(); next < end_ns; next += period_ns) {
    struct timespec at = {.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
  }
  _exit(0);
}

static pid_t start_hog(int cpu) {
  pid_t pid = fork();
  if (pid != 0)
    return pid;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)sched_setaffinity(0, sizeof set, &set);
  for (volatile unsigned turns = 0;; turns++)
    continue;
}

static bool among(const char *word, int argc, char **argv) {
  for (int i = 5; i < argc; i++)
    if (strcmp(argv[i], word) == 0)
      return true;
  return false;
}

struct cost {
  double cpu_s, wall_s;
};

/* As in a wait for the first step. */
static void begin_waits(long count, bool young) {
  int64_t now = maru_now_ns();
  for (long i = 0; i < count; i++) {
    atomic_store(&channels[i]->mask, ~MARU_WAIT_ARMED);
    atomic_store(&channels[i]->until_equal, 0);
    atomic_store(&channels[i]->since_ns, now);
    atomic_store(&channels[i]->state, MARU_CHANNEL_AWAKE);
  }
  if (young && count > 0) /* at every look, without a process that would cost something */
    atomic_store(&channels[0]->since_ns, INT64_MAX);
}

/* The daemon or the floor, with what it has started. */
static struct cost run(const char *program, int64_t period_us, const char *board, int64_t seconds,
                       bool floor) {
  char for_ms[32], period[32];
  struct rusage used;
  int status;
  snprintf(for_ms, sizeof for_ms, "%lld", (long long)seconds * 1000);
  snprintf(period, sizeof period, "%lld", (long long)period_us);
  int64_t begin = maru_now_ns();
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0 && floor)
    be_floor(period_us * 1000, begin + seconds * 1000000000);
  if (pid == 0) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl(program, program, "--board", board, "--policy", "auto", "--period-us", period, "--boost",
          "fifo", "--for-ms", for_ms, NULL);
    _exit(127);
  }
  CHECK(wait4(pid, &status, 0, &used) == pid && status == 0);
  double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  return (struct cost){cpu, 1e-9 * (double)(maru_now_ns() - begin)};
}

int main(int argc, char **argv) {
  struct maru_board board;
  char path[64];
  pid_t hogs[64];
  const char *program;
  int64_t count, period_us, seconds;
  const struct mr_option operands[] = {
      {"MARU-BOOST", MR_TEXT, &program, NULL, 0, 0},
      {"CHANNELS", MR_WHOLE, &count, "channels", 0, MARU_WAIT_CHANNELS},
      {"PERIOD_US", MR_WHOLE, &period_us, "microseconds", 1, 1e6},
      {"SECONDS", MR_WHOLE, &seconds, "seconds", 1, 3600},
  };
  mr_operands("boost_cost", operands, 4, argc < 5 ? argc - 1 : 4, argv + 1);
  bool idle = among("idle", argc, argv), busy = among("busy", argc, argv);
  bool young = among("young", argc, argv);
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  int hog_count = !busy ? 0 : cpus < 64 ? (int)cpus : 64;
  CHECK_EQUAL(maru_board_create(&board, sizeof(struct maru_wait_table)), 0);
  for (int64_t i = 0; i < count; i++) {
    CHECK_EQUAL(maru_channel_register(&board, (uint32_t)i, 0, &channels[i]), 0);
    CHECK_EQUAL(maru_wait_policy_init(&policies[i], MARU_WAIT_SPIN), 0);
    CHECK_EQUAL(maru_channel_attach(channels[i], &policies[i]), 0);
  }
  snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), board.fd);
  fflush(NULL);
  for (int i = 0; i < hog_count; i++)
    hogs[i] = start_hog(i);
  begin_waits(idle ? 0 : count, young);
  struct cost start = run(program, period_us, path, START_S, count == 0);
  begin_waits(idle ? 0 : count, young);
  struct cost all = run(program, period_us, path, START_S + seconds, count == 0);
  for (int i = 0; i < hog_count; i++) {
    kill(hogs[i], SIGKILL);
    finish(hogs[i]);
  }
  double cpu = all.cpu_s - start.cpu_s, wall = all.wall_s - start.wall_s;
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  mr_json_whole(&json, "channels", (uint64_t)count);
  mr_json_whole(&json, "period_us", (uint64_t)period_us);
  mr_json_real(&json, "wall_s", wall, 3);
  mr_json_real(&json, "cpu_s", cpu, 4);
  mr_json_real(&json, "of_a_core", cpu / wall, 5);
  mr_json_end_object(&json);
  putchar('\n');
  return 0;
}
