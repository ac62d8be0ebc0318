#define _GNU_SOURCE
#include "keep.h"

#include "../../base/reaper.h"
#include "../address.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- starting ------------------------------------------------------------------ */

static void bind_port(struct node *node, const struct sockaddr_storage *at) {
  struct sockaddr_storage address = *at;
  socklen_t size = mr_address_size(at);
  char text[MR_ADDRESS_TEXT];
  mr_address_draw(&address);
  node->listener = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (node->listener < 0 || bind(node->listener, (struct sockaddr *)&address, size) < 0 ||
      listen(node->listener, SOMAXCONN) < 0 ||
      getsockname(node->listener, (struct sockaddr *)&address, &size) < 0) {
    int error = errno;
    mr_address_write(at, 0, text);
    mr_launch_fail(STATUS_MARU_FAILED, text, strerror(error));
  }
  node->port = (uint16_t)mr_address_port(&address);
}

void mr_launch_bind(struct job *job, const struct sockaddr_storage *at) {
  job->at = *at;
  for (unsigned i = 0; i < job->here; i++)
    bind_port(&job->node[i], at);
}

void mr_launch_bind_here(struct job *job) {
  struct sockaddr_storage loopback;
  mr_address_read("127.0.0.1:0", &loopback);
  mr_launch_bind(job, &loopback);
  char *addresses = calloc(job->nodes, sizeof "127.0.0.1:65535,"), *at = addresses;
  if (addresses == NULL)
    mr_launch_fail(STATUS_MARU_FAILED, "no memory", "");
  for (unsigned i = 0; i < job->nodes; i++)
    at += sprintf(at, "%s127.0.0.1:%u", i > 0 ? "," : "", job->node[i].port);
  free(job->own_addresses);
  job->addresses = job->own_addresses = addresses;
}

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

/* Node 0's, if there is one for it here. */
static bool take_input(const struct job *job, unsigned number, int input) {
  if (number == 0 && input >= 0)
    return dup2(input, 0) == 0;
  return (number == 0 && job->teller == NULL) || empty_input();
}

static _Noreturn void become_node(const struct job *job, unsigned i, const int *outputs, int input,
                                  pid_t parent) {
  const struct node *node = &job->node[i];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(STATUS_MARU_FAILED);
  setpgid(0, 0);
  signal(SIGTTIN, SIG_DFL);
  if (!take_input(job, job->first + i, input) || dup2(outputs[0], 1) < 0 || dup2(outputs[1], 2) < 0)
    _exit(STATUS_MARU_FAILED);
  fcntl(node->listener, F_SETFD, 0);
  set_number("MARU_DSM_NODES", job->nodes);
  set_number("MARU_DSM_NODE", job->first + i);
  set_number("MARU_DSM_LISTENER", (unsigned)node->listener);
  setenv("MARU_DSM_ADDRESSES", job->addresses, 1);
  fcntl(job->secret, F_SETFD, 0);
  set_number("MARU_DSM_SECRET_FD", (unsigned)job->secret);
  fcntl(job->over_to, F_SETFD, 0);
  set_number("MARU_DSM_OVER_FD", (unsigned)job->over_to);
  /* Last: by the old limit nothing more could be opened here. */
  mr_launch_give_signals(job);
  execvp(job->command[0], job->command);
  int error = errno;
  fprintf(stderr, "maru: node %u: %s: %s\n", job->first + i, job->command[0], strerror(error));
  _exit(error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_EXECUTE);
}

static void take_pipe(struct job *job, int *end) {
  mr_launch_input_pipe(job, end);
  if (job->keep != NULL)
    job->keeps->pipe(job, *end);
}

