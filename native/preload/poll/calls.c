/* calls.c: libmaru-poll.so, before libc in a program that asks in a loop instead of waiting:
 * the calls that can be asked so, and what a thread's row of them becomes (spin.h).
 *
 * A call is made exactly as the program made it; all that may happen is that it is made
 * later, when one of the row's descriptors is ready or after MR_SLICE_MOST_NS.  So results,
 * errno, signals and cancellation are the call's own.  Calls with a signal mask pass: a signal
 * that the mask lets in must not find us asleep.
 *
 * Everything on the path of a call is async-signal-safe and allocates nothing.  A call that a
 * signal handler makes while this code is at work passes.
 */
/* With these the headers would give our functions other names. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include "section.h"
#include "spin.h"

#include <maru/board.h>
#include <maru/wait.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define FLUSH_NS 10000000 /* how old a thread's figures on the board may be */
/* Of recv: with others a call asks for something else than bytes. */
#define PLAIN_FLAGS                                                                                \
  (MSG_DONTWAIT | MSG_PEEK | MSG_NOSIGNAL | MSG_TRUNC | MSG_WAITALL | MSG_CMSG_CLOEXEC)

/* The process. */
static enum mr_spin_mode mode = MR_SPIN_ADAPT;
static struct maru_board board = {.fd = -1};
static struct mr_poll *section; /* NULL: counted where nobody looks */
static _Atomic bool active;     /* from begin() until the process restricts itself */
static _Atomic bool counted;    /* as one that spun */

static __thread struct self {
  volatile sig_atomic_t inside;
  int64_t flushed_ns;
  struct mr_spin spin;
} self __attribute__((tls_model("initial-exec")));

/* ---- the next library's symbols ------------------------------------------ */

/* One for each function; the linker makes a table of them.  Aligned to its size, so that it
 * leaves no gaps. */
struct symbol {
  const char *name;
  _Atomic(void *) address;
} __attribute__((aligned(16)));
extern struct symbol first_symbol[] __asm__("__start_poll_symbols"), end_of_symbols[] __asm__(
                                                                         "__stop_poll_symbols");

/* dlsym waits while another thread loads a library, which may wait for us: not in a call. */
static void find_symbols(void) {
  for (struct symbol *s = first_symbol; s < end_of_symbols; s++)
    atomic_store_explicit(&s->address, dlsym(RTLD_NEXT, s->name), memory_order_relaxed);
}

static void *find_symbol(struct symbol *symbol) {
  void *address = dlsym(RTLD_NEXT, symbol->name);
  if (address == NULL) {
    static const char text[] = "maru: libmaru-poll.so: this libc lacks a function: ";
    (void)!syscall(SYS_write, STDERR_FILENO, text, sizeof text - 1);
    (void)!syscall(SYS_write, STDERR_FILENO, symbol->name, strlen(symbol->name));
    abort();
  }
  atomic_store_explicit(&symbol->address, address, memory_order_relaxed);
  return address;
}

/* `next`: the symbol behind ours; looked up here only in calls that are made before begin().
 * Relaxed: whoever looks it up finds the same. */
