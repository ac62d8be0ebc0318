#define _GNU_SOURCE
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { LOOK_MS = 100, STACK_BYTES = 64 << 10 };

/* One a process: it is about the process. */
static struct {
  pid_t parent;
  int pidfd;
  _Atomic pid_t tid;
  const struct maru_wall *wall;
  _Atomic(const struct maru_task *) task; /* NULL: only the parent is watched */
} watch;

/* Looks at items that take long; the last look's item. */
static int64_t look(const struct maru_task *task, int64_t before) {
  int64_t item = task->item(task->context);
  if (item >= 0 && item == before && maru_wall_is_met(watch.wall))
    task->seal(task->context, item,
               "it reads or writes a descriptor that only the caller has (a file, standard input)");
  return item;
}

static void *watch_over(void *unused) {
  (void)unused;
  /* poll ignores a negative descriptor and then only sleeps. */
  struct pollfd parent = {.fd = watch.pidfd, .events = POLLIN};
  int64_t before = -1;
  /* Relaxed: a number. */
  atomic_store_explicit(&watch.tid, gettid(), memory_order_relaxed);
  while (getppid() == watch.parent) {
    if (poll(&parent, 1, LOOK_MS) > 0 && parent.revents)
      break;
    /* Acquire: the wall and the task come with it. */
    const struct maru_task *task = atomic_load_explicit(&watch.task, memory_order_acquire);
    if (task)
      before = look(task, before);
  }
  _exit(0);
}

int maru_watch_parent(pid_t parent, int parent_pidfd) {
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t all, old;
  watch.parent = parent;
  /* Of the process that forked this one, if that was a worker.  Relaxed: no thread looks yet. */
  atomic_store_explicit(&watch.task, NULL, memory_order_relaxed);
  /* A number of its own: sealing the inherited ones must not touch it. */
  watch.pidfd = parent_pidfd < 0 ? -1 : fcntl(parent_pidfd, F_DUPFD_CLOEXEC, 0);
  /* Signals are for the worker's other threads. */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  int r = pthread_create(&thread, &attributes, watch_over, NULL);
  if (r == EINVAL) /* the program's thread-local data want more */
    r = pthread_create(&thread, NULL, watch_over, NULL);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (r == 0)
    pthread_detach(thread);
  return -r;
}

void maru_watch_wall(const struct maru_wall *wall, const struct maru_task *task) {
  watch.wall = wall;
  /* Release: pairs with the load above. */
  atomic_store_explicit(&watch.task, task, memory_order_release);
}

pid_t maru_watch_tid(void) { return atomic_load_explicit(&watch.tid, memory_order_relaxed); }

/* ---- the lifeline ---------------------------------------------------------- */

int maru_lifeline_open(int ends[2]) { return pipe2(ends, O_CLOEXEC) ? -errno : 0; }

/* Before 5.6 the end of one reader of a pipe signalled all others. */
static bool signals_others(void) {
  struct utsname kernel;
  unsigned major, minor;
  return uname(&kernel) != 0 || sscanf(kernel.release, "%u.%u", &major, &minor) != 2 || major < 5 ||
         (major == 5 && minor < 6);
}

int maru_lifeline_hold(const int ends[2]) {
  char path[64];
  if (signals_others())
    return -ENOSYS;
  snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
  /* Opened, not duplicated: who is signalled, and by what, belongs to an open file. */
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  if (fcntl(fd, F_SETOWN, getpid()) || fcntl(fd, F_SETSIG, SIGKILL) ||
      fcntl(fd, F_SETFL, O_NONBLOCK | O_ASYNC)) {
    int error = errno;
    close(fd);
    return -error;
  }
  return 0;
}