static void start_node(struct job *job, unsigned i) {
  struct node *node = &job->node[i];
  int pipes[2][2], outputs[2], input = -1;
  pid_t parent = getpid();
  for (int k = 0; k < 2; k++) {
    if (pipe2(pipes[k], O_CLOEXEC) < 0)
      mr_launch_fail(STATUS_MARU_FAILED, "no pipe for a node's output", strerror(errno));
    outputs[k] = pipes[k][1];
    free(node->streams[k].line); /* of a node in this place that was lost */
    node->streams[k] =
        (struct stream){.fd = pipes[k][0], .to = k + 1, .line = malloc(MR_LAUNCH_LINE)};
    if (node->streams[k].line == NULL)
      mr_launch_fail(STATUS_MARU_FAILED, "no memory", "");
  }
  if (job->first + i == 0 && (job->teller != NULL || job->input.from >= 0 || job->input.ended))
    take_pipe(job, &input);
  node->pid = fork();
  if (node->pid < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot start a node", strerror(errno));
  if (node->pid == 0)
    become_node(job, i, outputs, input, parent);
  /* Here too, so that the group is there when we signal it. */
  setpgid(node->pid, node->pid);
  close(pipes[0][1]);
  close(pipes[1][1]);
  close(node->listener);
  if (input >= 0)
    close(input);
  node->group = node->pid;
  job->alive++;
}

/* ---- the reaper ------------------------------------------------------------------ */

/* When we are killed the kernel kills the nodes, but not what they have started. The reaper
 * does, as when the job was ended, unless we told it that there is nothing to do. */
static void start_reaper(struct job *job) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot start a reaper", strerror(errno));
  job->reaper = fork();
  if (job->reaper < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot start a reaper", strerror(errno));
  if (job->reaper == 0)
    mr_reaper(ends[0]);
  close(ends[0]);
  job->reaping = ends[1];
}

/* As in reaper.h.  A reaper that somebody killed is no reason to die. */
static void tell_reaper(const struct job *job, pid_t group) {
  (void)!send(job->reaping, &group, sizeof group, MSG_NOSIGNAL);
}

/* One for all nodes: their outputs are the program's, to close or to join or to write anything. */
static void open_over(struct job *job) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "no pipe for the end of the program", strerror(errno));
  job->over_from = ends[0];
  job->over_to = ends[1];
}

static void start_known(struct job *job, unsigned i) {
  start_node(job, i);
  tell_reaper(job, job->node[i].pid);
  if (job->keep != NULL)
    job->node[i].streams[0].length = job->keeps->begun(job, i, job->node[i].streams[0].line);
}

static void start_nodes(struct job *job) {
  open_over(job);
  for (unsigned i = 0; i < job->here; i++)
    start_known(job, i);
  /* Where a node may be started alone, it gets it as well. */
  if (job->keep != NULL && job->keep->journal != 0)
    return;
  close(job->over_to);
  job->over_to = -1;
}

/* ---- output ------------------------------------------------------------------------ */

/* Whole lines; one that is too long in pieces; what is left at the end. */
static void pass_lines(struct job *job, unsigned number, struct stream *stream, bool end) {
  char *begin = stream->line, *newline;
  size_t left = stream->length;
  while ((newline = memchr(begin, '\n', left)) != NULL) {
    mr_launch_line(job, number, stream->to, begin, (size_t)(newline - begin), true);
    left -= (size_t)(newline - begin) + 1;
    begin = newline + 1;
  }
  if (left > 0 && (end || left == MR_LAUNCH_LINE)) {
    mr_launch_line(job, number, stream->to, begin, left, false);
    left = 0;
  }
  memmove(stream->line, begin, left);
  stream->length = left;
}

static void end_stream(struct job *job, unsigned number, struct stream *stream) {
  pass_lines(job, number, stream, true);
  close(stream->fd);
  stream->fd = -1;
}

/* So much was there; 0: it has ended. */
static ssize_t read_stream(struct job *job, unsigned number, struct stream *stream) {
  ssize_t n;
  do
    n = read(stream->fd, stream->line + stream->length, MR_LAUNCH_LINE - stream->length);
  while (n < 0 && errno == EINTR);
  if (n <= 0) {
    end_stream(job, number, stream);
    return 0;
  }
  stream->length += (size_t)n;
  pass_lines(job, number, stream, false);
  return n;
}

/* What is there now: a process that a node has started may go on writing. */
static void drain_stream(struct job *job, unsigned number, struct stream *stream) {
  struct pollfd polled = {.fd = stream->fd, .events = POLLIN};
  int there = 0;
  ioctl(stream->fd, FIONREAD, &there);
  for (ssize_t left = there; stream->fd >= 0 && poll(&polled, 1, 0) > 0;) {
    if (left <= 0 && (polled.revents & POLLHUP) == 0)
      return;
    left -= read_stream(job, number, stream);
  }
}

