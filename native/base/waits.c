#define _GNU_SOURCE
#include "waits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- threads and their calls --------------------------------------------- */

struct call {
  long number; /* negative: none, the thread runs or could not be seen */
  uint64_t arguments[6];
};

/* A whole small file, from the kernel's side: bytes, or negative errno. */
static ssize_t read_small(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  ssize_t got = read(fd, text, size - 1);
  int error = errno;
  close(fd);
  text[got > 0 ? got : 0] = '\0';
  return got < 0 ? -error : got;
}

/* Not one that was woken and waits for its processor to take notice: of that, the file `syscall`
 * tells as of one asleep. */
static bool sleeps(pid_t tid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
  if (read_small(path, text, sizeof text) <= 0)
    return false;
  const char *name_end = strrchr(text, ')');
  return name_end != NULL && strncmp(name_end, ") S", 3) == 0;
}

/* Asleep first, then in which call.  A thread that ran in between has given up its processor to be
 * seen in a call. */
static struct call call_of(pid_t tid) {
  char path[64], text[256];
  struct call c = {.number = -1};
  if (!sleeps(tid))
    return c;
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)tid);
  if (read_small(path, text, sizeof text) <= 0 || text[0] < '0' || text[0] > '9')
    return c;
  char *at = text;
  long number = strtol(at, &at, 10);
  for (int i = 0; i < 6; i++)
    c.arguments[i] = strtoull(at, &at, 16);
  c.number = number;
  return c;
}

/* Memory of another thread, which may unmap it at this moment. */
static bool fetch(void *to, uint64_t from, size_t bytes) {
  struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)from, bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

int maru_waits_visible(void) {
  char path[64], text[256], copy = 0, here = 1;
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)gettid());
  ssize_t got = read_small(path, text, sizeof text);
  if (got <= 0)
    return got < 0 ? (int)got : -ENOENT;
  return fetch(&copy, (uint64_t)(uintptr_t)&here, 1) && copy == here ? 0 : -EPERM;
}

/* ---- the descriptors that a call waits for ------------------------------- */

/* Called for each; true: enough. */
typedef bool found(const void *context, int fd);

/* Registered with this epoll instance, and not switched off since (EPOLLONESHOT). */
static bool any_registered(int epoll, found *found, const void *context) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", epoll);
  FILE *info = fopen(path, "re");
  if (!info)
    return found(context, -1);
  bool enough = false;
  int fd;
  unsigned events;
  while (!enough && fgets(line, sizeof line, info))
    if (sscanf(line, "tfd: %d events: %x", &fd, &events) == 2 &&
        (events & ~(unsigned)(EPOLLONESHOT | EPOLLET | EPOLLWAKEUP | EPOLLEXCLUSIVE)))
      enough = found(context, fd);
  fclose(info);
  return enough;
}

enum { MOST_POLLED = 1024 };

static bool any_polled(uint64_t from, uint64_t count, found *found, const void *context) {
  struct pollfd polled;
  if (count > MOST_POLLED)
    return found(context, -1);
  for (uint64_t i = 0; i < count; i++) {
    if (!fetch(&polled, from + i * sizeof polled, sizeof polled))
      return found(context, -1);
    if (polled.fd >= 0 && polled.events && found(context, polled.fd))
      return true;
  }
  return false;
}

/* Only the first FD_SETSIZE descriptors. */
static bool any_selected(const uint64_t *arguments, found *found, const void *context) {
  for (int set = 1; set <= 3; set++) {
    fd_set selected;
    FD_ZERO(&selected);
    uint64_t count = arguments[0] < FD_SETSIZE ? arguments[0] : FD_SETSIZE;
    if (arguments[set] && !fetch(&selected, arguments[set], (count + 63) / 64 * 8))
      return found(context, -1);
    for (int fd = 0; fd < (int)count; fd++)
      if (FD_ISSET(fd, &selected) && found(context, fd))
        return true;
  }
  return false;
}

