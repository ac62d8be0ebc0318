/* bench_channel: what a message between two processes costs.  Prints JSON.
 *
 *     bench_channel [CPU CPU]      default: the first two allowed CPUs
 *
 * A message is a 64-byte record in a log and a ring of a word.  Rounds of the
 * parked round trip and of a raw pipe's between the same two pinned processes
 * alternate, so that both meet the same noise. Their ratio is taken per round.
 */
#define _GNU_SOURCE
#include <maru/channel.h>

#include "check.h"

#include <sched.h>
#include <sys/mman.h>

#define PAYLOAD 64
#define ROUNDS 7
#define SPIN_TRIPS 20000u
#define PARKED_TRIPS 4000u
#define RECORDS 2000000u
#define LONG_ENOUGH INT64_C(60000000000)
#define LOG_BYTES (UINT64_C(1) << 28)

struct end {
  struct maru_log *log; /* what this side writes */
  _Atomic uint32_t *bell;
  int pipe[2];
};

static int cpus[2];
static struct end ends[2];

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  CHECK_EQUAL(sched_setaffinity(0, sizeof set, &set), 0);
}

static void choose_cpus(int count, char **arguments) {
  cpu_set_t set;
  int found = 0;
  CHECK_EQUAL(sched_getaffinity(0, sizeof set, &set), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
    if (CPU_ISSET(cpu, &set))
      cpus[found++] = cpu;
  if (count == 3) {
    cpus[0] = atoi(arguments[1]);
    cpus[1] = atoi(arguments[2]);
  } else if (found < 2) {
    skip("needs two CPUs");
  }
}

static struct maru_wait_policy policy_of(enum maru_wait_kind kind) {
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, kind), 0);
  policy.spare = 1; /* we are pinned to one CPU; the other side has another */
  return policy;
}

static void send_record(struct end *from, uint64_t index) {
  static const char payload[PAYLOAD];
  CHECK_EQUAL(maru_log_append(from->log, index, 0, payload, sizeof payload), 0);
  maru_notify(from->bell);
}

static void receive_record(struct end *from, uint64_t index, struct maru_wait_policy *policy,
                           int64_t deadline) {
  struct maru_record record;
  for (;;) {
    uint32_t seen = atomic_load_explicit(from->bell, memory_order_acquire) & ~MARU_WAIT_ARMED;
    int rc = maru_log_next(from->log, &record);
    if (rc == 1)
      break;
    CHECK_EQUAL(rc, 0);
    CHECK_EQUAL(maru_wait_while(from->bell, seen, ~MARU_WAIT_ARMED, policy, deadline), 0);
  }
  CHECK_EQUAL(record.index, index);
  maru_log_release(from->log);
}

static void send_pipe(struct end *from) {
  static const char payload[PAYLOAD];
  CHECK_EQUAL(write(from->pipe[1], payload, sizeof payload), PAYLOAD);
}

static void receive_pipe(struct end *from) {
  char payload[PAYLOAD];
  CHECK_EQUAL(read(from->pipe[0], payload, sizeof payload), PAYLOAD);
}

static void echo_records(enum maru_wait_kind kind, uint32_t trips) {
  struct maru_wait_policy policy = policy_of(kind);
  int64_t deadline = maru_now_ns() + LONG_ENOUGH;
  for (uint32_t i = 0; i < trips; i++) {
    receive_record(&ends[0], i, &policy, deadline);
    send_record(&ends[1], i);
  }
}

static void call_records(enum maru_wait_kind kind, uint32_t trips, int64_t *times) {
  struct maru_wait_policy policy = policy_of(kind);
  int64_t deadline = maru_now_ns() + LONG_ENOUGH;
  for (uint32_t i = 0; i < trips; i++) {
    int64_t begin = maru_now_ns();
    send_record(&ends[0], i);
    receive_record(&ends[1], i, &policy, deadline);
    times[i] = maru_now_ns() - begin;
  }
}

static void echo_pipe(uint32_t trips) {
  for (uint32_t i = 0; i < trips; i++) {
    receive_pipe(&ends[0]);
    send_pipe(&ends[1]);
  }
}

static void call_pipe(uint32_t trips, int64_t *times) {
  for (uint32_t i = 0; i < trips; i++) {
    int64_t begin = maru_now_ns();
    send_pipe(&ends[0]);
    receive_pipe(&ends[1]);
    times[i] = maru_now_ns() - begin;
  }
}

