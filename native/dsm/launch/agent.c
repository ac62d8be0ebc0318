/* agent.c: one host's part of a job on several: what hosts.c tells it to start, it starts, and
 * tells what becomes of it.  Its standard input and output are the connection (frames.h).
 */
#define _GNU_SOURCE
#include "../address.h"
#include "mirror.h"
#include "numbers.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPECIFICATION_MAX (4u << 20)
#define BEAT_MS 5000

/* The next of the strings in a body. */
static char *next_string(char **at, const char *end) {
  if (*at >= end)
    mr_launch_fail(STATUS_MARU_FAILED, "agent: a message is too short", "");
  char *string = *at;
  *at += strlen(string) + 1;
  return string;
}

static void tell_line(struct job *job, unsigned number, int to, const char *line, size_t length,
                      bool ends) {
  mr_frame_send(job, 1, ends ? FRAME_LINE : FRAME_PIECE, number, to, line, length);
}

static void tell_taken(struct job *job, int taken) {
  mr_frame_send(job, 1, FRAME_TAKEN, 0, taken, "", 0);
}

static void tell_ended(struct job *job, unsigned number, int code) {
  /* The launcher that started us ends the job then, and tells us so.  Or it starts a node again. */
  if (job->keep != NULL && job->keep->journal != 0)
    mr_mirror_ended(job, number, code);
  else
    job->ending |= code != 0;
  mr_frame_send(job, 1, FRAME_ENDED, number, code, "", 0);
}

static void end_nodes(struct job *job, int signal) {
  job->ending = true;
  job->killed |= signal == SIGKILL;
  mr_launch_signal_nodes(job, signal);
}

static void tell_over(struct job *job, int status) {
  mr_frame_send(job, 1, FRAME_OVER, job->first, status, "", 0);
}

/* To a host that vanished the kernel gives up only what was sent there: some minutes later, or at
 * once where it answers again.  Then sshd ends, and this side with it.  Nodes that say nothing
 * would stay. */
static int tell_beat(struct job *job) {
  int64_t now = mr_launch_now();
  if (job->beat_due != 0 && job->beat_due <= now)
    mr_frame_send(job, 1, FRAME_BEAT, job->first, 0, "", 0);
  if (job->beat_due <= now)
    job->beat_due = now + BEAT_MS;
  return (int)(job->beat_due - now);
}

static const struct teller to_starter = {.line = tell_line,
                                         .ended = tell_ended,
                                         .taken = tell_taken,
                                         .over = tell_over,
                                         .beat = tell_beat};

static void begin_agent(struct job *job) {
  struct mr_frame frame;
  struct sockaddr_storage address;
  char *body = malloc(SPECIFICATION_MAX);
  if (body == NULL || !mr_frame_read(job, 0, &frame, body, SPECIFICATION_MAX) ||
      frame.kind != FRAME_BEGIN || frame.value < 1 || frame.value > (int)MR_LAUNCH_NODES)
    mr_launch_fail(STATUS_USAGE, "agent: started by 'maru launch --hosts' alone", "");
  char *at = body, *end = body + frame.length, *string;
  job->teller = &to_starter;
  job->first = frame.node;
  job->here = (unsigned)frame.value;
  string = next_string(&at, end);
  mr_launch_secret_hear(job, string);
  if (mr_address_read(next_string(&at, end), &address) == 0)
    mr_launch_fail(STATUS_MARU_FAILED, "agent: no address", "");
  string = next_string(&at, end);
  if (chdir(string) < 0)
    mr_launch_fail(STATUS_UNAVAILABLE, string, strerror(errno));
  int64_t nodes;
  if (mr_whole(next_string(&at, end), 1, MR_LAUNCH_NODES, &nodes) < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "agent: no number of nodes", "");
  job->nodes = (unsigned)nodes;
  bool kept = strcmp(next_string(&at, end), "1") == 0;
  int64_t journal;
  if (mr_whole(next_string(&at, end), 0, 1 << 20, &journal) < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "agent: no size of journals", "");
  while (*(string = next_string(&at, end)) != 0)
    putenv(string);
  size_t count = 0;
  job->command = calloc(frame.length + 1, sizeof *job->command);
  while (at < end && job->command != NULL)
    job->command[count++] = next_string(&at, end);
  if (count == 0)
    mr_launch_fail(STATUS_MARU_FAILED, "agent: no command", "");
  if (kept)
    mr_mirror_begin(job, (size_t)journal << 20);
  mr_launch_bind(job, &address);
}

static void tell_ports(struct job *job) {
  uint16_t ports[MR_LAUNCH_NODES];
  for (unsigned i = 0; i < job->here; i++)
    ports[i] = job->node[i].port;
  mr_frame_send(job, 1, FRAME_PORTS, job->first, 0, ports, job->here * sizeof *ports);
}

/* From the one who started us. */
static void obey(struct job *job) {
  static struct mr_frame_part part;
  const struct mr_frame *frame = &part.head;
  enum mr_frame_come come = mr_frame_come(&part, 0);
  if (come == COME_PART)
    return;
  bool good = come == COME_WHOLE;
  if (good && frame->kind == FRAME_SIGNAL)
    end_nodes(job, frame->value);
  else if (good && frame->kind == FRAME_INPUT && frame->length == 0)
    mr_launch_input_end(job);
  else if (good && frame->kind == FRAME_INPUT &&
           mr_launch_input_give(job, part.body, frame->length))
    mr_mirror_gave(job, frame->length);
  else if (!good || !mr_mirror_obey(job, frame, part.body))
    end_nodes(job, SIGKILL);
}

/* What the nodes go on from comes first. */
static void await_addresses(struct job *job, char *body, size_t size) {
  struct mr_frame frame;
  do {
    if (!mr_frame_read(job, 0, &frame, body, size))
      exit(STATUS_MARU_FAILED); /* who started us is gone */
  } while (mr_mirror_obey(job, &frame, body));
  if (frame.kind != FRAME_ADDRESSES)
    exit(STATUS_MARU_FAILED);
}

void mr_launch_agent(struct job *job) {
  static char addresses[MR_FRAME_MAX];
  _Static_assert(sizeof addresses >= MR_LAUNCH_NODES * MR_ADDRESS_TEXT, "they fit");
  job->signal = mr_launch_leave;
  mr_launch_catch_signals(job);
  begin_agent(job);
  tell_ports(job);
  await_addresses(job, addresses, sizeof addresses);
  job->addresses = addresses;
  job->signal = mr_launch_signal_nodes;
  mr_launch_start(job);
  mr_launch_watch(job, 0, obey);
  mr_frame_send(job, 1, FRAME_TOLD, job->first, 0, "", 0);
}