#define NEXT(name, result, parameters)                                                             \
  typedef result(*next_type) parameters;                                                           \
  static struct symbol symbol_ __attribute__((section("poll_symbols"), used)) = {#name, NULL};     \
  next_type next = (next_type)atomic_load_explicit(&symbol_.address, memory_order_relaxed);        \
  if (__builtin_expect(next == NULL, 0))                                                           \
    next = (next_type)find_symbol(&symbol_);

/* A system call that is no cancellation point and is not seen by other libraries. */
static long raw(long number, long a, long b, long c, long d, long e, long f) {
  NEXT(syscall, long, (long, ...))
  return next(number, a, b, c, d, e, f);
}

static int64_t cpu_ns(uint64_t *sleeps) {
  struct timespec now;
  struct rusage used;
  if (sleeps != NULL) {
    used.ru_nvcsw = 0;
    (void)getrusage(RUSAGE_THREAD, &used);
    *sleeps = (uint64_t)used.ru_nvcsw;
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- the ledger ---------------------------------------------------------- */

static void add(_Atomic uint64_t *sum, uint64_t more) {
  atomic_fetch_add_explicit(sum, more, memory_order_relaxed); /* see section.h */
}

static void flush(struct mr_spin *spin) {
  struct mr_spin_cost *cost = &spin->cost;
  if (section != NULL && (cost->waited_ns | cost->spins) != 0) {
    if (!atomic_exchange_explicit(&counted, true, memory_order_relaxed))
      add(&section->processes, 1);
    add(&section->spins, cost->spins);
    add(&section->waited_ns, cost->waited_ns);
    add(&section->cpu_ns, cost->cpu_ns);
    add(&section->sleeps, cost->sleeps);
    add(&section->slept_ns, cost->slept_ns);
    add(&section->yields, cost->yields);
  }
  memset(cost, 0, sizeof *cost);
}

static void flush_now_and_then(struct mr_spin *spin, int64_t now_ns) {
  if (spin->cost.waited_ns == 0 || now_ns - self.flushed_ns < FLUSH_NS)
    return;
  self.flushed_ns = now_ns;
  flush(spin);
}

/* ---- around a call ------------------------------------------------------- */

static bool on_duty(void) {
  /* Relaxed: orders nothing. */
  return atomic_load_explicit(&active, memory_order_relaxed) && !self.inside;
}

/* Before a call that would not wait.  Not NULL: tell its descriptors and then call wait_for. */
static struct mr_spin *row(void) {
  struct mr_spin *spin = &self.spin;
  if (!mr_spin_wants(spin) || !on_duty())
    return NULL;
  self.inside = 1;
  int64_t now = maru_now_ns();
  bool goes_on = mr_spin_before(spin, now, cpu_ns);
  flush_now_and_then(spin, now);
  if (!goes_on)
    self.inside = 0;
  return goes_on ? spin : NULL;
}

static void sleep_for(struct mr_spin *spin) {
  struct timespec slice = {.tv_nsec = spin->slice_ns};
  long ready = raw(SYS_ppoll, (long)spin->fds, spin->used, (long)&slice, 0, 8, 0);
  /* A signal: its handler ran, as it would have between two calls. */
  mr_spin_slept(spin, maru_now_ns(), ready > 0, cpu_ns);
}

/* Whether it slept. */
static bool wait_for(struct mr_spin *spin, bool yield) {
  int saved = errno;
  enum mr_spin_act act = mr_spin_decide(spin, mode, yield);
  switch (act) {
  case MR_ACT_SLEEP:
    sleep_for(spin);
    break;
  case MR_ACT_YIELD:
    (void)raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    mr_spin_yielded(spin, maru_now_ns(), cpu_ns);
    break;
  default:
    break;
  }
  errno = saved;
  self.inside = 0;
  return act == MR_ACT_SLEEP;
}

/* The thread found something, or does something else. */
static void other(void) {
  struct mr_spin *spin = &self.spin;
  if ((spin->empties == 0 && !spin->watched) || !on_duty())
    return;
  self.inside = 1;
  if (spin->watched) {
    int saved = errno;
    int64_t now = maru_now_ns();
    mr_spin_over(spin, now, cpu_ns);
    flush_now_and_then(spin, now);
    errno = saved;
  }
  spin->empties = 0;
  self.inside = 0;
}

static void empty(bool yield) {
  if (!on_duty())
    return;
  self.inside = 1;
  int saved = errno;
  mr_spin_empty(&self.spin, maru_now_ns(), yield, cpu_ns);
  errno = saved;
  self.inside = 0;
}

static void answered(bool nothing) {
  if (nothing)
    empty(false);
  else
    other();
}

/* ---- asking about several descriptors ------------------------------------ */

#define PROBE_SIZE 8u /* of the kernel's signal masks */
#define LEAST_PAGE 4096u

/* By a call that copies a mask and then refuses to do anything with it. */
static bool readable_at(const char *data) {
  return raw(SYS_rt_sigprocmask, -1, (long)data, 0, PROBE_SIZE, 0, 0) >= 0 || errno != EFAULT;
}

/* Where the program may not read, its call has to answer EFAULT. */
static bool readable(const void *data, size_t size) {
  int saved = errno;
  bool all = size < PROBE_SIZE || readable_at((const char *)data + size - PROBE_SIZE);
  for (size_t at = 0; at < size && all; at += LEAST_PAGE)
    all = readable_at((const char *)data + at);
  errno = saved;
  return all;
}

static void tell_polled(struct mr_spin *spin, const struct pollfd *fds, nfds_t count) {
  if (count > FD_SETSIZE || !readable(fds, count * sizeof *fds))
    spin->overflow = true;
  for (nfds_t i = 0; i < count && !spin->overflow; i++)
    if (fds[i].fd >= 0)
      (void)mr_spin_fd(spin, fds[i].fd, fds[i].events);
  (void)wait_for(spin, false);
}

#define POLLED(made)                                                                               \
  struct mr_spin *spin = row();                                                                    \
  if (spin != NULL)                                                                                \
    tell_polled(spin, fds, count);                                                                 \
  int rc = made;                                                                                   \
  answered(rc == 0);                                                                               \
  return rc

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout) {
  NEXT(poll, int, (struct pollfd *, nfds_t, int))
  if (timeout != 0) {
    other();
    return next(fds, count, timeout);
  }
  POLLED(next(fds, count, 0));
}

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size) {
  NEXT(__poll_chk, int, (struct pollfd *, nfds_t, int, size_t))
  if (timeout != 0 || size / sizeof *fds < count) {
    other();
    return next(fds, count, timeout, size);
  }
  POLLED(next(fds, count, 0, size));
}

static bool at_once(const struct timespec *timeout, const sigset_t *mask) {
  return mask == NULL && timeout != NULL && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask) {
  NEXT(ppoll, int, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *))
  if (!at_once(timeout, mask)) {
    other();
    return next(fds, count, timeout, mask);
  }
  POLLED(next(fds, count, timeout, mask));
}

