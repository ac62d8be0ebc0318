#define _GNU_SOURCE
#include "keep.h"

#include "numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define FULL_MS 10 /* a terminal that took nothing is asked again */

void mr_launch_fail(int status, const char *what, const char *why) {
  fprintf(stderr, "maru: launch: %s%s%s\n", what, *why ? ": " : "", why);
  exit(status);
}

int64_t mr_launch_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool mr_launch_ready(struct job *job, int fd, short event) {
  for (;;) {
    struct pollfd polled[2] = {{.fd = fd, .events = event}, {.fd = job->signals, .events = POLLIN}};
    int patience = mr_launch_patience(job);
    bool last = job->interrupted && job->killed;
    int ready = poll(polled, 2, last ? 0 : patience);
    if (ready > 0 && polled[1].revents != 0)
      mr_launch_read_signals(job);
    if (ready > 0 && polled[0].revents != 0)
      return true;
    if (last)
      return false;
  }
}

/* So much at a time that what is ready takes it without waiting.  A terminal may be ready, and take
 * nothing. */
int mr_launch_write(struct job *job, int fd, const char *bytes, size_t length) {
  while (length > 0) {
    if (!mr_launch_ready(job, fd, POLLOUT))
      return -ECANCELED;
    ssize_t n = write(fd, bytes, length < PIPE_BUF ? length : PIPE_BUF);
    if (n < 0 && errno == EAGAIN)
      poll(NULL, 0, FULL_MS);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (n < 0)
      return -errno;
    bytes += n;
    length -= (size_t)n;
  }
  return 0;
}

/* ---- what is said --------------------------------------------------------------- */

static unsigned lost_whom(const char *text, size_t length) {
  unsigned whom = 0;
  for (; length > 0 && *text >= '0' && *text <= '9'; text++, length--)
    whom = 10 * whom + (unsigned)(*text - '0');
  return whom;
}

/* The one that was lost may have lost another before. */
static void keep_lost(struct job *job, unsigned number, const char *line, size_t length,
                      unsigned whom) {
  if (job->lost != NULL && number != job->lost_whom)
    return;
  free(job->lost);
  job->lost = strndup(line, length);
  job->lost_by = number;
  job->lost_whom = whom;
}

/* One cause, one line: what ends a job ends all its nodes, and each has something to say.  Of
 * their last words the first are shown; those of a node that merely lost another are kept back.
 * True: not to be shown now. */
static bool is_echo(struct job *job, unsigned number, const char *line, size_t length) {
  char begin[32], lost[40];
  int size = snprintf(begin, sizeof begin, "maru: node %u: ", number);
  int lost_size = snprintf(lost, sizeof lost, "%slost node ", begin);
  if (length < (size_t)size || memcmp(line, begin, (size_t)size) != 0)
    return false;
  if (length >= (size_t)lost_size && memcmp(line, lost, (size_t)lost_size) == 0) {
    keep_lost(job, number, line, length, lost_whom(line + lost_size, length - (size_t)lost_size));
    return true;
  }
  bool echo = job->said;
  job->said = true;
  return echo;
}

/* For the report: whose, and the rest of the line. */
static bool is_heat(struct job *job, unsigned number, const char *line, size_t length) {
  static const char mark[] = "maru: heat: ";
  const size_t size = sizeof mark - 1;
  char whole[4096];
  if (job->report < 0 || length < size || length > sizeof whole - 16 ||
      memcmp(line, mark, size) != 0)
    return false;
  int written =
      snprintf(whole, sizeof whole, "%u %.*s\n", number, (int)(length - size), line + size);
  mr_launch_write(job, job->report, whole, (size_t)written);
  return true;
}

static void begin_end(struct job *job) {
  if (job->ending)
    return;
  job->ending = true;
  job->kill_at = mr_launch_now() + job->grace_ms;
  job->signal(job, SIGTERM);
}

/* A program of threads ends as a process does, whatever its threads do: one node says so. */
void mr_launch_over(struct job *job, int status) {
  if (job->teller != NULL) {
    job->teller->over(job, status);
    return;
  }
  if (job->ending)
    return;
  job->over = true;
  job->status = status;
  job->culprit = MR_LAUNCH_NODES;
  begin_end(job);
}

/* A job whose results go nowhere has failed, also where its program has ended well. */
static void lose_output(struct job *job, int to, int error) {
  if (to != STDOUT_FILENO || (job->ending && job->status != 0))
    return;
  if (error != -EPIPE)
    fprintf(stderr, "maru: launch: cannot write what the nodes say: %s\n", strerror(-error));
  mr_launch_end(job, error == -EPIPE ? 128 + SIGPIPE : STATUS_MARU_FAILED);
}

