/* hosts.c: a job on several hosts.  This process starts one agent a host, `ssh HOST maru-launch
 * --agent`, tells it by its standard input what to start, and hears by its standard output what the
 * nodes say and how they end.  The secret and the environment go that way too: no command line
 * shows them.
 *
 * The connection is the agent's life: at its end the agent kills its nodes.
 */
#define _GNU_SOURCE
#include "launch.h"

#include "../address.h"
#include "numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* One message; `length` bytes follow.  In host order: a job runs on one architecture. */
enum kind {
  BEGIN = 1, /* to the agent; node: the first; value: how many; strings: secret, address, folder,
                number of nodes, environment, "", command */
  ADDRESSES, /* to the agent: a string */
  SIGNAL,    /* to the agent; value */
  INPUT,     /* to the agent: bytes for node 0; none: the end */
  PORTS,     /* from it: a uint16_t per node */
  LINE,      /* from it; value: 1 or 2 */
  TAKEN,     /* from it; value: so many bytes of the input, or below 0: node 0 takes no more */
  ENDED,     /* from it; value: status */
  OVER,      /* from it; node: its first; value: the program's status */
};

struct frame {
  uint32_t kind, node, length;
  int32_t value;
};

/* The agent draws the ports. */
#define ANY_PORT 1

#define BODY_MAX (MR_LAUNCH_LINE + 1u)

struct host {
  char name[256];
  unsigned slots; /* nodes at a time, as the file says */
  unsigned first, here, alive;
  struct sockaddr_storage address;
  pid_t pid;
  int to, from; /* -1: ended */
};

static struct {
  struct host host[MR_LAUNCH_NODES];
  unsigned count;
} all;

/* To who does not read any more: reading from there will tell. */
static void send_frame(struct job *job, int fd, enum kind kind, unsigned node, int value,
                       const void *body, size_t length) {
  struct frame frame = {kind, node, (uint32_t)length, value};
  mr_launch_write(job, fd, (const char *)&frame, sizeof frame);
  mr_launch_write(job, fd, body, length);
}

