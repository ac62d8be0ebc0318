/* Over 500 lines: one table of agents, and all that is said to them and heard of them.
 *
 * hosts.c: a job on several hosts.  This process starts one agent a host, `ssh HOST maru-launch
 * --agent`, tells it by its standard input what to start, and hears by its standard output what the
 * nodes say and how they end.  The secret and the environment go that way too: no command line
 * shows them.
 *
 * The connection is the agent's life: at its end the agent kills its nodes.
 */
#define _GNU_SOURCE
#include "mirror.h"
#include "move.h"

#include "../address.h"
#include "numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* The agent draws the ports. */
#define ANY_PORT 1

/* While its nodes are killed so that all begin again a host may say nothing for so long; then it
 * counts as lost. */
#define CUT_MS 5000

/* A host whose agent was started has so long to say its nodes' ports: ssh gives up the connection
 * itself before. */
#define AGENT_MS 30000
#define SILENT "its agent has said nothing for 30 s"
#define OTHERS                                                                                     \
  "something else than its agent writes to the connection: a shell that prints when it starts, "   \
  "say"

static struct mr_hosts all;
static struct mr_move move = {.listener = -1, .asker = -1};

/* ---- their agents --------------------------------------------------------------------------- */

static void start_agent(const struct job *job, struct host *host) {
  static char self[4096];
  const char *asked = getenv("MARU_LAUNCH_SSH"), *ssh = asked != NULL ? asked : "ssh";
  char command[4200];
  int to[2], from[2];
  pid_t parent = getpid();
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0 || pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot start an agent", strerror(errno));
  if (strchr(self, '\'') != NULL)
    mr_hosts_refuse(STATUS_UNAVAILABLE,
                    "%s: a quote in this path cannot be told to another host's shell%s", self, "");
  snprintf(command, sizeof command, "'%s' --agent " MR_FRAMES_VERSION, self);
  host->pid = fork();
  if (host->pid < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot start an agent", strerror(errno));
  if (host->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* the terminal's signals are for us */
    if (getppid() != parent || dup2(to[0], 0) < 0 || dup2(from[1], 1) < 0)
      _exit(STATUS_MARU_FAILED);
    mr_launch_give_signals(job);
    execlp(ssh, ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
           "ServerAliveInterval=5", host->name, command, (char *)NULL);
    fprintf(stderr, "maru: launch: %s: %s\n", ssh, strerror(errno));
    _exit(STATUS_NOT_FOUND);
  }
  close(to[0]);
  close(from[1]);
  host->to = to[1];
  host->from = from[0];
}

/* What an agent has to know, in the order in which it reads it. */
static void tell_begin(struct job *job, const struct host *host) {
  extern char **environ;
  char *text = NULL, folder[4096], address[MR_ADDRESS_TEXT];
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  if (stream == NULL || getcwd(folder, sizeof folder) == NULL)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot tell an agent what to do", strerror(errno));
  mr_address_write(&host->address, ANY_PORT, address);
  mr_launch_secret_tell(job, stream);
  size_t journal = job->keep != NULL ? job->keep->journal >> 20 : 0;
  fprintf(stream, "%c%s%c%s%c%u%c%d%c%zu%c", 0, address, 0, folder, 0, job->nodes, 0,
          job->keep != NULL, 0, journal, 0);
  for (char **variable = environ; *variable != NULL; variable++)
    if (strncmp(*variable, "MARU_", 5) == 0)
      fprintf(stream, "%s%c", *variable, 0);
  fputc(0, stream);
  for (char **word = job->command; *word != NULL; word++)
    fprintf(stream, "%s%c", *word, 0);
  if (ferror(stream) != 0 || fclose(stream) != 0)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot tell an agent what to do", strerror(ENOMEM));
  mr_frame_send(job, host->to, FRAME_BEGIN, host->first, (int)host->here, text, length);
  explicit_bzero(text, length);
  free(text);
}

/* The first words of an agent are its ports. */
static bool is_no_agent(const struct mr_frame_part *part) {
  bool in_head = part->have > 0 && part->have < sizeof part->head;
  return !in_head && part->head.kind != 0 && part->head.kind != FRAME_PORTS;
}

/* Why there are none; NULL: there are. */
static const char *hear_ports(struct job *job, const struct host *host, uint16_t *ports) {
  const struct mr_frame *frame = &host->part->head;
  const int64_t end = mr_launch_now() + AGENT_MS;
  enum mr_frame_come come = COME_PART;
  for (int64_t left; come == COME_PART; come = mr_frame_come(host->part, host->from)) {
    struct pollfd polled[] = {{.fd = host->from, .events = POLLIN},
                              {.fd = job->signals, .events = POLLIN}};
    if (is_no_agent(host->part))
      return OTHERS;
    if ((left = end - mr_launch_now()) <= 0)
      return SILENT;
    if (poll(polled, 2, (int)left) > 0 && polled[1].revents != 0)
      mr_launch_read_signals(job);
  }
  if (is_no_agent(host->part))
    return OTHERS;
  if (come == COME_GONE || frame->node != host->first ||
      frame->length != host->here * sizeof *ports)
    return "no agent could be started there";
  memcpy(ports + host->first, host->part->body, frame->length);
  return NULL;
}

/* Waits for nobody: an agent that writes to us may not read now, and a signal may come meanwhile.
 */
static void tell(struct host *host, enum mr_frame_kind kind, unsigned node, int value,
                 const void *body, size_t length) {
  if (host->to < 0)
    return;
  if (!mr_frame_put(&host->queue, kind, node, value, body, length))
    mr_launch_fail(STATUS_MARU_FAILED, "no memory for what an agent is told", "");
  mr_frame_flush(&host->queue, host->to);
}

static void tell_all(enum mr_frame_kind kind, unsigned node, int value, const void *body,
                     size_t length) {
  for (unsigned i = 0; i < all.count; i++)
    tell(&all.host[i], kind, node, value, body, length);
}

static void signal_hosts(struct job *job, int signal) {
  (void)job;
  tell_all(FRAME_SIGNAL, 0, signal, "", 0);
}

static void tell_addresses(struct job *job, const uint16_t *ports) {
  static char addresses[MR_LAUNCH_NODES * MR_ADDRESS_TEXT];
  char *at = addresses, address[MR_ADDRESS_TEXT];
  for (unsigned i = 0; i < all.count; i++)
    for (unsigned k = 0; k < all.host[i].here; k++) {
      mr_address_write(&all.host[i].address, ports[all.host[i].first + k], address);
      at += sprintf(at, "%s%s", at != addresses ? "," : "", address);
    }
  for (unsigned i = 0; i < all.count; i++)
    if (all.host[i].here > 0)
      mr_frame_send(job, all.host[i].to, FRAME_ADDRESSES, 0, 0, addresses, strlen(addresses));
  job->alive = job->nodes;
  job->signal = signal_hosts;
}

static void hang_up(struct host *host) {
  if (host->to >= 0) {
    close(host->to);
    close(host->from);
  }
  host->to = host->from = -1;
  free(host->part);
  host->part = NULL;
  mr_frame_drop(&host->queue);
}

/* A lost node is to start there again, and others wait for it. */
static bool is_awaited(const struct job *job, const struct host *host) {
  const struct keep *keep = job->keep;
  return keep != NULL && keep->starts && (unsigned)keep->single - host->first < host->here;
}

static void say_lost(const struct job *job, const struct host *host) {
  if (host->alive > 0)
    fprintf(stderr, "maru: launch: host %s was lost, with %u nodes\n", host->name, host->alive);
  else if (host->told)
    fprintf(stderr, "maru: launch: host %s was lost, where node %d was to start again\n",
            host->name, job->keep->single);
  else
    fprintf(stderr, "maru: launch: host %s was lost before all that its nodes wrote had come\n",
            host->name);
}

/* Its nodes are gone, or will be: the agent kills them when it sees the connection's end. */
static void lose_host(struct job *job, struct host *host) {
  hang_up(host);
  if (host->told && host->alive == 0 && !is_awaited(job, host))
    return;
  host->lost = true;
  job->alive -= host->alive;
  if (!job->ending) {
    say_lost(job, host);
    if (job->keep == NULL || !job->keeps->lost(job, host->first, STATUS_LOST))
      mr_launch_end(job, STATUS_LOST);
  }
  host->alive = 0;
}

/* Node 0 is on the first host. */
static void send_input(struct job *job) {
  char bytes[MR_LAUNCH_INPUT];
  size_t length = mr_launch_input_read(job, bytes);
  if (job->keep != NULL)
    job->keeps->gave(job, bytes, length);
  if (length > 0 || job->input.from < 0)
    tell(&all.host[0], FRAME_INPUT, 0, 0, bytes, length);
}

/* ---- a node alone -------------------------------------------------------------------------- */

/* Its agent is to find a place for it, once it knows what it goes on from. */
static void ask_for_place(struct job *job) {
  struct keep *keep = job->keep;
  unsigned node = (unsigned)keep->single;
  struct host *host = mr_hosts_of(&all, node);
  const struct keep_begun *begun = &keep->begun_lines[node];
  const void *words;
  keep->page->restore = keep->committed;
  size_t length = mr_mirror_words(keep, &words);
  if (length > 0)
    tell_all(FRAME_WORDS, 0, 0, words, length);
  keep->clears = true;
  tell(host, FRAME_BEGUN, node, 0, begun->line, begun->length);
  tell(host, FRAME_ALONE, node, 0, "", 0);
}

static void give_input_again(struct job *job);

/* All agents hear where it is. Its own starts it. */
static void start_alone(struct job *job, struct host *host, int port) {
  struct keep *keep = job->keep;
  unsigned node = (unsigned)keep->single;
  struct mr_checkpoint_line *line = &keep->page->lines[node];
  char text[MR_ADDRESS_TEXT];
  mr_address_write(&host->address, (unsigned)port, text);
  mr_address_read(text, &line->address);
  job->keeps->alone(job);
  tell_all(FRAME_AGAIN, node, (int)load(&line->again), &line->address, sizeof line->address);
  host->alive++;
  job->alive++;
  if (node == 0)
    give_input_again(job);
}

static bool is_place(const struct job *job, const struct mr_frame *frame) {
  return frame->kind == FRAME_PLACE && job->keep != NULL && job->keep->starts &&
         job->keep->clears && frame->node == (unsigned)job->keep->single && frame->value > 0 &&
         frame->value <= UINT16_MAX;
}

static void heed(struct job *job, struct host *host, const struct mr_frame *frame,
                 const char *body) {
  bool line = frame->kind == FRAME_LINE;
  if ((line || frame->kind == FRAME_PIECE) && (frame->value == 1 || frame->value == 2))
    mr_launch_line(job, frame->node, frame->value, body, frame->length, line);
  else if (frame->kind == FRAME_TAKEN)
    mr_launch_input_taken(job, frame->value);
  else if (frame->kind == FRAME_OVER)
    mr_launch_over(job, frame->value);
  else if (frame->kind == FRAME_TOLD)
    host->told = true;
  else if (is_place(job, frame))
    start_alone(job, host, frame->value);
  else if (frame->kind == FRAME_PLACE)
    ; /* all begin again meanwhile */
  else if (frame->kind == FRAME_BEAT)
    ; /* what it is for its kernel hears */
  else if (frame->kind == FRAME_ENDED && host->alive > 0) {
    host->alive--;
    mr_launch_ended(job, frame->node, frame->value);
  } else if (!mr_mirror_hear(job, frame, body))
    lose_host(job, host);
}

/* A host that stops within a frame holds up no other. */
static void hear(struct job *job, struct host *host) {
  const struct mr_frame *frame = &host->part->head;
  enum mr_frame_come come = mr_frame_come(host->part, host->from);
  bool beats = come == COME_WHOLE && frame->kind == FRAME_BEAT;
  /* An agent beats, too, whose nodes do not end. */
  if (!beats)
    host->heard = mr_launch_now();
  if (come == COME_WHOLE && frame->node >= host->first && frame->node - host->first < host->here)
    heed(job, host, frame, host->part->body);
  else if (come != COME_PART)
    lose_host(job, host);
}

/* ---- checkpoints ------------------------------------------------------------------------ */

/* Every line that a node wrote before it told of its image has come before that. */
static void nothing_left(struct job *job) { (void)job; }

static void reap_writer(struct job *job) {
  pid_t writer = job->keep->writer;
  int status;
  if (writer > 0 && waitpid(writer, &status, WNOHANG) == writer)
    job->keeps->reaped(job, writer, status);
}

/* An agent may not have started there: another host serves then. */
static void tell_moved(void) {
  const char *on = mr_hosts_of(&all, move.node)->name;
  if (strcmp(on, move.host) == 0)
    mr_move_answer(&move, 0, "node %u is on host %s", move.node, on);
  else
    mr_move_answer(&move, STATUS_UNAVAILABLE,
                   "node %u is not on host %s but on host %s: that one failed", move.node,
                   move.host, on);
}

/* Where nothing had begun who asked sees the connection's end. */
static void tell_ended(const struct job *job) {
  if (move.wanted && move.starts && mr_keep_all_started(job, job->keep))
    tell_moved();
  else if (move.wanted && move.starts)
    mr_move_answer(&move, STATUS_LOST,
                   "the job ended with status %d before node %u went on on host %s; its error "
                   "output says why",
                   job->status, move.node, move.host);
}

static void tell_stays(const struct keep *keep) {
  if (!keep->ended && keep->refused[0] == 0)
    mr_move_answer(
        &move, STATUS_UNAVAILABLE,
        "node %u stays where it is: node 0 was given more than %u bytes of input that it "
        "has not read, and a pipe does not give them again",
        move.node, MR_LAUNCH_INPUT);
  else
    mr_move_answer(&move, STATUS_UNAVAILABLE, "node %u stays where it is: no checkpoint: %s",
                   move.node, keep->ended ? "the program ends" : keep->refused);
}

/* A node that starts on another host may find that it cannot go on there. */
static void tell_of_move(const struct job *job) {
  if (!move.starts)
    tell_stays(job->keep);
  else if (mr_keep_all_started(job, job->keep))
    tell_moved();
}

/* When it wants to be called again, in ms. */
static int step_checkpoints(struct job *job) {
  const void *words;
  reap_writer(job);
  if (job->keep->starts && !job->keep->clears && !job->ending)
    ask_for_place(job);
  int again = job->keeps->step(job);
  if (move.wanted && !job->keep->moving && !job->keep->recovering && !job->ending)
    tell_of_move(job);
  size_t length = mr_mirror_words(job->keep, &words);
  if (length > 0)
    tell_all(FRAME_WORDS, 0, 0, words, length);
  return again;
}

/* ---- silent hosts ------------------------------------------------------------------------- */

/* Where nodes are killed: how long a host may say nothing, in ms, and since when that has been so.
 * -1: else it may for ever. */
struct silence {
  int limit;
  int64_t since;
};

static void note_silence(const struct job *job, struct silence *silence) {
  bool again = job->keep != NULL && job->keep->recovering && !job->ending;
  int limit = job->killed ? MR_LAUNCH_AGAIN_MS : again ? CUT_MS : -1;
  if (limit != silence->limit)
    *silence = (struct silence){.limit = limit, .since = mr_launch_now()};
}

/* When that one has had its time.  One whose link is slow is heard again and again, and hears late
 * that it is to kill: only a user does not wait for that. */
static int64_t cut_at(const struct job *job, const struct host *host,
                      const struct silence *silence) {
  int64_t since = host->heard > silence->since ? host->heard : silence->since;
  int64_t at = since + silence->limit, last = silence->since + CUT_MS;
  return job->interrupted && at > last ? last : at;
}

/* We may have been kept from reading it. */
static bool has_more(const struct host *host) {
  struct pollfd polled = {.fd = host->from, .events = POLLIN};
  return poll(&polled, 1, 0) > 0;
}

static void cut_off(struct job *job, const struct silence *silence) {
  for (unsigned i = 0; i < all.count && silence->limit >= 0; i++) {
    struct host *host = &all.host[i];
    if (host->from >= 0 && cut_at(job, host, silence) <= mr_launch_now() &&
        (job->interrupted || !has_more(host)))
      lose_host(job, host);
  }
}

static int patience_of(struct job *job, struct silence *silence) {
  int patience = mr_launch_input_patience(job, mr_launch_patience(job));
  if (job->keep != NULL)
    patience = mr_launch_sooner(patience, step_checkpoints(job));
  note_silence(job, silence);
  for (unsigned i = 0; i < all.count && silence->limit >= 0; i++) {
    int64_t left = cut_at(job, &all.host[i], silence) - mr_launch_now();
    if (all.host[i].from >= 0)
      patience = mr_launch_sooner(patience, left > 0 ? (int)left : 0);
  }
  return patience;
}

/* ---- the job ------------------------------------------------------------------------------- */

static void end_agent(struct host *host) {
  hang_up(host);
  if (host->pid <= 0)
    return;
  /* It has nothing to do any more, and may not hear what is less. */
  kill(-host->pid, SIGKILL);
  waitpid(host->pid, NULL, 0);
  host->pid = 0;
}

static void end_agents(void) {
  for (unsigned i = 0; i < all.count; i++)
    end_agent(&all.host[i]);
}

/* Agents end by themselves after their nodes. */
static void watch_hosts(struct job *job) {
  static struct pollfd polled[2 * MR_LAUNCH_NODES + 3];
  struct pollfd *out = polled + all.count, *others = out + all.count;
  struct silence silence = {.limit = -1};
  for (bool any = true; any;) {
    int patience = patience_of(job, &silence);
    any = false;
    for (unsigned i = 0; i < all.count; i++) {
      const struct host *host = &all.host[i];
      polled[i] = (struct pollfd){.fd = host->from, .events = POLLIN};
      out[i] = (struct pollfd){.fd = host->queue.length > 0 ? host->to : -1, .events = POLLOUT};
      any |= host->from >= 0;
    }
    others[0] = (struct pollfd){.fd = job->signals, .events = POLLIN};
    others[1] = mr_launch_input_from(job);
    others[2] = mr_move_poll(&move);
    if (any)
      poll(polled, 2 * all.count + 3, patience);
    for (unsigned i = 0; i < all.count; i++) {
      if (polled[i].revents != 0)
        hear(job, &all.host[i]);
      if (out[i].revents != 0)
        mr_frame_flush(&all.host[i].queue, all.host[i].to);
    }
    if (others[1].revents != 0)
      send_input(job);
    if (others[2].revents != 0)
      job->keep->moving = mr_move_hear(&move, &all, job->nodes);
    mr_launch_read_signals(job);
    cut_off(job, &silence);
  }
  end_agents();
}

static void begin_host(struct job *job, struct host *host) {
  host->alive = host->here;
  host->told = false;
  host->part = calloc(1, sizeof *host->part);
  if (host->part == NULL)
    mr_launch_fail(STATUS_MARU_FAILED, "no memory", "");
  start_agent(job, host);
  tell_begin(job, host);
}

/* Its nodes go to another host, and none to it: it may have several lines of the file. */
static bool replace_host(struct job *job, struct host *host, const char *why) {
  fprintf(stderr, "maru: launch: host %s: %s\n", host->name, why);
  end_agent(host);
  for (unsigned i = 0; i < all.count; i++)
    all.host[i].failed |= strcmp(all.host[i].name, host->name) == 0;
  if (!mr_hosts_replace(&all, host))
    return false;
  begin_host(job, host);
  return true;
}

/* Agents on all hosts that have nodes; where the job goes on, another host serves for one that
 * cannot be reached. */
static bool start_hosts(struct job *job, bool again) {
  static uint16_t ports[MR_LAUNCH_NODES];
  const char *why;
  job->signal = mr_launch_leave; /* and the kernel ends the agents */
  for (unsigned i = 0; i < all.count; i++)
    if (all.host[i].here > 0)
      begin_host(job, &all.host[i]);
  for (unsigned i = 0; i < all.count; i++) {
    struct host *host = &all.host[i];
    while (host->here > 0 && (why = hear_ports(job, host, ports)) != NULL) {
      if (!again)
        mr_hosts_refuse(STATUS_UNAVAILABLE, "host %s: %s", host->name, why);
      if (!replace_host(job, host, why))
        return false;
    }
  }
  for (unsigned i = 0; i < all.count; i++)
    if (all.host[i].here > 0 && job->keep != NULL)
      mr_mirror_restore(job, all.host[i].to, all.host[i].first, all.host[i].here);
  tell_addresses(job, ports);
  return true;
}

static void move_node(const struct job *job) {
  if (mr_hosts_move(&all, job->nodes, move.node, move.host))
    fprintf(stderr, "maru: launch: node %u moves to host %s\n", move.node, move.host);
}

/* All begin again, the nodes of lost hosts on others. */
static bool begin_again(struct job *job) {
  for (unsigned i = 0; i < all.count; i++)
    all.host[i].failed = false;
  for (unsigned i = 0; i < all.count; i++)
    if (all.host[i].lost && !mr_hosts_replace(&all, &all.host[i]))
      return false;
  if (move.wanted && !move.starts)
    move_node(job);
  mr_launch_again(job);
  if (!start_hosts(job, true))
    return false;
  move.starts = move.wanted;
  return true;
}

static void give_input_again(struct job *job) {
  const struct keep *keep = job->keep;
  job->input.given = keep->input_length;
  if (keep->input_length > 0)
    tell(&all.host[0], FRAME_INPUT, 0, 0, keep->input, keep->input_length);
  if (job->input.from < 0)
    tell(&all.host[0], FRAME_INPUT, 0, 0, "", 0);
}

/* False: no host is left; the job is over. */
static bool start_again(struct job *job) {
  if (!begin_again(job)) {
    end_agents();
    job->signal = signal_hosts;
    mr_launch_end(job, STATUS_LOST);
    return false;
  }
  give_input_again(job);
  return true;
}

void mr_launch_on_hosts(struct job *job, const char *file, const struct keep_wish *wish) {
  if (mr_keep_asked(wish)) {
    mr_move_listen(&move);
    mr_watcher_begin(job, wish);
  }
  mr_hosts_read(&all, file, job->nodes);
  mr_launch_catch_signals(job); /* before the first file in memory: ulimit -f */
  mr_launch_secret_draw(job);
  mr_keep_begin(job, wish, true);
  job->drain = nothing_left;
  start_hosts(job, false);
  if (job->keep == NULL)
    mr_launch_secret_close(job);
  mr_launch_input_begin(job);
  do
    watch_hosts(job);
  while (job->keep != NULL && job->keep->recovering && !job->ending && start_again(job));
  tell_ended(job);
  if (job->keep != NULL)
    job->keeps->end(job);
}
