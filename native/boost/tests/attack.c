/* Description: a board that lies makes a privileged daemon touch nobody who did not come.
 *
 *     attack PROGRAM [SEED]
 *
 * The board is an ordinary user's.  Its lines name threads of root, of another user,
 * of the same user without the board, with a wrong start; then random words.  The
 * victims' places in the scheduler are read all the time: none may ever change. Then what is no
 * board, and boards that are too large. Then a thread that its own user's debugger stops while
 * it is raised, one that forks then, one that is reniced then. */
#define _GNU_SOURCE
#include "boost.h"

#include "task.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define OTHER 65534
#define FUZZ_ROUNDS 3000
#define VICTIMS 3

static struct maru_board board;
static struct maru_wait_table *table;

static void wait_for_ever(void *user) {
  munmap(board.base, board.size); /* it does not have the board */
  close(board.fd);
  become(*(uid_t *)user);
  raise(SIGSTOP);
  for (;;)
    pause();
}

/* Made by the owner: the memfd's user is who created it. */
static void make_board(void) {
  CHECK_EQUAL(seteuid(OWNER), 0);
  CHECK_EQUAL(maru_board_create(&board, 1 << 20), 0);
  CHECK_EQUAL(seteuid(0), 0);
  struct maru_channel *channel;
  CHECK_EQUAL(maru_channel_register(&board, 0, 0, &channel), 0);
  CHECK_EQUAL(maru_wait_table_of(&board, &table), 0);
}

/* A line that says: lowered, its message is there. */
static void lie(uint32_t i, pid_t tid, uint64_t start_time) {
  struct maru_channel *line = &table->channels[i];
  atomic_store(&line->word, 2);
  atomic_store(&line->want, 2);
  atomic_store(&line->mask, ~1u);
  atomic_store(&line->until_equal, 1);
  atomic_store(&line->normal, UINT32_C(0xff020002)); /* "my own place is FIFO 255" */
  atomic_store(&line->start, start_time);
  atomic_store(&line->tid, tid);
  atomic_store(&line->state, i % 2 ? MARU_CHANNEL_LOWERED : MARU_CHANNEL_AWAKE);
  if (atomic_load(&table->used) <= i)
    atomic_store(&table->used, i + 1);
}

struct victim {
  pid_t pid;
  struct mr_sched place;
};

static void look_at(const struct victim *victim) {
  struct mr_sched now;
  CHECK_EQUAL(mr_sched_get(victim->pid, &now), 0);
  CHECK(mr_sched_equal(&now, &victim->place));
}

static void look_for(const struct victim *victims, unsigned count, int64_t time) {
  int64_t end = maru_now_ns() + time;
  while (maru_now_ns() < end)
    for (unsigned i = 0; i < count; i++)
      look_at(&victims[i]);
}

static void named_victims(const char *program, struct victim *victims) {
  uint32_t line = 0;
  char report[512];
  for (unsigned i = 0; i < VICTIMS; i++)
    lie(line++, victims[i].pid, mr_start_time(victims[i].pid));
  lie(line++, 1, mr_start_time(1));
  lie(line++, getpid(), mr_start_time(getpid()) + 1);
  lie(line++, -5, 1);
  lie(line++, INT32_MAX, 1);
  struct daemon d = start_daemon(program, &board, "pb+lower", "1000");
  look_for(victims, VICTIMS, 300 * MS);
  CHECK_EQUAL(end_daemon(&d, report, sizeof report), 0);
  CHECK_EQUAL(field(report, "raises"), 0);
  CHECK_EQUAL(field(report, "restores"), 0);
  CHECK(field(report, "refused") >= line);
}

/* Every word of the section at random, now and then the victims' numbers. */
static void random_words(const char *program, struct victim *victims, uint64_t seed) {
  char report[512];
  struct daemon d = start_daemon(program, &board, "pb+lower", "500");
  _Atomic uint32_t *words = (_Atomic uint32_t *)table;
  for (unsigned round = 0; round < FUZZ_ROUNDS; round++) {
    for (unsigned i = 0; i < 64; i++)
      atomic_store(&words[next_random(&seed) % (sizeof *table / 4)], (uint32_t)next_random(&seed));
    atomic_store(&table->used, (uint32_t)next_random(&seed));
    struct victim *victim = &victims[next_random(&seed) % VICTIMS];
    lie(next_random(&seed) % MARU_WAIT_CHANNELS, victim->pid, mr_start_time(victim->pid));
    atomic_store(&table->used, UINT32_MAX);
    for (unsigned i = 0; i < VICTIMS; i++)
      look_at(&victims[i]);
  }
  CHECK_EQUAL(end_daemon(&d, report, sizeof report), 0);
  CHECK_EQUAL(field(report, "raises"), 0);
}

