/* Description: whatever is killed when, nobody stays raised or lowered, nobody waits for ever.
 *
 *     kills PROGRAM
 *
 * Pairs of processes exchange messages under lowering policies while the daemon
 * raises and restores. At a random instant something is killed: the daemon's worker, its rescuer,
 * or both at once. Or it is one of a pair, in its wait or on its way to a wake. Then every survivor
 * must be in its own place, and the exchange must go on. A job that is killed as a whole has no
 * time slot any more.
 *
 * MARU_TEST_KILLS (default 16) and MARU_TEST_SEED set length and course. */
#define _GNU_SOURCE
#include "boost.h"

#include <sys/mman.h>

#define PAIRS 2
#define WORKERS (2 * PAIRS)
#define WAIT_SLICE (20 * MS)
#define SLOTS_NS (500 * MS)
#define SLOTS_SOON (4 * SECOND)
#define PUT_BACK (20 * 100 * MS) /* a daemon is taken for dead after 90 ms */

enum target { WORKER_DIES, RESCUER_DIES, BOTH_DIE, PEER_DIES, TARGETS };
static const char *const target_names[] = {"worker", "rescuer", "worker and rescuer", "peer"};

struct shared {
  _Atomic uint32_t quit;
  _Atomic uint64_t rounds[WORKERS];
};

static struct maru_board board;
static struct shared *shared;
static struct maru_channel *channels[WORKERS];

struct job {
  unsigned self;
  enum maru_wait_kind kind;
};

static void compute(void) {
  for (volatile unsigned i = 0; i < 20000; i++)
    continue;
}

/* Exchanges until it is told to quit; a peer that is gone costs a slice a round. */
static void exchange(void *argument) {
  struct job *job = argument;
  unsigned peer = job->self ^ 1;
  cpu_set_t set;
  struct maru_wait_policy policy;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  CPU_ZERO(&set);
  CPU_SET(0, &set); /* all on one CPU: somebody must always give way */
  CHECK_EQUAL(sched_setaffinity(0, sizeof set, &set), 0);
  CHECK_EQUAL(maru_wait_policy_init(&policy, job->kind), 0);
  CHECK_EQUAL(maru_channel_attach(channels[job->self], &policy), 0);
  uint32_t seen = 0;
  while (!atomic_load(&shared->quit)) {
    maru_notify(&channels[peer]->word);
    int rc = maru_wait_while(&channels[job->self]->word, seen, ~MARU_WAIT_ARMED, &policy,
                             maru_now_ns() + WAIT_SLICE);
    CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -EINTR);
    seen = atomic_load(&channels[job->self]->word) & ~MARU_WAIT_ARMED;
    atomic_fetch_add(&shared->rounds[job->self], 1);
    compute();
  }
  /* What the daemon did and could not undo, the next wait undoes. */
  int64_t end = maru_now_ns() + LONG_ENOUGH;
  struct mr_sched own;
  do {
    CHECK(maru_now_ns() < end);
    usleep(1000);
    maru_wait_while(&channels[job->self]->word, 1u << 31, ~MARU_WAIT_ARMED, &policy, 0);
    CHECK_EQUAL(mr_sched_get(0, &own), 0);
  } while (own.policy != SCHED_OTHER || own.nice != 0);
}

static void go_on(unsigned self, uint64_t more) {
  int64_t end = maru_now_ns() + LONG_ENOUGH;
  uint64_t goal = atomic_load(&shared->rounds[self]) + more;
  while (atomic_load(&shared->rounds[self]) < goal) {
    CHECK(maru_now_ns() < end);
    usleep(200);
  }
}

/* Without a daemon nobody is raised for long, though he never ends. */
static void none_raised(const pid_t *pids) {
  int64_t end = maru_now_ns() + PUT_BACK;
  struct mr_sched now;
  for (unsigned i = 0; i < WORKERS; i++)
    do {
      CHECK(maru_now_ns() < end);
      usleep(200);
      CHECK_EQUAL(mr_sched_get(pids[i], &now), 0);
    } while (now.policy != SCHED_OTHER);
}

static struct daemon begin(const char *program, const char *policy, enum maru_wait_kind kind,
                           pid_t *pids) {
  atomic_store(&shared->quit, 0);
  memset((void *)shared->rounds, 0, sizeof shared->rounds);
  for (unsigned i = 0; i < WORKERS; i++)
    CHECK_EQUAL(maru_channel_register(&board, i / 2, 0, &channels[i]), 0);
  for (unsigned i = 0; i < WORKERS; i++) {
    struct job job = {.self = i, .kind = kind};
    pids[i] = start(exchange, &job);
  }
  struct daemon d = start_daemon(program, &board, policy, "1000");
  for (unsigned i = 0; i < WORKERS; i++)
    go_on(i, 2);
  return d;
}

