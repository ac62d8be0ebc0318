/* Description: a thread that was left raised, renamed or reniced ends where it belongs.
 *
 *     places PROGRAM
 *
 * A daemon's and its rescuer's death with a raise on, and a new daemon. Ends that the kernel
 * refuses. An administrator's nice 19 and nice under a raise. A stopped worker. */
#define _GNU_SOURCE
#include "boost.h"

#include "task.h"

#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static struct maru_board board;
static struct maru_wait_table *table;
static const char *program;

static void make_board(uid_t user) {
  struct maru_channel *channel;
  CHECK_EQUAL(seteuid(user), 0);
  CHECK_EQUAL(maru_board_create(&board, 1 << 20), 0);
  CHECK_EQUAL(seteuid(0), 0);
  CHECK_EQUAL(maru_channel_register(&board, 0, 0, &channel), 0);
  CHECK_EQUAL(maru_wait_table_of(&board, &table), 0);
}

/* A line that waits for what is there. */
static void show(uint32_t i, pid_t tid, uint32_t state) {
  struct maru_channel *line = &table->channels[i];
  atomic_store(&line->word, 2);
  atomic_store(&line->want, 2);
  atomic_store(&line->mask, ~1u);
  atomic_store(&line->until_equal, 1);
  atomic_store(&line->start, mr_start_time(tid));
  atomic_store(&line->tid, tid);
  atomic_store(&line->state, state);
  atomic_store(&table->used, i + 1);
}

static void idle_as(void *user) {
  become(*(uid_t *)user);
  for (;;)
    usleep(1000);
}

static pid_t start_as(uid_t user) {
  pid_t pid = start(idle_as, &user);
  usleep(20000); /* it has changed its user */
  return pid;
}

static void end(pid_t pid) {
  kill(pid, SIGKILL);
  CHECK_EQUAL(finish(pid), SIGKILL);
}

static void end_well(struct daemon *d) {
  char report[512];
  CHECK_EQUAL(end_daemon(d, report, sizeof report), 0);
}

/* Both die with a raise on; the next daemon does not take it for the own place. */
static void restart(void) {
  make_board(0);
  pid_t pid = start_as(0);
  show(0, pid, MARU_CHANNEL_AWAKE);
  struct daemon first = start_daemon(program, &board, "pb", "50000");
  until_policy(pid, SCHED_FIFO);
  CHECK_EQUAL(kill(first.rescuer, SIGKILL), 0);
  CHECK_EQUAL(kill(first.worker, SIGKILL), 0);
  finish(first.rescuer);
  CHECK_EQUAL(place_of(pid).policy, SCHED_FIFO);
  struct daemon second = start_daemon(program, &board, "pb", "1000");
  until_policy(pid, SCHED_OTHER);
  usleep(100000);
  end_well(&second);
  CHECK_EQUAL(place_of(pid).policy, SCHED_OTHER);
  CHECK_EQUAL(place_of(pid).nice, 0);
  end(pid);
  maru_board_close(&board);
}

/* The same without a mark on the line: it is left alone, not raised further. */
static void unmarked(void) {
  struct mr_sched high = {.policy = SCHED_FIFO, .priority = 7, .on_fork = 1};
  make_board(OWNER);
  pid_t pid = start_as(OWNER);
  CHECK_EQUAL(mr_sched_set(pid, &high), 0);
  show(0, pid, MARU_CHANNEL_AWAKE);
  struct daemon d = start_daemon(program, &board, "pb", "1000");
  usleep(200000);
  end_well(&d);
  CHECK_EQUAL(place_of(pid).priority, 7);
  end(pid);
  maru_board_close(&board);
}

/* What cannot be given back is not taken: SCHED_DEADLINE. */
static void deadline(void) {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } wanted = {.size = 48, .policy = 6, .runtime = 2 * MS, .deadline = 20 * MS, .period = 20 * MS};
  make_board(0);
  pid_t pid = start_as(0);
  if (syscall(SYS_sched_setattr, pid, &wanted, 0) == 0) {
    show(0, pid, MARU_CHANNEL_AWAKE);
    struct daemon d = start_daemon(program, &board, "pb", "1000");
    usleep(200000);
    end_well(&d);
    CHECK_EQUAL(place_of(pid).policy, 6);
  }
  end(pid);
  maru_board_close(&board);
}

/* Right to FIFO by a limit, not to clear "reset on fork". */
static void limited(void *unused) {
  struct rlimit limit = {99, 99};
  struct maru_channel *channel;
  (void)unused;
  if (setrlimit(RLIMIT_RTPRIO, &limit) < 0)
    _exit(77); /* a container that took CAP_SYS_RESOURCE away */
  become(OWNER);
  CHECK_EQUAL(maru_board_create(&board, 1 << 20), 0);
  CHECK_EQUAL(maru_channel_register(&board, 0, 0, &channel), 0);
  CHECK_EQUAL(maru_wait_table_of(&board, &table), 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0)
    for (prctl(PR_SET_PDEATHSIG, SIGKILL);;)
      usleep(1000);
  show(0, pid, MARU_CHANNEL_AWAKE);
  struct daemon d = start_daemon(program, &board, "pb", "1000");
  until_policy(pid, SCHED_FIFO);
  end_well(&d);
  CHECK_EQUAL(place_of(pid).policy, SCHED_OTHER);
  CHECK_EQUAL(atomic_load(&table->channels[0].boosted), 0);
  end(pid);
}

