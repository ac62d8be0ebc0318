/* boost_jobs: jobs of two processes on two nodes that are two CPUs.  Prints JSON.
 *
 *     boost_jobs BOOST-PROGRAM NAME=VALUE...
 *
 *   wait=KIND       how the processes wait (default spin)
 *   daemon=POLICY   what maru-boost does meanwhile (default: it does not run)
 *   period=US       its period; 0: by itself
 *   boost=HOW       how it raises (default: fifo)
 *   jobs=N          1 to 16 (4)
 *   work=MS         computing per process (200)
 *   compute=US      computing between two messages, +-10 % (2000)
 *   other=US        the same of the last OTHERS jobs (2000)
 *   others=N        how many these are (0)
 *   latency=US      from sending to arrival (0: at once)
 *   quantum=rr      SCHED_RR, 100 ms, as the published kernel's long quantum; fair: the default
 *   silent=1        nobody rings: the sender only writes memory
 *   hogs=N          processes on each CPU that only compute
 *   cgroups=1       a control group for each job (quantum=fair)
 *   kill=MS         after so long the daemon is killed, with its rescuer (0: not); "back_ms" is
 * when no process was raised any more, the end if one was until then (-1: not killed) limit=S ended
 * after that: "done" is false, the time is the limit (10) seed=N          of order and jitter
 *
 * The loop of one process is the published one: send, receive, compute, again. One process a node
 * keeps a latency, as a network card. It stands above all others, sleeps until a message is due and
 * delivers it. The nodes are put out of phase: each starts its jobs in an order of its own. This
 * program outranks what it starts and ends all of it at the limit.
 */
#define _GNU_SOURCE
#include "groups.h"

#include "arguments.h"
#include "json.h"

#include <maru/board.h>
#include <maru/wait.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#define MOST_JOBS 16
#define NODES 2
#define IN_FLIGHT 4 /* messages of one direction; the loop allows two */
#define BASE_PRIORITY 5
#define CARD_PRIORITY 92
#define WATCH_PRIORITY 95
#define MS INT64_C(1000000)
#define STAGGER_NS (5 * MS)

struct link { /* to one process */
  struct maru_channel *channel;
  _Atomic uint64_t sent;
  uint64_t delivered; /* the card's */
  int64_t due_ns[IN_FLIGHT];
};

struct shared {
  _Atomic uint32_t started;
  _Atomic uint32_t over;
  _Atomic uint32_t card_bell[NODES];
  _Atomic int64_t ended_ns[MOST_JOBS][NODES];
  _Atomic uint64_t hog_us[NODES];
  struct link links[MOST_JOBS][NODES];
};

struct setting {
  enum maru_wait_kind kind;
  const char *daemon, *boost;
  bool fair, silent;
  int64_t period, jobs, work, compute, other, others, latency, hogs, cgroups, kill, limit, seed;
};

struct place {
  unsigned job, node;
};

static struct shared *shared;
static struct maru_board board;
static struct setting is = {.jobs = 4,
                            .work = 200,
                            .compute = 2000,
                            .other = 2000,
                            .limit = 10,
                            .seed = 1,
                            .kind = MARU_WAIT_SPIN};
static double loops_per_us;
static int cpus[NODES];

/* ---- computing ----------------------------------------------------------- */

static uint64_t turn(uint64_t loops) {
  uint64_t x = 1;
  for (uint64_t i = 0; i < loops; i++) {
    x = x * UINT64_C(6364136223846793005) + 1;
    __asm__ volatile("" : "+r"(x));
  }
  return x;
}

static void compute(double us) { (void)turn((uint64_t)(us * loops_per_us)); }

/* The fastest of some: interruptions only slow it down. */
static void calibrate(void) {
  for (int i = 0; i < 20; i++) {
    int64_t begin = maru_now_ns();
    (void)turn(1000000);
    double rate = 1e9 / (double)(maru_now_ns() - begin);
    loops_per_us = rate > loops_per_us ? rate : loops_per_us;
  }
}

/* ---- places -------------------------------------------------------------- */

static void choose_cpus(void) {
  cpu_set_t set;
  int found = 0;
  CHECK_EQUAL(sched_getaffinity(0, sizeof set, &set), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE && found < NODES; cpu++)
    if (CPU_ISSET(cpu, &set))
      cpus[found++] = cpu;
  if (found < NODES)
    skip("needs two CPUs");
}

static void pin(unsigned node) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus[node], &set);
  CHECK_EQUAL(sched_setaffinity(0, sizeof set, &set), 0);
}

static void rank(int policy, int priority) {
  struct sched_param param = {.sched_priority = priority};
  if (sched_setscheduler(0, policy, &param) < 0)
    skip("needs the right to real-time priorities");
}

