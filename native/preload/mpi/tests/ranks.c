/* ranks.c: ranks without an MPI: processes that join one board together, wait for each
 * other round a ring by bells, and leave, or are killed and followed by others.
 */
#define _GNU_SOURCE
#include "calm.h"
#include "check.h"
#include "rank.h"

#include <errno.h>
#include <maru/board.h>
#include <maru/wait.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 8
#define ROUNDS 100
#define JOBS 12 /* one after the other on one board */
#define ADAPTIVE_LAST 8

/* What an MPI would carry: how far each rank has come. */
static _Atomic uint32_t *reached;

struct step {
  struct mr_waiting waiting; /* first: a question gets its address */
  int from;
  uint32_t round;
};

static bool stepped(struct mr_waiting *waiting) {
  struct step *step = (struct step *)waiting;
  return atomic_load_explicit(&reached[step->from], memory_order_acquire) >= step->round;
}

/* Everybody in turn, once round in each round. */
static void go_round(int rank) {
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    struct step step = {.waiting = {.needs = 1u << MR_NEED_MESSAGE, .known = true, .done = stepped},
                        .from = (rank + RANKS - 1) % RANKS,
                        .round = rank == 0 ? round - 1 : round};
    mr_wait(&step.waiting);
    atomic_store_explicit(&reached[rank], round, memory_order_release);
    mr_ring(mr_rank_line((rank + 1) % RANKS), MR_NEED_MESSAGE);
  }
}

static void be_rank(int rank, bool to_be_killed) {
  alarm(30);
  mr_rank_join(rank, RANKS);
  CHECK(mr_job_whole());
  for (int i = 0; i < RANKS; i++) {
    CHECK(mr_rank_line(i) != NULL);
    for (int j = 0; j < i; j++)
      CHECK(mr_rank_line(i) != mr_rank_line(j));
  }
  go_round(rank);
  if (to_be_killed)
    raise(SIGKILL);
  mr_rank_leave();
  _exit(0);
}

/* Their parent is their launcher: a process of its own for each job. */
static void be_job(int killed) {
  for (int rank = 0; rank < RANKS; rank++)
    if (fork() == 0)
      be_rank(rank, rank == killed);
  int status, signalled = 0;
  while (wait(&status) > 0) {
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    CHECK(!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL);
    signalled += WIFSIGNALED(status) != 0;
  }
  CHECK(signalled == (killed >= 0));
  _exit(0);
}

/* A rank whose others never come: it sleeps until it is killed. */
static void sleep_for_good(void) {
  struct step step = {
      .waiting = {.needs = 1u << MR_NEED_MESSAGE, .known = true, .done = stepped},
      .from = 0,
      .round = UINT32_MAX,
  };
  alarm(30);
  mr_rank_join(0, 1);
  mr_wait(&step.waiting);
}