/* What a liar can have: itself raised; its board's owner comes and has it mapped. */
static void wait_and_spin(void *argument) {
  (void)argument;
  become(OWNER);
  for (volatile uint64_t i = 0;; i++)
    continue;
}

static void own_thread(const char *program) {
  char report[512];
  memset((void *)table->channels, 0, sizeof table->channels);
  atomic_store(&table->used, 1);
  pid_t pid = start(wait_and_spin, NULL);
  usleep(10000);
  lie(0, pid, mr_start_time(pid));
  struct daemon d = start_daemon(program, &board, "pb", "1000");
  CHECK(until_policy(pid, SCHED_FIFO).priority <= 80);
  atomic_store(&table->used, 0); /* "there is no such line" */
  until_policy(pid, SCHED_OTHER);
  CHECK_EQUAL(end_daemon(&d, report, sizeof report), 0);
  CHECK(field(report, "raises") > 0);
  CHECK_EQUAL(place_of(pid).policy, SCHED_OTHER);
  kill(pid, SIGKILL);
  finish(pid);
}

/* Lines that claim many CPUs for threads of one: one of them is raised at a time, within
 * the cap. */
#define SPINNERS 6

static void pin_and_spin(void *argument) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  CHECK_EQUAL(sched_setaffinity(0, sizeof set, &set), 0);
  wait_and_spin(argument);
}

static void false_cpus(const char *program) {
  char report[512];
  pid_t pids[SPINNERS];
  struct mr_sched now;
  unsigned seen = 0, doubles = 0;
  memset((void *)table->channels, 0, sizeof table->channels);
  for (unsigned i = 0; i < SPINNERS; i++)
    pids[i] = start(pin_and_spin, NULL);
  usleep(20000);
  for (unsigned i = 0; i < SPINNERS; i++) {
    lie(i, pids[i], mr_start_time(pids[i]));
    atomic_store(&table->channels[i].state, MARU_CHANNEL_AWAKE);
    atomic_store(&table->channels[i].cpu, 10 + i);
  }
  struct daemon d = start_daemon(program, &board, "pb", "5000");
  int64_t end = maru_now_ns() + LONG_ENOUGH;
  while (seen < 300) {
    unsigned raised = 0;
    CHECK(maru_now_ns() < end);
    for (unsigned i = 0; i < SPINNERS; i++) {
      CHECK_EQUAL(mr_sched_get(pids[i], &now), 0);
      raised += now.policy == SCHED_FIFO;
    }
    CHECK(raised <= 2);
    doubles += raised == 2;
    seen += raised > 0;
    usleep(1000);
  }
  /* We may look while one follows the other. */
  CHECK(doubles < seen / 4);
  CHECK_EQUAL(end_daemon(&d, report, sizeof report), 0);
  for (unsigned i = 0; i < SPINNERS; i++) {
    kill(pids[i], SIGKILL);
    finish(pids[i]);
  }
}

/* As many mappings as the kernel grants, named by every line: the daemon ticks on, and
 * serves another's board. */
static void map_much(void *argument) {
  int fd = memfd_create("x", MFD_CLOEXEC);
  (void)argument;
  CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
  for (unsigned i = 0; i < 60000; i++)
    if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
        MAP_FAILED)
      break;
  become(OWNER);
  for (;;)
    pause();
}

static void many_maps(const char *program) {
  char report[512];
  memset((void *)table->channels, 0, sizeof table->channels);
  pid_t pid = start(map_much, NULL);
  usleep(500000);
  for (uint32_t i = 0; i < MARU_WAIT_CHANNELS; i++)
    lie(i, pid, mr_start_time(pid));
  struct daemon d = start_daemon(program, &board, "pb", "1000");
  int64_t last = atomic_load(&table->heartbeat_ns), worst = 0, end = maru_now_ns() + SECOND;
  while (maru_now_ns() < end) {
    int64_t beat = atomic_load(&table->heartbeat_ns);
    worst = beat - last > worst ? beat - last : worst;
    last = beat;
    usleep(200);
  }
  CHECK(worst < 20 * 5 * MS);
  CHECK_EQUAL(end_daemon(&d, report, sizeof report), 0);
  CHECK_EQUAL(field(report, "raises"), 0);
  kill(pid, SIGKILL);
  finish(pid);
}

