/* Description: channels: lines of the board, wakes by other waiters, stand-ins, own priority. */
#define _GNU_SOURCE
#include <maru/board.h>
#include <maru/wait.h>

#include "check.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define NOBODY 65534
#define IDLE_CPU_NS                                                                                \
  (300 * MS) /* 20 times what was seen; one that never rests uses 600 and more                     \
              */

static struct maru_board board;
static struct maru_wait_table *table;

static struct maru_channel *channel_of(uint32_t flags) {
  struct maru_channel *channel;
  CHECK_EQUAL(maru_channel_register(&board, 7, flags, &channel), 0);
  CHECK_EQUAL(maru_wait_table_of(&board, &table), 0);
  return channel;
}

static struct maru_wait_policy attached(struct maru_channel *channel, enum maru_wait_kind kind) {
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, kind), 0);
  CHECK_EQUAL(maru_channel_attach(channel, &policy), 0);
  return policy;
}

static void lines(void) {
  struct maru_channel *channels[MARU_WAIT_CHANNELS], *more;
  for (unsigned i = 0; i < MARU_WAIT_CHANNELS; i++)
    channels[i] = channel_of(0);
  CHECK_EQUAL(maru_channel_register(&board, 0, 0, &more), -ENOSPC);
  maru_channel_release(channels[5]);
  CHECK(channel_of(0) == channels[5]);
  for (unsigned i = 0; i < MARU_WAIT_CHANNELS; i++)
    maru_channel_release(channels[i]);
  CHECK_EQUAL(maru_channel_register(&board, 0, 64, &more), -EINVAL);
  struct maru_channel loose = {.word = 0};
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_COOP), 0);
  CHECK_EQUAL(maru_channel_attach(&loose, &policy), -EPROTO);
}

/* A line shows its wait while it lasts. */
static void shown(void) {
  struct maru_channel *channel = channel_of(0);
  struct maru_wait_policy policy = attached(channel, MARU_WAIT_BLOCK);
  CHECK(table->handover_ns > 0);
  CHECK_EQUAL(maru_wait(&channel->word, 8, ~1u, &policy, maru_now_ns() + MS), -ETIMEDOUT);
  CHECK_EQUAL(channel->state, MARU_CHANNEL_IDLE);
  CHECK_EQUAL(channel->want, 8);
  CHECK_EQUAL(channel->tid, gettid());
  CHECK(channel->since_ns > 0);
  CHECK(!maru_channel_pending(channel));
  channel->state = MARU_CHANNEL_AWAKE;
  CHECK(!maru_channel_pending(channel));
  atomic_store(&channel->word, 8);
  CHECK(maru_channel_pending(channel));
  CHECK_EQUAL(maru_wait_wake_pending(table, NULL), 0); /* it is not asleep */
  channel->state = MARU_CHANNEL_IDLE;
  CHECK_EQUAL(maru_channel_attach(NULL, &policy), 0);
  CHECK_EQUAL(channel->tid, 0);
  maru_channel_release(channel);
}

static void expect(uint32_t flags, enum maru_wait_kind asked, enum maru_wait_kind runs) {
  struct maru_channel *channel = channel_of(flags);
  struct maru_wait_policy policy = attached(channel, asked);
  const char *why;
  CHECK_EQUAL(maru_wait_runs_as(&policy, &why), runs);
  CHECK_EQUAL(why[0] == '\0', asked == runs);
  maru_channel_release(channel);
}

static void stand_ins(void) {
  expect(0, MARU_WAIT_COOP, MARU_WAIT_COOP);
  expect(0, MARU_WAIT_BLOCK, MARU_WAIT_BLOCK);
  expect(MARU_CHANNEL_SILENT, MARU_WAIT_BLOCK, MARU_WAIT_COOP);
  expect(MARU_CHANNEL_SILENT, MARU_WAIT_DCS, MARU_WAIT_COOP);
  expect(MARU_CHANNEL_SILENT, MARU_WAIT_ADAPTIVE, MARU_WAIT_ADAPTIVE);
  expect(0, MARU_WAIT_GANG, MARU_WAIT_COOP); /* nobody gives time slots */
  table->heartbeat_ns = maru_now_ns() + 60 * SECOND;
  table->slot_job = 1;
  expect(0, MARU_WAIT_GANG, MARU_WAIT_GANG);
  table->heartbeat_ns = maru_now_ns() - MARU_WAIT_STALE_NS;
  expect(0, MARU_WAIT_GANG, MARU_WAIT_COOP);
  table->heartbeat_ns = 0;
  table->slot_job = 0;
}

