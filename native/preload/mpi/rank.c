/* rank.c: this process as a rank of a job, and the job's lines on the board. */
#define _GNU_SOURCE
#include "calm.h"
#include "self.h"

#include "numbers.h"
#include "task.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_NS INT64_C(5000000000)
#define LAUNCHER_MOST 32 /* ancestors looked at */

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

/* Ranks on this host, as the launcher says; -1: it does not, or says no number. */
static int local_size(void) {
  const char *text = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (text == NULL)
    text = getenv("MPI_LOCALNRANKS");
  return text == NULL ? -1 : (int)mr_leading(text, 1, INT_MAX, -1);
}

static int find_section(void) {
  void *data;
  int rc = maru_board_share(&mr_self.board, MR_MPI_SECTION, MR_MPI_VERSION, sizeof *mr_self.section,
                            &data);
  if (rc == 0)
    mr_self.section = data;
  return rc;
}

static void sweep(struct mr_job *job) {
  STORE(job->launcher, 0);
  STORE(job->arrived, 0);
  STORE(job->whole, MR_UNDECIDED);
  STORE(job->left, 0);
  STORE(job->said, 0);
  STORE(job->firm, 0);
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
  struct mr_job *jobs = mr_self.section->jobs;
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
  if (!atomic_compare_exchange_strong_explicit(&line->holder, &held, holder_of(mr_self.pid),
                                               memory_order_acq_rel, memory_order_relaxed))
    return false;
  if (held == 0)
    ADD(mr_self.section->present, 1);
  else /* in the place of one that was killed, perhaps asleep */
    ADD(mr_self.section->asleep, -atomic_exchange_explicit(&line->asleep, 0, memory_order_relaxed));
  return true;
}

/* Moves what a line has cost to the section's own figures. */
static void settle(struct mr_rank *line) {
  _Atomic uint64_t *source = &line->cost.ranks, *sum = &mr_self.section->ended.ranks;
  for (size_t i = 0; i < sizeof line->cost / sizeof *source; i++)
    ADD(sum[i], atomic_exchange_explicit(&source[i], 0, memory_order_relaxed));
  ADD(mr_self.section->own, atomic_exchange_explicit(&line->own, 0, memory_order_relaxed));
}

static void give_line(struct mr_rank *line) {
  settle(line);
  ADD(mr_self.section->present, (uint32_t)-1);
  STORE(line->job, 0);
  /* Release: the taker of the line comes after all that was done with it. */
  atomic_store_explicit(&line->holder, 0, memory_order_release);
}

/* The lines of killed ranks count as present, and would keep the others from ever being calm. */
static void free_forsaken_lines(void) {
  uint32_t used = LOAD(mr_self.section->used);
  for (uint32_t i = 0; i < used && i < MR_MPI_RANKS; i++) {
    struct mr_rank *line = &mr_self.section->ranks[i];
    if (LOAD(line->holder) != 0 && take_line(line))
      give_line(line);
  }
}

/* One that nobody has. */
static struct mr_rank *find_line(void) {
  free_forsaken_lines();
  for (uint32_t i = 0; i < MR_MPI_RANKS; i++) {
    struct mr_rank *line = &mr_self.section->ranks[i];
    if (!take_line(line))
      continue;
    settle(line);
    uint32_t used = LOAD(mr_self.section->used);
    while (used <= i &&
           !atomic_compare_exchange_weak_explicit(&mr_self.section->used, &used, i + 1,
                                                  memory_order_release, memory_order_relaxed))
      continue;
    return line;
  }
  return NULL;
}

static void choose_policy(void) {
  const char *name = getenv("MARU_WAIT");
  mr_self.spin_ns = -1;
  int kind = name == NULL ? MARU_WAIT_ADAPTIVE : maru_wait_parse(name, &mr_self.spin_ns);
  if (kind >= 0)
    mr_self.kind = (enum maru_wait_kind)kind;
  else if (mr_self.board.base != NULL)
    maru_board_say(&mr_self.board, "wait", "rank %d: MARU_WAIT is no way to wait: adaptive",
                   (int)mr_self.pid);
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
  /* Release: a rank that finds the line by its job finds it whole. */
  atomic_store_explicit(&line->job, mr_self.job_number + 1, memory_order_release);
}

/* Bells and ledger, or why there are none. */
static const char *join_board(int rank) {
  pid_t launcher = launcher_of(mr_self.pid);
  uint64_t start = mr_start_time(launcher);
  uint64_t key = mix(mix(mix(world_name(), (uint64_t)launcher), start), (uint64_t)mr_self.size) | 2;
  if (find_section() < 0)
    return "the board has no room for MPI ranks";
  mr_self.line = find_line();
  if (mr_self.line == NULL)
    return "more than 512 ranks";
  mr_self.job = find_job(key);
  if (mr_self.job == NULL)
    return "more than 64 jobs at a time";
  STORE(mr_self.job->launcher_start, start);
  /* Release: a rank that sees the launcher sees its start. */
  atomic_store_explicit(&mr_self.job->launcher, launcher, memory_order_release);
  mr_self.job_number = (uint32_t)(mr_self.job - mr_self.section->jobs);
  show_line(mr_self.line, rank);
  if (!mr_calm_join())
    ADD(mr_self.job->firm, 1);
  maru_notify(&mr_self.job->arrived);
  return NULL;
}