/* ---- what is no board ----------------------------------------------------- */

static int run_on(const char *program, const char *path) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    close(STDERR_FILENO);
    execl(program, program, "--board", path, "--for-ms", "100", NULL);
    _exit(127);
  }
  int status = finish(pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void write_fifo(void *path) { _exit(open(path, O_WRONLY) >= 0); }

/* A FIFO, a link to it and a file with a board's very bytes are refused, and the FIFO's writer
 * never meets a reader. A link to a board is as good as the board. */
static void no_boards(const char *program) {
  char folder[] = "/tmp/maru-attack-XXXXXX", fifo[64], link[64], good[64], file[64], path[64];
  CHECK(mkdtemp(folder) != NULL);
  snprintf(fifo, sizeof fifo, "%s/fifo", folder);
  snprintf(link, sizeof link, "%s/link", folder);
  snprintf(good, sizeof good, "%s/good", folder);
  snprintf(file, sizeof file, "%s/file", folder);
  snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), board.fd);
  CHECK_EQUAL(mkfifo(fifo, 0600) | symlink(fifo, link) | symlink(path, good), 0);
  int fd = open(file, O_RDWR | O_CREAT, 0600);
  CHECK_EQUAL(write(fd, board.base, board.size), board.size);
  close(fd);
  pid_t writer = start(write_fifo, fifo);
  usleep(20000);
  CHECK_EQUAL(run_on(program, fifo), 69);
  CHECK_EQUAL(run_on(program, link), 69);
  CHECK_EQUAL(run_on(program, file), 69);
  CHECK_EQUAL(run_on(program, "/dev/null"), 69);
  CHECK_EQUAL(run_on(program, good), 0);
  CHECK_EQUAL(waitpid(writer, NULL, WNOHANG), 0);
  kill(writer, SIGKILL);
  finish(writer);
  CHECK_EQUAL(unlink(fifo) | unlink(link) | unlink(good) | unlink(file) | rmdir(folder), 0);
}

/* Addresses are the daemon's own: a board of any size takes no more of them than there is use for.
 */
static void huge_boards(const char *program) {
  struct maru_board huge;
  struct maru_channel *channel;
  char path[64];
  CHECK_EQUAL(seteuid(OWNER), 0);
  int rc = maru_board_create(&huge, (size_t)1 << 44);
  CHECK_EQUAL(seteuid(0), 0);
  if (rc < 0)
    return; /* a sanitizer, or `ulimit -v` */
  CHECK_EQUAL(maru_channel_register(&huge, 0, 0, &channel), 0);
  snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), huge.fd);
  CHECK_EQUAL(run_on(program, path), 69);
  maru_board_close(&huge);
}

/* ---- a raised thread ------------------------------------------------------ */

static void show_alone(pid_t pid) {
  memset((void *)table->channels, 0, sizeof table->channels);
  lie(0, pid, mr_start_time(pid));
}

/* Stopped in the middle by the debugger of its own user, it goes back to its place all the same. */
static void trace(void *pid) {
  become(OWNER);
  CHECK_EQUAL(ptrace(PTRACE_ATTACH, *(pid_t *)pid, NULL, NULL), 0);
  for (;;)
    pause();
}

static void traced(const char *program) {
  char report[512];
  pid_t pid = start(wait_and_spin, NULL);
  usleep(20000);
  show_alone(pid);
  struct daemon d = start_daemon(program, &board, "pb", "20000");
  until_policy(pid, SCHED_FIFO);
  pid_t tracer = start(trace, &pid);
  until_policy(pid, SCHED_OTHER);
  CHECK_EQUAL(end_daemon(&d, report, sizeof report), 0);
  CHECK_EQUAL(field(report, "failed"), 0);
  CHECK_EQUAL(place_of(pid).policy, SCHED_OTHER);
  kill(tracer, SIGKILL);
  finish(tracer);
  kill(pid, SIGKILL);
  finish(pid);
}

/* At nice 10, which it could not leave; whenever it finds itself raised it forks. */
static void fork_when_raised(void *worst) {
  _Atomic int *least = *(_Atomic int **)worst;
  CHECK_EQUAL(setpriority(PRIO_PROCESS, 0, 10), 0);
  become(OWNER);
  for (;;) {
    struct mr_sched now = place_of(0);
    if (now.policy == SCHED_OTHER && now.nice == 10)
      continue;
    pid_t pid = fork();
    if (pid == 0) {
      usleep(50000); /* the daemon has let go of it */
      now = place_of(0);
      int nice = now.policy == SCHED_OTHER ? now.nice : -20;
      for (int seen = atomic_load(least); nice < seen;)
        atomic_compare_exchange_weak(least, &seen, nice);
      _exit(0);
    }
    finish(pid);
  }
}

