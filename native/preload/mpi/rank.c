/* rank.c: bells between the ranks of one host, and the wait.
 *
 * Why no ring is lost.  Who waits first counts itself in `needs`, then (a full
 * fence) asks the MPI, then sleeps unless its bell was rung since before it asked.
 * Who sends first sends, then (a full fence) looks at `needs`.  So the sender sees
 * somebody who waits, or the waiter's question finds the message.  What an MPI does
 * inside of a question (answers to large messages, steps of a collective operation)
 * nobody knows; whoever was rung passes the ring on, a bounded number of times, and
 * no sleep is longer than SLICE_MOST_NS.
 *
 * Why a waiter first gives way.  Among ranks that all give way a turn costs less
 * than a sleep and its wake-up.  Beside a program that does not, a turn costs a time
 * slice, a hundred times as much, and a sleeper is due when it wakes.  So after one slow
 * turn all ranks sleep at once on that CPU, for TRY_EVERY times what the turn took: finding
 * out whether the other one has gone costs one part in so many.  A sleeper loses
 * next to nothing where turns were long because ranks compute for long.  It sleeps as DCS does:
 * without short time slices of its own it would not be due before the other's slice is over.
 */
#define _GNU_SOURCE
#include "rank.h"

#include "task.h"

#include <errno.h>
#include <maru/board.h>
#include <maru/wait.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLICE_LEAST_NS 50000
#define SLICE_KNOWN_NS 500000 /* whoever ends the wait will ring */
#define SLICE_MOST_NS 1000000
#define GIVE_WAY_NS 2000000    /* in all; a turn that takes longer is slow */
#define SLOW_MOST_NS 100000000 /* who took longer was stopped: by no hog */
#define TRY_EVERY 50
#define PASSES 16 /* of rings in one wait */
#define PATIENCE_NS INT64_C(5000000000)
#define LAUNCHER_MOST 32 /* ancestors looked at */

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)
#define ADD(word, value) atomic_fetch_add_explicit(&(word), (value), memory_order_relaxed)
#define VALUE_MASK (~MARU_WAIT_ARMED)

/* This process.  One, as MPI_COMM_WORLD is one. */
static struct {
  struct maru_board board;
  struct mr_mpi *section;
  struct mr_rank *line;
  struct mr_job *job;
  uint32_t job_number;
  int size;
  bool alone;                       /* some ranks are on other hosts */
  _Atomic(struct mr_rank *) *peers; /* by world rank; found when first needed */
  int64_t began_ns;
  pid_t pid; /* a forked child is no rank */
  enum maru_wait_kind kind;
  int64_t spin_ns; /* before a sleep; -1: as the policy has it */
} self = {.kind = MARU_WAIT_ADAPTIVE};

/* A bell for a process without a board: nobody rings it. */
static _Atomic uint32_t mute;

/* ---- joining ------------------------------------------------------------- */

static const char *const launchers[] = {"hydra_pmi_proxy", "orted", "mpirun",    "mpiexec",
                                        "orterun",         "prted", "slurmstepd"};

static bool is_launcher(const char *name) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
    /* The kernel keeps 15 characters of a name. */
    if (strncmp(name, launchers[i], strlen(launchers[i]) < 15 ? strlen(launchers[i]) : 15) == 0)
      return true;
  return false;
}

/* Name and parent of a process; false when it is gone. */
static bool parent_of(pid_t pid, char name[64], pid_t *parent) {
  char path[32], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return false;
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = '\0';
  char *open = strchr(text, '('), *close = strrchr(text, ')');
  int ppid;
  if (open == NULL || close == NULL || sscanf(close + 1, " %*c %d", &ppid) != 1)
    return false;
  *close = '\0';
  snprintf(name, 64, "%s", open + 1);
  *parent = ppid;
  return true;
}

/* The process that started all ranks of this host, scripts in between or not; else
 * the parent. */
static pid_t launcher_of(pid_t pid) {
  char name[64];
  pid_t parent;
  if (!parent_of(pid, name, &parent))
    return getppid();
  for (int i = 0; i < LAUNCHER_MOST && parent > 1; i++) {
    pid_t above = parent;
    if (!parent_of(above, name, &parent))
      break;
    if (is_launcher(name))
      return above;
  }
  return getppid();
}

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 29;
}

