/* seedlog: one log for all workers beside one log per worker.  Prints JSON.
 *
 *     seedlog [RECORDS [TRIALS]]     default: 1000000 records, 1000 trials
 *
 * The shared log is the first published design (figure 13 of the SAM study:
 * Last, Count, then records {Length, Index, Chunk}), written anew. A producer reserves its place by
 * adding to Last, fills it, and commits by storing the
 * length.  The other side is maru's log, one per producer.
 *
 * Throughput: some producers append as fast as they can, one consumer reads.
 * Holes: of two writers one is killed at a random moment, the other one writes all it has. Then the
 * reader looks whether it can reach all that was committed.
 */
#define _GNU_SOURCE
#include <maru/channel.h>

#include "arguments.h"
#include "json.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD 64
#define ROUNDS 7
#define MOST_PRODUCERS 4
#define WAIT_NS INT64_C(60000000000)

static _Noreturn void fail(const char *what, int error) {
  fprintf(stderr, "seedlog: %s: %s\n", what, strerror(error));
  exit(1);
}

/* ---- the shared log ------------------------------------------------------ */

struct record {
  _Atomic uint64_t length; /* 0: reserved and not committed */
  uint64_t index;
  char chunk[PAYLOAD];
};

struct shared_log {
  _Atomic uint64_t last; /* records reserved */
  char apart1[56];
  _Atomic uint64_t count; /* records committed */
  char apart2[56];
  struct record records[];
};

static struct shared_log *shared_create(size_t records) {
  size_t bytes = sizeof(struct shared_log) + records * sizeof(struct record);
  void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    fail("no memory for the shared log", errno);
  return pages;
}

static void shared_destroy(struct shared_log *log, size_t records) {
  munmap(log, sizeof(struct shared_log) + records * sizeof(struct record));
}

static void shared_append(struct shared_log *log, uint64_t index, const char *chunk) {
  /* Relaxed: the place is ours by the addition itself; what others may see is
   * published by the length. */
  uint64_t place = atomic_fetch_add_explicit(&log->last, 1, memory_order_relaxed);
  struct record *r = &log->records[place];
  r->index = index;
  memcpy(r->chunk, chunk, PAYLOAD);
  /* Release: a reader that sees the length sees index and chunk. */
  atomic_store_explicit(&r->length, PAYLOAD, memory_order_release);
  /* Relaxed: a number to look at, it publishes nothing. */
  atomic_fetch_add_explicit(&log->count, 1, memory_order_relaxed);
}

static bool shared_has(struct shared_log *log, uint64_t place) {
  /* Acquire: pairs with the release of the commit. */
  return atomic_load_explicit(&log->records[place].length, memory_order_acquire) != 0;
}

/* ---- both kinds under one name ------------------------------------------- */

struct logs {
  bool is_shared;
  int producers;
  uint64_t records; /* a producer */
  struct shared_log *shared;
  struct maru_log *own[MOST_PRODUCERS];
};

static void open_logs(struct logs *logs) {
  if (logs->is_shared) {
    logs->shared = shared_create(logs->records * (uint64_t)logs->producers);
    return;
  }
  for (int p = 0; p < logs->producers; p++) {
    int rc = maru_log_create(&logs->own[p], logs->records * (PAYLOAD + 16));
    if (rc != 0)
      fail("no log", -rc);
  }
}

static void close_logs(struct logs *logs) {
  if (logs->is_shared)
    shared_destroy(logs->shared, logs->records * (uint64_t)logs->producers);
  else
    for (int p = 0; p < logs->producers; p++)
      maru_log_destroy(logs->own[p]);
}

static void append(struct logs *logs, int producer, uint64_t index) {
  static const char chunk[PAYLOAD];
  if (logs->is_shared)
    shared_append(logs->shared, index, chunk);
  else if (maru_log_append(logs->own[producer], index, 0, chunk, PAYLOAD) != 0)
    fail("a log is full", ENOSPC);
}

/* As many records as can be reached now, from *seen on (own logs: `turn`). */
static bool read_one(struct logs *logs, uint64_t seen, int *turn) {
  if (logs->is_shared)
    return shared_has(logs->shared, seen);
  for (int tried = 0; tried < logs->producers; tried++) {
    struct maru_record record;
    if (maru_log_next(logs->own[*turn], &record) == 1)
      return true;
    *turn = (*turn + 1) % logs->producers;
  }
  return false;
}

static void pause_for(int64_t ns) {
  if (ns == 0)
    return;
  int64_t end = maru_now_ns() + ns;
  while (maru_now_ns() < end)
    ;
}

static pid_t start_producer(struct logs *logs, int producer, int64_t gap_ns) {
  pid_t pid = fork();
  if (pid < 0)
    fail("no process", errno);
  if (pid > 0)
    return pid;
  for (uint64_t i = 0; i < logs->records; i++) {
    append(logs, producer, i);
    pause_for(gap_ns);
  }
  _exit(0);
}

/* ---- throughput ---------------------------------------------------------- */