static void forks(const char *program, const char *how) {
  char report[512];
  _Atomic int *least = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(least != MAP_FAILED);
  atomic_store(least, 10);
  pid_t pid = start(fork_when_raised, &least);
  usleep(20000);
  show_alone(pid);
  struct daemon d = start_daemon_by(program, &board, "auto", how, "1000");
  usleep(500000);
  CHECK_EQUAL(end_daemon(&d, report, sizeof report), 0);
  CHECK_EQUAL(atomic_load(least), 10);
  kill(pid, SIGKILL);
  finish(pid);
  munmap((void *)least, 4096);
}

/* What an administrator gives under a raise stays, for all that the board says later. */
static void reniced(const char *program) {
  char report[512];
  pid_t pid = start(wait_and_spin, NULL);
  usleep(20000);
  show_alone(pid);
  struct daemon d = start_daemon(program, &board, "pb+lower", "2000");
  until_policy(pid, SCHED_FIFO);
  CHECK_EQUAL(setpriority(PRIO_PROCESS, (id_t)pid, 19), 0);
  until_policy(pid, SCHED_OTHER);
  int64_t end = maru_now_ns() + SECOND;
  for (unsigned k = 0; maru_now_ns() < end; k++) {
    atomic_store(&table->channels[0].state, k % 2 ? MARU_CHANNEL_LOWERED : MARU_CHANNEL_AWAKE);
    struct mr_sched now = place_of(pid);
    CHECK(now.policy == SCHED_OTHER && now.nice == 19);
    usleep(500);
  }
  CHECK_EQUAL(end_daemon(&d, report, sizeof report), 0);
  CHECK_EQUAL(place_of(pid).nice, 19);
  kill(pid, SIGKILL);
  finish(pid);
}

/* As root: the gentle way unless the administrator chooses another one. */
static void gentle_by_default(const char *program) {
  char report[512];
  pid_t pid = start(wait_and_spin, NULL);
  usleep(20000);
  show_alone(pid);
  struct daemon d = start_daemon_by(program, &board, "auto", NULL, "1000");
  int64_t end = maru_now_ns() + LONG_ENOUGH;
  struct mr_sched now;
  while ((now = place_of(pid)).nice == 0) {
    CHECK_EQUAL(now.policy, SCHED_OTHER);
    CHECK(maru_now_ns() < end);
    usleep(100);
  }
  CHECK_EQUAL(now.policy, SCHED_OTHER);
  CHECK_EQUAL(now.nice, -1);
  CHECK_EQUAL(end_daemon(&d, report, sizeof report), 0);
  CHECK_EQUAL(place_of(pid).nice, 0);
  kill(pid, SIGKILL);
  finish(pid);
}

int main(int argc, char **argv) {
  CHECK(argc >= 2);
  need_root();
  /* Above what the daemon raises: whatever happens, we see the end. */
  make_board();
  uid_t users[VICTIMS] = {0, OTHER, OWNER};
  struct victim victims[VICTIMS];
  for (unsigned i = 0; i < VICTIMS; i++) {
    victims[i].pid = start(wait_for_ever, &users[i]);
    CHECK_EQUAL(mr_sched_get(victims[i].pid, &victims[i].place), 0);
    CHECK_EQUAL(waitpid(victims[i].pid, NULL, WUNTRACED), victims[i].pid); /* it has no board */
    kill(victims[i].pid, SIGCONT);
  }
  named_victims(argv[1], victims);
  random_words(argv[1], victims, setting("MARU_TEST_SEED", 88172645463325252));
  outrank();
  own_thread(argv[1]);
  false_cpus(argv[1]);
  many_maps(argv[1]);
  no_boards(argv[1]);
  huge_boards(argv[1]);
  traced(argv[1]);
  forks(argv[1], "fifo");
  forks(argv[1], "nice");
  reniced(argv[1]);
  gentle_by_default(argv[1]);
  for (unsigned i = 0; i < VICTIMS; i++) {
    kill(victims[i].pid, SIGKILL);
    finish(victims[i].pid);
  }
  return 0;
}
