/* syscalls.c: libc's calls that hand memory to the kernel, for shared memory too.
 *
 * The kernel does not bring pages in as a load does: it says EFAULT.  So these definitions, which
 * the linker finds before libc's, touch what the kernel is to read or write, and call libc's. They
 * touch again where the kernel says EFAULT all the same, or has done a part and stopped there. It
 * may have reclaimed a mapping meanwhile, or another node may have fetched the page.  Memory that
 * is not shared costs a comparison of addresses.
 *
 * A string is touched by finding its end.  stdio's calls need this only where they skip their own
 * buffer. Not covered: what libraries do by themselves, ioctl and the like, raw system calls:
 * maru_dsm_touch.
 *
 * A program that is linked statically has no libc behind these definitions: its first call of one
 * ends it, in a job of several nodes at maru_dsm_init.
 */
#define _GNU_SOURCE
/* Either would give these definitions other names. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include "diff.h"
#include "end.h"
#include "node.h"
#include "streams.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* Each is a whole touch; somebody would have to take the pages away as fast. */
#define TURNS 100

/* Calls libc's `name` with what follows, again and again while the kernel misses what `touch`
 * brings in.  Once where that is nothing: a call that failed may have taken a message all the same.
 * Relaxed: every thread finds the same function. */
#define CALL(name, touch, ...)                                                                     \
  static _Atomic(typeof(name) *) found;                                                            \
  typeof(name) *next = atomic_load_explicit(&found, memory_order_relaxed);                         \
  if (next == NULL) {                                                                              \
    next = (typeof(name) *)libcs(#name);                                                           \
    atomic_store_explicit(&found, next, memory_order_relaxed);                                     \
  }                                                                                                \
  typeof(next(__VA_ARGS__)) result;                                                                \
  int turn = 0;                                                                                    \
  bool shared;                                                                                     \
  do {                                                                                             \
    shared = touch;                                                                                \
    result = next(__VA_ARGS__);                                                                    \
  } while (failed((intptr_t)result) && shared && ++turn < TURNS);                                  \
  return result

/* Libc's definition of what is defined here. */
static void *libcs(const char *name) {
  void *address = dlsym(RTLD_NEXT, name);
  if (address == NULL)
    mr_node_die(STATUS_UNAVAILABLE,
                "libc's %s is out of reach; a program of shared memory is linked without -static",
                name);
  return address;
}

static bool failed(intptr_t result) { return result == -1 && errno == EFAULT; }

/* Each says whether any of it is shared (no bool: all of them are asked, joined by a bitwise or).
 */
static int touched(const void *from, size_t size, int write) {
  maru_dsm_touch(from, size, write);
  return mr_node_shares(from, size);
}
static int reads(const void *from, size_t size) { return touched(from, size, 0); }
static int writes(void *to, size_t size) { return touched(to, size, 1); }

/* The kernel refuses more than IOV_MAX parts, and looks at none. */
static int vector(const struct iovec *parts, size_t count, int write) {
  int shared = reads(parts, count <= IOV_MAX ? count * sizeof *parts : 0);
  for (size_t i = 0; i < count && count <= IOV_MAX; i++)
    shared |= touched(parts[i].iov_base, parts[i].iov_len, write);
  return shared;
}

static int message(const struct msghdr *message, int write) {
  int shared = touched(message, sizeof *message, write);
  shared |= touched(message->msg_name, message->msg_namelen, write);
  shared |= touched(message->msg_control, message->msg_controllen, write);
  shared |= vector(message->msg_iov, message->msg_iovlen, write);
  return shared;
}

/* A message, and from whom it is. */
static int received(void *to, size_t size, void *address, socklen_t *length) {
  return writes(to, size) | writes(length, length != NULL ? sizeof *length : 0) |
         writes(address, address != NULL && length != NULL ? *length : 0);
}

static int string(const char *text) {
  return mr_node_shares(text, 1) && reads(text, strlen(text) + 1);
}

/* ---- descriptors ------------------------------------------------------------------- */

typedef ssize_t reader(int fd, void *to, size_t size, off64_t at);

static ssize_t libcs_read(int fd, void *to, size_t size, off64_t at) {
  (void)at;
  CALL(read, writes(to, size), fd, to, size);
}
static ssize_t libcs_pread(int fd, void *to, size_t size, off64_t at) {
  CALL(pread, writes(to, size), fd, to, size, (off_t)at);
}
static ssize_t libcs_pread64(int fd, void *to, size_t size, off64_t at) {
  CALL(pread64, writes(to, size), fd, to, size, at);
}
static ssize_t libcs_readv(int fd, const struct iovec *parts, int count) {
  CALL(readv, vector(parts, (size_t)count, 1), fd, parts, count);
}

/* Whether the kernel may have stopped there before the file's end: where a page begins, or some
 * bytes below that where it copies many at once.  Of what is no regular file everybody expects less
 * than was asked for. */
static bool stopped_at(int fd, const void *rest, size_t size) {
  struct stat status;
  return (0 - (uintptr_t)rest) % MR_PAGE < 64 && mr_node_shares(rest, size) &&
         fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/* What comes of the rest. */
static ssize_t read_on(reader *once, int fd, uint8_t *to, size_t size, off64_t at) {
  ssize_t sum = 0, more = 1;
  while (more > 0 && (size_t)sum < size && stopped_at(fd, to + sum, size - (size_t)sum)) {
    more = once(fd, to + sum, size - (size_t)sum, at + sum);
    sum += more > 0 ? more : 0;
  }
  return sum;
}

static ssize_t read_all(reader *once, int fd, void *to, size_t size, off64_t at) {
  ssize_t sum = once(fd, to, size, at);
  if (sum > 0)
    sum += read_on(once, fd, (uint8_t *)to + sum, size - (size_t)sum, at + sum);
  return sum;
}

/* Relaxed: set before the program has threads. */
static _Atomic(void (*)(void)) input_ended;

void mr_node_on_input_end(void (*call)(void)) {
  atomic_store_explicit(&input_ended, call, memory_order_relaxed);
}

static ssize_t look_for_end(int fd, ssize_t got) {
  void (*call)(void) = atomic_load_explicit(&input_ended, memory_order_relaxed);
  if (fd == STDIN_FILENO && got == 0 && call != NULL)
    call();
  return got;
}

ssize_t read(int fd, void *to, size_t size) {
  return look_for_end(fd, read_all(libcs_read, fd, to, size, 0));
}
ssize_t write(int fd, const void *from, size_t size) {
  CALL(write, reads(from, size), fd, from, size);
}
ssize_t pread(int fd, void *to, size_t size, off_t at) {
  return read_all(libcs_pread, fd, to, size, at);
}
ssize_t pread64(int fd, void *to, size_t size, off64_t at) {
  return read_all(libcs_pread64, fd, to, size, at);
}
ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
  CALL(pwrite, reads(from, size), fd, from, size, at);
}
ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at) {
  CALL(pwrite64, reads(from, size), fd, from, size, at);
}
ssize_t readv(int fd, const struct iovec *parts, int count) {
  ssize_t sum = look_for_end(fd, libcs_readv(fd, parts, count));
  size_t before = 0, end;
  for (int i = 0; i < count && sum > 0; i++, before = end) {
    end = before + parts[i].iov_len;
    if ((size_t)sum >= end)
      continue;
    uint8_t *rest = (uint8_t *)parts[i].iov_base + ((size_t)sum - before);
    sum += read_on(libcs_read, fd, rest, end - (size_t)sum, 0);
    if ((size_t)sum < end)
      break;
  }
  return sum;
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
  CALL(writev, vector(parts, (size_t)count, 0), fd, parts, count);
}
int poll(struct pollfd *polled, nfds_t count, int timeout) {
  CALL(poll, writes(polled, count * sizeof *polled), polled, count, timeout);
}