/* Without the right to raise its priority nobody lowers it. */
static void unprivileged(void *unused) {
  (void)unused;
  struct rlimit none = {0, 0};
  CHECK_EQUAL(setrlimit(RLIMIT_NICE, &none), 0);
  CHECK(getuid() != 0 || setuid(NOBODY) == 0);
  expect(0, MARU_WAIT_LOWER_YIELD, MARU_WAIT_COOP);
  expect(0, MARU_WAIT_SPIN_LOWER, MARU_WAIT_COOP);
  struct maru_wait_policy plain;
  _Atomic uint32_t word = 0;
  CHECK_EQUAL(maru_wait_policy_init(&plain, MARU_WAIT_LOWER_YIELD), 0);
  CHECK_EQUAL(maru_wait_runs_as(&plain, NULL), MARU_WAIT_YIELD);
  CHECK_EQUAL(maru_wait(&word, 2, ~1u, &plain, maru_now_ns() + MS), -ETIMEDOUT);
  CHECK_EQUAL(getpriority(PRIO_PROCESS, 0), 0);
}

struct sleeper {
  struct maru_channel *channel, *second;
  enum maru_wait_kind kind;
};

static void sleep_for_message(void *argument) {
  struct sleeper *sleeper = argument;
  struct maru_wait_policy policy = attached(sleeper->channel, sleeper->kind);
  CHECK_EQUAL(maru_wait(&sleeper->channel->word, 2, ~1u, &policy, maru_now_ns() + 20 * SECOND), 0);
}

static void await_state(struct maru_channel *channel, enum maru_channel_state state) {
  int64_t end = maru_now_ns() + 20 * SECOND;
  while (atomic_load(&channel->state) != (uint32_t)state)
    CHECK(maru_now_ns() < end);
}

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  CHECK_EQUAL(sched_setaffinity(0, sizeof set, &set), 0);
}

/* As the watch of every CPU is held by somebody who looked just now: coop.c, coarse. */
static void hold_watches(int64_t when_ns) {
  for (unsigned i = 0; i < MARU_WAIT_CPUS; i++)
    atomic_store(&table->awake[i], (uint32_t)(when_ns >> 20) | 1u << 31);
}

/* So the coop waiter sleeps: it is ours to wake it. */
static void wake_by_others(void) {
  struct maru_channel *channel = channel_of(MARU_CHANNEL_SILENT);
  struct sleeper sleeper = {.channel = channel, .kind = MARU_WAIT_COOP};
  hold_watches(maru_now_ns());
  pid_t pid = start(sleep_for_message, &sleeper);
  await_state(channel, MARU_CHANNEL_ASLEEP);
  maru_channel_post(channel);
  (void)maru_wait_wake_pending(table, channel); /* its own does not count */
  /* One call finds it, unless the end of its slice was faster. */
  int64_t end = maru_now_ns() + 20 * SECOND;
  while (atomic_load(&channel->state) != MARU_CHANNEL_IDLE && maru_now_ns() < end)
    (void)maru_wait_wake_pending(table, NULL);
  CHECK_EQUAL(finish(pid), 0);
  maru_channel_release(channel);
  memset((void *)table->awake, 0, sizeof table->awake);
}

/* A watcher that looks no more is replaced, alive or not. */
static void lost_watcher(void) {
  struct maru_channel *channel = channel_of(MARU_CHANNEL_SILENT);
  struct sleeper sleeper = {.channel = channel, .kind = MARU_WAIT_COOP};
  hold_watches(maru_now_ns() - SECOND);
  uint32_t lost = table->awake[0];
  pid_t pid = start(sleep_for_message, &sleeper);
  int64_t end = maru_now_ns() + 20 * SECOND;
  bool replaced = false;
  while (!replaced) {
    CHECK(maru_now_ns() < end);
    for (unsigned i = 0; i < MARU_WAIT_CPUS; i++)
      replaced |= atomic_load(&table->awake[i]) != lost;
  }
  maru_channel_post(channel);
  CHECK_EQUAL(finish(pid), 0);
  memset((void *)table->awake, 0, sizeof table->awake);
  maru_channel_release(channel);
}