/* One launcher may start several worlds, one after the other or by MPI_Comm_spawn. */
static uint64_t world_name(void) {
  static const char *const variables[] = {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMI_JOBID",
                                          "SLURM_JOB_ID", "SLURM_STEP_ID"};
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *name = getenv(variables[i]);
    for (; name != NULL && *name != '\0'; name++)
      hash = mix(hash, (unsigned char)*name);
    hash = mix(hash, i);
  }
  return hash;
}

/* Ranks on this host, as the launcher says; -1: it does not. */
static int local_size(void) {
  const char *text = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (text == NULL)
    text = getenv("MPI_LOCALNRANKS");
  return text == NULL ? -1 : atoi(text);
}

static int find_section(void) {
  void *data;
  int rc =
      maru_board_share(&self.board, MR_MPI_SECTION, MR_MPI_VERSION, sizeof *self.section, &data);
  if (rc == 0)
    self.section = data;
  return rc;
}

static void sweep(struct mr_job *job) {
  STORE(job->launcher, 0);
  STORE(job->arrived, 0);
  STORE(job->whole, MR_UNDECIDED);
  STORE(job->left, 0);
  for (int need = 0; need < MR_NEEDS; need++)
    STORE(job->needs[need], 0);
}

static bool take_job(struct mr_job *job, uint64_t found, uint64_t key) {
  /* Acquire, release: with the key comes an entry that was swept. */
  return atomic_compare_exchange_strong_explicit(&job->key, &found, key, memory_order_acq_rel,
                                                 memory_order_relaxed);
}

/* Not: one that was just taken, whose launcher is not yet told. */
static bool forsaken(const struct mr_job *job) {
  /* Acquire: with the launcher comes its start. */
  pid_t launcher = atomic_load_explicit(&job->launcher, memory_order_acquire);
  return launcher != 0 && mr_start_time(launcher) != LOAD(job->launcher_start);
}

/* All ranks of a job try the entries in one order and so meet.  Where they do not
 * (an entry became free meanwhile) the job is never whole: that costs patience. */
static struct mr_job *find_job(uint64_t key) {
  struct mr_job *jobs = self.section->jobs;
  for (uint32_t i = 0; i < MR_MPI_JOBS; i++)
    if (atomic_load_explicit(&jobs[i].key, memory_order_acquire) == key)
      return &jobs[i];
  for (uint32_t i = 0; i < MR_MPI_JOBS; i++) {
    struct mr_job *job = &jobs[(key + i) % MR_MPI_JOBS];
    if (take_job(job, 0, key) || atomic_load_explicit(&job->key, memory_order_acquire) == key)
      return job;
  }
  for (uint32_t i = 0; i < MR_MPI_JOBS; i++) {
    struct mr_job *job = &jobs[(key + i) % MR_MPI_JOBS];
    uint64_t found = LOAD(job->key);
    if (found > 1 && forsaken(job) && take_job(job, found, 1)) {
      sweep(job);
      atomic_store_explicit(&job->key, key, memory_order_release);
      return job;
    }
  }
  return NULL;
}

static uint64_t holder_of(pid_t pid) {
  return (uint64_t)(uint32_t)pid << 32 | (uint32_t)mr_start_time(pid);
}

static bool take_line(struct mr_rank *line) {
  uint64_t held = LOAD(line->holder);
  if (held != 0 && holder_of((pid_t)(held >> 32)) == held)
    return false;
  return atomic_compare_exchange_strong_explicit(&line->holder, &held, holder_of(self.pid),
                                                 memory_order_acq_rel, memory_order_relaxed);
}

/* Moves what a line has cost to the section's own figures. */
static void settle(struct mr_cost *from) {
  struct mr_cost *to = &self.section->ended;
  _Atomic uint64_t *source = &from->ranks, *sum = &to->ranks;
  for (size_t i = 0; i < sizeof *from / sizeof *source; i++)
    ADD(sum[i], atomic_exchange_explicit(&source[i], 0, memory_order_relaxed));
}

