/* calls.c: libmaru-poll.so, before libc in a program that asks in a loop instead of waiting. It has
 * the calls that can be asked so, and what a thread's row of them becomes (spin.h).
 *
 * A call is made exactly as the program made it. All that may happen is that it is made later, when
 * one of the row's descriptors is ready or after MR_SLICE_MOST_NS. So results, errno, signals and
 * cancellation are the call's own. Calls with a signal mask pass: a signal that the mask lets in
 * must not find us asleep.
 *
 * Everything on the path of a call is async-signal-safe and allocates nothing.  A call that a
 * signal handler makes while this code is at work passes.
 */
/* With these the headers would give our functions other names. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include "around.h"

#include <maru/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Of recv: with others a call asks for something else than bytes. */
#define PLAIN_FLAGS                                                                                \
  (MSG_DONTWAIT | MSG_PEEK | MSG_NOSIGNAL | MSG_TRUNC | MSG_WAITALL | MSG_CMSG_CLOEXEC)

/* ---- asking about several descriptors ------------------------------------ */

#define PROBE_SIZE 8u /* of the kernel's signal masks */
#define LEAST_PAGE 4096u

/* By a call that copies a mask and then refuses to do anything with it. */
static bool readable_at(const char *data) {
  return poll_raw(SYS_rt_sigprocmask, -1, (long)data, 0, PROBE_SIZE, 0, 0) >= 0 || errno != EFAULT;
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
  (void)poll_wait_for(spin, false);
}

#define POLLED(made)                                                                               \
  struct mr_spin *spin = poll_row();                                                               \
  if (spin != NULL)                                                                                \
    tell_polled(spin, fds, count);                                                                 \
  int rc = made;                                                                                   \
  poll_answered(rc == 0);                                                                          \
  return rc

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout) {
  NEXT(poll, int, (struct pollfd *, nfds_t, int))
  if (timeout != 0) {
    poll_other();
    return next(fds, count, timeout);
  }
  POLLED(next(fds, count, 0));
}

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size) {
  NEXT(__poll_chk, int, (struct pollfd *, nfds_t, int, size_t))
  if (timeout != 0 || size / sizeof *fds < count) {
    poll_other();
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
    poll_other();
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
    poll_other();
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
    mr_spin_over(spin, spin->begun_ns, poll_cpu_ns);
  else if (count > 0 &&
           !(readable_set(in, count) && readable_set(out, count) && readable_set(except, count)))
    spin->overflow = true;
  for (int fd = 0; fd < count && fd < FD_SETSIZE && !spin->overflow; fd++) {
    int events =
        (has(in, fd) ? POLLIN : 0) | (has(out, fd) ? POLLOUT : 0) | (has(except, fd) ? POLLPRI : 0);
    if (events != 0)
      (void)mr_spin_fd(spin, fd, (short)events);
  }
  (void)poll_wait_for(spin, false);
}

#define SELECTED(made)                                                                             \
  struct mr_spin *spin = poll_row();                                                               \
  if (spin != NULL)                                                                                \
    tell_selected(spin, count, in, out, except);                                                   \
  int rc = made;                                                                                   \
  poll_answered(rc == 0);                                                                          \
  return rc

EXPORT int select(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout) {
  NEXT(select, int, (int, fd_set *, fd_set *, fd_set *, struct timeval *))
  if (timeout == NULL || timeout->tv_sec != 0 || timeout->tv_usec != 0) {
    poll_other();
    return next(count, in, out, except, timeout);
  }
  SELECTED(next(count, in, out, except, timeout));
}

EXPORT int pselect(int count, fd_set *in, fd_set *out, fd_set *except,
                   const struct timespec *timeout, const sigset_t *mask) {
  NEXT(pselect, int, (int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *))
  if (!at_once(timeout, mask)) {
    poll_other();
    return next(count, in, out, except, timeout, mask);
  }
  SELECTED(next(count, in, out, except, timeout, mask));
}

/* An epoll descriptor is readable when one of its own is ready. */
#define EPOLLED(made)                                                                              \
  struct mr_spin *spin = poll_row();                                                               \
  if (spin != NULL) {                                                                              \
    (void)mr_spin_fd(spin, fd, POLLIN);                                                            \
    (void)poll_wait_for(spin, false);                                                              \
  }                                                                                                \
  int rc = made;                                                                                   \
  poll_answered(rc == 0);                                                                          \
  return rc

EXPORT int epoll_wait(int fd, struct epoll_event *events, int most, int timeout) {
  NEXT(epoll_wait, int, (int, struct epoll_event *, int, int))
  if (timeout != 0) {
    poll_other();
    return next(fd, events, most, timeout);
  }
  EPOLLED(next(fd, events, most, 0));
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int most, int timeout,
                       const sigset_t *mask) {
  NEXT(epoll_pwait, int, (int, struct epoll_event *, int, int, const sigset_t *))
  if (timeout != 0 || mask != NULL) {
    poll_other();
    return next(fd, events, most, timeout, mask);
  }
  EPOLLED(next(fd, events, most, 0, mask));
}

EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int most,
                        const struct timespec *timeout, const sigset_t *mask) {
  NEXT(epoll_pwait2, int,
       (int, struct epoll_event *, int, const struct timespec *, const sigset_t *))
  /* The others' time-outs libc reads itself before it asks the kernel. */
  if (timeout == NULL || !readable(timeout, sizeof *timeout) || !at_once(timeout, mask)) {
    poll_other();
    return next(fd, events, most, timeout, mask);
  }
  EPOLLED(next(fd, events, most, timeout, mask));
}

/* ---- asking one descriptor ----------------------------------------------- */

/* With a receive time-out (SO_RCVTIMEO) EAGAIN comes after a wait: such a call is no question. */
static bool never_waits(int fd, int flags) {
  long status = poll_raw(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0);
  return (flags & MSG_DONTWAIT) != 0 || (status >= 0 && (status & O_NONBLOCK) != 0);
}

static void tell_read(struct mr_spin *spin, int fd, int flags) {
  int saved = errno;
  if ((flags & ~PLAIN_FLAGS) != 0 || (mr_spin_fd(spin, fd, POLLIN) && !never_waits(fd, flags)))
    mr_spin_over(spin, spin->begun_ns, poll_cpu_ns);
  errno = saved;
  (void)poll_wait_for(spin, false);
}

#define READ(fd, flags, made)                                                                      \
  struct mr_spin *spin = poll_row();                                                               \
  if (spin != NULL)                                                                                \
    tell_read(spin, fd, flags);                                                                    \
  ssize_t rc = made;                                                                               \
  poll_answered(rc < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));                              \
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
  struct mr_spin *spin = poll_row();
  bool gave_way = spin != NULL && poll_wait_for(spin, true);
  int rc = 0;
  if (spin == NULL) /* poll_empty() wants to know how long it took */
    poll_self.spin.begun_ns = maru_now_ns();
  if (!gave_way)
    rc = next();
  poll_empty(true);
  return rc;
}

#define WORK(name, result, parameters, arguments)                                                  \
  EXPORT result name parameters {                                                                  \
    NEXT(name, result, parameters)                                                                 \
    poll_other();                                                                                  \
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