/* ---- sockets -------------------------------------------------------------------------- */

ssize_t recv(int fd, void *to, size_t size, int flags) {
  CALL(recv, writes(to, size), fd, to, size, flags);
}
ssize_t send(int fd, const void *from, size_t size, int flags) {
  CALL(send, reads(from, size), fd, from, size, flags);
}
ssize_t recvfrom(int fd, void *to, size_t size, int flags, struct sockaddr *restrict address,
                 socklen_t *restrict length) {
  CALL(recvfrom, received(to, size, address, length), fd, to, size, flags, address, length);
}
ssize_t sendto(int fd, const void *from, size_t size, int flags, const struct sockaddr *address,
               socklen_t length) {
  CALL(sendto, reads(from, size) | reads(address, length), fd, from, size, flags, address, length);
}
ssize_t recvmsg(int fd, struct msghdr *to, int flags) {
  CALL(recvmsg, message(to, 1), fd, to, flags);
}
ssize_t sendmsg(int fd, const struct msghdr *from, int flags) {
  CALL(sendmsg, message(from, 0), fd, from, flags);
}

/* ---- files by name ---------------------------------------------------------------------- */

/* A mode follows where a file may be made. */
#define MODE(flags)                                                                                \
  mode_t mode = 0;                                                                                 \
  if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) {                                \
    va_list arguments;                                                                             \
    va_start(arguments, flags);                                                                    \
    mode = va_arg(arguments, mode_t);                                                              \
    va_end(arguments);                                                                             \
  }