static void await_start(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (!atomic_load(&shared->started))
    usleep(200);
}

/* ---- messages ------------------------------------------------------------ */

static void arrive(struct link *link) {
  if (is.silent)
    maru_channel_post(link->channel);
  else
    maru_notify(&link->channel->word);
}

static void send_to(struct link *link, unsigned node) {
  if (is.latency == 0) {
    arrive(link);
    return;
  }
  uint64_t sent = atomic_load_explicit(&link->sent, memory_order_relaxed);
  link->due_ns[sent % IN_FLIGHT] = maru_now_ns() + is.latency * 1000;
  /* Release: the card reads when it is due. */
  atomic_store_explicit(&link->sent, sent + 1, memory_order_release);
  maru_notify(&shared->card_bell[node]);
}

/* Delivers what is due on this node; when the next one is. */
static int64_t deliver(unsigned node) {
  int64_t next = INT64_MAX;
  for (unsigned job = 0; job < is.jobs; job++) {
    struct link *link = &shared->links[job][node];
    uint64_t sent = atomic_load_explicit(&link->sent, memory_order_acquire);
    while (link->delivered < sent) {
      int64_t due = link->due_ns[link->delivered % IN_FLIGHT];
      if (due > maru_now_ns()) {
        next = due < next ? due : next;
        break;
      }
      link->delivered++;
      arrive(link);
    }
  }
  return next;
}

static void card(void *argument) {
  unsigned node = ((struct place *)argument)->node;
  struct maru_wait_policy policy;
  pin(node);
  rank(SCHED_FIFO, CARD_PRIORITY);
  prctl(PR_SET_TIMERSLACK, 1);
  await_start();
  CHECK_EQUAL(maru_wait_policy_init(&policy, MARU_WAIT_BLOCK), 0);
  while (!atomic_load(&shared->over)) {
    uint32_t seen = atomic_load(&shared->card_bell[node]) & ~MARU_WAIT_ARMED;
    int64_t next = deliver(node), soon = maru_now_ns() + 20 * MS;
    if (next == INT64_MAX) { /* nothing on its way: the next sender rings */
      maru_wait_while(&shared->card_bell[node], seen, ~MARU_WAIT_ARMED, &policy, soon);
      continue;
    }
    /* Whatever is sent meanwhile is due later. */
    struct timespec at = {.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
  }
}

/* ---- the processes ------------------------------------------------------- */

/* Where in its node's order a job starts. */
static unsigned position(unsigned job, unsigned node) {
  unsigned order[MOST_JOBS];
  uint64_t seed = (uint64_t)is.seed * 2654435761u + node * 40503u + 1;
  for (unsigned i = 0; i < is.jobs; i++)
    order[i] = i;
  for (unsigned i = (unsigned)is.jobs - 1; i > 0; i--) {
    unsigned k = (unsigned)(next_random(&seed) % (i + 1)), was = order[i];
    order[i] = order[k];
    order[k] = was;
  }
  return order[job];
}

static void stagger(unsigned places) {
  struct timespec pause = {.tv_nsec = 100000 + STAGGER_NS * places};
  nanosleep(&pause, NULL);
}

static void process(void *argument) {
  struct place me = *(struct place *)argument;
  struct link *in = &shared->links[me.job][me.node], *out = &shared->links[me.job][1 - me.node];
  struct maru_wait_policy policy;
  pin(me.node);
  join_group(me.job);
  prctl(PR_SET_TIMERSLACK, 1);
  if (!is.fair)
    rank(SCHED_RR, BASE_PRIORITY);
  CHECK_EQUAL(maru_wait_policy_init(&policy, is.kind), 0);
  policy.spare = 1; /* the other node is another CPU */
  CHECK_EQUAL(maru_channel_attach(in->channel, &policy), 0);
  await_start();
  stagger(position(me.job, me.node));
  uint64_t seed = (uint64_t)is.seed * 77 + me.job * 13 + me.node + 1;
  long grain = me.job + is.others >= is.jobs ? is.other : is.compute;
  for (long i = 1; i <= is.work * 1000 / grain; i++) {
    send_to(out, 1 - me.node);
    for (;;) {
      uint32_t count = maru_channel_count(in->channel);
      if (count >= i)
        break;
      int rc = maru_wait_while(&in->channel->word, count * MARU_WAIT_STEP, ~MARU_WAIT_ARMED,
                               &policy, MARU_WAIT_FOREVER);
      CHECK(rc == 0 || rc == -EINTR);
    }
    compute((double)grain * (0.9 + 0.2 * (double)(next_random(&seed) % 1000) / 1000));
  }
  atomic_store(&shared->ended_ns[me.job][me.node], maru_now_ns());
}

static void hog(void *argument) {
  unsigned node = ((struct place *)argument)->node;
  pin(node);
  if (!is.fair)
    rank(SCHED_RR, BASE_PRIORITY);
  await_start();
  for (;;) {
    compute(100);
    atomic_fetch_add(&shared->hog_us[node], 100);
  }
}

static pid_t start_daemon(const char *program) {
  char path[64], period[16], end[16];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), board.fd);
  snprintf(period, sizeof period, "%ld", is.period);
  snprintf(end, sizeof end, "%ld", is.limit * 2000);
  fflush(NULL);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl(program, program, "--board", path, "--policy", is.daemon, "--period-us", period,
          "--for-ms", end, "--cap", "100", "--boost", is.boost != NULL ? is.boost : "fifo", NULL);
    _exit(127);
  }
  return pid;
}

