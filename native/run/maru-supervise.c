/* maru-supervise: runs one command on behalf of `maru run` and `maru launch`.
 *
 * Before:  creates the run's board and exports MARU_BOARD.  Without a board
 *          (memfd refused) the command still runs, after one line saying so.
 * During:  forwards signals, follows job control, reaps every orphan (it is
 *          the subreaper of its descendants), shows the run on the board.
 * After:   restores the terminal, writes one line of JSON to --report-fd, then
 *          becomes --reporter if there is one:
 *              REPORTER report-run REPORT-FD STATUS [BOARD-PATH]
 *          which is to exit with STATUS, or is to die of the signal -STATUS.  No process stands
 *          beside the run.
 *          Without --report-fd nothing was planned: where no room was active either, the
 *          supervisor says the one line itself (--verdict no: says nothing), and the reporter need
 *          not start.  Else it becomes that, with a plan of no more.
 *
 * Status:  125 maru failed, 126 the command cannot be executed, 127 it was not
 *          found, else its own, or 128 + the signal that ended it.  Of SIGINT and SIGQUIT the
 *          supervisor dies as the command did, without a core: a shell ends its loop or its script
 *          on an interrupt only where that is what ended the child.
 *
 * What runs beside the command (--beside) starts before it and is told when it is over; see
 * beside.h.  It is not the command's: neither its time nor its end counts.
 *
 * It waits for the command alone: descendants that outlive it (daemons) go on,
 * adopted by the next subreaper.  If the supervisor is killed (SIGKILL) the
 * command goes on as well; only the board goes, with the last process that
 * maps it.
 *
 * Signals: all but faults, SIGPIPE, SIGXFSZ, SIGTTIN and SIGTTOU.  One that the kernel
 * sent (from the terminal) has reached the command by itself, as it is in the same process group.
 * One that a process sent to the supervisor is forwarded. So a signal that a process sends to the
 * whole group arrives twice.  What the command, an orphan or a process below them sends us: see
 * relay.h.
 */
#define _GNU_SOURCE
#include "beside.h"
#include "command.h"
#include "die.h"
#include "interpreter.h"
#include "json.h"
#include "options.h"
#include "relay.h"
#include "task.h"
#include "terminal.h"
#include "verdict.h"

#include <errno.h>
#include <fcntl.h>
#include <maru/board.h>
#include <maru/run.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STATUS_MARU_FAILED = 125, STATUS_CANNOT_EXECUTE = 126, STATUS_NOT_FOUND = 127 };

/* So long after it was asked to stop, a program that stops itself is taken to do what it was asked.
 */
#define ASKED_NS INT64_C(5000000000)

/* So many real-time signals are heard before a child is reaped. */
enum { REAL_TIME_HEARD = 1024 };

/* Room for the sections of every maru room; sparse, so unused room is free. */
#define BOARD_SIZE (4u << 20)

struct supervisor {
  struct maru_board board;
  struct maru_run *run; /* the board's section, or `unseen` */
  struct maru_run unseen;
  struct terminal terminal;
  struct beside beside;
  sigset_t signals;
  pid_t child;
  pid_t lent_to;         /* group that we lent the terminal to; 0: none */
  int stopped_by;        /* while the command is stopped, else 0 */
  int64_t asked_to_stop; /* when SIGTSTP came last; CLOCK_MONOTONIC, 0: not since it went on */
  int died_of;           /* SIGINT or SIGQUIT, where the command did; else 0 */
  uint32_t orphans;
  char board_path[64]; /* MARU_BOARD's value; empty without a board */
};

/* ---- before ------------------------------------------------------------ */

/* Descriptors 0 to 2 that are closed would be taken by the next open.  The
 * stand-ins close at exec, so the command finds what maru found. */
static void fill_standard_descriptors(void) {
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      (void)!open("/dev/null", O_RDWR | O_CLOEXEC);
}

static int create_board(struct supervisor *self, size_t room) {
  void *section;
  int error = maru_board_create(&self->board, BOARD_SIZE + room);
  if (error < 0 && room > 0) /* whose room it was says that there is none */
    error = maru_board_create(&self->board, BOARD_SIZE);
  if (error < 0)
    return error;
  error =
      maru_board_add(&self->board, MARU_RUN_SECTION, MARU_RUN_VERSION, sizeof *self->run, &section);
  if (error < 0) {
    maru_board_close(&self->board);
    return error;
  }
  /* The command finds the board through us; it must not inherit it. */
  fcntl(self->board.fd, F_SETFD, FD_CLOEXEC);
  snprintf(self->board_path, sizeof self->board_path, "/proc/%d/fd/%d", (int)getpid(),
           self->board.fd);
  self->run = section;
  return setenv(MARU_BOARD_ENV, self->board_path, 1) < 0 ? -errno : 0;
}