/* The descriptors that this call sleeps on; -1 stands for some that could not be seen. */
static bool any_awaited(const struct call *c, found *found, const void *context) {
  const uint64_t *a = c->arguments;
  switch (c->number) {
  case SYS_read:
  case SYS_readv:
  case SYS_write:
  case SYS_writev:
  case SYS_recvfrom:
  case SYS_recvmsg:
  case SYS_recvmmsg:
  case SYS_sendto:
  case SYS_sendmsg:
  case SYS_sendmmsg:
  case SYS_accept:
  case SYS_accept4:
    return found(context, (int)a[0]);
  case SYS_sendfile:
  case SYS_tee:
    return found(context, (int)a[0]) || found(context, (int)a[1]);
  case SYS_splice:
  case SYS_copy_file_range:
    return found(context, (int)a[0]) || found(context, (int)a[2]);
  case SYS_epoll_pwait:
#ifdef SYS_epoll_wait
  case SYS_epoll_wait:
#endif
#ifdef SYS_epoll_pwait2
  case SYS_epoll_pwait2:
#endif
    return any_registered((int)a[0], found, context);
  case SYS_ppoll:
#ifdef SYS_poll
  case SYS_poll:
#endif
  /* What poll becomes when its process was stopped meanwhile.  Other calls do, too, but their
     arguments are none that poll takes. */
  case SYS_restart_syscall:
    return any_polled(a[0], a[1], found, context);
  case SYS_pselect6:
#ifdef SYS_select
  case SYS_select:
#endif
    return any_selected(a, found, context);
  default:
    return false;
  }
}

/* Each thread but two; true: enough.  Where they cannot be listed a look at thread -1 decides. */
static bool each_thread(pid_t spared, bool (*look)(void *, pid_t), void *context) {
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks)
    return look(context, -1);
  bool enough = false;
  struct dirent *d;
  pid_t self = gettid();
  while (!enough && (d = readdir(tasks))) {
    pid_t tid = (pid_t)strtol(d->d_name, NULL, 10);
    if (tid > 0 && tid != self && tid != spared)
      enough = look(context, tid);
  }
  closedir(tasks);
  return enough;
}

/* ---- the wall ------------------------------------------------------------- */

int maru_wall_build(struct maru_wall *wall) {
  int ends[2];
  struct stat st;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
    return -errno;
  int least = 1; /* the kernel has a least size of its own */
  setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
  while (send(ends[0], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
    ;
  if (fstat(ends[0], &st)) {
    int error = errno;
    close(ends[0]);
    close(ends[1]);
    return -error;
  }
  *wall = (struct maru_wall){st.st_dev, st.st_ino, ends[0], ends[1]};
  return 0;
}

/* By what it is, not by its number: the program may have closed the number and opened it again. */
static bool is_wall(const void *context, int fd) {
  const struct maru_wall *wall = context;
  struct stat st;
  return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == wall->device && st.st_ino == wall->inode;
}

bool maru_wall_stands(const struct maru_wall *wall) { return is_wall(wall, wall->fd); }

static bool stands_before(void *wall, pid_t tid) {
  struct call c = call_of(tid);
  return any_awaited(&c, is_wall, wall);
}

bool maru_wall_is_met(const struct maru_wall *wall) {
  struct maru_wall looked_for = *wall;
  return each_thread(0, stands_before, &looked_for);
}

/* ---- waits without an end ------------------------------------------------- */

enum { WORD_BITS = 8 * sizeof(unsigned long) };

/* One call asks for all: of a number that is not open `poll` says POLLNVAL. /proc/self/fd would
   have the kernel make, and drop at the end of the process, a name for each. */
int maru_own_note(struct maru_own *own) {
  enum { MOST = 8 * sizeof own->bits };
  struct pollfd looks[MOST];
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit))
    return -errno;
  int count = limit.rlim_cur < MOST ? (int)limit.rlim_cur : MOST, answers;
  for (int fd = 0; fd < count; fd++)
    looks[fd] = (struct pollfd){.fd = fd == STDOUT_FILENO || fd == STDERR_FILENO ? -1 : fd};
  do
    answers = poll(looks, (nfds_t)count, 0);
  while (answers < 0 && errno == EINTR);
  if (answers < 0)
    return -errno;
  memset(own, 0, sizeof *own);
  for (int fd = 0; fd < count; fd++)
    if (looks[fd].fd >= 0 && !(looks[fd].revents & POLLNVAL))
      own->bits[fd / WORD_BITS] |= 1ul << fd % WORD_BITS;
  return 0;
}

static bool is_foreign(const void *context, int fd) {
  const struct maru_own *own = context;
  return fd < 0 || (size_t)fd >= 8 * sizeof own->bits ||
         !(own->bits[fd / WORD_BITS] >> fd % WORD_BITS & 1);
}

