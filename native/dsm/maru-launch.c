/* maru-launch: starts the nodes of a job on this host and watches them, on behalf
 * of `maru launch`.
 *
 *     maru-launch -n NODES -- COMMAND [ARGUMENT...]
 *
 * Before:  binds one loopback port per node, draws the job's secret, and passes
 *          both in the environment (MARU_DSM_*); a node inherits its own
 *          listening socket, so no port can be taken by somebody else meanwhile.
 * During:  each node is a process group; each line of its output appears whole, after "[NODE] ".
 * Node 0 has our standard input, unless that is a terminal; the others' is empty.  HUP, INT and
 * TERM end the job. After:   where one node failed, the others are ended (TERM, then KILL after
 *          GRACE_MS), and one line says which and how.  No node outlives this
 *          process: the kernel kills them if it dies.
 *
 * Status:  125 maru failed, 126 the command cannot be executed, 127 it was not
 *          found, else that of the first node that failed by itself (128 + the signal that
 *          killed it), or 128 + the signal that this process was sent.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  STATUS_USAGE = 64,
  STATUS_MARU_FAILED = 125,
  STATUS_CANNOT_EXECUTE = 126,
  STATUS_NOT_FOUND = 127,
  STATUS_LOST = 75
};

#define NODES_MAX 256
#define SECRET 32
#define LINE_MAX_BYTES 65536u
#define GRACE_MS 2000

/* One of a node's two outputs. */
struct stream {
  int fd; /* -1: ended */
  int to;
  size_t length;
  char *line;
};

struct node {
  pid_t pid; /* 0: ended */
  int listener;
  uint16_t port;
  struct stream streams[2];
};

struct job {
  unsigned nodes, alive;
  struct node node[NODES_MAX];
  char **command;
  char *addresses;
  char secret[2 * SECRET + 1];
  int signals;
  int status;          /* what we shall exit with */
  unsigned culprit;    /* whose it is; NODES_MAX: a signal to us */
  bool ending, killed; /* we sent TERM, KILL */
  bool said;           /* a node's last words were shown */
  char *lost;          /* such words of a node that only lost another, and whose */
  unsigned lost_by;
  int64_t kill_at; /* ms; 0: not */
};

static _Noreturn void fail(int status, const char *what, const char *why) {
  fprintf(stderr, "maru: launch: %s%s%s\n", what, *why ? ": " : "", why);
  exit(status);
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- before ------------------------------------------------------------------- */

static void read_arguments(struct job *job, int count, char **arguments) {
  char *end = NULL;
  unsigned long nodes = 0;
  if (count >= 5 && strcmp(arguments[1], "-n") == 0 && strcmp(arguments[3], "--") == 0)
    nodes = strtoul(arguments[2], &end, 10);
  if (end == NULL || *end != 0 || nodes < 1 || nodes > NODES_MAX)
    fail(STATUS_USAGE, "usage: maru-launch -n NODES -- COMMAND...; 1 to 256 nodes", "");
  job->nodes = (unsigned)nodes;
  job->command = arguments + 4;
}

static void bind_port(struct node *node) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  node->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (node->listener < 0 || bind(node->listener, (struct sockaddr *)&address, size) < 0 ||
      listen(node->listener, NODES_MAX) < 0 ||
      getsockname(node->listener, (struct sockaddr *)&address, &size) < 0)
    fail(STATUS_MARU_FAILED, "no port on the loopback interface", strerror(errno));
  node->port = ntohs(address.sin_port);
}

static void prepare(struct job *job) {
  uint8_t secret[SECRET];
  if (getrandom(secret, sizeof secret, 0) != sizeof secret)
    fail(STATUS_MARU_FAILED, "no random numbers", strerror(errno));
  for (int i = 0; i < SECRET; i++)
    snprintf(job->secret + 2 * i, 3, "%02x", secret[i]);
  job->addresses = calloc(job->nodes, sizeof "127.0.0.1:65535,");
  if (job->addresses == NULL)
    fail(STATUS_MARU_FAILED, "no memory", "");
  char *at = job->addresses;
  for (unsigned i = 0; i < job->nodes; i++) {
    bind_port(&job->node[i]);
    at += sprintf(at, "%s127.0.0.1:%u", i > 0 ? "," : "", job->node[i].port);
  }
}

static void catch_signals(struct job *job) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, NULL);
  job->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (job->signals < 0)
    fail(STATUS_MARU_FAILED, "cannot receive signals", strerror(errno));
}

/* ---- a node ---------------------------------------------------------------------- */