static void by_limit(void) {
  int status = finish(start(limited, NULL));
  CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
}

/* An administrator's nice: 19 is not undone, and one given under a raise stays. */
static void reniced(void) {
  struct mr_sched low = {.policy = SCHED_OTHER, .nice = 19};
  make_board(OWNER);
  pid_t pid = start_as(OWNER);
  show(0, pid, MARU_CHANNEL_IDLE);
  struct daemon d = start_daemon(program, &board, "restore", "1000");
  usleep(200000);
  CHECK_EQUAL(mr_sched_set(pid, &low), 0);
  show(0, pid, MARU_CHANNEL_LOWERED);
  usleep(200000);
  CHECK_EQUAL(place_of(pid).nice, 19);
  end_well(&d);
  CHECK_EQUAL(place_of(pid).nice, 19);
  end(pid);
  pid = start_as(OWNER);
  show(0, pid, MARU_CHANNEL_AWAKE);
  d = start_daemon(program, &board, "pb", "50000");
  until_policy(pid, SCHED_FIFO);
  CHECK_EQUAL(setpriority(PRIO_PROCESS, (id_t)pid, 7), 0);
  atomic_store(&table->channels[0].state, MARU_CHANNEL_IDLE);
  until_policy(pid, SCHED_OTHER);
  CHECK_EQUAL(place_of(pid).nice, 7);
  end_well(&d);
  end(pid);
  maru_board_close(&board);
}

static void until_nice(pid_t pid, int32_t nice) {
  int64_t last = maru_now_ns() + LONG_ENOUGH;
  while (place_of(pid).nice != nice) {
    CHECK(maru_now_ns() < last);
    usleep(100);
  }
}

/* The line says no more that its thread is raised. */
static void until_unmarked(uint32_t i) {
  int64_t last = maru_now_ns() + LONG_ENOUGH;
  while (atomic_load(&table->channels[i].boosted)) {
    CHECK(maru_now_ns() < last);
    usleep(100);
  }
}

/* A small raise ends as others do: by itself, by the next daemon; a thread that had another nice
 * has none, and an administrator's stays. */
static void gently(void) {
  make_board(0);
  pid_t pid = start_as(0), nicer = start_as(0);
  CHECK_EQUAL(setpriority(PRIO_PROCESS, (id_t)nicer, 5), 0);
  show(0, pid, MARU_CHANNEL_AWAKE);
  show(1, nicer, MARU_CHANNEL_AWAKE);
  struct daemon d = start_daemon_by(program, &board, "auto", "gently", "1000");
  until_nice(pid, -1);
  CHECK_EQUAL(place_of(pid).policy, SCHED_OTHER);
  usleep(50000);
  CHECK_EQUAL(place_of(nicer).nice, 5);
  atomic_store(&table->channels[0].state, MARU_CHANNEL_IDLE);
  until_nice(pid, 0);
  CHECK_EQUAL(place_of(pid).on_fork, 0);
  until_unmarked(0);
  atomic_store(&table->channels[0].state, MARU_CHANNEL_AWAKE);
  until_nice(pid, -1);
  CHECK_EQUAL(setpriority(PRIO_PROCESS, (id_t)pid, 7), 0);
  end_well(&d);
  CHECK_EQUAL(place_of(pid).nice, 7);
  CHECK_EQUAL(setpriority(PRIO_PROCESS, (id_t)pid, 0), 0);
  d = start_daemon_by(program, &board, "auto", "gently", "1000");
  until_nice(pid, -1);
  CHECK_EQUAL(kill(d.rescuer, SIGKILL), 0);
  CHECK_EQUAL(kill(d.worker, SIGKILL), 0);
  finish(d.rescuer);
  close(d.output);
  CHECK_EQUAL(place_of(pid).nice, -1);
  d = start_daemon(program, &board, "restore", "1000");
  until_nice(pid, 0);
  end_well(&d);
  end(pid);
  end(nicer);
  maru_board_close(&board);
}

/* A thread that is lowered and does not look is put back by the rescuer when the worker is
 * killed. */
static void left_low(void) {
  struct mr_sched low = {.policy = SCHED_OTHER, .nice = 19};
  char report[512];
  make_board(0);
  pid_t pid = start_as(0);
  show(0, pid, MARU_CHANNEL_IDLE);
  struct daemon d = start_daemon(program, &board, "restore", "1000");
  usleep(200000); /* it is known by now */
  CHECK_EQUAL(mr_sched_set(pid, &low), 0);
  atomic_store(&table->channels[0].word, 0); /* no message: the worker leaves it low */
  atomic_store(&table->channels[0].state, MARU_CHANNEL_LOWERED);
  CHECK_EQUAL(kill(d.worker, SIGKILL), 0);
  until_nice(pid, 0);
  int status = end_daemon(&d, report, sizeof report);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 70);
  end(pid);
  maru_board_close(&board);
}