static void open_board(struct supervisor *self, size_t room) {
  self->run = &self->unseen;
  int error = create_board(self, room);
  if (error < 0) {
    /* A board of an outer run would show this one's rooms there. */
    unsetenv(MARU_BOARD_ENV);
    fprintf(stderr,
            "maru: no board for this run (%s): what rooms do in it is not counted or recorded, "
            "and `maru top` cannot see it%s\n",
            strerror(-error), error == -EFBIG ? "; raise ulimit -f" : "");
  }
}

static void note_command(struct maru_run *run, char *const argv[]) {
  for (int i = 0; argv[i] != NULL; i++) {
    size_t length = strlen(argv[i]) + 1;
    if (run->command_length + length > sizeof run->command)
      return;
    memcpy(run->command + run->command_length, argv[i], length);
    run->command_length += (uint32_t)length;
  }
}

static struct inherited take_signals(struct supervisor *self) {
  struct inherited inherited;
  struct sigaction standard = {.sa_handler = SIG_DFL}, ignored = {.sa_handler = SIG_IGN};
  relay_set(&self->signals);
  sigprocmask(SIG_BLOCK, &self->signals, &inherited.mask);
  /* Ignored by our parent it would let the kernel reap the command, and its
   * status would be lost. */
  sigaction(SIGCHLD, &standard, &inherited.on_child);
  /* A board above the user's file size limit is an error, not our end. */
  sigaction(SIGXFSZ, &ignored, &inherited.on_large);
  return inherited;
}

static int64_t nanoseconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void show_state(struct supervisor *self, enum maru_run_state state) {
  /* Release: a reader that sees the state sees the fields it stands for. */
  atomic_store_explicit(&self->run->state, (uint32_t)state, memory_order_release);
}

/* exec says of a file that is there what it means of the interpreter that the file names. */
static void say_refused(const char *name, int error) {
  char interpreter[INTERPRETER_BYTES];
  if (error == ENOENT && interpreter_of(name, interpreter))
    fprintf(stderr, "maru: cannot execute '%s': its interpreter '%s': %s\n", name, interpreter,
            strerror(error));
  else
    fprintf(stderr, "maru: cannot execute '%s': %s\n", name, strerror(error));
}

static int start(struct supervisor *self, const struct options *options,
                 const struct inherited *inherited) {
  char *const *argv = options->command;
  note_command(self->run, argv);
  self->run->started_ns = nanoseconds(CLOCK_REALTIME);
  int refused, error = command_start(argv, inherited, &options->memory, &self->child, &refused);
  if (error < 0) {
    fprintf(stderr, "maru: cannot start '%s': %s\n", argv[0], strerror(-error));
    return STATUS_MARU_FAILED;
  }
  if (refused == 0) {
    self->run->pid = self->child;
    self->run->start_time = mr_start_time(self->child);
    show_state(self, MARU_RUN_RUNNING);
    return 0;
  }
  say_refused(argv[0], -refused);
  if (refused == -ENOENT)
    return STATUS_NOT_FOUND;
  return refused == -EAGAIN || refused == -ENOMEM ? STATUS_MARU_FAILED : STATUS_CANNOT_EXECUTE;
}

/* ---- during ------------------------------------------------------------ */

static void goes_on(struct supervisor *self) {
  self->stopped_by = 0;
  self->asked_to_stop = 0;
  show_state(self, MARU_RUN_RUNNING);
}

/* Job control stops jobs, so we stop for the shell to see it. A user that sends SIGSTOP to the
 * command itself will continue it itself, and we must be awake then. But a program that is asked to
 * stop, and puts the terminal in order first, stops itself by SIGSTOP. */
static void stop_along(struct supervisor *self) {
  bool itself = self->stopped_by == SIGSTOP && self->asked_to_stop != 0 &&
                nanoseconds(CLOCK_MONOTONIC) - self->asked_to_stop < ASKED_NS;
  if (self->stopped_by == 0 || (self->stopped_by == SIGSTOP && !itself))
    return;
  terminal_take_back(&self->terminal, self->lent_to);
  self->lent_to = 0;
  raise(SIGSTOP);
  kill(relay_addressed(self->child), SIGCONT);
  goes_on(self);
}

static void follow_stop(struct supervisor *self, int signal) {
  pid_t group = getpgid(self->child);
  bool wants_terminal = signal == SIGTTIN || signal == SIGTTOU;
  if (wants_terminal && group != getpgrp() && terminal_lend(&self->terminal, group)) {
    self->lent_to = group;
    kill(-group, SIGCONT);
    return;
  }
  self->stopped_by = signal;
  show_state(self, MARU_RUN_STOPPED);
  stop_along(self);
}

static void hear(struct supervisor *self, const siginfo_t *info) {
  relay(info, self->child);
  if (info->si_signo == SIGTSTP) {
    self->asked_to_stop = nanoseconds(CLOCK_MONOTONIC);
    stop_along(self); /* the command may have stopped before we read that */
  }
}