/* ---- all ----------------------------------------------------------------- */

static void read_settings(int count, char *const *given) {
  int64_t silent = is.silent;
  const char *wait = NULL, *quantum = NULL;
  const struct mr_option settings[] = {
      {"period", MR_WHOLE, &is.period, "microseconds", 0, 50000},
      {"jobs", MR_WHOLE, &is.jobs, "jobs", 1, MOST_JOBS},
      {"work", MR_WHOLE, &is.work, "milliseconds", 1, 10000},
      {"compute", MR_WHOLE, &is.compute, "microseconds", 1, 1000000},
      {"other", MR_WHOLE, &is.other, "microseconds", 1, 1000000},
      {"others", MR_WHOLE, &is.others, "jobs", 0, MOST_JOBS},
      {"latency", MR_WHOLE, &is.latency, "microseconds", 0, 1000000},
      {"hogs", MR_WHOLE, &is.hogs, "hogs", 0, 4},
      {"kill", MR_WHOLE, &is.kill, "milliseconds", 0, 60000},
      {"limit", MR_WHOLE, &is.limit, "seconds", 1, 60},
      {"seed", MR_WHOLE, &is.seed, "seeds", 1, 1000000},
      {"cgroups", MR_WHOLE, &is.cgroups, "no or yes", 0, 1},
      {"silent", MR_WHOLE, &silent, "no or yes", 0, 1},
      {"wait", MR_TEXT, &wait, NULL, 0, 0},
      {"daemon", MR_TEXT, &is.daemon, NULL, 0, 0},
      {"boost", MR_TEXT, &is.boost, NULL, 0, 0},
      {"quantum", MR_TEXT, &quantum, NULL, 0, 0},
  };
  for (int i = 0; i < count; i++)
    mr_setting("boost_jobs", settings, sizeof settings / sizeof *settings, given[i]);
  if (wait != NULL) {
    CHECK(maru_wait_kind_of(wait) >= 0);
    is.kind = (enum maru_wait_kind)maru_wait_kind_of(wait);
  }
  is.fair = quantum != NULL ? strcmp(quantum, "fair") == 0 : is.fair;
  is.silent = silent == 1;
}

/* ---- the end of the daemon ------------------------------------------------ */

/* The daemon that is to be killed, and what came of it. */
struct killing {
  pid_t rescuer; /* 0: none */
  int64_t at_ns;
  bool killed;
  double back_ms; /* -1: not seen */
};

static pid_t worker_of(pid_t rescuer) {
  char path[64], text[32];
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", rescuer, rescuer);
  FILE *file = fopen(path, "re");
  pid_t worker =
      file != NULL && fgets(text, sizeof text, file) != NULL ? (pid_t)strtol(text, NULL, 10) : 0;
  if (file != NULL)
    fclose(file);
  return worker;
}