/* Of every CPU. */
static void crowd_until(int64_t when_ns) {
  for (unsigned i = 0; i < MARU_WAIT_CPUS; i++)
    atomic_store(&table->crowded_until[i], (uint32_t)(when_ns >> 20) | 1u << 31);
}

/* Where giving way was slow nobody stays awake to watch: the doorbell is armed, and where
 * there is none a sleeper finds its message by itself. */
static void crowd(uint32_t flags) {
  struct maru_channel *channel = channel_of(flags);
  struct sleeper sleeper = {.channel = channel, .kind = MARU_WAIT_ADAPTIVE};
  crowd_until(maru_now_ns() + 15 * SECOND);
  hold_watches(maru_now_ns() - SECOND); /* free to be taken */
  uint32_t lost = table->awake[0];
  pid_t pid = start(sleep_for_message, &sleeper);
  await_state(channel, MARU_CHANNEL_ASLEEP);
  if (flags & MARU_CHANNEL_SILENT)
    maru_channel_post(channel);
  else {
    int64_t end = maru_now_ns() + 10 * SECOND;
    while (!(atomic_load(&channel->word) & MARU_WAIT_ARMED))
      CHECK(maru_now_ns() < end);
    maru_notify(&channel->word);
  }
  CHECK_EQUAL(finish(pid), 0);
  for (unsigned i = 0; i < MARU_WAIT_CPUS; i++)
    CHECK_EQUAL(table->awake[i], lost);
  memset((void *)table->awake, 0, sizeof table->awake);
  memset((void *)table->crowded_until, 0, sizeof table->crowded_until);
  maru_channel_release(channel);
}

/* Half of what a wait spun for in vain is learned: of twice a wake-up where it then
 * slept armed, of four times COOP_SPIN_NS where it gave way. */
static void spins_for_what_follows(bool crowded, uint32_t learned) {
  struct maru_channel *channel = channel_of(0);
  struct maru_wait_policy policy = attached(channel, MARU_WAIT_ADAPTIVE);
  policy.spare = 1;
  policy.spin_ns = policy.learned = 40000;
  if (crowded)
    crowd_until(maru_now_ns() + 15 * SECOND);
  CHECK_EQUAL(maru_wait(&channel->word, 2, ~1u, &policy, maru_now_ns() + 200 * MS), -ETIMEDOUT);
  CHECK_EQUAL(policy.learned & ~(1u << 31), learned);
  memset((void *)table->crowded_until, 0, sizeof table->crowded_until);
  maru_channel_release(channel);
}

/* Without a message it hardly runs. */
static void wait_idly(void *argument) {
  struct sleeper *sleeper = argument;
  struct maru_wait_policy policy = attached(sleeper->channel, sleeper->kind);
  struct timespec before, after;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  CHECK_EQUAL(maru_wait(&sleeper->channel->word, 2, ~1u, &policy, maru_now_ns() + SECOND),
              -ETIMEDOUT);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  int64_t used = (after.tv_sec - before.tv_sec) * SECOND + (int64_t)after.tv_nsec - before.tv_nsec;
  printf("%s, idle for 1 s: %.1f ms of CPU\n", maru_wait_kind_name(sleeper->kind), used / 1e6);
  fflush(stdout);
  CHECK(used < IDLE_CPU_NS);
}

static void idle(uint32_t flags) {
  static const enum maru_wait_kind kinds[] = {MARU_WAIT_ADAPTIVE, MARU_WAIT_COOP, MARU_WAIT_BLOCK};
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    struct sleeper sleeper = {.channel = channel_of(flags), .kind = kinds[i]};
    CHECK_EQUAL(finish(start(wait_idly, &sleeper)), 0);
    maru_channel_release(sleeper.channel);
  }
}

static struct maru_channel *lowered_channel;

static void lower_and_look(void *argument) {
  sleep_for_message(argument);
  CHECK_EQUAL(getpriority(PRIO_PROCESS, 0), 0);
  CHECK_EQUAL(sched_getscheduler(0), SCHED_OTHER);
}

/* It is lowered while it waits, and itself again after: by the message, or because
 * a daemon that was there has died. */
