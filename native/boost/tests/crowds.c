/* Description: nobody hides another user's runs from the daemon, and whom the administrator leaves
 * out has nothing of it.
 *
 *     crowds PROGRAM
 *
 * Crowds of one user. Huge boards. Very many descriptors, in processes that are dumpable or not,
 * or that have many user numbers in a user namespace. Very many user numbers. A FIFO that is
 * named as a board is. Then --users and --groups. */
#define _GNU_SOURCE
#include "runs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define OTHER 65534
#define GROUP 65531
#define LOOKS 65536 /* of one user, in one search */
#define LOOKS_A_PROCESS 4096
#define NUMBERS 300 /* more users than have an account */

static const char *program;

static pid_t search(void) { return search_for(program, NULL, NULL); }

/* ---- a user's looks ------------------------------------------------------- */

enum crowd_kind { DUMPABLE, NOT_DUMPABLE, OWN_NAMESPACE };

struct descriptors {
  enum crowd_kind kind;
  unsigned processes;
  int told, ready; /* ends of pipes */
};

static void hold_descriptors(enum crowd_kind kind, unsigned number) {
  if (kind == OWN_NAMESPACE)
    CHECK_EQUAL(setresuid(number, number, number), 0);
  prctl(PR_SET_DUMPABLE, kind != NOT_DUMPABLE);
  int null = open("/dev/null", O_RDONLY);
  CHECK(null >= 0);
  while (dup(null) >= 0)
    continue;
}

static void hold_many(void *argument) {
  const struct descriptors *d = argument;
  char byte = 0;
  become(OWNER);
  if (d->kind == OWN_NAMESPACE)
    CHECK_EQUAL(unshare(CLONE_NEWUSER), 0);
  CHECK_EQUAL(write(d->ready, &byte, 1), 1);
  CHECK_EQUAL(read(d->told, &byte, 1), 1); /* its numbers are mapped */
  for (unsigned i = 0; i < d->processes; i++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
      continue;
    hold_descriptors(d->kind, i);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CHECK_EQUAL(write(d->ready, &byte, 1), 1);
    for (;;)
      pause();
  }
  for (;;)
    pause();
}

static void write_text(pid_t pid, const char *file, const char *text) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
  int fd = open(path, O_WRONLY);
  CHECK(fd >= 0);
  CHECK_EQUAL(write(fd, text, strlen(text)), strlen(text));
  close(fd);
}

/* The crowd's user has had all looks that he gets when the search comes to his run; root's, which
 * comes after it, is found. */
static void charged(enum crowd_kind kind) {
  struct rlimit before, files;
  int told[2], ready[2];
  char byte = 0;
  CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlim_t each = before.rlim_max < LOOKS_A_PROCESS ? before.rlim_max : LOOKS_A_PROCESS;
  files = (struct rlimit){each, before.rlim_max};
  CHECK_EQUAL(pipe(told) | pipe(ready), 0);
  struct descriptors d = {kind, LOOKS / (unsigned)each + 2, told[0], ready[1]};
  CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &files), 0);
  pid_t crowd = start(hold_many, &d);
  CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &before), 0);
  CHECK_EQUAL(close(ready[1]), 0); /* none of the crowd left: the end of the file */
  CHECK_EQUAL(read(ready[0], &byte, 1), 1);
  if (kind == OWN_NAMESPACE) /* as newuidmap does it for everybody */
    write_text(crowd, "uid_map", "0 100000 1000");
  CHECK_EQUAL(write(told[1], &byte, 1), 1);
  for (unsigned i = 0; i < d.processes; i++)
    CHECK_EQUAL(read(ready[0], &byte, 1), 1);
  struct run his = {.user = OWNER}, roots = {0};
  pid_t late = start(one_run, &his), run = start(one_run, &roots);
  usleep(50000);
  pid_t daemon = search();
  until_policy(run, SCHED_FIFO);
  for (int i = 0; i < 100; i++) {
    CHECK(!is_raised(late));
    usleep(1000);
  }
  end_search(daemon);
  end(crowd);
  end(late);
  end(run);
  close(told[0]);
  close(told[1]);
  close(ready[0]);
}

/* A run of another user's that comes after the crowd is found. */
static void beside(void (*crowd)(void *)) {
  pid_t many = start(crowd, NULL);
  usleep(300000);
  struct run other = {.user = OTHER};
  pid_t run = start(one_run, &other);
  pid_t daemon = search();
  until_policy(run, SCHED_FIFO);
  end_search(daemon);
  end(many);
  end(run);
}

static void be_many(void *unused) {
  (void)unused;
  for (unsigned i = 0; i < NUMBERS; i++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
      for (become(100000 + i);;)
        pause();
  }
  for (;;)
    pause();
}

/* ---- boards --------------------------------------------------------------- */

