/* PMI-1, as processes speak it: lines of "name=value" over the descriptor PMI_FD (MPICH's mpiexec,
 * srun --mpi=pmi2).  Protocol: MPICH, doc on "PMI-1 wire protocol". */
#define _GNU_SOURCE
#include "launcher.h"

#include "numbers.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <maru/wait.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 1200
#define LEAVE_NS INT64_C(5000000000)

static struct {
  int fd;
  unsigned me;
  int64_t deadline;
  char table[256]; /* its name */
} pmi = {.fd = -1};

static int read_line(char line[LINE]) {
  for (size_t length = 0; length < LINE - 1;) {
    struct pollfd polled = {.fd = pmi.fd, .events = POLLIN};
    int64_t left_ms = (pmi.deadline - maru_now_ns()) / 1000000;
    if (left_ms <= 0)
      return -ETIMEDOUT;
    if (poll(&polled, 1, (int)left_ms) <= 0)
      continue;
    ssize_t n = read(pmi.fd, line + length, 1);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return -EPIPE;
    if (line[length] == '\n') {
      line[length] = 0;
      return 0;
    }
    length++;
  }
  return -EMSGSIZE;
}

/* The value of a name in a line of them. */
static int value_of(const char *line, const char *name, char *value, size_t room) {
  size_t size = strlen(name);
  for (const char *at = line; at != NULL; at = strchr(at, ' ')) {
    at += *at == ' ';
    if (strncmp(at, name, size) != 0 || at[size] != '=')
      continue;
    size_t length = strcspn(at + size + 1, " ");
    if (length >= room)
      return -EMSGSIZE;
    memcpy(value, at + size + 1, length);
    value[length] = 0;
    return 0;
  }
  return -ENOENT;
}

/* Says a line and hears the answer, which must begin so and report no failure. */
static int ask(const char *question, const char *answer, char line[LINE]) {
  char command[64], code[16];
  size_t length = strlen(question);
  if (write(pmi.fd, question, length) != (ssize_t)length)
    return -EPIPE;
  int rc = read_line(line);
  if (rc == 0)
    rc = value_of(line, "cmd", command, sizeof command);
  if (rc == 0 && strcmp(command, answer) != 0)
    rc = -EPROTO;
  if (rc == 0 && value_of(line, "rc", code, sizeof code) == 0 && strcmp(code, "0") != 0)
    rc = -EREMOTEIO;
  return rc;
}

static int open_table(unsigned *nodes, unsigned *me, int seconds, char *why, size_t size) {
  char line[LINE];
  const char *count = getenv("PMI_SIZE");
  int64_t fd = -1, rank = 0, size_of_job = 0;
  if (mr_whole(getenv("PMI_FD"), 0, INT32_MAX, &fd) < 0 ||
      mr_whole(getenv("PMI_RANK"), 0, INT32_MAX, &rank) < 0 ||
      (count != NULL && mr_whole(count, 0, INT32_MAX, &size_of_job) < 0)) {
    snprintf(why, size,
             "PMI_FD, PMI_RANK and PMI_SIZE are '%s', '%s' and '%s': not all are numbers",
             getenv("PMI_FD"), getenv("PMI_RANK"), count != NULL ? count : "");
    return -EINVAL;
  }
  pmi.fd = (int)fd;
  pmi.deadline = maru_now_ns() + seconds * INT64_C(1000000000);
  *me = pmi.me = (unsigned)rank;
  *nodes = (unsigned)size_of_job;
  fcntl(pmi.fd, F_SETFD, FD_CLOEXEC);
  int rc = ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", line);
  if (rc == 0)
    rc = ask("cmd=get_my_kvsname\n", "my_kvsname", line);
  if (rc == 0)
    rc = value_of(line, "kvsname", pmi.table, sizeof pmi.table);
  if (rc < 0)
    snprintf(why, size, "the launcher does not answer by PMI: %s", strerror(-rc));
  return rc;
}

static int put(const char *key, const char *value) {
  char line[LINE];
  snprintf(line, sizeof line, "cmd=put kvsname=%s key=%s-%u value=%s\n", pmi.table, key, pmi.me,
           value);
  return ask(line, "put_result", line);
}

static int pmi_meet(void) {
  char line[LINE];
  return ask("cmd=barrier_in\n", "barrier_out", line);
}

static int get(unsigned node, const char *key, char value[MR_BOARD_VALUE]) {
  char line[LINE];
  snprintf(line, sizeof line, "cmd=get kvsname=%s key=%s-%u\n", pmi.table, key, node);
  int rc = ask(line, "get_result", line);
  return rc < 0 ? rc : value_of(line, "value", value, MR_BOARD_VALUE);
}

/* The program is MPI's too, which leaves by itself, and once is all that a process may. */
static bool is_mpi(void) {
  int (*initialized)(int *), yes = 0;
  *(void **)&initialized = dlsym(RTLD_DEFAULT, "MPI_Initialized");
  return initialized != NULL && initialized(&yes) == 0 && yes != 0;
}

static void close_table(void) {
  char line[LINE];
  if (is_mpi())
    return;
  pmi.deadline = maru_now_ns() + LEAVE_NS; /* that of the meeting may be long over */
  ask("cmd=finalize\n", "finalize_ack", line);
}

static void abort_job(int status) {
  char line[64];
  int length = snprintf(line, sizeof line, "cmd=abort exitcode=%d\n", status);
  (void)!write(pmi.fd, line, (size_t)length);
}

const struct mr_board_way mr_pmi_way = {open_table, put, pmi_meet, get, close_table, abort_job};