void mr_rank_join(int rank, int size) {
  mr_self.pid = getpid();
  mr_self.size = size;
  int local = local_size();
  mr_self.here = local >= 0 ? local : size;
  mr_self.alone = mr_self.here < size;
  mr_self.peers = calloc((size_t)size, sizeof *mr_self.peers);
  if (maru_board_open_env(&mr_self.board) < 0) {
    mr_self.board = (struct maru_board){.fd = -1};
    choose_policy();
    return; /* run without `maru run`, or on another host */
  }
  maru_board_forget_fd(&mr_self.board);
  choose_policy();
  const char *missing = mr_self.peers == NULL ? "no memory" : join_board(rank);
  if (missing != NULL)
    maru_board_say(&mr_self.board, "wait", "MPI ranks without doorbells look by themselves: %s",
                   missing);
  mr_self.began_ns = maru_now_ns();
}

void mr_age(void) {
  STORE(mr_self.line->cost.life_ns, (uint64_t)(maru_now_ns() - mr_self.began_ns));
}

void mr_rank_leave(void) {
  if (mr_self.line == NULL || mr_self.pid != getpid())
    return;
  mr_age();
  struct mr_rank *line = mr_self.line;
  mr_self.line = NULL;
  give_line(line);
  if (mr_self.job == NULL)
    return;
  if (ADD(mr_self.job->left, 1) + 1 == (uint32_t)mr_self.size) {
    sweep(mr_self.job);
    atomic_store_explicit(&mr_self.job->key, 0, memory_order_release);
  }
}

/* A rank that ends without MPI_Finalize.  Another of its threads may still wait: the line
 * stays, and is taken over once the process is gone. */
__attribute__((destructor)) static void age_at_exit(void) {
  if (mr_self.line != NULL && mr_self.pid == getpid())
    mr_age();
}

/* ---- the job ------------------------------------------------------------- */

static bool all_arrived(void) {
  struct maru_wait_policy policy;
  int64_t end = maru_now_ns() + PATIENCE_NS;
  (void)maru_wait_policy_init(&policy, MARU_WAIT_BLOCK);
  for (;;) {
    /* Acquire: with the count come the lines of those who have come. */
    uint32_t seen = atomic_load_explicit(&mr_self.job->arrived, memory_order_acquire) & VALUE_MASK;
    if (seen >= (uint32_t)mr_self.size * MARU_WAIT_STEP)
      return true;
    if (maru_wait_while(&mr_self.job->arrived, seen, VALUE_MASK, &policy, end) == -ETIMEDOUT)
      return false;
  }
}

bool mr_job_whole(void) {
  if (mr_self.line == NULL || mr_self.job == NULL || mr_self.alone)
    return false;
  /* Acquire and release: with the decision comes what the ranks said of themselves before. */
  uint32_t whole = atomic_load_explicit(&mr_self.job->whole, memory_order_acquire);
  if (whole == MR_UNDECIDED) {
    uint32_t found = all_arrived() ? MR_WHOLE : MR_PARTLY;
    if (atomic_compare_exchange_strong_explicit(&mr_self.job->whole, &whole, found,
                                                memory_order_acq_rel, memory_order_acquire)) {
      whole = found;
      if (found == MR_PARTLY)
        maru_board_say(&mr_self.board, "wait",
                       "MPI collective operations pass: some of %d ranks did not come through maru",
                       mr_self.size);
    }
  }
  return whole == MR_WHOLE;
}

bool mr_job_agrees(void) { return mr_job_whole() && LOAD(mr_self.job->firm) == 0; }

void mr_say_once(unsigned number, const char *format, ...) {
  if (mr_self.job == NULL || LOAD(mr_self.job->said) & 1u << number ||
      atomic_fetch_or_explicit(&mr_self.job->said, 1u << number, memory_order_relaxed) &
          1u << number)
    return;
  char text[160];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  maru_board_say(&mr_self.board, "wait", "%s", text);
}

struct mr_rank *mr_rank_line(int world_rank) {
  if (mr_self.line == NULL || mr_self.job == NULL || world_rank < 0 || world_rank >= mr_self.size)
    return NULL;
  struct mr_rank *line = LOAD(mr_self.peers[world_rank]);
  if (line != NULL)
    return line;
  uint32_t used = atomic_load_explicit(&mr_self.section->used, memory_order_acquire);
  for (uint32_t i = 0; i < used && i < MR_MPI_RANKS; i++) {
    line = &mr_self.section->ranks[i];
    if (atomic_load_explicit(&line->job, memory_order_acquire) == mr_self.job_number + 1 &&
        LOAD(line->rank) == world_rank) {
      STORE(mr_self.peers[world_rank], line);
      return line;
    }
  }
  return NULL;
}