static void make_huge(void *unused) {
  struct maru_board board;
  struct maru_channel *channel;
  (void)unused;
  become(OWNER);
  for (unsigned i = 0; i < 8; i++) {
    int rc = -ENOMEM;
    for (int bits = 46; rc < 0 && bits > 40; bits--)
      rc = maru_board_create(&board, (size_t)1 << bits);
    if (rc < 0)
      break; /* a sanitizer, or `ulimit -v` */
    CHECK_EQUAL(maru_channel_register(&board, 0, 0, &channel), 0);
    munmap(board.base, board.size); /* its addresses are for the next one */
  }
  for (;;)
    pause();
}

/* A path in a mount that nobody else has is what its owner likes. */
#define BOARD_NAME "memfd:maru-board (deleted)"
#define CLONED 1u /* OPEN_TREE_CLONE */

static char mounted[] = "/tmp/maru-crowds-XXXXXX";

static void name_a_fifo(void *ready) {
  char path[64], link[64];
  int own = (int)syscall(SYS_open_tree, AT_FDCWD, mounted, CLONED | O_CLOEXEC);
  if (own < 0 || mkfifoat(own, BOARD_NAME, 0600) < 0)
    _exit(77);
  int held = openat(own, BOARD_NAME, O_PATH);
  CHECK(held >= 0);
  snprintf(path, sizeof path, "/proc/self/fd/%d", held);
  ssize_t length = readlink(path, link, sizeof link - 1);
  CHECK(length > 0);
  link[length] = '\0';
  if (strcmp(link, "/" BOARD_NAME) != 0)
    _exit(77);
  CHECK_EQUAL(write(*(int *)ready, "x", 1), 1);
  _exit(open(path, O_WRONLY) >= 0); /* until somebody opens it for reading */
}

static void only_named_so(void) {
  int ready[2];
  char byte;
  CHECK(mkdtemp(mounted) != NULL);
  CHECK_EQUAL(mount("none", mounted, "tmpfs", 0, NULL), 0);
  CHECK_EQUAL(pipe(ready), 0);
  pid_t fifo = start(name_a_fifo, &ready[1]);
  close(ready[1]);
  if (read(ready[0], &byte, 1) == 1) {
    struct run roots = {0};
    pid_t run = start(one_run, &roots), daemon = search();
    until_policy(run, SCHED_FIFO); /* the search went by the FIFO before */
    end_search(daemon);
    CHECK_EQUAL(waitpid(fifo, NULL, WNOHANG), 0);
    kill(fifo, SIGKILL);
    end(run);
  } else
    printf("no mount without a place here: a FIFO that is named as a board is not tried\n");
  finish(fifo);
  close(ready[0]);
  CHECK_EQUAL(umount2(mounted, MNT_DETACH) | rmdir(mounted), 0);
}

/* ---- whose ---------------------------------------------------------------- */

/* `served`: a bit for each run that is looked after. */
static void named(const char *which, const char *whom, unsigned served) {
  struct run runs[] = {{.user = OWNER}, {.user = OTHER, .group = GROUP}, {.user = OTHER}};
  pid_t pids[3];
  for (unsigned i = 0; i < 3; i++)
    pids[i] = start(one_run, &runs[i]);
  usleep(50000);
  pid_t daemon = search_for(program, which, whom);
  for (unsigned i = 0; i < 3; i++)
    if (served & 1u << i)
      until_policy(pids[i], SCHED_FIFO);
  for (int k = 0; k < 300; k++, usleep(1000))
    for (unsigned i = 0; i < 3; i++)
      CHECK(served & 1u << i || !is_raised(pids[i]));
  end_search(daemon);
  for (unsigned i = 0; i < 3; i++)
    end(pids[i]);
}

static void refuses(const char *which, const char *whom, uid_t as) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    close(STDERR_FILENO);
    if (as != 0 && setuid(as) < 0)
      _exit(1);
    execl(program, program, which, whom, "--for-ms", "100", NULL);
    _exit(127);
  }
  int status = finish(pid);
  /* Another user may not get at the program. */
  CHECK(WIFEXITED(status) &&
        (WEXITSTATUS(status) == 64 || (as != 0 && WEXITSTATUS(status) == 127)));
}

static void whose(void) {
  named("--users", "4,65533", 1); /* OWNER */
  named("--groups", "65531", 2);  /* GROUP */
  refuses("--users", "", 0);
  refuses("--users", "1,", 0);
  refuses("--users", "-1", 0);
  refuses("--users", "4294967295", 0);
  refuses("--groups", "wheel", 0);
  refuses("--users", "65534", 65534); /* of root alone */
  refuses("--policy", "pb", 0);       /* as root without --boost */
  refuses("--policy", "gang", 0);
}

static void inside(void *unused) {
  (void)unused;
  mount_own_proc();
  whose();
  beside(make_huge);
  only_named_so();
  for (enum crowd_kind kind = DUMPABLE; kind <= OWN_NAMESPACE; kind++)
    charged(kind);
  beside(be_many); /* last: nobody reaps them here */
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  program = argv[1];
  apart(inside);
}