int open(const char *path, int flags, ...) {
  MODE(flags)
  CALL(open, string(path), path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  MODE(flags)
  CALL(open64, string(path), path, flags, mode);
}
int creat(const char *path, mode_t mode) { CALL(creat, string(path), path, mode); }
int creat64(const char *path, mode_t mode) { CALL(creat64, string(path), path, mode); }
int access(const char *path, int mode) { CALL(access, string(path), path, mode); }
int unlink(const char *path) { CALL(unlink, string(path), path); }
int stat(const char *restrict path, struct stat *restrict to) {
  CALL(stat, string(path) | writes(to, sizeof *to), path, to);
}
int fstat(int fd, struct stat *to) { CALL(fstat, writes(to, sizeof *to), fd, to); }
int stat64(const char *restrict path, struct stat64 *restrict to) {
  CALL(stat64, string(path) | writes(to, sizeof *to), path, to);
}
int fstat64(int fd, struct stat64 *to) { CALL(fstat64, writes(to, sizeof *to), fd, to); }
static FILE *libcs_fopen(const char *path, const char *mode) {
  CALL(fopen, string(path) | string(mode), path, mode);
}
static FILE *libcs_fopen64(const char *path, const char *mode) {
  CALL(fopen64, string(path) | string(mode), path, mode);
}

/* ---- stdio --------------------------------------------------------------------------------- */

static FILE *libcs_fdopen(int fd, const char *mode) { CALL(fdopen, string(mode), fd, mode); }
static int libcs_fclose(FILE *stream) { CALL(fclose, false, stream); }

/* A checkpoint knows where they are. */
FILE *fopen(const char *restrict path, const char *restrict mode) {
  return mr_streams_keep(libcs_fopen(path, mode));
}
FILE *fopen64(const char *restrict path, const char *restrict mode) {
  return mr_streams_keep(libcs_fopen64(path, mode));
}
FILE *fdopen(int fd, const char *mode) { return mr_streams_keep(libcs_fdopen(fd, mode)); }
int fclose(FILE *stream) { return libcs_fclose(mr_streams_leave(stream)); }

typedef size_t mover(void *bytes, size_t size, FILE *stream);

static size_t libcs_fread(void *to, size_t size, FILE *stream) {
  CALL(fread, writes(to, size), to, 1, size, stream);
}
static size_t libcs_fwrite(void *from, size_t size, FILE *stream) {
  CALL(fwrite, reads(from, size), from, 1, size, stream);
}

/* Stdio stops where the kernel misses a page, and takes that for the stream's error. */
static size_t move_all(mover *once, void *bytes, size_t size, FILE *stream) {
  const int before = errno;
  bool well = !ferror(stream);
  size_t sum = 0;
  for (int turn = 0;;) {
    errno = 0;
    size_t more = once((uint8_t *)bytes + sum, size - sum, stream);
    sum += more;
    turn = more > 0 ? 0 : turn + 1;
    bool missed = errno == EFAULT && mr_node_shares((uint8_t *)bytes + sum, size - sum);
    if (sum == size || !missed || !well || turn == TURNS)
      break;
    clearerr(stream);
  }
  errno = errno != 0 ? errno : before;
  return sum;
}

/* As libc has it: what is no whole item is moved, and not counted. */
static size_t move_items(mover *once, void *items, size_t size, size_t count, FILE *stream) {
  size_t bytes = size * count;
  if (bytes == 0)
    return 0;
  size_t moved = move_all(once, items, bytes, stream);
  return moved == bytes ? count : moved / size;
}

size_t fread(void *restrict to, size_t size, size_t count, FILE *restrict stream) {
  return move_items(libcs_fread, to, size, count, stream);
}
size_t fwrite(const void *restrict from, size_t size, size_t count, FILE *restrict stream) {
  return move_items(libcs_fwrite, (void *)from, size, count, stream);
}

/* ---- what fortified programs call instead -----------------------------------------------------
 */

ssize_t __read_chk(int fd, void *to, size_t size, size_t room);
ssize_t __pread_chk(int fd, void *to, size_t size, off_t at, size_t room);
ssize_t __recv_chk(int fd, void *to, size_t size, size_t room, int flags);
size_t __fread_chk(void *to, size_t room, size_t size, size_t count, FILE *stream);
ssize_t __pread64_chk(int fd, void *to, size_t size, off64_t at, size_t room);
ssize_t __recvfrom_chk(int fd, void *to, size_t size, size_t room, int flags,
                       struct sockaddr *restrict address, socklen_t *restrict length);
int __poll_chk(struct pollfd *polled, nfds_t count, int timeout, size_t room);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);