static void one_kill(const char *program, enum target target, enum maru_wait_kind kind,
                     uint64_t *seed) {
  pid_t pids[WORKERS];
  char report[512];
  struct daemon d = begin(program, "pb+lower", kind, pids);
  usleep((useconds_t)(next_random(seed) % 20000));
  unsigned victim = (unsigned)(next_random(seed) % WORKERS);
  if (target == WORKER_DIES || target == BOTH_DIE)
    CHECK_EQUAL(kill(d.worker, SIGKILL), 0);
  if (target == RESCUER_DIES || target == BOTH_DIE)
    CHECK_EQUAL(kill(d.rescuer, SIGKILL), 0);
  if (target == PEER_DIES)
    CHECK_EQUAL(kill(pids[victim], SIGKILL), 0);
  /* Those whose peer lives go on. */
  for (unsigned i = 0; i < WORKERS; i++)
    if (target != PEER_DIES || (i != victim && i != (victim ^ 1)))
      go_on(i, 20);
  if (target != PEER_DIES)
    none_raised(pids);
  (void)end_daemon(&d, report, sizeof report);
  atomic_store(&shared->quit, 1);
  for (unsigned i = 0; i < WORKERS; i++)
    if (target == PEER_DIES && i == victim)
      CHECK_EQUAL(finish(pids[i]), SIGKILL);
    else
      CHECK_EQUAL(finish(pids[i]), 0);
  for (unsigned i = 0; i < WORKERS; i++)
    maru_channel_release(channels[i]);
}

/* For SLOTS_NS no slot is the dead job's, soon. */
static void only_the_living_have_slots(uint32_t dead) {
  struct maru_wait_table *table;
  CHECK_EQUAL(maru_wait_table_of(&board, &table), 0);
  int64_t end = maru_now_ns() + SLOTS_SOON, since = maru_now_ns();
  while (maru_now_ns() - since < SLOTS_NS) {
    if (atomic_load(&table->slot_job) == dead + 1)
      since = maru_now_ns();
    CHECK(since < end);
    usleep(200);
  }
}

/* A whole job is killed; its parent reaps it or does not. */
static void one_job_less(const char *program, bool reaped) {
  pid_t pids[WORKERS];
  char report[512];
  struct daemon d = begin(program, "gang", MARU_WAIT_GANG, pids);
  usleep(20000);
  for (unsigned i = 2; i < WORKERS; i++)
    CHECK_EQUAL(kill(pids[i], SIGKILL), 0);
  for (unsigned i = 2; reaped && i < WORKERS; i++)
    CHECK_EQUAL(finish(pids[i]), SIGKILL);
  only_the_living_have_slots(1);
  go_on(0, 20);
  CHECK_EQUAL(end_daemon(&d, report, sizeof report), 0);
  atomic_store(&shared->quit, 1);
  for (unsigned i = 0; i < WORKERS; i++)
    if (i < 2 || !reaped)
      CHECK_EQUAL(finish(pids[i]), i < 2 ? 0 : SIGKILL);
  for (unsigned i = 0; i < WORKERS; i++)
    maru_channel_release(channels[i]);
}

static void wait_for_ever(void *unused) {
  struct maru_wait_policy policy;
  (void)unused;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_COOP), 0);
  CHECK_EQUAL(maru_channel_attach(channels[0], &policy), 0);
  (void)maru_wait(&channels[0]->word, 2, ~MARU_WAIT_ARMED, &policy, MARU_WAIT_FOREVER);
}

/* The daemon looks at its slowest: a message for a thread that was killed is nobody's. */
static void message_for_the_dead(const char *program) {
  char report[512];
  CHECK_EQUAL(maru_channel_register(&board, 0, MARU_CHANNEL_SILENT, &channels[0]), 0);
  pid_t pid = start(wait_for_ever, NULL);
  struct daemon d = start_daemon(program, &board, "auto", "0");
  usleep(1000000); /* it has been proved */
  CHECK_EQUAL(kill(pid, SIGKILL), 0);
  CHECK_EQUAL(finish(pid), SIGKILL);
  maru_channel_post(channels[0]);
  usleep(2000000);
  CHECK_EQUAL(end_daemon(&d, report, sizeof report), 0);
  CHECK(field(report, "ticks") < 3000); /* 200 a second, not 4000 */
  maru_channel_release(channels[0]);
}

int main(int argc, char **argv) {
  static const enum maru_wait_kind kinds[] = {MARU_WAIT_SPIN_LOWER, MARU_WAIT_LOWER_YIELD,
                                              MARU_WAIT_SPIN, MARU_WAIT_COOP, MARU_WAIT_ADAPTIVE};
  CHECK(argc == 2);
  need_root();
  uint64_t kills = setting("MARU_TEST_KILLS", 16);
  uint64_t seed = setting("MARU_TEST_SEED", 88172645463325252);
  outrank();
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  CHECK_EQUAL(maru_board_create(&board, 1 << 20), 0);
  for (uint64_t i = 0; i < kills; i++) {
    enum target target = (enum target)(i % TARGETS);
    enum maru_wait_kind kind = kinds[next_random(&seed) % (sizeof kinds / sizeof *kinds)];
    printf("%s under %s\n", target_names[target], maru_wait_kind_name(kind));
    fflush(stdout);
    one_kill(argv[1], target, kind, &seed);
  }
  one_job_less(argv[1], true);
  one_job_less(argv[1], false);
  message_for_the_dead(argv[1]);
  return 0;
}