static void send_all(void *unused) {
  (void)unused;
  pin(cpus[1]);
  for (uint32_t i = 0; i < RECORDS; i++)
    send_record(&ends[1], i);
}

static double records_per_second(void) {
  struct maru_wait_policy policy = policy_of(MARU_WAIT_ADAPTIVE);
  int64_t begin = maru_now_ns(), deadline = begin + LONG_ENOUGH;
  pid_t pid = start(send_all, NULL);
  for (uint32_t i = 0; i < RECORDS; i++)
    receive_record(&ends[1], i, &policy, deadline);
  int64_t time = maru_now_ns() - begin;
  CHECK_EQUAL(finish(pid), 0);
  return (double)RECORDS * 1e9 / (double)time;
}

static int by_size(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

/* Sorts; the value below which `share` of the times lie. */
static int64_t quantile(int64_t *times, uint32_t count, double share) {
  qsort(times, count, sizeof *times, by_size);
  return times[(uint32_t)(share * (count - 1))];
}

static void fresh_logs(void) {
  for (int i = 0; i < 2; i++) {
    if (ends[i].log != NULL)
      maru_log_destroy(ends[i].log);
    CHECK_EQUAL(maru_log_create(&ends[i].log, LOG_BYTES), 0);
  }
}

static void open_ends(void) {
  for (int i = 0; i < 2; i++) {
    ends[i].bell = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(ends[i].bell != MAP_FAILED);
    CHECK_EQUAL(pipe(ends[i].pipe), 0);
  }
}

struct round {
  enum maru_wait_kind kind;
  uint32_t trips;
  bool through_pipe;
};

static void echo(void *argument) {
  struct round *round = argument;
  pin(cpus[1]);
  if (round->through_pipe)
    echo_pipe(round->trips);
  else
    echo_records(round->kind, round->trips);
}

static void play(struct round round, int64_t *times) {
  fresh_logs();
  pid_t pid = start(echo, &round);
  if (round.through_pipe)
    call_pipe(round.trips, times);
  else
    call_records(round.kind, round.trips, times);
  CHECK_EQUAL(finish(pid), 0);
}

int main(int count, char **arguments) {
  static int64_t times[SPIN_TRIPS], ratios[ROUNDS], rates[ROUNDS], medians[ROUNDS];
  choose_cpus(count, arguments);
  open_ends();
  struct round spinning = {.kind = MARU_WAIT_SPIN, .trips = SPIN_TRIPS};
  struct round parked = {.kind = MARU_WAIT_BLOCK, .trips = PARKED_TRIPS};
  struct round piped = {.trips = PARKED_TRIPS, .through_pipe = true};
  pin(cpus[0]);
  printf("{\"cpus\": [%d, %d], \"payload_bytes\": %d,\n \"spinning_ns\": [", cpus[0], cpus[1],
         PAYLOAD);
  for (int i = 0; i < ROUNDS; i++) {
    play(spinning, times);
    medians[i] = quantile(times, SPIN_TRIPS, 0.5);
    printf("%s{\"median\": %lld, \"p99\": %lld}", i ? ", " : "", (long long)medians[i],
           (long long)quantile(times, SPIN_TRIPS, 0.99));
  }
  printf("],\n \"spinning_median_ns\": %lld,\n \"parked_ns\": [",
         (long long)quantile(medians, ROUNDS, 0.5));
  for (int i = 0; i < ROUNDS; i++) {
    play(parked, times);
    int64_t channel = quantile(times, PARKED_TRIPS, 0.5);
    play(piped, times);
    int64_t pipe = quantile(times, PARKED_TRIPS, 0.5);
    ratios[i] = channel * 1000 / pipe;
    printf("%s{\"channel\": %lld, \"pipe\": %lld, \"ratio\": %.3f}", i ? ", " : "",
           (long long)channel, (long long)pipe, (double)ratios[i] / 1000);
  }
  printf("],\n \"parked_ratio_median\": %.3f,\n \"records_per_second\": [",
         (double)quantile(ratios, ROUNDS, 0.5) / 1000);
  for (int i = 0; i < ROUNDS; i++) {
    fresh_logs();
    rates[i] = (int64_t)records_per_second();
    printf("%s%lld", i ? ", " : "", (long long)rates[i]);
  }
  printf("],\n \"records_per_second_median\": %lld}\n", (long long)quantile(rates, ROUNDS, 0.5));
  return 0;
}