static bool any_raised(const pid_t *pids, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    if (pids[i] != 0 && ((sched_getscheduler(pids[i]) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO ||
                         getpriority(PRIO_PROCESS, (id_t)pids[i]) < 0))
      return true;
  return false;
}

/* Both at once: nobody is left who could put anybody back. */
static void maybe_kill(struct killing *k, const pid_t *pids, unsigned count) {
  int64_t now = maru_now_ns();
  if (k->rescuer == 0 || now < k->at_ns)
    return;
  if (!k->killed) {
    pid_t worker = worker_of(k->rescuer);
    CHECK(worker > 0);
    CHECK_EQUAL(kill(k->rescuer, SIGSTOP), 0); /* or it would rescue */
    CHECK_EQUAL(kill(worker, SIGKILL), 0);
    CHECK_EQUAL(kill(k->rescuer, SIGKILL), 0);
    k->killed = true;
  } else if (k->back_ms < 0 && !any_raised(pids, count))
    k->back_ms = (double)(now - k->at_ns) / 1e6;
}

/* True when all ended by themselves before the limit. */
static bool await_all(pid_t *pids, unsigned count, int64_t limit_ns, struct killing *killing) {
  unsigned left = count;
  while (left > 0 && maru_now_ns() < limit_ns) {
    usleep(1000);
    maybe_kill(killing, pids, count);
    for (unsigned i = 0; i < count; i++) {
      int status;
      if (pids[i] == 0 || waitpid(pids[i], &status, WNOHANG) != pids[i])
        continue;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip("a process may not take its place");
      CHECK_EQUAL(status, 0);
      pids[i] = 0;
      left--;
    }
  }
  return left == 0;
}

static void kill_all(const pid_t *pids, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    if (pids[i] != 0)
      kill(pids[i], SIGKILL);
}

static void reap_all(const pid_t *pids, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    if (pids[i] != 0)
      finish(pids[i]);
}

int main(int argc, char **argv) {
  pid_t workers[MOST_JOBS * NODES], others[16], daemon = 0;
  unsigned worker_count = 0, other_count = 0;
  CHECK(argc >= 2);
  read_settings(argc - 2, argv + 2);
  choose_cpus();
  calibrate();
  rank(SCHED_FIFO | SCHED_RESET_ON_FORK, WATCH_PRIORITY);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  CHECK_EQUAL(maru_board_create(&board, sizeof(struct maru_wait_table)), 0);
  for (unsigned i = 0; i < is.jobs * NODES; i++)
    CHECK_EQUAL(maru_channel_register(&board, i / 2, is.silent ? MARU_CHANNEL_SILENT : 0,
                                      &shared->links[i / 2][i % 2].channel),
                0);
  struct maru_wait_policy measure;
  CHECK_EQUAL(maru_wait_policy_init(&measure, MARU_WAIT_BLOCK), 0);
  /* Before the fork: all have the same spin length. */
  CHECK_EQUAL(maru_channel_attach(shared->links[0][0].channel, &measure), 0);
  CHECK_EQUAL(maru_channel_attach(NULL, &measure), 0);
  for (unsigned node = 0; node < NODES; node++) {
    if (is.latency > 0)
      others[other_count++] = start(card, &(struct place){.node = node});
    for (long i = 0; i < is.hogs; i++)
      others[other_count++] = start(hog, &(struct place){.node = node});
  }
  if (is.cgroups)
    make_groups(is.jobs);
  for (unsigned i = 0; i < is.jobs * NODES; i++)
    workers[worker_count++] = start(process, &(struct place){.job = i / 2, .node = i % 2});
  if (is.daemon != NULL)
    daemon = start_daemon(argv[1]);
  usleep(30000);
  int64_t begin = maru_now_ns(), limit = begin + is.limit * 1000 * MS, end = begin;
  atomic_store(&shared->started, 1);
  struct killing killing = {
      .rescuer = is.kill > 0 ? daemon : 0, .at_ns = begin + is.kill * MS, .back_ms = -1};
  bool done = await_all(workers, worker_count, limit, &killing);
  if (killing.killed && killing.back_ms < 0) /* one was raised to its end: no less than that */
    killing.back_ms = (double)(maru_now_ns() - killing.at_ns) / 1e6;
  atomic_store(&shared->over, 1);
  if (daemon != 0) {
    kill(daemon, SIGTERM);
    CHECK_EQUAL(finish(daemon), killing.killed ? SIGKILL : 0);
  }
  /* The hogs first: beside one, a thread that was lowered may not run for minutes, not even to
   * die. */
  kill_all(others, other_count);
  kill_all(workers, worker_count);
  reap_all(others, other_count);
  reap_all(workers, worker_count);
  for (unsigned i = 0; i < is.jobs * NODES; i++) {
    int64_t time = atomic_load(&shared->ended_ns[i / 2][i % 2]);
    end = time > end ? time : end;
  }
  struct rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  double wall = done ? (double)(end - begin) : (double)is.limit * 1e9;
  double ideal = (double)is.jobs * (double)is.work * 1e6;
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  mr_json_bool(&json, "done", done);
  mr_json_real(&json, "wall_ns", wall, 0);
  mr_json_real(&json, "ideal_ns", ideal, 0);
  mr_json_real(&json, "times_ideal", wall / ideal, 4);
  mr_json_real(&json, "hog_share",
               (double)(shared->hog_us[0] + shared->hog_us[1]) * 1e3 / (2 * wall), 4);
  mr_json_whole(&json, "handover_ns", measure.spin_ns / 2);
  mr_json_whole(&json, "voluntary", (uint64_t)used.ru_nvcsw);
  mr_json_whole(&json, "involuntary", (uint64_t)used.ru_nivcsw);
  mr_json_real(&json, "back_ms", killing.back_ms, 1);
  mr_json_end_object(&json);
  putchar('\n');
  return 0;
}
