/* descriptors.c: the symbols of libc that make, replace and close descriptors.  `fclose` and its
 * kin are here because they close one. */
#include "calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* ---- what makes descriptors ---------------------------------------------- */

/* The number may have been closed before by a call that the library did not see. */
static int opened(int fd) {
  count_state();
  if (fd >= 0)
    io_forget(fd);
  return fd;
}

#define OPENS(name, parameters, arguments)                                                         \
  EXPORT int name parameters {                                                                     \
    NEXT(name, int, parameters)                                                                    \
    return opened(next arguments);                                                                 \
  }
/* With a mode behind the flags, when they create something. */
#define MODE_OF(flags)                                                                             \
  ({                                                                                               \
    va_list rest_;                                                                                 \
    va_start(rest_, flags);                                                                        \
    unsigned mode_ =                                                                               \
        ((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE ? va_arg(rest_, unsigned) : 0;       \
    va_end(rest_);                                                                                 \
    mode_;                                                                                         \
  })
#define OPENS_PATH(name)                                                                           \
  EXPORT int name(const char *path, int flags, ...) {                                              \
    NEXT(name, int, (const char *, int, ...))                                                      \
    return opened(next(path, flags, MODE_OF(flags)));                                              \
  }
#define OPENS_PATH_AT(name)                                                                        \
  EXPORT int name(int at, const char *path, int flags, ...) {                                      \
    NEXT(name, int, (int, const char *, int, ...))                                                 \
    return opened(next(at, path, flags, MODE_OF(flags)));                                          \
  }
OPENS_PATH(open)
OPENS_PATH(open64)
OPENS_PATH(__open)
OPENS_PATH(__open64)
OPENS_PATH_AT(openat)
OPENS_PATH_AT(openat64)
OPENS(__open_2, (const char *path, int flags), (path, flags))
OPENS(__open64_2, (const char *path, int flags), (path, flags))
OPENS(__openat_2, (int at, const char *path, int flags), (at, path, flags))
OPENS(__openat64_2, (int at, const char *path, int flags), (at, path, flags))
OPENS(creat, (const char *path, mode_t mode), (path, mode))
OPENS(creat64, (const char *path, mode_t mode), (path, mode))
OPENS(socket, (int domain, int type, int protocol), (domain, type, protocol))
OPENS(accept, (int fd, struct sockaddr *restrict from, socklen_t *restrict size), (fd, from, size))
OPENS(accept4, (int fd, struct sockaddr *restrict from, socklen_t *restrict size, int flags),
      (fd, from, size, flags))
OPENS(memfd_create, (const char *name, unsigned flags), (name, flags))
OPENS(eventfd, (unsigned value, int flags), (value, flags))
OPENS(timerfd_create, (int clock, int flags), (clock, flags))
OPENS(signalfd, (int fd, const sigset_t *set, int flags), (fd, set, flags))
OPENS(dup, (int fd), (fd))

static int opened_two(int rc, const int pair[2]) {
  count_state();
  if (rc == 0) {
    io_forget(pair[0]);
    io_forget(pair[1]);
  }
  return rc;
}

#define OPENS_TWO(name, parameters, arguments, pair)                                               \
  EXPORT int name parameters {                                                                     \
    NEXT(name, int, parameters)                                                                    \
    return opened_two(next arguments, pair);                                                       \
  }
OPENS_TWO(pipe, (int pair[2]), (pair), pair)
OPENS_TWO(pipe2, (int pair[2], int flags), (pair, flags), pair)
OPENS_TWO(socketpair, (int domain, int type, int protocol, int pair[2]),
          (domain, type, protocol, pair), pair)

/* ---- what ends or replaces them ------------------------------------------ */

/* Forgotten on both sides of the call: another thread may use the descriptor until it is
 * replaced, and look it up again. */
#define REPLACES(name, parameters, arguments, fd)                                                  \
  EXPORT int name parameters {                                                                     \
    NEXT(name, int, parameters)                                                                    \
    io_forget(fd);                                                                                 \
    int rc = next arguments;                                                                       \
    io_forget(fd);                                                                                 \
    count_state();                                                                                 \
    return rc;                                                                                     \
  }
REPLACES(close, (int fd), (fd), fd)
REPLACES(__close, (int fd), (fd), fd)
REPLACES(dup3, (int fd, int to, int flags), (fd, to, flags), to)

static int replaced(int (*next)(int, int), int fd, int to) {
  count_state();
  if (fd == to) /* nothing happens, but the answer whether it is open */
    return next(fd, to);
  io_forget(to);
  int rc = next(fd, to);
  io_forget(to);
  return rc;
}

EXPORT int dup2(int fd, int to) {
  NEXT(dup2, int, (int, int))
  return replaced(next, fd, to);
}

EXPORT int close_range(unsigned first, unsigned last, int flags) {
  NEXT(close_range, int, (unsigned, unsigned, int))
  if (flags & (int)CLOSE_RANGE_UNSHARE) /* contexts keep the old table */
    io_go_direct("delegates nothing any more: a thread has descriptors of its own");
  io_forget_from(first, last);
  int rc = next(first, last, flags);
  io_forget_from(first, last);
  count_state();
  return rc;
}

EXPORT void closefrom(int first) {
  NEXT(closefrom, void, (int))
  io_forget_from((unsigned)(first < 0 ? 0 : first), UINT_MAX);
  next(first);
  io_forget_from((unsigned)(first < 0 ? 0 : first), UINT_MAX);
  count_state();
}

#define CLOSES_STREAM(name, type, number)                                                          \
  EXPORT int name(type *stream) {                                                                  \
    NEXT(name, int, (type *))                                                                      \
    int saved = errno, fd = number(stream);                                                        \
    errno = saved;                                                                                 \
    io_forget(fd);                                                                                 \
    int rc = next(stream);                                                                         \
    io_forget(fd);                                                                                 \
    count_state();                                                                                 \
    return rc;                                                                                     \
  }
CLOSES_STREAM(fclose, FILE, fileno)
CLOSES_STREAM(pclose, FILE, fileno)
CLOSES_STREAM(closedir, DIR, dirfd)

#define REOPENS(name)                                                                              \
  EXPORT FILE *name(const char *restrict path, const char *restrict mode, FILE *restrict stream) { \
    NEXT(name, FILE *, (const char *, const char *, FILE *))                                       \
    int saved = errno, fd = fileno(stream);                                                        \
    errno = saved;                                                                                 \
    io_forget(fd);                                                                                 \
    FILE *now = next(path, mode, stream);                                                          \
    io_forget(fd);                                                                                 \
    count_state();                                                                                 \
    return now;                                                                                    \
  }
REOPENS(freopen)
REOPENS(freopen64)

/* Every command takes one word or none. */
#define CONTROLS(name)                                                                             \
  EXPORT int name(int fd, int command, ...) {                                                      \
    NEXT(name, int, (int, int, ...))                                                               \
    va_list rest;                                                                                  \
    va_start(rest, command);                                                                       \
    void *argument = va_arg(rest, void *);                                                         \
    va_end(rest);                                                                                  \
    int rc = next(fd, command, argument);                                                          \
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? opened(rc) : rc;                     \
  }
CONTROLS(fcntl)
CONTROLS(fcntl64)