/* What has come.  Who sends without end does not keep us from reaping: a standard signal is heard
 * once. */
static void hear_pending(struct supervisor *self) {
  static const struct timespec at_once;
  sigset_t sent = self->signals;
  siginfo_t info;
  int real_time = 0;
  sigdelset(&sent, SIGCHLD);
  while (real_time < REAL_TIME_HEARD && sigtimedwait(&sent, &info, &at_once) > 0) {
    if (info.si_signo < SIGRTMIN)
      sigdelset(&sent, info.si_signo);
    else
      real_time++;
    hear(self, &info);
  }
}

/* A child that has something to tell; 0: none.  Before it is reaped we hear what it sent us: who
 * sent it can be looked up until then. */
static pid_t next_child(struct supervisor *self) {
  siginfo_t told = {0};
  if (waitid(P_ALL, 0, &told, WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT) < 0)
    return 0;
  if (told.si_pid != 0)
    hear_pending(self);
  return told.si_pid;
}

/* Takes one child's news.  True if the command is gone: *status. */
static bool take_news(struct supervisor *self, pid_t pid, int *status) {
  int how;
  if (waitpid(pid, &how, WNOHANG | WUNTRACED | WCONTINUED) <= 0)
    return false; /* it went on before we saw it stopped */
  if (pid == self->beside.pid)
    self->beside.pid = WIFSTOPPED(how) || WIFCONTINUED(how) ? pid : 0;
  else if (pid != self->child)
    self->orphans += WIFEXITED(how) || WIFSIGNALED(how);
  else if (WIFSTOPPED(how))
    follow_stop(self, WSTOPSIG(how));
  else if (WIFCONTINUED(how))
    goes_on(self);
  else {
    int signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    *status = signal == 0 ? WEXITSTATUS(how) : 128 + signal;
    self->died_of = signal == SIGINT || signal == SIGQUIT ? signal : 0;
    return true;
  }
  return false;
}

/* Reaps all that can be reaped.  True once the command is gone: *status. */
static bool reap(struct supervisor *self, int *status) {
  for (pid_t pid; (pid = next_child(self)) > 0;)
    if (take_news(self, pid, status))
      return true;
  return false;
}

/* Those that were set before us were for the command. */
static void clear_timers(void) {
  static const struct itimerval none;
  setitimer(ITIMER_REAL, &none, NULL);
  setitimer(ITIMER_VIRTUAL, &none, NULL);
  setitimer(ITIMER_PROF, &none, NULL);
}

static int supervise(struct supervisor *self) {
  int status;
  while (!reap(self, &status)) {
    siginfo_t info;
    int got = sigwaitinfo(&self->signals, &info);
    if (got > 0 && got != SIGCHLD)
      hear(self, &info);
  }
  clear_timers();
  return status;
}

/* ---- after ------------------------------------------------------------- */