static void drain(struct job *job) {
  for (unsigned i = 0; i < 2 * job->here; i++)
    if (job->node[i / 2].streams[i % 2].fd >= 0)
      drain_stream(job, job->first + i / 2, &job->node[i / 2].streams[i % 2]);
}

/* A line without its end is the last one, whoever else could go on with it. */
static void end_streams(struct job *job) {
  for (unsigned i = 0; i < 2 * job->here; i++) {
    struct stream *stream = &job->node[i / 2].streams[i % 2];
    if (stream->fd >= 0)
      end_stream(job, job->first + i / 2, stream);
  }
}

static void read_over(struct job *job) {
  uint8_t status;
  ssize_t n = read(job->over_from, &status, sizeof status);
  if (n < 0 && errno == EINTR)
    return;
  if (n > 0) {
    mr_launch_over(job, status);
    return;
  }
  close(job->over_from);
  job->over_from = -1;
}

void mr_launch_start(struct job *job) {
  job->drain = drain;
  /* What a node leaves behind becomes our child, so that we see its end. */
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  start_reaper(job);
  if (job->watcher == 0)
    mr_launch_board(job);
  mr_launch_boost(job);
  start_nodes(job);
  if (job->keep == NULL)
    mr_launch_secret_close(job);
}

/* ---- life and death -------------------------------------------------------------------- */

void mr_launch_signal_nodes(struct job *job, int signal) {
  for (unsigned i = 0; i < job->here; i++)
    if (job->node[i].group > 0)
      kill(-job->node[i].group, signal);
}

static void forget_group(const struct job *job, struct node *node) {
  tell_reaper(job, -node->group);
  node->group = 0;
}

/* Soon: the number may become a stranger's. */
static void forget_empty(const struct job *job, struct node *node) {
  if (node->pid == 0 && node->group != 0 && kill(-node->group, 0) < 0 && errno == ESRCH)
    forget_group(job, node);
}

/* What a node has started does not go on beside the node that takes its place. */
static void end_group(const struct job *job, struct node *node) {
  if (node->group == 0)
    return;
  kill(-node->group, SIGKILL);
  forget_group(job, node);
}

static void reap(struct job *job) {
  int status;
  job->reaps = false;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    job->booster = pid == job->booster ? 0 : job->booster; /* it says why */
    if (job->keep != NULL)
      job->keeps->reaped(job, pid, status);
    for (unsigned i = 0; i < job->here; i++)
      if (job->node[i].pid == pid) {
        job->node[i].pid = 0;
        forget_empty(job, &job->node[i]);
        mr_launch_ended(job, job->first + i,
                        WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
        if (job->keep != NULL && job->keep->recovering)
          end_group(job, &job->node[i]);
      }
  }
  for (unsigned i = 0; i < job->here; i++)
    forget_empty(job, &job->node[i]);
}

/* From a terminal of ours into node 0's pipe. */
static void read_terminal(struct job *job) {
  char bytes[MR_LAUNCH_INPUT];
  size_t length = mr_launch_input_read(job, bytes);
  mr_launch_input_give(job, bytes, length);
  if (job->keep != NULL)
    job->keeps->gave(job, bytes, length);
  if (job->input.from < 0)
    mr_launch_input_end(job);
}

static void write_input(struct job *job) {
  int taken = mr_launch_input_write(job);
  if (job->teller != NULL)
    job->teller->taken(job, taken);
  else
    mr_launch_input_taken(job, taken);
}

/* What nodes of a job that is being ended have started has as long to end as they. */
static bool lingers(const struct job *job) {
  for (unsigned i = 0; i < job->here && job->ending && !job->killed; i++)
    if (job->node[i].group != 0)
      return true;
  return false;
}

static void close_streams(struct node *node) {
  for (int k = 0; k < 2; k++) {
    if (node->streams[k].fd >= 0)
      close(node->streams[k].fd);
    node->streams[k].fd = -1;
  }
}

static void close_input(struct job *job) {
  if (job->input.to >= 0)
    close(job->input.to);
  job->input.to = -1;
}