/* A terminal that is frozen, or whose reader is, keeps who writes there waiting, deaf to signals.
 * An opening of our own does not wait, and leaves that of others as it is. */
static void open_terminals(struct job *job) {
  char path[32];
  for (int to = STDOUT_FILENO; to <= STDERR_FILENO; to++) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", to);
    job->shown[to - 1] = isatty(to) ? open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
  }
}

void mr_launch_show(struct job *job, int to, const char *lines, size_t length) {
  int own = job->shown[to - 1];
  int rc = mr_launch_write(job, own >= 0 ? own : to, lines, length);
  if (rc < 0)
    lose_output(job, to, rc);
}

void mr_launch_line(struct job *job, unsigned number, int to, const char *line, size_t length,
                    bool ends) {
  static char whole[MR_LAUNCH_LINE + 16];
  if (job->teller != NULL) {
    job->teller->line(job, number, to, line, length, ends);
    return;
  }
  if (to == STDERR_FILENO && is_heat(job, number, line, length))
    return;
  if (to == STDERR_FILENO && is_echo(job, number, line, length))
    return;
  bool bare = job->bare && to == STDOUT_FILENO;
  size_t size = bare ? 0 : (size_t)snprintf(whole, sizeof whole, "[%u] ", number);
  memcpy(whole + size, line, length);
  size += length;
  if (ends || !bare)
    whole[size++] = '\n';
  if (job->keep == NULL || !job->keeps->line(job, number, to, whole, size))
    mr_launch_show(job, to, whole, size);
}

/* As shells say it. */
bool mr_launch_is_signal(int status) { return status > 128 && status <= 128 + SIGRTMAX; }

/* Where no node has said it. */
void mr_launch_say_why(const struct job *job) {
  if (job->status == 0 || job->culprit == MR_LAUNCH_NODES || job->said)
    return;
  if (job->status == STATUS_LOST && job->lost != NULL)
    fprintf(stderr, "[%u] %s\n", job->lost_by, job->lost);
  else
    fprintf(stderr, "maru: launch: node %u %s %d\n", job->culprit,
            mr_launch_is_signal(job->status) ? "was ended by signal" : "ended with status",
            mr_launch_is_signal(job->status) ? job->status - 128 : job->status);
}

void mr_launch_again(struct job *job) {
  job->input.length = job->input.given = 0;
  job->keeps->again(job);
  job->said = false;
  free(job->lost);
  job->lost = NULL;
}

/* ---- how it ends ------------------------------------------------------------------- */

void mr_launch_end(struct job *job, int status) {
  if (job->status == 0 || job->status == STATUS_LOST) {
    job->status = status;
    job->culprit = MR_LAUNCH_NODES;
  }
  begin_end(job);
}

static void signal_nobody(struct job *job, int signal) {
  (void)job;
  (void)signal;
}

void mr_launch_leave(struct job *job, int signal) {
  (void)signal;
  int64_t most = mr_launch_now() + MR_LAUNCH_GRACE_SECONDS * 1000;
  job->signal = signal_nobody;
  job->kill_at = job->kill_at != 0 && job->kill_at < most ? job->kill_at : most;
  if (job->keep != NULL)
    job->keeps->end(job); /* the last checkpoint may still be copied */
  exit(job->status);
}

/* A node that another's death took along, or that we ended, is not the cause.  It may
 * be reaped first: a dying node closes its connections before it is gone. */
void mr_launch_ended(struct job *job, unsigned number, int code) {
  job->alive--;
  if (job->teller != NULL) {
    job->teller->ended(job, number, code);
    return;
  }
  if (code != 0 && job->keep != NULL && job->keeps->lost(job, number, code))
    return;
  bool by_us = (job->ending && code == 128 + SIGTERM) || (job->killed && code == 128 + SIGKILL);
  /* Where the launcher has said that a loss ends the job, that stays the reason. */
  bool said = job->status == STATUS_LOST && job->culprit == MR_LAUNCH_NODES;
  if (code == 0 || by_us || job->over || said)
    return;
  if (job->status == 0 || job->status == STATUS_LOST) {
    job->status = code;
    job->culprit = number;
  }
  begin_end(job);
}

int mr_launch_patience(struct job *job) {
  if (job->kill_at == 0)
    return -1;
  int64_t left = job->kill_at - mr_launch_now();
  if (left > 0)
    return (int)left;
  job->killed = true;
  /* A node that is not gone by then hears it again; an agent that does not is cut off (hosts.c). */
  job->kill_at = mr_launch_now() + MR_LAUNCH_AGAIN_MS;
  job->signal(job, SIGKILL);
  return MR_LAUNCH_AGAIN_MS;
}