/* A stopped worker's raises end, and so does the daemon; also when rescuer and worker
 * rested before because nobody waited. */
static void stopped(const char *period_us, unsigned rest_ms) {
  char report[512];
  make_board(0);
  pid_t pid = start_as(0);
  struct daemon d = start_daemon(program, &board, "pb", period_us);
  usleep(rest_ms * 1000);
  show(0, pid, MARU_CHANNEL_AWAKE);
  until_policy(pid, SCHED_FIFO);
  CHECK_EQUAL(kill(d.worker, SIGSTOP), 0);
  int64_t began = maru_now_ns();
  until_policy(pid, SCHED_OTHER);
  CHECK(maru_now_ns() - began < 20 * 100 * MS);
  int status = end_daemon(&d, report, sizeof report);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 70);
  end(pid);
  maru_board_close(&board);
}

/* Each line of a board is looked at: sleepers with a message are woken wherever they lie. */
static void far_lines(void) {
  static const uint32_t far[] = {0, 63, 64, 127, 128, 1000, MARU_WAIT_CHANNELS - 1};
  make_board(0);
  for (size_t i = 0; i < sizeof far / sizeof *far; i++)
    show(far[i], getpid(), MARU_CHANNEL_ASLEEP);
  struct daemon d = start_daemon(program, &board, "wake", "1000");
  int64_t last = maru_now_ns() + LONG_ENOUGH;
  for (size_t i = 0; i < sizeof far / sizeof *far; i++)
    while (atomic_load(&table->channels[far[i]].state) != MARU_CHANNEL_AWAKE) {
      CHECK(maru_now_ns() < last);
      usleep(100);
    }
  end_well(&d);
  maru_board_close(&board);
}

/* A line that was one thread's is another's: the first goes back, the second has its turn. */
static void next_of_a_line(void) {
  make_board(0);
  pid_t first = start_as(0), second = start_as(0);
  show(0, first, MARU_CHANNEL_AWAKE);
  struct daemon d = start_daemon(program, &board, "pb", "1000");
  until_policy(first, SCHED_FIFO);
  show(0, second, MARU_CHANNEL_AWAKE);
  until_policy(second, SCHED_FIFO);
  until_policy(first, SCHED_OTHER);
  end_well(&d);
  CHECK_EQUAL(place_of(first).policy, SCHED_OTHER);
  CHECK_EQUAL(place_of(second).policy, SCHED_OTHER);
  end(first);
  end(second);
  maru_board_close(&board);
}

/* The kernel's word: the second one is refused. */
static void one_a_board(void) {
  char path[64];
  make_board(0);
  struct daemon d = start_daemon(program, &board, "pb", "1000");
  snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), board.fd);
  pid_t second = fork();
  CHECK(second >= 0);
  if (second == 0) {
    execl(program, program, "--board", path, "--for-ms", "1000", NULL);
    _exit(127);
  }
  int status = finish(second);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 69);
  end_well(&d);
  maru_board_close(&board);
}

/* On its way out the rescuer is an ordinary process: its exit costs, above all where a sanitizer
 * looks for leaks in it, and nobody is raised any more. A leak check does not run under a tracer.
 */
static void steps_down(void) {
  make_board(0);
  CHECK_EQUAL(setenv("LSAN_OPTIONS", "detect_leaks=0", 1), 0);
  struct daemon d = start_daemon(program, &board, "pb", "1000");
  CHECK_EQUAL(unsetenv("LSAN_OPTIONS"), 0);
  CHECK_EQUAL(place_of(d.rescuer).policy, SCHED_FIFO);
  CHECK_EQUAL(ptrace(PTRACE_SEIZE, d.rescuer, NULL, (void *)PTRACE_O_TRACEEXIT), 0);
  CHECK_EQUAL(kill(d.worker, SIGKILL), 0);
  CHECK_EQUAL(finish(d.rescuer) >> 8, SIGTRAP | PTRACE_EVENT_EXIT << 8);
  CHECK_EQUAL(place_of(d.rescuer).policy, SCHED_OTHER);
  CHECK_EQUAL(ptrace(PTRACE_DETACH, d.rescuer, NULL, NULL), 0);
  CHECK_EQUAL(WEXITSTATUS(finish(d.rescuer)), 70);
  close(d.output);
  maru_board_close(&board);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  need_root();
  program = argv[1];
  outrank();
  restart();
  unmarked();
  deadline();
  by_limit();
  reniced();
  gently();
  left_low();
  stopped("50000", 0);
  stopped("1000", 500);
  far_lines();
  next_of_a_line();
  one_a_board();
  steps_down();
  return 0;
}