/* One that nobody has, or whose rank was killed. */
static struct mr_rank *find_line(void) {
  for (uint32_t i = 0; i < MR_MPI_RANKS; i++) {
    struct mr_rank *line = &self.section->ranks[i];
    if (!take_line(line))
      continue;
    settle(&line->cost);
    uint32_t used = LOAD(self.section->used);
    while (used <= i &&
           !atomic_compare_exchange_weak_explicit(&self.section->used, &used, i + 1,
                                                  memory_order_release, memory_order_relaxed))
      continue;
    return line;
  }
  return NULL;
}

static void choose_policy(void) {
  const char *name = getenv("MARU_WAIT");
  self.spin_ns = -1;
  int kind = name == NULL ? MARU_WAIT_ADAPTIVE : maru_wait_parse(name, &self.spin_ns);
  if (kind >= 0)
    self.kind = (enum maru_wait_kind)kind;
  else if (self.board.base != NULL)
    maru_board_say(&self.board, "wait", "rank %d: MARU_WAIT is no way to wait: adaptive",
                   (int)self.pid);
  else
    fprintf(stderr,
            "maru: wait: MARU_WAIT is no way to wait: adaptive; `maru doctor` lists them\n");
}

static void show_line(struct mr_rank *line, int rank) {
  STORE(line->rank, rank);
  STORE(line->bell, 0);
  for (int need = 0; need < MR_NEEDS; need++)
    STORE(line->needs[need], 0);
  for (uint32_t i = 0; i < MR_MPI_COMMS; i++)
    STORE(line->entered[i], 0);
  STORE(line->cost.ranks, 1);
  /* Release: who finds the line by its job finds it whole. */
  atomic_store_explicit(&line->job, self.job_number + 1, memory_order_release);
}

/* Bells and ledger, or why there are none. */
static const char *join_board(int rank) {
  pid_t launcher = launcher_of(self.pid);
  uint64_t start = mr_start_time(launcher);
  uint64_t key = mix(mix(mix(world_name(), (uint64_t)launcher), start), (uint64_t)self.size) | 2;
  if (find_section() < 0)
    return "the board has no room for MPI ranks";
  self.line = find_line();
  if (self.line == NULL)
    return "more than 512 ranks";
  self.job = find_job(key);
  if (self.job == NULL)
    return "more than 64 jobs at a time";
  STORE(self.job->launcher_start, start);
  /* Release: who sees the launcher sees its start. */
  atomic_store_explicit(&self.job->launcher, launcher, memory_order_release);
  self.job_number = (uint32_t)(self.job - self.section->jobs);
  show_line(self.line, rank);
  maru_notify(&self.job->arrived);
  return NULL;
}

void mr_rank_join(int rank, int size) {
  self.pid = getpid();
  self.size = size;
  int local = local_size();
  self.alone = local >= 0 && local < size;
  self.peers = calloc((size_t)size, sizeof *self.peers);
  if (maru_board_open_env(&self.board) < 0) {
    self.board = (struct maru_board){.fd = -1};
    choose_policy();
    return; /* run without `maru run`, or on another host */
  }
  maru_board_forget_fd(&self.board);
  choose_policy();
  const char *missing = self.peers == NULL ? "no memory" : join_board(rank);
  if (missing != NULL)
    maru_board_say(&self.board, "wait", "MPI ranks without doorbells look by themselves: %s",
                   missing);
  self.began_ns = maru_now_ns();
}

static void age(void) { STORE(self.line->cost.life_ns, (uint64_t)(maru_now_ns() - self.began_ns)); }

void mr_rank_leave(void) {
  if (self.line == NULL || self.pid != getpid())
    return;
  age();
  struct mr_rank *line = self.line;
  self.line = NULL;
  settle(&line->cost);
  STORE(line->job, 0);
  /* Release: whoever takes the line comes after all that was done with it. */
  atomic_store_explicit(&line->holder, 0, memory_order_release);
  if (self.job == NULL)
    return;
  if (ADD(self.job->left, 1) + 1 == (uint32_t)self.size) {
    sweep(self.job);
    atomic_store_explicit(&self.job->key, 0, memory_order_release);
  }
}

/* A rank that ends without MPI_Finalize.  Another of its threads may still wait: the line
 * stays, and is taken over once the process is gone. */
__attribute__((destructor)) static void age_at_exit(void) {
  if (self.line != NULL && self.pid == getpid())
    age();
}