static bool read_whole(struct job *job, int fd, void *to, size_t length) {
  for (size_t done = 0; done < length;) {
    if (!mr_launch_ready(job, fd, POLLIN))
      return false;
    ssize_t n = read(fd, (char *)to + done, length - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    done += (size_t)n;
  }
  return true;
}

/* The body ends with a zero that is not counted. */
static bool read_frame(struct job *job, int fd, struct frame *frame, char *body, size_t most) {
  if (!read_whole(job, fd, frame, sizeof *frame) || frame->length >= most ||
      !read_whole(job, fd, body, frame->length))
    return false;
  body[frame->length] = 0;
  return true;
}

/* ---- the agent ------------------------------------------------------------------------ */

#define SPECIFICATION_MAX (4u << 20)

/* The next of the strings in a body. */
static char *next_string(char **at, const char *end) {
  if (*at >= end)
    mr_launch_fail(STATUS_MARU_FAILED, "agent: a message is too short", "");
  char *string = *at;
  *at += strlen(string) + 1;
  return string;
}

static void tell_line(struct job *job, unsigned number, int to, const char *line, size_t length) {
  send_frame(job, 1, LINE, number, to, line, length);
}

static void tell_taken(struct job *job, int taken) { send_frame(job, 1, TAKEN, 0, taken, "", 0); }

static void tell_ended(struct job *job, unsigned number, int code) {
  send_frame(job, 1, ENDED, number, code, "", 0);
}

static void tell_over(struct job *job, int status) {
  send_frame(job, 1, OVER, job->first, status, "", 0);
}

static const struct teller to_starter = {
    .line = tell_line, .ended = tell_ended, .taken = tell_taken, .over = tell_over};

static void begin_agent(struct job *job) {
  struct frame frame;
  struct sockaddr_storage address;
  char *body = malloc(SPECIFICATION_MAX);
  if (body == NULL || !read_frame(job, 0, &frame, body, SPECIFICATION_MAX) || frame.kind != BEGIN ||
      frame.value < 1 || frame.value > (int)MR_LAUNCH_NODES)
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
  while (*(string = next_string(&at, end)) != 0)
    putenv(string);
  size_t count = 0;
  job->command = calloc(frame.length + 1, sizeof *job->command);
  while (at < end && job->command != NULL)
    job->command[count++] = next_string(&at, end);
  if (count == 0)
    mr_launch_fail(STATUS_MARU_FAILED, "agent: no command", "");
  mr_launch_bind(job, &address);
}

static void tell_ports(struct job *job) {
  uint16_t ports[MR_LAUNCH_NODES];
  for (unsigned i = 0; i < job->here; i++)
    ports[i] = job->node[i].port;
  send_frame(job, 1, PORTS, job->first, 0, ports, job->here * sizeof *ports);
}

/* From the one who started us. */
static void obey(struct job *job) {
  static char body[MR_LAUNCH_INPUT + 1];
  struct frame frame;
  bool good = read_frame(job, 0, &frame, body, sizeof body);
  if (good && frame.kind == SIGNAL)
    mr_launch_signal_nodes(job, frame.value);
  else if (good && frame.kind == INPUT && frame.length == 0)
    mr_launch_input_end(job);
  else if (!good || frame.kind != INPUT || !mr_launch_input_give(job, body, frame.length))
    mr_launch_signal_nodes(job, SIGKILL);
}

void mr_launch_agent(struct job *job) {
  struct frame frame;
  static char addresses[MR_LAUNCH_NODES * MR_ADDRESS_TEXT];
  mr_launch_catch_signals(job);
  begin_agent(job);
  tell_ports(job);
  if (!read_frame(job, 0, &frame, addresses, sizeof addresses) || frame.kind != ADDRESSES)
    exit(STATUS_MARU_FAILED); /* who started us is gone */
  job->addresses = addresses;
  job->signal = mr_launch_signal_nodes;
  mr_launch_start(job);
  mr_launch_watch(job, 0, obey);
}

/* ---- hosts ------------------------------------------------------------------------------ */

static _Noreturn void refuse(int status, const char *format, const char *a, const char *b) {
  char line[600];
  snprintf(line, sizeof line, format, a, b);
  mr_launch_fail(status, line, "");
}

static void resolve(struct host *host) {
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
  int rc = getaddrinfo(host->name, NULL, &hints, &found);
  hints.ai_family = AF_INET6;
  if (rc != 0 && getaddrinfo(host->name, NULL, &hints, &found) == 0)
    rc = 0;
  if (rc != 0)
    refuse(STATUS_UNAVAILABLE, "unknown host '%s': %s", host->name, gai_strerror(rc));
  memcpy(&host->address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
}

/* "HOST [NODES]" a line; "#" begins a comment. */
static void read_hosts(const char *file) {
  FILE *stream = fopen(file, "re");
  if (stream == NULL)
    refuse(STATUS_UNAVAILABLE, "%s: %s", file, strerror(errno));
  char *line = NULL;
  size_t room = 0;
  while (getline(&line, &room, stream) >= 0) {
    struct host *host = &all.host[all.count];
    line[strcspn(line, "#\n")] = 0;
    int name_end = 0, end = 0;
    host->slots = 1;
    if (sscanf(line, " %255s%n %9u%n", host->name, &name_end, &host->slots, &end) < 1)
      continue;
    end = end > name_end ? end : name_end;
    if (line[end + (int)strspn(line + end, " \t\r")] != 0 || host->slots < 1 ||
        host->slots > MR_LAUNCH_NODES || host->name[0] == '-')
      refuse(STATUS_USAGE, "%s: 'HOST [NODES]' is needed, not '%s'", file, line);
    if (++all.count == MR_LAUNCH_NODES)
      break;
  }
  free(line);
  fclose(stream);
  if (all.count == 0)
    refuse(STATUS_USAGE, "%s names no host%s", file, "");
}

/* Hosts are filled in their order, and again while there are nodes left. */
static void place_nodes(struct job *job) {
  for (unsigned left = job->nodes, i = 0; left > 0; i = (i + 1) % all.count) {
    unsigned more = all.host[i].slots < left ? all.host[i].slots : left;
    all.host[i].here += more;
    left -= more;
  }
  for (unsigned i = 0, first = 0; i < all.count; first += all.host[i++].here) {
    all.host[i].first = first;
    all.host[i].alive = all.host[i].here;
  }
}

/* ---- their agents --------------------------------------------------------------------------- */

static void start_agent(struct host *host) {
  static char self[4096];
  const char *asked = getenv("MARU_LAUNCH_SSH"), *ssh = asked != NULL ? asked : "ssh";
  char command[4200];
  int to[2], from[2];
  pid_t parent = getpid();
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0 || pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot start an agent", strerror(errno));
  if (strchr(self, '\'') != NULL)
    refuse(STATUS_UNAVAILABLE, "%s: a quote in this path cannot be told to another host's shell%s",
           self, "");
  snprintf(command, sizeof command, "'%s' --agent", self);
  host->pid = fork();
  if (host->pid < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot start an agent", strerror(errno));
  if (host->pid == 0) {
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* the terminal's signals are for us */
    if (getppid() != parent || dup2(to[0], 0) < 0 || dup2(from[1], 1) < 0)
      _exit(STATUS_MARU_FAILED);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
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
  fprintf(stream, "%c%s%c%s%c%u%c", 0, address, 0, folder, 0, job->nodes, 0);
  for (char **variable = environ; *variable != NULL; variable++)
    if (strncmp(*variable, "MARU_", 5) == 0)
      fprintf(stream, "%s%c", *variable, 0);
  fputc(0, stream);
  for (char **word = job->command; *word != NULL; word++)
    fprintf(stream, "%s%c", *word, 0);
  fclose(stream);
  send_frame(job, host->to, BEGIN, host->first, (int)host->here, text, length);
  explicit_bzero(text, length);
  free(text);
}

/* While nothing of the job has begun, a signal to us ends us, and the kernel the agents. */
static void leave(struct job *job, int signal) {
  (void)signal;
  exit(job->status);
}

static void hear_ports(struct job *job, const struct host *host, uint16_t *ports) {
  struct frame frame;
  char body[MR_LAUNCH_NODES * 2 + 2];
  if (!read_frame(job, host->from, &frame, body, sizeof body) || frame.kind != PORTS ||
      frame.length != host->here * sizeof *ports)
    refuse(STATUS_UNAVAILABLE, "host %s: no agent could be started there%s", host->name, "");
  memcpy(ports + host->first, body, frame.length);
}

static void signal_hosts(struct job *job, int signal) {
  for (unsigned i = 0; i < all.count; i++)
    if (all.host[i].to >= 0)
      send_frame(job, all.host[i].to, SIGNAL, 0, signal, "", 0);
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
      send_frame(job, all.host[i].to, ADDRESSES, 0, 0, addresses, strlen(addresses));
  job->alive = job->nodes;
  job->signal = signal_hosts;
}

/* Its nodes are gone, or will be: the agent kills them when it sees the connection's end. */
static void lose_host(struct job *job, struct host *host) {
  close(host->to);
  close(host->from);
  host->to = host->from = -1;
  if (host->alive == 0)
    return;
  if (!job->ending) {
    fprintf(stderr, "maru: launch: host %s was lost, with %u nodes\n", host->name, host->alive);
    mr_launch_end(job, STATUS_LOST);
  }
  job->alive -= host->alive;
  host->alive = 0;
}

/* Node 0 is on the first host. */
static void send_input(struct job *job) {
  char bytes[MR_LAUNCH_INPUT];
  size_t length = mr_launch_input_read(job, bytes);
  if ((length > 0 || job->input.from < 0) && all.host[0].to >= 0)
    send_frame(job, all.host[0].to, INPUT, 0, 0, bytes, length);
}

static void hear(struct job *job, struct host *host) {
  static char body[BODY_MAX];
  struct frame frame;
  bool good = read_frame(job, host->from, &frame, body, sizeof body) && frame.node >= host->first &&
              frame.node - host->first < host->here;
  if (good && frame.kind == LINE && (frame.value == 1 || frame.value == 2))
    mr_launch_line(job, frame.node, frame.value, body, frame.length);
  else if (good && frame.kind == TAKEN)
    mr_launch_input_taken(job, frame.value);
  else if (good && frame.kind == OVER)
    mr_launch_over(job, frame.value);
  else if (good && frame.kind == ENDED && host->alive > 0) {
    host->alive--;
    mr_launch_ended(job, frame.node, frame.value);
  } else
    lose_host(job, host);
}

/* Agents end by themselves after their nodes. */
static void watch_hosts(struct job *job) {
  static struct pollfd polled[MR_LAUNCH_NODES + 2];
  for (bool any = true; any;) {
    any = false;
    for (unsigned i = 0; i < all.count; i++) {
      polled[i] = (struct pollfd){.fd = all.host[i].from, .events = POLLIN};
      any |= all.host[i].from >= 0;
    }
    polled[all.count] = (struct pollfd){.fd = job->signals, .events = POLLIN};
    polled[all.count + 1] = mr_launch_input_from(job);
    int patience = mr_launch_input_patience(job, mr_launch_patience(job));
    int ready = any ? poll(polled, all.count + 2, patience) : 0;
    for (unsigned i = 0; i < all.count && ready > 0; i++)
      if (polled[i].fd >= 0 && polled[i].revents != 0)
        hear(job, &all.host[i]);
    if (ready > 0 && polled[all.count + 1].revents != 0)
      send_input(job);
    mr_launch_read_signals(job);
    /* An agent that does not answer KILL is cut off. */
    if (job->killed && ready == 0)
      for (unsigned i = 0; i < all.count; i++)
        if (all.host[i].from >= 0)
          lose_host(job, &all.host[i]);
  }
  for (unsigned i = 0; i < all.count; i++)
    if (all.host[i].pid > 0) {
      /* It has nothing to do any more, and may not hear what is less. */
      kill(-all.host[i].pid, SIGKILL);
      waitpid(all.host[i].pid, NULL, 0);
    }
}

void mr_launch_on_hosts(struct job *job, const char *file) {
  static uint16_t ports[MR_LAUNCH_NODES];
  read_hosts(file);
  for (unsigned i = 0; i < all.count; i++)
    resolve(&all.host[i]);
  place_nodes(job);
  mr_launch_catch_signals(job);
  job->signal = leave;
  for (unsigned i = 0; i < all.count; i++) {
    all.host[i].to = all.host[i].from = -1;
    if (all.host[i].here == 0)
      continue;
    start_agent(&all.host[i]);
    tell_begin(job, &all.host[i]);
  }
  mr_launch_secret_close(job);
  for (unsigned i = 0; i < all.count; i++)
    if (all.host[i].here > 0)
      hear_ports(job, &all.host[i], ports);
  tell_addresses(job, ports);
  mr_launch_input_begin(job);
  watch_hosts(job);
}