int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                const sigset_t *mask, size_t size);
EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                       const sigset_t *mask, size_t size) {
  NEXT(__ppoll_chk, int,
       (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t))
  if (!at_once(timeout, mask) || size / sizeof *fds < count) {
    other();
    return next(fds, count, timeout, mask, size);
  }
  POLLED(next(fds, count, timeout, mask, size));
}

static bool has(const fd_set *set, int fd) {
  const unsigned long *words = (const unsigned long *)set;
  int bits = 8 * (int)sizeof *words;
  return set != NULL && (words[fd / bits] >> fd % bits & 1) != 0;
}

/* The kernel reads whole words. */
static bool readable_set(const fd_set *set, int count) {
  size_t bits = 8 * sizeof(unsigned long);
  return set == NULL || readable(set, ((size_t)count + bits - 1) / bits * sizeof(unsigned long));
}

static void tell_selected(struct mr_spin *spin, int count, const fd_set *in, const fd_set *out,
                          const fd_set *except) {
  /* The kernel looks at no more bits than there are descriptors; we cannot know how large the
   * program's sets are beyond an fd_set. */
  if (count > FD_SETSIZE)
    mr_spin_over(spin, spin->begun_ns, cpu_ns);
  else if (count > 0 &&
           !(readable_set(in, count) && readable_set(out, count) && readable_set(except, count)))
    spin->overflow = true;
  for (int fd = 0; fd < count && fd < FD_SETSIZE && !spin->overflow; fd++) {
    int events =
        (has(in, fd) ? POLLIN : 0) | (has(out, fd) ? POLLOUT : 0) | (has(except, fd) ? POLLPRI : 0);
    if (events != 0)
      (void)mr_spin_fd(spin, fd, (short)events);
  }
  (void)wait_for(spin, false);
}

#define SELECTED(made)                                                                             \
  struct mr_spin *spin = row();                                                                    \
  if (spin != NULL)                                                                                \
    tell_selected(spin, count, in, out, except);                                                   \
  int rc = made;                                                                                   \
  answered(rc == 0);                                                                               \
  return rc

EXPORT int select(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout) {
  NEXT(select, int, (int, fd_set *, fd_set *, fd_set *, struct timeval *))
  if (timeout == NULL || timeout->tv_sec != 0 || timeout->tv_usec != 0) {
    other();
    return next(count, in, out, except, timeout);
  }
  SELECTED(next(count, in, out, except, timeout));
}

EXPORT int pselect(int count, fd_set *in, fd_set *out, fd_set *except,
                   const struct timespec *timeout, const sigset_t *mask) {
  NEXT(pselect, int, (int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *))
  if (!at_once(timeout, mask)) {
    other();
    return next(count, in, out, except, timeout, mask);
  }
  SELECTED(next(count, in, out, except, timeout, mask));
}