static void set_number(const char *name, unsigned value) {
  char text[16];
  snprintf(text, sizeof text, "%u", value);
  setenv(name, text, 1);
}

static bool empty_input(void) {
  int nothing = open("/dev/null", O_RDONLY);
  bool done = nothing >= 0 && dup2(nothing, 0) == 0;
  if (nothing > 2)
    close(nothing);
  return done;
}

static _Noreturn void become_node(const struct job *job, unsigned number, const int *outputs,
                                  pid_t parent) {
  const struct node *node = &job->node[number];
  sigset_t none;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(STATUS_MARU_FAILED);
  setpgid(0, 0);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if ((number > 0 || isatty(0)) && !empty_input())
    _exit(STATUS_MARU_FAILED);
  if (dup2(outputs[0], 1) < 0 || dup2(outputs[1], 2) < 0)
    _exit(STATUS_MARU_FAILED);
  fcntl(node->listener, F_SETFD, 0);
  set_number("MARU_DSM_NODES", job->nodes);
  set_number("MARU_DSM_NODE", number);
  set_number("MARU_DSM_LISTENER", (unsigned)node->listener);
  setenv("MARU_DSM_ADDRESSES", job->addresses, 1);
  setenv("MARU_DSM_SECRET", job->secret, 1);
  execvp(job->command[0], job->command);
  int error = errno;
  fprintf(stderr, "maru: launch: %s: %s\n", job->command[0], strerror(error));
  _exit(error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_EXECUTE);
}

static void start_node(struct job *job, unsigned number) {
  struct node *node = &job->node[number];
  int pipes[2][2], outputs[2];
  pid_t parent = getpid();
  for (int i = 0; i < 2; i++) {
    if (pipe2(pipes[i], O_CLOEXEC) < 0)
      fail(STATUS_MARU_FAILED, "no pipe for a node's output", strerror(errno));
    outputs[i] = pipes[i][1];
    node->streams[i] =
        (struct stream){.fd = pipes[i][0], .to = i + 1, .line = malloc(LINE_MAX_BYTES)};
    if (node->streams[i].line == NULL)
      fail(STATUS_MARU_FAILED, "no memory", "");
  }
  node->pid = fork();
  if (node->pid < 0)
    fail(STATUS_MARU_FAILED, "cannot start a node", strerror(errno));
  if (node->pid == 0)
    become_node(job, number, outputs, parent);
  /* Here too, so that the group is there when we signal it. */
  setpgid(node->pid, node->pid);
  close(pipes[0][1]);
  close(pipes[1][1]);
  close(node->listener);
  job->alive++;
}

/* ---- output ------------------------------------------------------------------------ */

static void write_all(int fd, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t n = write(fd, bytes, length);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return; /* nobody reads it any more */
    bytes += n;
    length -= (size_t)n;
  }
}

/* One cause, one line: what ends a job ends all its nodes, and each has something to say.  Of
 * their last words the first are shown; those of who merely lost another are kept back.
 * True: not to be shown now. */
static bool is_echo(struct job *job, unsigned number, const char *line, size_t length) {
  char begin[32], lost[40];
  int size = snprintf(begin, sizeof begin, "maru: node %u: ", number);
  int lost_size = snprintf(lost, sizeof lost, "%slost node ", begin);
  if (length < (size_t)size || memcmp(line, begin, (size_t)size) != 0)
    return false;
  if (length >= (size_t)lost_size && memcmp(line, lost, (size_t)lost_size) == 0) {
    if (job->lost == NULL) {
      job->lost_by = number;
      job->lost = strndup(line, length);
    }
    return true;
  }
  bool echo = job->said;
  job->said = true;
  return echo;
}

static void write_line(struct job *job, unsigned number, const struct stream *stream,
                       const char *line, size_t length) {
  if (stream->to == STDERR_FILENO && is_echo(job, number, line, length))
    return;
  static char whole[LINE_MAX_BYTES + 16];
  int prefix = snprintf(whole, sizeof whole, "[%u] ", number);
  memcpy(whole + prefix, line, length);
  whole[(size_t)prefix + length] = '\n';
  write_all(stream->to, whole, (size_t)prefix + length + 1);
}

/* Whole lines; one that is too long in pieces; what is left at the end. */
static void write_lines(struct job *job, unsigned number, struct stream *stream, bool end) {
  char *begin = stream->line, *newline;
  size_t left = stream->length;
  while ((newline = memchr(begin, '\n', left)) != NULL) {
    write_line(job, number, stream, begin, (size_t)(newline - begin));
    left -= (size_t)(newline - begin) + 1;
    begin = newline + 1;
  }
  if (left > 0 && (end || left == LINE_MAX_BYTES)) {
    write_line(job, number, stream, begin, left);
    left = 0;
  }
  memmove(stream->line, begin, left);
  stream->length = left;
}

