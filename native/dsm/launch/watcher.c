/* watcher.c: the process that the user started, of a job with checkpoints.  The launcher holds the
 * images of all nodes: where memory is short the kernel kills it first.  Nobody would say so.  So
 * it is a child of this one, which holds nothing, and says what was lost.  Where this one is killed
 * the kernel kills the launcher, too, and a third process says so: the mourner, nobody's child.
 */
#define _GNU_SOURCE
#include "keep.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GONE_MS 4000 /* after a launcher that was killed its processes have so long to be gone */

/* What the launcher shows its watcher. */
struct stands {
  uint32_t number; /* the last whole checkpoint; 0: none */
  int32_t lost;    /* a node that has not gone on yet; -1: none */
  int64_t taken;   /* ms: that checkpoint */
};

/* Two, so that one is whole at every moment. */
static struct {
  struct stands each[2];
  _Atomic uint32_t shown;
} * page;

/* ---- the launcher ------------------------------------------------------------------------ */

static int32_t lost_now(const struct job *job, const struct keep *keep) {
  bool again = keep->page->epoch > 1 && !mr_keep_all_started(job, keep);
  return keep->recovering || keep->single >= 0 || again ? (int32_t)keep->lost : -1;
}

void mr_watcher_tell(const struct job *job) {
  const struct keep *keep = job->keep;
  /* Relaxed: this process alone writes it. */
  uint32_t next = 1 - atomic_load_explicit(&page->shown, memory_order_relaxed);
  page->each[next] =
      (struct stands){.number = keep->committed, .lost = lost_now(job, keep), .taken = keep->taken};
  store(&page->shown, next);
}

/* ---- the watcher ------------------------------------------------------------------------- */

static void write_images(const struct stands *last, char *text, size_t size) {
  if (last->number == 0)
    snprintf(text, size, "there was no checkpoint yet");
  else
    snprintf(text, size, "it kept their images, of checkpoint %u, %.1f s ago", last->number,
             (double)(mr_launch_now() - last->taken) / 1000);
}

/* NULL: none has one of the job's.  What a new folder has before the job has one is another's. */
static const char *folder_with_one(const struct stands *last, const struct keep_wish *wish) {
  if (wish->folder != NULL && last->number != 0 && mr_folder_has_one(wish->folder))
    return wish->folder;
  return wish->resume != NULL && mr_folder_has_one(wish->resume) ? wish->resume : NULL;
}

static void write_what_to_do(const struct stands *last, const struct keep_wish *wish, char *text,
                             size_t size) {
  const char *named = wish->folder != NULL ? wish->folder : wish->resume;
  const char *folder = folder_with_one(last, wish);
  if (folder != NULL)
    snprintf(text, size, "go on with --resume %s", folder);
  else if (named != NULL)
    snprintf(text, size, "start the job again; %s has none of its checkpoints", named);
  else
    snprintf(text, size, "start the job again; with --ckpt-dir DIR it goes on after that");
}

static void say_lost(const struct job *job, const char *how, const struct keep_wish *wish) {
  const struct stands *last = &page->each[load(&page->shown)];
  char before[32] = "", images[96], what_to_do[PATH_MAX + 64];
  if (last->lost >= 0)
    snprintf(before, sizeof before, ", node %d before", (int)last->lost);
  write_images(last, images, sizeof images);
  write_what_to_do(last, wish, what_to_do, sizeof what_to_do);
  fprintf(stderr, "maru: launch: lost the launcher%s, and with it nodes 0 to %u%s; %s: %s\n", how,
          job->nodes - 1, before, images, what_to_do);
}

/* ---- the mourner ------------------------------------------------------------------------- */

/* It reads the end of a pipe whose other end the watcher, the launcher and who writes to the folder
 * have open.  One byte: the watcher ended by itself.  None: all of them are gone. */