int mr_launch_sooner(int one, int other) {
  return one < 0 || (other >= 0 && other < one) ? other : one;
}

static int read_grace(void) {
  const char *text = getenv("MARU_LAUNCH_GRACE");
  int64_t seconds;
  if (text == NULL)
    return MR_LAUNCH_GRACE_SECONDS * 1000;
  if (mr_whole(text, 0, 3600, &seconds) < 0)
    mr_launch_fail(STATUS_USAGE, "MARU_LAUNCH_GRACE is no number of seconds from 0 to 3600", text);
  return (int)seconds * 1000;
}

/* Blocked, what we were told to ignore would come all the same.  Not so INT: a script's shell
 * ignores it for all that it starts in the background.  A user that sends it there means it. */
static void leave_ignored(sigset_t *set, int number) {
  struct sigaction inherited;
  if (sigaction(number, NULL, &inherited) == 0 && inherited.sa_handler == SIG_IGN)
    sigdelset(set, number);
}

void mr_launch_signals(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGCHLD);
  sigaddset(set, SIGHUP);
  sigaddset(set, SIGINT);
  sigaddset(set, SIGTERM);
  leave_ignored(set, SIGHUP);
  leave_ignored(set, SIGTERM);
}

static void raise_files(struct job *job) {
  getrlimit(RLIMIT_NOFILE, &job->files);
  struct rlimit most = {.rlim_cur = job->files.rlim_max, .rlim_max = job->files.rlim_max};
  setrlimit(RLIMIT_NOFILE, &most);
}

void mr_launch_catch_signals(struct job *job) {
  sigset_t set;
  struct sigaction standard = {.sa_handler = SIG_DFL}, ignored = {.sa_handler = SIG_IGN};
  job->grace_ms = read_grace();
  raise_files(job);
  open_terminals(job);
  /* A reader that does not read any more is no reason to die. */
  signal(SIGPIPE, SIG_IGN);
  /* Ignored by our parent it would let the kernel reap the nodes, and how they ended would be lost.
   */
  sigaction(SIGCHLD, &standard, &job->on_child);
  /* A file above the user's limit is an error, not our end. */
  sigaction(SIGXFSZ, &ignored, &job->on_large);
  mr_launch_signals(&set);
  sigprocmask(SIG_BLOCK, &set, NULL);
  job->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (job->signals < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot receive signals", strerror(errno));
}

static void requests(sigset_t *set) {
  mr_launch_signals(set);
  sigdelset(set, SIGCHLD);
}

void mr_launch_let_signals_end(struct job *job) {
  const struct sigaction standard = {.sa_handler = SIG_DFL};
  sigset_t set;
  requests(&set);
  sigaction(SIGINT, &standard, &job->on_interrupt); /* it may be ignored */
  sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void mr_launch_hold_signals(const struct job *job) {
  sigset_t set;
  requests(&set);
  sigprocmask(SIG_BLOCK, &set, NULL);
  sigaction(SIGINT, &job->on_interrupt, NULL);
}

void mr_launch_give_signals(const struct job *job) {
  sigset_t none;
  sigemptyset(&none);
  sigaction(SIGCHLD, &job->on_child, NULL);
  sigaction(SIGXFSZ, &job->on_large, NULL);
  setrlimit(RLIMIT_NOFILE, &job->files);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A user that asks twice does not want to wait. But timeout(1), and a terminal that closes, ask
 * once with two signals. Once KILL is sent more signals do not postpone that agents are cut off. */
static void ask_again(struct job *job) {
  int64_t now = mr_launch_now();
  if (!job->interrupted)
    job->asked_at = now;
  else if (now >= job->asked_at + MR_LAUNCH_TWICE_MS && !job->killed)
    job->kill_at = now;
}

/* What a terminal or timeout(1) sends to the whole group comes here, and to the watcher, which
 * passes it on, however late: no second one. */
static bool is_passed_on(struct job *job, pid_t from) {
  if (job->watcher == 0)
    return false;
  bool own = from != job->watcher, again = own ? job->interrupted : job->passes;
  job->passes = own && !job->interrupted;
  return again;
}

void mr_launch_read_signals(struct job *job) {
  struct signalfd_siginfo info;
  while (read(job->signals, &info, sizeof info) == sizeof info)
    if (info.ssi_signo == SIGCHLD) {
      job->reaps = true;
    } else if (!is_passed_on(job, (pid_t)info.ssi_pid)) {
      ask_again(job);
      job->status = 0;
      job->interrupted = true;
      mr_launch_end(job, 128 + (int)info.ssi_signo);
    }
}