/* Where there is not the room libc's ends the process. */
ssize_t __read_chk(int fd, void *to, size_t size, size_t room) {
  if (size <= room)
    return read_all(libcs_read, fd, to, size, 0);
  CALL(__read_chk, false, fd, to, size, room);
}
ssize_t __pread_chk(int fd, void *to, size_t size, off_t at, size_t room) {
  if (size <= room)
    return read_all(libcs_pread, fd, to, size, at);
  CALL(__pread_chk, false, fd, to, size, at, room);
}
ssize_t __pread64_chk(int fd, void *to, size_t size, off64_t at, size_t room) {
  if (size <= room)
    return read_all(libcs_pread64, fd, to, size, at);
  CALL(__pread64_chk, false, fd, to, size, at, room);
}
ssize_t __recv_chk(int fd, void *to, size_t size, size_t room, int flags) {
  CALL(__recv_chk, writes(to, size), fd, to, size, room, flags);
}
ssize_t __recvfrom_chk(int fd, void *to, size_t size, size_t room, int flags,
                       struct sockaddr *restrict address, socklen_t *restrict length) {
  CALL(__recvfrom_chk, received(to, size, address, length), fd, to, size, room, flags, address,
       length);
}
int __poll_chk(struct pollfd *polled, nfds_t count, int timeout, size_t room) {
  CALL(__poll_chk, writes(polled, count * sizeof *polled), polled, count, timeout, room);
}
int __open_2(const char *path, int flags) { CALL(__open_2, string(path), path, flags); }
int __open64_2(const char *path, int flags) { CALL(__open64_2, string(path), path, flags); }
size_t __fread_chk(void *to, size_t room, size_t size, size_t count, FILE *stream) {
  size_t bytes;
  if (!__builtin_mul_overflow(size, count, &bytes) && bytes <= room)
    return move_items(libcs_fread, to, size, count, stream);
  CALL(__fread_chk, false, to, room, size, count, stream);
}