static _Noreturn void mourn(const struct job *job, pid_t watcher, int from,
                            const struct keep_wish *wish) {
  char how[64], byte;
  ssize_t n;
  setsid(); /* what is for the user's processes is not for it */
  if (dup2(from, STDIN_FILENO) < 0)
    _exit(STATUS_MARU_FAILED);
  close(STDOUT_FILENO);
  close_range(STDERR_FILENO + 1, ~0u, 0);
  do
    n = read(STDIN_FILENO, &byte, 1);
  while (n < 0 && errno == EINTR);
  snprintf(how, sizeof how, " with the started process, %d", (int)watcher);
  if (n == 0)
    say_lost(job, how, wish);
  _exit(0);
}

/* Before this process gets the children of who has ended. */
static void begin_mourner(struct job *job, const struct keep_wish *wish) {
  pid_t watcher = getpid(), between;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0 || (between = fork()) < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot start the launcher", strerror(errno));
  if (between == 0) {
    if (fork() == 0)
      mourn(job, watcher, ends[0], wish);
    _exit(0);
  }
  waitpid(between, NULL, 0);
  close(ends[0]);
  job->mourned = ends[1];
}

/* Somebody may have killed it. */
static void end_mourner(const struct job *job) {
  signal(SIGPIPE, SIG_IGN);
  (void)!write(job->mourned, "", 1);
}

/* ---- how both end ------------------------------------------------------------------------ */

/* Ours by now, as the launcher's were. */
static void await_orphans(const sigset_t *signals) {
  const int64_t end = mr_launch_now() + GONE_MS;
  siginfo_t info;
  for (pid_t ended; (ended = waitpid(-1, NULL, WNOHANG)) >= 0;) {
    int64_t left = end - mr_launch_now();
    struct timespec wait = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
    if (ended == 0 &&
        (left <= 0 || (sigtimedwait(signals, &info, &wait) > 0 && info.si_signo != SIGCHLD)))
      return;
  }
}

/* As the launcher before it obeyed signals. */
static void die_by(int signal, sigset_t *signals) {
  struct sigaction standard = {.sa_handler = SIG_DFL};
  sigaction(signal, &standard, NULL);
  sigemptyset(signals);
  sigaddset(signals, signal);
  sigprocmask(SIG_UNBLOCK, signals, NULL);
  raise(signal);
}

static _Noreturn void watch(const struct job *job, pid_t launcher, sigset_t *signals,
                            const struct keep_wish *wish) {
  siginfo_t info;
  int status;
  char how[64];
  while (waitpid(launcher, &status, WNOHANG) != launcher)
    if (sigwaitinfo(signals, &info) > 0 && info.si_signo != SIGCHLD)
      kill(launcher, info.si_signo);
  int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  bool obeyed = by != 0 && sigismember(signals, by) == 1;
  if (by != 0 && !obeyed) {
    end_mourner(job);       /* before its end is waited for: it may be our child */
    await_orphans(signals); /* one may write to the folder */
    snprintf(how, sizeof how, ", process %d, by signal %d", (int)launcher, by);
    say_lost(job, how, wish);
  } else
    end_mourner(job);
  if (obeyed)
    die_by(by, signals);
  exit(by != 0 ? STATUS_LOST : WEXITSTATUS(status));
}

void mr_watcher_begin(struct job *job, const struct keep_wish *wish) {
  struct sigaction standard = {.sa_handler = SIG_DFL}, on_child;
  sigset_t signals, before;
  page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    mr_launch_fail(STATUS_MARU_FAILED, "no memory for checkpoints", strerror(errno));
  page->each[0].lost = -1;
  mr_launch_board(job); /* `maru top` and nodes find it where the user's process is */
  mr_launch_signals(&signals);
  sigprocmask(SIG_BLOCK, &signals, &before);
  sigaction(SIGCHLD, &standard, &on_child);
  begin_mourner(job, wish);
  /* So that what the launcher leaves becomes our child. */
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  pid_t watcher = getpid(), launcher = fork();
  if (launcher < 0)
    end_mourner(job);
  if (launcher < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot start the launcher", strerror(errno));
  if (launcher > 0)
    watch(job, launcher, &signals, wish);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != watcher)
    exit(STATUS_MARU_FAILED);
  job->watcher = watcher;
  sigaction(SIGCHLD, &on_child, NULL);
  sigprocmask(SIG_SETMASK, &before, NULL);
}
