#define _GNU_SOURCE
#include "process.h"

#include "../node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

struct habits {
  struct sigaction actions[MR_SIGNALS];
  dev_t device; /* of the working directory */
  ino_t folder;
  mode_t mask;
};

static struct habits given, joined, now;

/* The program's thread stands still: nobody makes a file while the mask is another. */
static void look(struct habits *habits) {
  struct stat is = {.st_ino = 0};
  memset(habits, 0, sizeof *habits);
  for (int i = 1; i < MR_SIGNALS; i++)
    (void)sigaction(i, NULL, &habits->actions[i]);
  (void)stat(".", &is);
  habits->device = is.st_dev;
  habits->folder = is.st_ino;
  habits->mask = umask(0);
  umask(habits->mask);
}

static bool same_action(const struct sigaction *one, const struct sigaction *other) {
  return one->sa_handler == other->sa_handler && one->sa_flags == other->sa_flags;
}

void mr_process_given(void) { look(&given); }
void mr_process_joins(void) { look(&joined); }

/* What the program has set since it was given the process stays its own, also where the library now
 * calls it. */
void mr_process_begins(bool was_given) {
  look(&now);
  if (!was_given)
    given = joined = now;
  for (int i = 1; i < MR_SIGNALS; i++)
    if (same_action(&joined.actions[i], &given.actions[i]))
      given.actions[i] = now.actions[i];
}

/* ---- writing ------------------------------------------------------------------------------ */

static int refuse(char *why, size_t size, const char *what) {
  snprintf(why, size, "the program %s", what);
  return -EOPNOTSUPP;
}

static int refuse_signal(char *why, size_t size, int number) {
  snprintf(why, size, "the program handles or ignores signal %d (%s)", number, strsignal(number));
  return -EOPNOTSUPP;
}

/* A function that runs while the image is written might be in it by half. */
static bool has_function(const struct sigaction *action) {
  return action->sa_handler != SIG_IGN && action->sa_handler != SIG_DFL;
}

/* Where the kernel does not tell of those of timer_create, none are seen. */
static bool has_timers(void) {
  static const int each[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
  struct itimerval is;
  char byte;
  for (size_t i = 0; i < sizeof each / sizeof *each; i++)
    if (getitimer(each[i], &is) == 0 && (is.it_value.tv_sec != 0 || is.it_value.tv_usec != 0))
      return true;
  int fd = open("/proc/self/timers", O_RDONLY | O_CLOEXEC);
  bool any = fd >= 0 && read(fd, &byte, sizeof byte) > 0;
  if (fd >= 0)
    close(fd);
  return any;
}

static int take_signals(struct mr_process *process, char *why, size_t size) {
  for (int i = 1; i < MR_SIGNALS; i++) {
    process->actions[i] = now.actions[i];
    process->changed[i] = !same_action(&now.actions[i], &given.actions[i]);
    if (process->changed[i] && (i == SIGSEGV || i == SIGBUS || has_function(&now.actions[i])))
      return refuse_signal(why, size, i);
  }
  return 0;
}

static bool is_here(const char *folder) {
  struct stat is;
  return stat(folder, &is) == 0 && is.st_dev == now.device && is.st_ino == now.folder;
}

static int take_folder(struct mr_process *process, char *why, size_t size) {
  process->folder[0] = 0;
  if (now.device == given.device && now.folder == given.folder)
    return 0;
  if (getcwd(process->folder, sizeof process->folder) == NULL || !is_here(process->folder))
    return refuse(why, size, "is in a working directory without a name");
  return 0;
}

int mr_process_take(struct mr_process *process, char *why, size_t size) {
  look(&now);
  process->mask = now.mask != given.mask ? (int)now.mask : -1;
  if (has_timers())
    return refuse(why, size, "has a timer");
  int rc = take_signals(process, why, size);
  return rc < 0 ? rc : take_folder(process, why, size);
}

/* ---- reading ------------------------------------------------------------------------------- */

void mr_process_put(const struct mr_process *process) {
  for (int i = 1; i < MR_SIGNALS; i++)
    if (process->changed[i] && sigaction(i, &process->actions[i], NULL) < 0)
      mr_node_die(STATUS_INTERNAL, "cannot handle signal %d again: %s", i, strerror(errno));
  if (process->mask >= 0)
    umask((mode_t)process->mask);
  if (process->folder[0] != 0 && chdir(process->folder) < 0)
    mr_node_die(STATUS_DATA, "cannot go on: the program was in the folder %s: %s", process->folder,
                strerror(errno));
}