/* ---- the job ------------------------------------------------------------- */

static bool all_arrived(void) {
  struct maru_wait_policy policy;
  int64_t end = maru_now_ns() + PATIENCE_NS;
  (void)maru_wait_policy_init(&policy, MARU_WAIT_BLOCK);
  for (;;) {
    /* Acquire: with the count come the lines of those who have come. */
    uint32_t seen = atomic_load_explicit(&self.job->arrived, memory_order_acquire) & VALUE_MASK;
    if (seen >= (uint32_t)self.size * MARU_WAIT_STEP)
      return true;
    if (maru_wait_while(&self.job->arrived, seen, VALUE_MASK, &policy, end) == -ETIMEDOUT)
      return false;
  }
}

bool mr_job_whole(void) {
  if (self.line == NULL || self.job == NULL || self.alone)
    return false;
  /* Relaxed: lines are looked up with an order of their own. */
  uint32_t whole = LOAD(self.job->whole);
  if (whole == MR_UNDECIDED) {
    uint32_t found = all_arrived() ? MR_WHOLE : MR_PARTLY;
    if (atomic_compare_exchange_strong_explicit(&self.job->whole, &whole, found,
                                                memory_order_relaxed, memory_order_relaxed)) {
      whole = found;
      if (found == MR_PARTLY)
        maru_board_say(&self.board, "wait",
                       "MPI collective operations pass: some of %d ranks did not come through maru",
                       self.size);
    }
  }
  return whole == MR_WHOLE;
}

struct mr_rank *mr_rank_line(int world_rank) {
  if (self.line == NULL || self.job == NULL || world_rank < 0 || world_rank >= self.size)
    return NULL;
  struct mr_rank *line = LOAD(self.peers[world_rank]);
  if (line != NULL)
    return line;
  uint32_t used = atomic_load_explicit(&self.section->used, memory_order_acquire);
  for (uint32_t i = 0; i < used && i < MR_MPI_RANKS; i++) {
    line = &self.section->ranks[i];
    if (atomic_load_explicit(&line->job, memory_order_acquire) == self.job_number + 1 &&
        LOAD(line->rank) == world_rank) {
      STORE(self.peers[world_rank], line);
      return line;
    }
  }
  return NULL;
}

/* ---- ringing ------------------------------------------------------------- */

void mr_ring(struct mr_rank *line, enum mr_need need) {
  if (line == NULL || line == self.line)
    return;
  /* Sequentially consistent, as in mr_wait: what we did comes before the look. */
  atomic_thread_fence(memory_order_seq_cst);
  if (LOAD(line->needs[need]) != 0)
    maru_notify(&line->bell);
}

void mr_ring_all(enum mr_need need) {
  if (self.line == NULL || self.job == NULL)
    return;
  atomic_thread_fence(memory_order_seq_cst); /* as in mr_ring */
  if (LOAD(self.job->needs[need]) == 0)
    return;
  uint32_t used = atomic_load_explicit(&self.section->used, memory_order_acquire);
  for (uint32_t i = 0; i < used && i < MR_MPI_RANKS; i++)
    if (LOAD(self.section->ranks[i].job) == self.job_number + 1)
      mr_ring(&self.section->ranks[i], need);
}

void mr_enter(uint32_t comm, uint32_t count) {
  if (self.line != NULL)
    STORE(self.line->entered[comm % MR_MPI_COMMS], (uint64_t)comm << 32 | count);
}

bool mr_entered(const struct mr_rank *line, uint32_t comm, uint32_t count) {
  uint64_t entered = LOAD(line->entered[comm % MR_MPI_COMMS]);
  return entered >> 32 == comm && (int32_t)((uint32_t)entered - count) >= 0;
}

/* ---- waiting ------------------------------------------------------------- */

/* One thread's. */
struct manner {
  bool made;
  struct maru_wait_policy awake, asleep;
};
static _Thread_local struct manner manner;