static void read_stream(struct job *job, unsigned number, struct stream *stream) {
  ssize_t n = read(stream->fd, stream->line + stream->length, LINE_MAX_BYTES - stream->length);
  if (n < 0 && errno == EINTR)
    return;
  if (n > 0)
    stream->length += (size_t)n;
  write_lines(job, number, stream, n <= 0);
  if (n <= 0) {
    close(stream->fd);
    stream->fd = -1;
  }
}

/* ---- life and death -------------------------------------------------------------------- */

static void signal_all(const struct job *job, int signal) {
  for (unsigned i = 0; i < job->nodes; i++)
    if (job->node[i].pid > 0)
      kill(-job->node[i].pid, signal);
}

static void end_job(struct job *job) {
  if (job->ending)
    return;
  job->ending = true;
  job->kill_at = now_ms() + GRACE_MS;
  signal_all(job, SIGTERM);
}

/* A node that another's death took along, or that we ended, is not the cause.  It may
 * be reaped first: a dying node closes its connections before it is gone. */
static void note_status(struct job *job, unsigned number, int status) {
  int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  bool by_us = (job->ending && code == 128 + SIGTERM) || (job->killed && code == 128 + SIGKILL);
  if (code != 0 && !by_us && (job->status == 0 || job->status == STATUS_LOST)) {
    job->status = code;
    job->culprit = number;
  }
}

static void reap(struct job *job) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
    for (unsigned i = 0; i < job->nodes; i++)
      if (job->node[i].pid == pid) {
        job->node[i].pid = 0;
        job->alive--;
        note_status(job, i, status);
      }
  if (job->status != 0)
    end_job(job);
}

static void read_signals(struct job *job) {
  struct signalfd_siginfo info;
  while (read(job->signals, &info, sizeof info) == sizeof info)
    if (info.ssi_signo != SIGCHLD) {
      job->status = 128 + (int)info.ssi_signo;
      job->culprit = NODES_MAX;
      end_job(job);
    }
}

static bool open_streams(const struct job *job) {
  for (unsigned i = 0; i < job->nodes; i++)
    if (job->node[i].streams[0].fd >= 0 || job->node[i].streams[1].fd >= 0)
      return true;
  return false;
}

/* How long to sleep.  When no node is left, what is in the pipes is read, but nobody who
 * inherited one is waited for. */
static int patience(struct job *job) {
  if (job->alive == 0)
    return 0;
  if (job->kill_at == 0)
    return -1;
  int64_t left = job->kill_at - now_ms();
  if (left > 0)
    return (int)left;
  signal_all(job, SIGKILL);
  job->killed = true;
  job->kill_at = 0;
  return -1;
}

static void watch(struct job *job) {
  static struct pollfd polled[2 * NODES_MAX + 1];
  while (job->alive > 0 || open_streams(job)) {
    nfds_t count = 0;
    for (unsigned i = 0; i < 2 * job->nodes; i++)
      polled[count++] = (struct pollfd){.fd = job->node[i / 2].streams[i % 2].fd, .events = POLLIN};
    polled[count++] = (struct pollfd){.fd = job->signals, .events = POLLIN};
    int ready = poll(polled, count, patience(job));
    if (ready == 0 && job->alive == 0)
      break;
    for (unsigned i = 0; i < 2 * job->nodes; i++)
      if (ready > 0 && polled[i].revents != 0)
        read_stream(job, i / 2, &job->node[i / 2].streams[i % 2]);
    read_signals(job);
    reap(job);
  }
}

/* Where no node has said it. */
static void say_why(const struct job *job) {
  if (job->status == 0 || job->culprit == NODES_MAX || job->said)
    return;
  if (job->status == STATUS_LOST && job->lost != NULL)
    fprintf(stderr, "[%u] %s\n", job->lost_by, job->lost);
  else
    fprintf(stderr, "maru: launch: node %u %s %d\n", job->culprit,
            job->status > 128 ? "was ended by signal" : "ended with status",
            job->status > 128 ? job->status - 128 : job->status);
}

int main(int count, char **arguments) {
  static struct job job;
  read_arguments(&job, count, arguments);
  catch_signals(&job);
  prepare(&job);
  for (unsigned i = 0; i < job.nodes; i++)
    start_node(&job, i);
  watch(&job);
  say_why(&job);
  return job.status;
}