static double records_per_second(bool is_shared, int producers, uint64_t records) {
  struct logs logs = {
      .is_shared = is_shared, .producers = producers, .records = records / (uint64_t)producers};
  pid_t pids[MOST_PRODUCERS];
  open_logs(&logs);
  int64_t begin = maru_now_ns();
  for (int p = 0; p < producers; p++)
    pids[p] = start_producer(&logs, p, 0);
  uint64_t seen = 0, all = logs.records * (uint64_t)producers;
  for (int turn = 0; seen < all;) {
    if (read_one(&logs, seen, &turn))
      seen++;
    else if (maru_now_ns() - begin > WAIT_NS)
      fail("records are missing", ETIMEDOUT);
    else
      sched_yield();
  }
  int64_t time = maru_now_ns() - begin;
  for (int p = 0; p < producers; p++)
    waitpid(pids[p], NULL, 0);
  close_logs(&logs);
  return (double)all * 1e9 / (double)time;
}

/* ---- holes --------------------------------------------------------------- */

struct trial {
  bool blocked;
  uint64_t unreachable; /* committed records behind the hole */
};

static uint64_t committed(const struct logs *logs) {
  if (logs->is_shared) {
    uint64_t n = 0, last = atomic_load_explicit(&logs->shared->last, memory_order_relaxed);
    for (uint64_t place = 0; place < last; place++)
      n += shared_has(logs->shared, place);
    return n;
  }
  return maru_log_count(logs->own[0]) + maru_log_count(logs->own[1]);
}

/* Writer 1 finishes; writer 0 is killed on the way. */
static struct trial kill_one(bool is_shared, uint64_t records, int64_t gap_ns, int64_t delay_ns) {
  struct logs logs = {.is_shared = is_shared, .producers = 2, .records = records};
  open_logs(&logs);
  pid_t victim = start_producer(&logs, 0, gap_ns), other = start_producer(&logs, 1, gap_ns);
  struct timespec delay = {.tv_nsec = delay_ns};
  nanosleep(&delay, NULL);
  kill(victim, SIGKILL);
  waitpid(victim, NULL, 0);
  waitpid(other, NULL, 0);
  uint64_t seen = 0, all = committed(&logs);
  /* Nobody writes any more: what cannot be read now never can. */
  for (int turn = 0; seen < all && read_one(&logs, seen, &turn);)
    seen++;
  close_logs(&logs);
  return (struct trial){.blocked = seen < all, .unreachable = all - seen};
}

static void print_trials(struct mr_json *json, const char *name, int64_t gap_ns, int64_t trials) {
  unsigned blocked[2] = {0, 0};
  uint64_t unreachable[2] = {0, 0}, random = 88172645463325252u;
  for (int64_t t = 0; t < trials; t++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    int64_t delay = 200000 + (int64_t)(random % 1500000);
    for (int kind = 0; kind < 2; kind++) {
      struct trial trial = kill_one(kind == 0, gap_ns == 0 ? 30000 : 2000, gap_ns, delay);
      blocked[kind] += trial.blocked;
      unreachable[kind] += trial.unreachable;
    }
  }
  mr_json_object(json, NULL);
  mr_json_text(json, "writers", name);
  mr_json_whole(json, "gap_ns", (uint64_t)gap_ns);
  mr_json_whole(json, "trials", (uint64_t)trials);
  mr_json_whole(json, "shared_blocked", blocked[0]);
  mr_json_whole(json, "shared_unreachable", unreachable[0]);
  mr_json_whole(json, "own_blocked", blocked[1]);
  mr_json_whole(json, "own_unreachable", unreachable[1]);
  mr_json_end_object(json);
}

int main(int count, char **arguments) {
  int64_t records = 1000000, trials = 1000;
  const struct mr_option operands[] = {
      {"RECORDS", MR_WHOLE, &records, "records", 1, 1e8},
      {"TRIALS", MR_WHOLE, &trials, "trials", 1, 1e8},
  };
  if (count > 1)
    mr_operands("seedlog", operands, count > 2 ? 2 : 1, count - 1, arguments + 1);
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  mr_json_whole(&json, "payload_bytes", PAYLOAD);
  mr_json_whole(&json, "records", (uint64_t)records);
  mr_json_array(&json, "throughput");
  for (int producers = 1; producers <= MOST_PRODUCERS; producers *= 2)
    for (int round = 0; round < ROUNDS; round++) {
      double shared = records_per_second(true, producers, (uint64_t)records);
      double own = records_per_second(false, producers, (uint64_t)records);
      mr_json_object(&json, NULL);
      mr_json_whole(&json, "producers", (uint64_t)producers);
      mr_json_real(&json, "shared", shared, 0);
      mr_json_real(&json, "own", own, 0);
      mr_json_end_object(&json);
    }
  mr_json_end_array(&json);
  mr_json_array(&json, "killed_writers");
  print_trials(&json, "append and nothing else", 0, trials);
  print_trials(&json, "a record a microsecond", 1000, trials);
  mr_json_end_array(&json);
  mr_json_end_object(&json);
  putchar('\n');
  return 0;
}
