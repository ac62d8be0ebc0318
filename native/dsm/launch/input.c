/* input.c: this process's standard input, for node 0.  Where that is on this host it has the input
 * itself, unless that is a terminal, which is not for processes in the background. Else bytes are
 * handed on: read here, written into a pipe of node 0's. Between the two, where there are several
 * hosts, they are sent to its agent.
 *
 * The next is read when the last was taken: a reader that does not read keeps nobody else waiting.
 */
#define _GNU_SOURCE
#include "keep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A pipe holds more, so that what is sent to an agent always finds room there. */
_Static_assert(MR_LAUNCH_INPUT <= 16384, "a pipe has 64 KiB");
#define BACKGROUND_MS 1000

void mr_launch_input_pipe(struct job *job, int *end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "no pipe for node 0's input", strerror(errno));
  *end = ends[0];
  job->input.to = ends[1];
}

void mr_launch_input_begin(struct job *job) {
  struct input *input = &job->input;
  input->from = 0;
  input->terminal = isatty(0);
  /* Reading in the background is an error then, and no reason to stop. */
  signal(SIGTTIN, SIG_IGN);
}

static bool in_background(const struct input *input) {
  pid_t foreground = input->terminal ? tcgetpgrp(0) : -1;
  return foreground >= 0 && foreground != getpgrp();
}

struct pollfd mr_launch_input_from(const struct job *job) {
  const struct input *input = &job->input;
  /* What comes while nodes are being ended is for those that begin again. */
  bool again = job->keep != NULL && (job->keep->recovering || job->keep->starts);
  bool wanted =
      !job->killed && !again && input->from >= 0 && input->given == 0 && !in_background(input);
  return (struct pollfd){.fd = wanted ? input->from : -1, .events = POLLIN};
}

struct pollfd mr_launch_input_to(const struct job *job) {
  const struct input *input = &job->input;
  /* Without anything to write it tells when nobody reads any more. */
  return (struct pollfd){.fd = input->to, .events = input->length > 0 ? POLLOUT : 0};
}

int mr_launch_input_patience(const struct job *job, int patience) {
  bool look_again = !job->killed && job->input.from >= 0 && in_background(&job->input);
  return look_again && (patience < 0 || patience > BACKGROUND_MS) ? BACKGROUND_MS : patience;
}

/* What was read so far is not all: no program's result is to be taken for good. */
static void lose_input(struct job *job) {
  if (job->ending)
    return;
  fprintf(stderr, "maru: launch: cannot read the standard input: %s\n", strerror(errno));
  mr_launch_end(job, STATUS_MARU_FAILED);
}

size_t mr_launch_input_read(struct job *job, char *bytes) {
  struct input *input = &job->input;
  ssize_t n = read(input->from, bytes, MR_LAUNCH_INPUT);
  if (n < 0 && (errno == EINTR || errno == EAGAIN || (errno == EIO && in_background(input))))
    return 0;
  /* What is open for writing alone has nothing to read: nohup leaves such an input. A terminal that
   * goes says EIO before it is at its end. */
  if (n < 0 && errno != EBADF && !(errno == EIO && input->terminal))
    lose_input(job);
  if (n <= 0)
    input->from = -1;
  input->given = n > 0 ? (size_t)n : 0;
  return input->given;
}

void mr_launch_input_taken(struct job *job, int taken) {
  struct input *input = &job->input;
  if (taken < 0)
    input->from = -1;
  else
    input->given -= (size_t)taken < input->given ? (size_t)taken : input->given;
}

static void close_pipe(struct input *input) {
  close(input->to);
  input->to = -1;
  input->length = 0;
}

bool mr_launch_input_give(struct job *job, const char *bytes, size_t length) {
  struct input *input = &job->input;
  if (length > MR_LAUNCH_INPUT - input->length)
    return false;
  memcpy(input->bytes + input->length, bytes, length);
  input->length += length;
  return true;
}

void mr_launch_input_end(struct job *job) {
  job->input.ended = true;
  if (job->input.to >= 0 && job->input.length == 0)
    close_pipe(&job->input);
}

int mr_launch_input_write(struct job *job) {
  struct input *input = &job->input;
  ssize_t n = write(input->to, input->bytes, input->length);
  if (n < 0 && (errno == EINTR || errno == EAGAIN))
    return 0;
  if (n < 0 || input->length == 0) {
    close_pipe(input);
    return -EPIPE;
  }
  input->length -= (size_t)n;
  memmove(input->bytes, input->bytes + n, input->length);
  if (input->ended)
    mr_launch_input_end(job);
  return (int)n;
}