/* Ranks killed while they sleep are not counted any more once another one comes. */
static void forget_killed(struct mr_mpi *section) {
  pid_t pids[RANKS];
  setenv("MARU_WAIT", "block", 1);
  for (int i = 0; i < RANKS; i++)
    if ((pids[i] = fork()) == 0)
      sleep_for_good();
  for (int i = 0; i < 6000 && section->asleep < RANKS; i++)
    usleep(5000);
  CHECK(section->present >= RANKS && section->asleep > 0);
  for (int i = 0; i < RANKS; i++)
    CHECK(kill(pids[i], SIGKILL) == 0 && waitpid(pids[i], NULL, 0) == pids[i]);
  pid_t pid = fork();
  if (pid == 0) {
    mr_rank_join(0, 1);
    /* One may have been killed between its two counts. */
    CHECK(section->present == 1 && abs((int)section->asleep) <= 1);
    mr_rank_leave();
    _exit(0);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(section->present == 0);
}

/* An own call of the MPI's that takes so long. */
static void own_call(useconds_t us) {
  while (!mr_own_begin(0))
    usleep(1000);
  if (us > 0)
    usleep(us);
  mr_own_end();
}

/* Two quick calls one after the other; again where another program came between, or each call is
 * timed yet. */
static void begin_row(void) {
  do {
    own_call(0);
    own_call(0);
  } while (!mr_mood.quick);
}

/* What comes after a row of quick calls is not known to be long, but the next is timed. */
static void end_row(void) {
  begin_row();
  usleep(20000); /* computing */
  own_call(0);
  CHECK(!mr_mood.quick && mr_mood.kept_from_own == 0);
  begin_row();
  own_call(20000); /* may have been computing */
  CHECK(!mr_mood.quick && mr_mood.kept_from_own == 0);
  own_call(20000);
  CHECK(mr_mood.kept_from_own == 16);
}

/* A quick call before each long one hides none but the first. */
static void alternate(void) {
  begin_row();
  own_call(20000);
  for (int i = 0; i < 4; i++) {
    own_call(0);
    own_call(20000);
    CHECK(mr_mood.kept_from_own == 16);
  }
}

/* A thread leaves the MPI's own calls after a long one, and comes back; a launcher's variable that
 * is no number says nothing. */
static void be_alone(void) {
  alarm(240); /* it waits for a moment in which no other process waits for a CPU */
  setenv("MARU_WAIT", "adaptive", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "junk", 1);
  mr_rank_join(0, 1);
  CHECK(mr_job_whole());
  if (!mr_job_agrees())
    _exit(0); /* no schedstat here: there are no own calls */
  while (!mr_own_begin(0))
    usleep(1000);
  mr_own_end();
  mr_call_took(10000000);
  int others = 0;
  while (!mr_own_begin(0)) {
    others++;
    usleep(1000);
  }
  CHECK(others >= 16);
  end_row();
  alternate();
  mr_rank_leave();
  _exit(0);
}

static void run_alone(void) {
  pid_t pid = fork();
  if (pid == 0)
    be_alone();
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Beside hogs, as ranks have found out: nobody gives way. */
static void crowd(struct mr_mpi *section) {
  for (unsigned cpu = 0; cpu < MR_MPI_CPUS; cpu++)
    section->crowded_until_ns[cpu] = MARU_WAIT_FOREVER;
}

static uint64_t sum_of(struct mr_mpi *section, size_t field) {
  _Atomic uint64_t *ended = &section->ended.ranks;
  uint64_t sum = ended[field];
  for (uint32_t i = 0; i < section->used; i++) {
    _Atomic uint64_t *cost = &section->ranks[i].cost.ranks;
    sum += cost[field];
  }
  return sum;
}

int main(void) {
  static const char *const policies[] = {"adaptive", "block", "yield", "sleep-poll"};
  struct maru_board board;
  char path[64];
  void *data;
  CHECK(maru_board_create(&board, 4u << 20) == 0);
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), board.fd);
  setenv(MARU_BOARD_ENV, path, 1);
  for (int job = 0; job < JOBS; job++) {
    uint64_t slept = 0;
    if (job == ADAPTIVE_LAST) {
      CHECK(maru_board_find(&board, MR_MPI_SECTION, MR_MPI_VERSION, sizeof(struct mr_mpi), &data) ==
            0);
      crowd(data);
      slept = sum_of(data, 5);
    }
    reached = mmap(NULL, RANKS * sizeof *reached, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(reached != MAP_FAILED);
    setenv("MARU_WAIT", policies[job % 4], 1);
    pid_t pid = fork();
    if (pid == 0)
      be_job(job % 3 == 2 ? job % RANKS : -1);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* All but the first who looks in each round find nothing at first. */
    CHECK(job != ADAPTIVE_LAST || sum_of(data, 5) > slept);
    munmap((void *)reached, RANKS * sizeof *reached);
  }
  CHECK(maru_board_find(&board, MR_MPI_SECTION, MR_MPI_VERSION, sizeof(struct mr_mpi), &data) == 0);
  /* Nobody is lost from the ledger, nobody counted twice; lines are used again. */
  CHECK(sum_of(data, 0) == JOBS * RANKS);
  CHECK(sum_of(data, 2) <= sum_of(data, 1));
  CHECK(((struct mr_mpi *)data)->used <= RANKS + JOBS / 3);
  reached = mmap(NULL, sizeof *reached, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(reached != MAP_FAILED);
  forget_killed(data);
  run_alone();
  maru_board_close(&board);
  return 0;
}