static void feed_again(struct job *job) {
  job->keeps->feed(job);
  if (job->input.ended)
    mr_launch_input_end(job);
}

void mr_launch_clear(struct job *job, unsigned i) {
  struct node *node = &job->node[i];
  for (int k = 0; k < 2; k++)
    if (node->streams[k].fd >= 0)
      drain_stream(job, job->first + i, &node->streams[k]);
  close_streams(node);
  end_group(job, node);
  bind_port(node, &job->at);
  if (job->first + i != 0)
    return;
  close_input(job);
  job->input.length = job->input.given = 0;
}

void mr_launch_start_alone(struct job *job, unsigned i) {
  start_known(job, i);
  mr_checkpoint_ring(job->keep->page);
}

static void start_alone(struct job *job) {
  unsigned number = (unsigned)job->keep->single;
  mr_launch_clear(job, number);
  job->keeps->alone(job);
  mr_launch_start_alone(job, number);
  if (number == 0)
    feed_again(job);
}

/* All nodes are gone, one of which was lost: all begin anew, from the last checkpoint.  What they
 * have started is ended as well. */
static void start_again(struct job *job) {
  drain(job);
  for (unsigned i = 0; i < job->here; i++)
    close_streams(&job->node[i]);
  if (job->over_from >= 0)
    close(job->over_from);
  if (job->over_to >= 0)
    close(job->over_to);
  close_input(job);
  mr_launch_again(job);
  mr_launch_bind_here(job);
  start_nodes(job);
  feed_again(job);
}

/* A node that was lost may be started again. */
static bool expects(const struct job *job) {
  return job->keep != NULL && job->keep->starts && !job->ending;
}

/* When no node is left, what is in the pipes is read, but nobody who inherited one is
 * waited for. */
void mr_launch_watch(struct job *job, int control, void (*controlled)(struct job *job)) {
  static struct pollfd polled[2 * MR_LAUNCH_NODES + 5];
  while (job->alive > 0 || expects(job) || lingers(job)) {
    nfds_t count = 0;
    for (unsigned i = 0; i < 2 * job->here; i++)
      polled[count++] = (struct pollfd){.fd = job->node[i / 2].streams[i % 2].fd, .events = POLLIN};
    polled[count++] = (struct pollfd){.fd = job->over_from, .events = POLLIN};
    polled[count++] = (struct pollfd){.fd = job->signals, .events = POLLIN};
    polled[count++] = (struct pollfd){.fd = control, .events = POLLIN};
    polled[count++] = mr_launch_input_from(job);
    polled[count++] = mr_launch_input_to(job);
    int patience = mr_launch_sooner(mr_launch_input_patience(job, mr_launch_patience(job)),
                                    job->keep != NULL ? job->keeps->step(job) : -1);
    if (job->teller != NULL)
      patience = mr_launch_sooner(patience, job->teller->beat(job));
    /* What waited to send may have heard of a child's end. */
    int ready = poll(polled, count, job->reaps ? 0 : patience);
    for (unsigned i = 0; i < 2 * job->here; i++)
      if (ready > 0 && polled[i].revents != 0)
        read_stream(job, job->first + i / 2, &job->node[i / 2].streams[i % 2]);
    if (ready > 0 && polled[count - 5].revents != 0)
      read_over(job);
    if (ready > 0 && polled[count - 2].revents != 0)
      read_terminal(job);
    if (ready > 0 && polled[count - 1].revents != 0)
      write_input(job);
    if (ready > 0 && polled[count - 3].revents != 0)
      controlled(job);
    mr_launch_read_signals(job);
    reap(job);
    if (job->keep != NULL && job->keep->starts && job->teller == NULL && !job->ending)
      start_alone(job);
    if (job->keep != NULL && job->keep->recovering && job->alive == 0 && !job->ending)
      start_again(job);
  }
  drain(job);
  end_streams(job);
  if (job->keep != NULL)
    job->keeps->end(job);
  mr_launch_boost_end(job);
  if (!job->ending)
    tell_reaper(job, 0);
  /* A writer of checkpoints that hangs may hold it, too. */
  shutdown(job->reaping, SHUT_WR);
  waitpid(job->reaper, NULL, 0);
}