static void lowers(enum maru_wait_kind kind, bool daemon_dies) {
  struct sleeper sleeper = {.channel = lowered_channel = channel_of(0), .kind = kind};
  table->heartbeat_ns = daemon_dies ? maru_now_ns() + 200 * MS : 0;
  pid_t pid = start(lower_and_look, &sleeper);
  await_state(lowered_channel, MARU_CHANNEL_LOWERED);
  CHECK_EQUAL(getpriority(PRIO_PROCESS, (id_t)pid), 19);
  if (daemon_dies) {
    int64_t end = maru_now_ns() + 20 * SECOND;
    while (getpriority(PRIO_PROCESS, (id_t)pid) != 0)
      CHECK(maru_now_ns() < end);
  }
  maru_notify(&lowered_channel->word);
  CHECK_EQUAL(finish(pid), 0);
  maru_channel_release(lowered_channel);
  table->heartbeat_ns = 0;
}

/* Boosted as the daemon does it. */
static void boost(struct maru_channel *line) {
  struct sched_param priority = {.sched_priority = 1};
  atomic_store(&line->boosted, 1);
  CHECK_EQUAL(sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority), 0);
}

static void wait_boosted(void *argument) {
  struct maru_channel *channel = argument;
  struct maru_wait_policy policy = attached(channel, MARU_WAIT_BLOCK);
  boost(channel);
  CHECK_EQUAL(maru_wait(&channel->word, 0, ~1u, &policy, 0), 0);
  CHECK_EQUAL(sched_getscheduler(0), SCHED_OTHER);
  CHECK_EQUAL(channel->boosted, 0);
}

/* Boosted through another line than the one that it waits at, by a daemon that then
 * dies: this one wait puts it back. */
static void wait_forsaken(void *argument) {
  struct sleeper *sleeper = argument;
  struct maru_wait_policy other = attached(sleeper->second, MARU_WAIT_BLOCK);
  struct maru_wait_policy policy = attached(sleeper->channel, sleeper->kind);
  boost(sleeper->second);
  CHECK_EQUAL(maru_wait(&sleeper->channel->word, 2, ~1u, &policy, maru_now_ns() + 40 * SECOND), 0);
  CHECK_EQUAL(sched_getscheduler(0), SCHED_OTHER);
  CHECK_EQUAL(maru_channel_attach(NULL, &other), 0);
}

static void forsaken(enum maru_wait_kind kind, uint32_t slot) {
  struct sleeper sleeper = {.channel = channel_of(0), .second = channel_of(0), .kind = kind};
  table->slot_job = slot;
  table->heartbeat_ns = maru_now_ns() + 60 * SECOND;
  pid_t pid = start(wait_forsaken, &sleeper);
  int64_t end = maru_now_ns() + 20 * SECOND;
  while (atomic_load(&sleeper.channel->state) == MARU_CHANNEL_IDLE)
    CHECK(maru_now_ns() < end);
  table->heartbeat_ns = maru_now_ns() - MARU_WAIT_STALE_NS;
  while (atomic_load(&sleeper.second->boosted))
    CHECK(maru_now_ns() < end);
  maru_notify(&sleeper.channel->word);
  CHECK_EQUAL(finish(pid), 0);
  maru_channel_release(sleeper.channel);
  maru_channel_release(sleeper.second);
  table->heartbeat_ns = 0;
  table->slot_job = 0;
}

/* Its own place is what it was before the boost, whatever the kernel says now. */
static void own_place_while_boosted(void *argument) {
  struct maru_channel *channel = argument;
  struct maru_wait_policy policy = attached(channel, MARU_WAIT_LOWER_YIELD);
  uint32_t normal = channel->normal;
  _Atomic uint32_t word = 0;
  table->heartbeat_ns = maru_now_ns() + 60 * SECOND;
  boost(channel);
  CHECK_EQUAL(maru_channel_attach(channel, &policy), 0);
  CHECK_EQUAL(channel->normal, normal);
  CHECK_EQUAL(maru_wait(&word, 2, ~1u, &policy, maru_now_ns() + 5 * MS), -ETIMEDOUT);
  CHECK_EQUAL(sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, SCHED_OTHER);
  CHECK_EQUAL(getpriority(PRIO_PROCESS, 0), 0);
  table->heartbeat_ns = 0;
}