static double seconds(struct timeval time) {
  return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

static struct verdict verdict_of(double wall, const struct rusage *used) {
  return (struct verdict){.wall_s = wall,
                          .user_s = seconds(used->ru_utime),
                          .system_s = seconds(used->ru_stime),
                          .max_rss_kib = (uint64_t)used->ru_maxrss};
}

/* What ran beside the command was killed in the middle of a line. */
static bool is_torn(int fd) {
  struct stat stat;
  char last;
  return fstat(fd, &stat) == 0 && stat.st_size > 0 && pread(fd, &last, 1, stat.st_size - 1) == 1 &&
         last != '\n';
}

static void write_report(const struct supervisor *self, int fd, int status,
                         const struct verdict *verdict) {
  FILE *out = fdopen(dup(fd), "w");
  if (out != NULL) {
    struct mr_json json = {.out = out};
    if (is_torn(fd))
      fputc('\n', out);
    char words[VERDICT_BYTES];
    verdict_words(verdict, words);
    mr_json_object(&json, NULL);
    mr_json_text(&json, "schema", "maru-supervise/1");
    mr_json_whole(&json, "status", (uint64_t)status);
    mr_json_bool(&json, "started", self->child > 0);
    mr_json_real(&json, "wall_s", verdict->wall_s, 6);
    mr_json_real(&json, "user_s", verdict->user_s, 6);
    mr_json_real(&json, "sys_s", verdict->system_s, 6);
    mr_json_whole(&json, "max_rss_kib", verdict->max_rss_kib);
    mr_json_text(&json, "words", words);
    mr_json_whole(&json, "orphans_reaped", self->orphans);
    mr_json_bool(&json, "board", self->board_path[0] != '\0');
    mr_json_end_object(&json);
    fputc('\n', out);
  }
  if (out == NULL || fclose(out) != 0)
    fprintf(stderr, "maru: cannot write the report: %s\n", strerror(errno));
}

/* No room showed anything on the board, nor said a line. */
static bool nothing_but_the_run(const struct supervisor *self) {
  struct maru_board_section section;
  uint64_t first, end;
  if (self->board_path[0] == '\0')
    return true;
  maru_board_lines(&self->board, &first, &end);
  return first == end && maru_board_section_at(&self->board, 1, &section) == -ENOENT;
}

/* Nobody may read it; the status counts all the same. */
static void say_verdict(const struct verdict *verdict, bool counted) {
  char words[VERDICT_BYTES], line[VERDICT_BYTES + 48];
  verdict_words(verdict, words);
  int length = snprintf(line, sizeof line, "maru: %s; %s\n", words,
                        counted ? "no room was active" : "what rooms did was not counted");
  signal(SIGPIPE, SIG_IGN);
  (void)!write(STDERR_FILENO, line, (size_t)length);
}

/* A report with a plan that holds what the reporter heeds; -1 after one line. */
static int new_report(bool quiet) {
  int fd = memfd_create("maru-report", MFD_CLOEXEC);
  if (fd >= 0 && dprintf(fd, "{\"quiet\":%s}\n", quiet ? "true" : "false") > 0)
    return fd;
  fprintf(stderr, "maru: no memory for the report: %s\n", strerror(errno));
  return -1;
}

/* What was sent for the command, or by an orphan, does not end the report.  The user may. */
static struct inherited for_reporter(const struct supervisor *self,
                                     const struct inherited *inherited) {
  static const int heeded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD};
  struct inherited its = *inherited;
  sigset_t kept = self->signals;
  for (size_t i = 0; i < sizeof heeded / sizeof *heeded; i++)
    sigdelset(&kept, heeded[i]);
  sigorset(&its.mask, &its.mask, &kept);
  return its;
}

/* Returns only if the reporter cannot be executed. */
static void become_reporter(struct supervisor *self, const struct options *options, int fd,
                            int status, const struct inherited *inherited) {
  char report[16], code[16];
  snprintf(report, sizeof report, "%d", fd);
  snprintf(code, sizeof code, "%d", self->died_of != 0 ? -self->died_of : status);
  fcntl(fd, F_SETFD, 0);
  if (self->board_path[0] != '\0')
    fcntl(self->board.fd, F_SETFD, 0);
  struct inherited its = for_reporter(self, inherited);
  inherited_restore(&its);
  char *board = self->board_path[0] != '\0' ? self->board_path : NULL;
  execve(options->reporter,
         (char *[]){(char *)options->reporter, "report-run", report, code, board, NULL},
         options->found);
  fprintf(stderr, "maru: cannot execute the reporter '%s': %s\n", options->reporter,
          strerror(errno));
}

/* Says what was measured, or has it said; does not return then. */
static void report(struct supervisor *self, const struct options *options, int status,
                   const struct verdict *verdict, const struct inherited *inherited) {
  int fd = options->report_fd;
  if (fd < 0 && options->reporter != NULL) {
    if (nothing_but_the_run(self)) {
      if (self->child > 0 && !options->quiet)
        say_verdict(verdict, self->board_path[0] != '\0');
      return;
    }
    fd = new_report(options->quiet);
  }
  if (fd < 0)
    return;
  write_report(self, fd, status, verdict);
  if (options->reporter != NULL)
    become_reporter(self, options, fd, status, inherited);
}

int main(int argc, char **argv) {
  struct supervisor self = {.board = {.fd = -1}};
  struct options options;
  fill_standard_descriptors();
  if (options_read(&options, argc, argv) < 0)
    return STATUS_MARU_FAILED;
  if (options.report_fd >= 0)
    fcntl(options.report_fd, F_SETFD, FD_CLOEXEC);
  struct inherited inherited = take_signals(&self);
  open_board(&self, options.board_room);
  self.terminal = terminal_open();
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
    fprintf(stderr, "maru: cannot reap orphans: %s\n", strerror(errno));

  beside_start(&self.beside, &options, &inherited);
  int64_t started = nanoseconds(CLOCK_MONOTONIC);
  int status = start(&self, &options, &inherited);
  if (status == 0)
    status = supervise(&self);
  double wall = (double)(nanoseconds(CLOCK_MONOTONIC) - started) * 1e-9;
  struct rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  self.run->status = status;
  show_state(&self, MARU_RUN_ENDED);
  terminal_take_back(&self.terminal, self.lent_to);

  beside_end(&self.beside);
  struct verdict verdict = verdict_of(wall, &used);
  report(&self, &options, status, &verdict, &inherited);
  if (self.board_path[0] != '\0')
    maru_board_close(&self.board);
  options_free(&options);
  if (self.died_of != 0)
    mr_die_of(self.died_of);
  return status;
}