static struct manner *own_manner(void) {
  if (!manner.made) {
    bool adaptive = self.kind == MARU_WAIT_ADAPTIVE;
    (void)maru_wait_policy_init(&manner.awake, MARU_WAIT_YIELD);
    (void)maru_wait_policy_init(&manner.asleep, adaptive ? MARU_WAIT_DCS : self.kind);
    manner.awake.spin_ns = 0; /* the question itself takes longer */
    if (self.spin_ns >= 0)
      manner.asleep.spin_ns = (uint32_t)self.spin_ns;
    manner.made = true;
  }
  return &manner;
}

/* Of the CPU that we are on, for all ranks of the run; without a board our own.  Relaxed
 * throughout: nothing hangs on it but time. */
static _Atomic int64_t *crowded_until(void) {
  static _Atomic int64_t own;
  return self.line == NULL
             ? &own
             : &self.section->crowded_until_ns[(unsigned)sched_getcpu() % MR_MPI_CPUS];
}

static bool gives_way(int64_t now_ns) {
  return self.kind == MARU_WAIT_ADAPTIVE && now_ns >= LOAD(*crowded_until());
}

static int64_t cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void count_needs(unsigned needs, uint32_t step) {
  for (int need = 0; need < MR_NEEDS; need++)
    if (needs & 1u << need) {
      ADD(self.line->needs[need], step);
      if (self.job != NULL)
        ADD(self.job->needs[need], step);
    }
  /* Before the question, as mr_ring's before its look. */
  atomic_thread_fence(memory_order_seq_cst);
}

static uint32_t heard(_Atomic uint32_t *bell) {
  /* Acquire: what was done before the ring is seen by the question. */
  return atomic_load_explicit(bell, memory_order_acquire) & VALUE_MASK;
}

/* Policies that stay awake look at nothing but the bell: a turn at a time. */
static int64_t slice_of(const struct manner *own, int64_t slice) {
  uint32_t kind = own->asleep.runs;
  return kind == MARU_WAIT_SPIN || kind == MARU_WAIT_YIELD ? 0 : slice;
}

/* One turn.  False: they have taken too long in all. */
static bool give_way(struct manner *own, _Atomic uint32_t *bell, uint32_t seen, int64_t end_ns) {
  int64_t before = maru_now_ns();
  (void)maru_wait_while(bell, seen, VALUE_MASK, &own->awake, 0);
  int64_t now = maru_now_ns(), took = now - before;
  if (took > GIVE_WAY_NS)
    STORE(*crowded_until(), now + TRY_EVERY * (took < SLOW_MOST_NS ? took : SLOW_MOST_NS));
  return now < end_ns;
}

static void wait_on(struct mr_waiting *w, _Atomic uint32_t *bell) {
  struct manner *own = own_manner();
  uint32_t last = heard(bell);
  int64_t now_ns = maru_now_ns(), end_ns = now_ns + GIVE_WAY_NS;
  bool awake = gives_way(now_ns);
  int64_t slice = w->known ? SLICE_KNOWN_NS : SLICE_LEAST_NS;
  for (int passes = 0;;) {
    uint32_t seen = heard(bell);
    if (w->done(w))
      break;
    if (seen != last && passes < PASSES) {
      passes++;
      last = seen;
      slice = SLICE_LEAST_NS;
      if (w->pass_on != NULL)
        w->pass_on(w);
    }
    if (awake) {
      awake = give_way(own, bell, seen, end_ns);
      continue;
    }
    int64_t most = slice_of(own, slice);
    if (self.line != NULL && most > 0)
      ADD(self.line->cost.sleeps, 1);
    (void)maru_wait_while(bell, seen, VALUE_MASK, &own->asleep, maru_now_ns() + most);
    slice = 2 * slice < SLICE_MOST_NS ? 2 * slice : SLICE_MOST_NS;
  }
}

void mr_wait(struct mr_waiting *w) {
  if (w->done(w))
    return;
  if (self.line == NULL) {
    wait_on(w, &mute);
    return;
  }
  int64_t begin = maru_now_ns(), cpu = cpu_ns();
  count_needs(w->needs, 1);
  wait_on(w, &self.line->bell);
  count_needs(w->needs, (uint32_t)-1);
  struct mr_cost *cost = &self.line->cost;
  ADD(cost->waits, 1);
  ADD(cost->cpu_ns, (uint64_t)(cpu_ns() - cpu));
  ADD(cost->waited_ns, (uint64_t)(maru_now_ns() - begin));
  age();
}