/* An epoll descriptor is readable when one of its own is ready. */
#define EPOLLED(made)                                                                              \
  struct mr_spin *spin = row();                                                                    \
  if (spin != NULL) {                                                                              \
    (void)mr_spin_fd(spin, fd, POLLIN);                                                            \
    (void)wait_for(spin, false);                                                                   \
  }                                                                                                \
  int rc = made;                                                                                   \
  answered(rc == 0);                                                                               \
  return rc

EXPORT int epoll_wait(int fd, struct epoll_event *events, int most, int timeout) {
  NEXT(epoll_wait, int, (int, struct epoll_event *, int, int))
  if (timeout != 0) {
    other();
    return next(fd, events, most, timeout);
  }
  EPOLLED(next(fd, events, most, 0));
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int most, int timeout,
                       const sigset_t *mask) {
  NEXT(epoll_pwait, int, (int, struct epoll_event *, int, int, const sigset_t *))
  if (timeout != 0 || mask != NULL) {
    other();
    return next(fd, events, most, timeout, mask);
  }
  EPOLLED(next(fd, events, most, 0, mask));
}

EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int most,
                        const struct timespec *timeout, const sigset_t *mask) {
  NEXT(epoll_pwait2, int,
       (int, struct epoll_event *, int, const struct timespec *, const sigset_t *))
  if (!at_once(timeout, mask)) {
    other();
    return next(fd, events, most, timeout, mask);
  }
  EPOLLED(next(fd, events, most, timeout, mask));
}

/* ---- asking one descriptor ----------------------------------------------- */

/* With a receive time-out (SO_RCVTIMEO) EAGAIN comes after a wait: such a call is no question. */
static bool never_waits(int fd, int flags) {
  long status = raw(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0);
  return (flags & MSG_DONTWAIT) != 0 || (status >= 0 && (status & O_NONBLOCK) != 0);
}

static void tell_read(struct mr_spin *spin, int fd, int flags) {
  int saved = errno;
  if ((flags & ~PLAIN_FLAGS) != 0 || (mr_spin_fd(spin, fd, POLLIN) && !never_waits(fd, flags)))
    mr_spin_over(spin, spin->begun_ns, cpu_ns);
  errno = saved;
  (void)wait_for(spin, false);
}

#define READ(fd, flags, made)                                                                      \
  struct mr_spin *spin = row();                                                                    \
  if (spin != NULL)                                                                                \
    tell_read(spin, fd, flags);                                                                    \
  ssize_t rc = made;                                                                               \
  answered(rc < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));                                   \
  return rc

EXPORT ssize_t read(int fd, void *data, size_t size) {
  NEXT(read, ssize_t, (int, void *, size_t))
  READ(fd, 0, next(fd, data, size));
}

ssize_t __read_chk(int fd, void *data, size_t size, size_t room);
EXPORT ssize_t __read_chk(int fd, void *data, size_t size, size_t room) {
  NEXT(__read_chk, ssize_t, (int, void *, size_t, size_t))
  READ(fd, 0, next(fd, data, size, room));
}

EXPORT ssize_t readv(int fd, const struct iovec *parts, int count) {
  NEXT(readv, ssize_t, (int, const struct iovec *, int))
  READ(fd, 0, next(fd, parts, count));
}

EXPORT ssize_t recv(int fd, void *data, size_t size, int flags) {
  NEXT(recv, ssize_t, (int, void *, size_t, int))
  READ(fd, flags, next(fd, data, size, flags));
}

ssize_t __recv_chk(int fd, void *data, size_t size, size_t room, int flags);
EXPORT ssize_t __recv_chk(int fd, void *data, size_t size, size_t room, int flags) {
  NEXT(__recv_chk, ssize_t, (int, void *, size_t, size_t, int))
  READ(fd, flags, next(fd, data, size, room, flags));
}

EXPORT ssize_t recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *from,
                        socklen_t *length) {
  NEXT(recvfrom, ssize_t, (int, void *, size_t, int, struct sockaddr *, socklen_t *))
  READ(fd, flags, next(fd, data, size, flags, from, length));
}

ssize_t __recvfrom_chk(int fd, void *data, size_t size, size_t room, int flags,
                       struct sockaddr *from, socklen_t *length);
EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t size, size_t room, int flags,
                              struct sockaddr *from, socklen_t *length) {
  NEXT(__recvfrom_chk, ssize_t, (int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *))
  READ(fd, flags, next(fd, data, size, room, flags, from, length));
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  NEXT(recvmsg, ssize_t, (int, struct msghdr *, int))
  READ(fd, flags, next(fd, message, flags));
}