struct attributes { /* the kernel's, first version */
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

static uint64_t time_slice(void) {
  struct attributes own;
  CHECK_EQUAL(syscall(SYS_sched_getattr, 0, &own, sizeof own, 0), 0);
  return own.runtime;
}

static void wait_due(struct maru_wait_policy *policy) {
  CHECK_EQUAL(maru_wait(&policy->channel->word, 2, ~1u, policy, maru_now_ns() + MS), -ETIMEDOUT);
}

/* A daemon's raise and its end take the short time slices away: they are asked for again. */
static void short_slices(void *unused) {
  (void)unused;
  struct maru_wait_policy policy = attached(channel_of(0), MARU_WAIT_DCS);
  wait_due(&policy);
  uint64_t slice = time_slice();
  struct attributes plain = {.size = sizeof plain};
  table->heartbeat_ns = maru_now_ns() + 60 * SECOND;
  wait_due(&policy);
  CHECK_EQUAL(syscall(SYS_sched_setattr, 0, &plain, 0), 0);
  if (time_slice() == slice)
    return; /* this kernel has none */
  wait_due(&policy);
  CHECK_EQUAL(time_slice(), slice);
}

static atomic_bool *given_back; /* shared with the sleeper */

/* Its channel is given back by another process while it waits; it waits on for as long again. */
static void wait_on(void *argument) {
  struct sleeper *sleeper = argument;
  struct maru_wait_policy policy = attached(sleeper->channel, sleeper->kind);
  for (bool last = false; !last;) {
    last = atomic_load(given_back);
    CHECK_EQUAL(maru_wait(&sleeper->channel->word, 2, ~1u, &policy, maru_now_ns() + 80 * MS),
                -ETIMEDOUT);
  }
  CHECK(maru_wait_runs_as(&policy, NULL) < MARU_WAIT_KINDS);
  CHECK_EQUAL(maru_channel_attach(NULL, &policy), 0);
}

static void released_meanwhile(enum maru_wait_kind kind) {
  struct sleeper sleeper = {.channel = channel_of(0), .kind = kind};
  given_back =
      mmap(NULL, sizeof *given_back, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(given_back != MAP_FAILED);
  pid_t pid = start(wait_on, &sleeper);
  int64_t end = maru_now_ns() + 20 * SECOND;
  while (atomic_load(&sleeper.channel->state) == MARU_CHANNEL_IDLE)
    CHECK(maru_now_ns() < end);
  maru_channel_release(sleeper.channel);
  atomic_store(given_back, true);
  CHECK_EQUAL(finish(pid), 0);
  munmap(given_back, sizeof *given_back);
}

static void boosted(void) {
  if (getuid() != 0)
    return;
  CHECK_EQUAL(finish(start(wait_boosted, channel_of(0))), 0);
  CHECK_EQUAL(finish(start(own_place_while_boosted, channel_of(0))), 0);
  for (int kind = 0; kind < MARU_WAIT_KINDS; kind++)
    forsaken((enum maru_wait_kind)kind, 0);
  forsaken(MARU_WAIT_GANG, 8); /* in its slot */
  forsaken(MARU_WAIT_GANG, 9); /* out of it */
}

int main(void) {
  CHECK_EQUAL(maru_board_create(&board, 1 << 20), 0);
  CHECK_EQUAL(maru_wait_table_of(&board, &table), -ENOENT);
  lines();
  shown();
  stand_ins();
  CHECK_EQUAL(finish(start(unprivileged, NULL)), 0);
  wake_by_others();
  lost_watcher();
  crowd(0);
  crowd(MARU_CHANNEL_SILENT);
  spins_for_what_follows(true, 20000);
  spins_for_what_follows(false, 5000);
  idle(0);
  idle(MARU_CHANNEL_SILENT);
  CHECK_EQUAL(finish(start(short_slices, NULL)), 0);
  table->heartbeat_ns = 0;
  for (int kind = 0; kind < MARU_WAIT_KINDS; kind++)
    released_meanwhile(kind);
  boosted();
  struct maru_wait_policy policy;
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_SPIN_LOWER), 0);
  if (maru_wait_runs_as(&policy, NULL) != MARU_WAIT_SPIN_LOWER) {
    printf("no right to raise a priority here: lowering not tried\n");
    return 0;
  }
  pin(0); /* lowered and awake, on the CPU that we look from as well: it gets its turn */
  lowers(MARU_WAIT_SPIN_LOWER, false);
  lowers(MARU_WAIT_LOWER_YIELD, false);
  lowers(MARU_WAIT_LOWER_YIELD, true);
  return 0;
}