static bool has_no_limit(const struct call *c) {
  const uint64_t *a = c->arguments;
  switch (c->number) {
  case SYS_futex:
    return a[1] & FUTEX_PRIVATE_FLAG && a[3] == 0;
  case SYS_read:
    return true;
  case SYS_ppoll:
    return a[2] == 0;
  case SYS_epoll_pwait:
#ifdef SYS_epoll_wait
  case SYS_epoll_wait:
#endif
    return (int)a[3] < 0;
#ifdef SYS_poll
  case SYS_poll:
#endif
  case SYS_restart_syscall:
    return (int)a[2] < 0;
  default:
    return false;
  }
}

static bool may_go_on(const struct maru_own *own, const struct call *c) {
  return !has_no_limit(c) || (c->number != SYS_futex && any_awaited(c, is_foreign, own));
}

/* How often this thread gave up a processor; negative: it has ended, or that is not told. */
static long switches_of(pid_t tid) {
  char path[64], text[4096];
  snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)tid);
  if (read_small(path, text, sizeof text) <= 0)
    return -1;
  const char *by_itself = strstr(text, "\nvoluntary_ctxt_switches:"),
             *by_others = strstr(text, "\nnonvoluntary_ctxt_switches:");
  if (!by_itself || !by_others)
    return -1;
  return strtol(strchr(by_itself, ':') + 1, NULL, 10) +
         strtol(strchr(by_others, ':') + 1, NULL, 10);
}

/* A thread that was seen asleep, and how often it had given up a processor before. */
struct asleep {
  pid_t tid;
  long switches;
};

struct sleepers {
  const struct maru_own *own;
  struct asleep *threads;
  size_t count, room;
};

static bool add_sleeper(struct sleepers *s, struct asleep a) {
  if (s->count == s->room) {
    size_t room = s->room ? 2 * s->room : 64;
    struct asleep *threads = realloc(s->threads, room * sizeof *threads);
    if (!threads)
      return false;
    s->threads = threads;
    s->room = room;
  }
  s->threads[s->count++] = a;
  return true;
}

/* The run-time system's clock reads one again and again, and wakes nobody. */
static bool reads_timer(const struct call *c) {
  static const char kind[] = "anon_inode:[timerfd]";
  char path[64], target[sizeof kind + 1];
  if (c->number != SYS_read)
    return false;
  snprintf(path, sizeof path, "/proc/self/fd/%d", (int)c->arguments[0]);
  ssize_t length = readlink(path, target, sizeof target);
  return length == sizeof kind - 1 && memcmp(target, kind, sizeof kind - 1) == 0;
}

/* True: enough, for this one may go on. The clock of the run-time system wakes for itself alone: it
   counts as one that sleeps. */
static bool is_awake(void *context, pid_t tid) {
  struct sleepers *s = context;
  struct asleep a = {tid, switches_of(tid)};
  struct call c = call_of(tid);
  if (a.switches < 0 || may_go_on(s->own, &c))
    return true;
  if (reads_timer(&c))
    a.switches = -1;
  return !add_sleeper(s, a);
}

static const struct asleep *find_sleeper(const struct sleepers *s, pid_t tid) {
  for (size_t i = 0; i < s->count; i++)
    if (s->threads[i].tid == tid)
      return &s->threads[i];
  return NULL;
}

/* Asleep first, then the count. One that was woken and has not given up its processor since has
 * the same count. */
static bool has_moved(void *context, pid_t tid) {
  const struct sleepers *s = context;
  const struct asleep *a = find_sleeper(s, tid);
  if (!a || a->switches < 0)
    return !a;
  struct call c = call_of(tid); /* before its count: that does not grow until it sleeps again */
  return may_go_on(s->own, &c) || a->switches != switches_of(tid);
}

/* The first walk reads each thread's count and then sees it asleep. The second sees it asleep and
   then reads its count. A thread that wakes between these two looks must give up its processor to
   be asleep at the second, and its count has grown. So one whose count is the same slept from look
   to look: all of them did at the moment between the walks. A thread that was made meanwhile is new
   to the second walk. */
bool maru_waits_are_endless(const struct maru_own *own, pid_t spared) {
  struct sleepers s = {.own = own};
  bool endless = !each_thread(spared, is_awake, &s) && !each_thread(spared, has_moved, &s);
  free(s.threads);
  return endless;
}