/* ---- giving way, and work ------------------------------------------------ */

EXPORT int sched_yield(void) {
  NEXT(sched_yield, int, (void))
  struct mr_spin *spin = row();
  bool gave_way = spin != NULL && wait_for(spin, true);
  int rc = 0;
  if (spin == NULL) /* empty() wants to know how long it took */
    self.spin.begun_ns = maru_now_ns();
  if (!gave_way)
    rc = next();
  empty(true);
  return rc;
}

#define WORK(name, result, parameters, arguments)                                                  \
  EXPORT result name parameters {                                                                  \
    NEXT(name, result, parameters)                                                                 \
    other();                                                                                       \
    return next arguments;                                                                         \
  }
WORK(write, ssize_t, (int fd, const void *data, size_t size), (fd, data, size))
WORK(writev, ssize_t, (int fd, const struct iovec *parts, int count), (fd, parts, count))
WORK(send, ssize_t, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
WORK(sendto, ssize_t,
     (int fd, const void *data, size_t size, int flags, const struct sockaddr *to,
      socklen_t length),
     (fd, data, size, flags, to, length))
WORK(sendmsg, ssize_t, (int fd, const struct msghdr *message, int flags), (fd, message, flags))

/* ---- the process --------------------------------------------------------- */

static void retire(void) { atomic_store_explicit(&active, false, memory_order_relaxed); }

/* A process that restricts its system calls may have forgotten those that it does not make
 * itself: ours would kill it. */
EXPORT int prctl(int option, ...) {
  NEXT(prctl, int, (int, ...))
  va_list list;
  unsigned long a[4];
  va_start(list, option);
  for (int i = 0; i < 4; i++)
    a[i] = va_arg(list, unsigned long);
  va_end(list);
  if (option == PR_SET_SECCOMP)
    retire();
  return next(option, a[0], a[1], a[2], a[3]);
}

EXPORT long syscall(long number, ...) {
  NEXT(syscall, long, (long, ...))
  va_list list;
  long a[6];
  va_start(list, number);
  for (int i = 0; i < 6; i++)
    a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_seccomp || (number == SYS_prctl && a[0] == PR_SET_SECCOMP))
    retire();
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static enum mr_spin_mode mode_of(const char *policy) {
  int64_t spin_ns; /* a row of polls is long enough by itself */
  int kind = policy == NULL ? MARU_WAIT_ADAPTIVE : maru_wait_parse(policy, &spin_ns);
  if (kind < 0 && board.base != NULL)
    (void)maru_board_say(&board, "wait", "loops of polls: MARU_WAIT is no way to wait: adaptive");
  switch (kind) {
  case MARU_WAIT_SPIN:
    return MR_SPIN_WATCH;
  case MARU_WAIT_YIELD:
    return MR_SPIN_YIELD;
  case MARU_WAIT_ADAPTIVE:
    return MR_SPIN_ADAPT;
  default:
    return kind < 0 ? MR_SPIN_ADAPT : MR_SPIN_SLEEP;
  }
}

static struct mr_poll *open_section(void) {
  void *data;
  if (maru_board_open_env(&board) < 0)
    return NULL;
  maru_board_forget_fd(&board);
  int rc = maru_board_share(&board, MR_POLL_SECTION, MR_POLL_VERSION, sizeof *section, &data);
  if (rc < 0)
    (void)maru_board_say(&board, "wait", "loops of polls are not counted: the board refuses");
  return rc < 0 ? NULL : data;
}

/* What the parent's thread has not told yet is the parent's to tell. */
static void in_child(void) {
  memset(&self, 0, sizeof self);
  atomic_store_explicit(&counted, false, memory_order_relaxed);
}

__attribute__((constructor)) static void begin(void) {
  int saved = errno;
  find_symbols();
  section = open_section();
  mode = mode_of(getenv("MARU_WAIT"));
  if (section != NULL)
    add(&section->loads, 1);
  /* Without the handler a child would tell what its parent tells. */
  bool hears = pthread_atfork(NULL, NULL, in_child) == 0;
  atomic_store_explicit(&active, hears, memory_order_relaxed);
  errno = saved;
}

__attribute__((destructor)) static void end(void) {
  other();
  if (on_duty())
    flush(&self.spin);
}
