#define _GNU_SOURCE
#include "process.h"

#include "../access.h"
#include "../node.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
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

static const int timers[MR_TIMERS] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
#define FIRST_QUEUED 32 /* the kernel's first signal that comes as often as it was sent */

/* As the program has set them, but for what may be the library's. */
static void look_at_actions(struct habits *habits) {
  for (int i = 1; i < MR_SIGNALS; i++)
    (void)(i == SIGSEGV || i == SIGBUS ? sigaction : mr_access_sigaction)(i, NULL,
                                                                          &habits->actions[i]);
}

/* The program's thread stands still: nobody makes a file while the mask is another. */
static void look(struct habits *habits) {
  struct stat is = {.st_ino = 0};
  memset(habits, 0, sizeof *habits);
  look_at_actions(habits);
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

static int refuse_signal(char *why, size_t size, int number, const char *what) {
  snprintf(why, size, "the program handles or ignores signal %d (%s), %s", number,
           strsignal(number), what);
  return -EOPNOTSUPP;
}

static bool has_function(const struct sigaction *action) {
  return action->sa_handler != SIG_IGN && action->sa_handler != SIG_DFL;
}

bool mr_process_is_file(const void *at) {
  const Elf64_Phdr *each = (const void *)getauxval(AT_PHDR), *end = each + getauxval(AT_PHNUM);
  for (; each < end; each++)
    if (each->p_type == PT_LOAD && (uintptr_t)at - each->p_vaddr < each->p_memsz)
      return true;
  return false;
}

static bool is_changed(int number) {
  return !same_action(&now.actions[number], &given.actions[number]);
}

bool mr_process_handles(void) {
  bool any = false;
  look_at_actions(&now);
  for (int i = 1; i < MR_SIGNALS; i++)
    any = any || (is_changed(i) && has_function(&now.actions[i]));
  return any;
}

/* What an image cannot hold of it; NULL: nothing. */
static const char *what_is_lost(const struct sigaction *action, bool held) {
  return !has_function(action)                             ? NULL
         : !mr_process_is_file((void *)action->sa_handler) ? "by a function that is not in its file"
         : (action->sa_flags & SA_ONSTACK)                 ? "on a stack of its own"
         : !held                                           ? "since just now"
                                                           : NULL;
}

static int take_signals(struct mr_process *process, bool held, char *why, size_t size) {
  for (int i = 1; i < MR_SIGNALS; i++) {
    process->actions[i] = now.actions[i];
    process->changed[i] = is_changed(i);
    process->lent[i] = mr_access_lends_stack(i);
    if (!process->changed[i])
      continue;
    const char *what = i == SIGSEGV || i == SIGBUS ? "which is the library's"
                                                   : what_is_lost(&now.actions[i], held);
    if (what != NULL)
      return refuse_signal(why, size, i, what);
  }
  return 0;
}

/* Where the kernel does not tell of those of timer_create, none are seen. */
static bool has_other_timers(void) {
  char byte;
  int fd = open("/proc/self/timers", O_RDONLY | O_CLOEXEC);
  bool any = fd >= 0 && read(fd, &byte, sizeof byte) > 0;
  if (fd >= 0)
    close(fd);
  return any;
}

static void look_at_waiting(bool waits[MR_SIGNALS], const sigset_t *too) {
  sigset_t all;
  sigpending(&all);
  for (int i = 1; i < MR_SIGNALS; i++)
    waits[i] = sigismember(&all, i) == 1 || (too != NULL && sigismember(too, i) == 1);
}

/* A timer that ends meanwhile is looked at again: else its signal would be missed, or come twice.
 */
static void look_at_timers(struct mr_process *process, const sigset_t *waiting) {
  bool before[MR_SIGNALS];
  look_at_waiting(process->waits, waiting);
  do {
    memcpy(before, process->waits, sizeof before);
    for (int i = 0; i < MR_TIMERS; i++)
      (void)getitimer(timers[i], &process->timers[i]);
    look_at_waiting(process->waits, waiting);
  } while (memcmp(before, process->waits, sizeof before) != 0);
}

/* One that is neither handled nor blocked is about to end this process, and is not for another. */
static int take_waiting(struct mr_process *process, const sigset_t *blocked, char *why,
                        size_t size) {
  for (int i = 1; i < MR_SIGNALS; i++) {
    process->waits[i] = process->waits[i] && blocked != NULL &&
                        (sigismember(blocked, i) == 1 ||
                         (process->changed[i] && has_function(&process->actions[i])));
    if (process->waits[i] && i >= FIRST_QUEUED) {
      snprintf(why, size, "the program has yet to take signal %d, which says more than its number",
               i);
      return -EOPNOTSUPP;
    }
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

int mr_process_take(struct mr_process *process, const sigset_t *blocked, const sigset_t *waiting,
                    char *why, size_t size) {
  look(&now);
  process->mask = now.mask != given.mask ? (int)now.mask : -1;
  if (has_other_timers())
    return refuse(why, size, "has a timer of timer_create");
  look_at_timers(process, waiting);
  int rc = take_signals(process, waiting != NULL, why, size);
  if (rc == 0)
    rc = take_waiting(process, blocked, why, size);
  return rc < 0 ? rc : take_folder(process, why, size);
}

/* ---- reading ------------------------------------------------------------------------------- */

static sigset_t handled_by(const struct mr_process *process) {
  sigset_t all;
  sigemptyset(&all);
  for (int i = 1; i < MR_SIGNALS; i++)
    if (process->changed[i] && has_function(&process->actions[i]))
      sigaddset(&all, i);
  return all;
}

void mr_process_expect(const struct mr_process *process) {
  const sigset_t handled = handled_by(process);
  pthread_sigmask(SIG_BLOCK, &handled, NULL);
}

void mr_process_lets_come(const struct mr_process *process) {
  const sigset_t handled = handled_by(process);
  pthread_sigmask(SIG_UNBLOCK, &handled, NULL);
}

static void put_signals(const struct mr_process *process) {
  sigset_t waiting;
  sigemptyset(&waiting);
  for (int i = 1; i < MR_SIGNALS; i++) {
    if (process->changed[i] &&
        (process->lent[i] ? mr_access_sigaction : sigaction)(i, &process->actions[i], NULL) < 0)
      mr_node_die(STATUS_INTERNAL, "cannot handle signal %d again: %s", i, strerror(errno));
    if (process->waits[i])
      sigaddset(&waiting, i);
  }
  pthread_sigmask(SIG_BLOCK, &waiting, NULL);
  for (int i = 1; i < MR_SIGNALS; i++)
    if (process->waits[i])
      kill(getpid(), i);
}

/* One whose signal waits has no time left, and begins anew when that is taken. */
static void put_timers(const struct mr_process *process) {
  for (int i = 0; i < MR_TIMERS; i++) {
    struct itimerval timer = process->timers[i];
    if (!timerisset(&timer.it_value))
      timer.it_value = timer.it_interval;
    if (timerisset(&timer.it_value) && setitimer(timers[i], &timer, NULL) < 0)
      mr_node_die(STATUS_INTERNAL, "cannot set a timer again: %s", strerror(errno));
  }
}

void mr_process_put(const struct mr_process *process) {
  put_signals(process);
  put_timers(process);
  if (process->mask >= 0)
    umask((mode_t)process->mask);
  if (process->folder[0] != 0 && chdir(process->folder) < 0)
    mr_node_die(STATUS_DATA, "cannot go on: the program was in the folder %s: %s", process->folder,
                strerror(errno));
}
