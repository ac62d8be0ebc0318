/* delegate.c: which calls are made by a context, and how their answers are made those of the call.
 */
#include "calls.h"

#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

static bool elsewhere(enum io_context_class class, int fd, uint32_t entry, long number, long a,
                      long b, long c, long d, long e, long *result) {
  struct io_request request = {number, {fd, a, b, c, d, e}, fd, entry};
  /* Not a socket any more, and nobody told us: the answer is that of the call as it was made. */
  return io_delegate(class, &request, result) && *result != -ENOTSOCK;
}

/* As the call returns it. */
ssize_t io_outcome(long result) {
  if (result >= 0)
    return result;
  errno = (int)-result;
  return -1;
}

/* recvfrom and recvmsg by a context.  What would block is not made there. */
bool io_receive(int fd, uint32_t entry, long number, long a, long b, int flags, long d, long e,
                long *result) {
  const int known = MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC | MSG_CMSG_CLOEXEC;
  if (flags & ~known)
    return false;
  int now = flags | MSG_DONTWAIT;
  bool made = number == SYS_recvmsg
                  ? elsewhere(IO_NET_CONTEXT, fd, entry, number, a, now, 0, 0, 0, result)
                  : elsewhere(IO_NET_CONTEXT, fd, entry, number, a, b, now, d, e, result);
  return made && (*result != -EAGAIN || (flags & MSG_DONTWAIT));
}

/* The signal that the kernel sends to who writes on a stream that nobody reads. */
static void raise_pipe(uint32_t entry, int flags, long result) {
  if (result == -EPIPE && io_kind_of(entry) == IO_STREAM && !(flags & MSG_NOSIGNAL))
    io_raw(SYS_tgkill, io_process.pid, io_raw(SYS_gettid, 0, 0, 0, 0, 0, 0), SIGPIPE, 0, 0, 0);
}

#define SEND_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE)

/* The caller sends what a context could not without blocking. */
static long send_rest(int fd, const char *data, size_t size, int flags, long sent) {
  NEXT(send, ssize_t, (int, const void *, size_t, int))
  if (sent < 0 || (size_t)sent == size || (flags & MSG_DONTWAIT))
    return sent;
  int saved = errno;
  ssize_t more = next(fd, data + sent, size - (size_t)sent, flags | MSG_NOSIGNAL);
  errno = saved; /* an error behind a success shows at the next call */
  return more > 0 ? sent + more : sent;
}

bool io_send_elsewhere(int fd, uint32_t entry, const void *data, size_t size, int flags,
                       const struct sockaddr *to, socklen_t to_size, long *result) {
  if ((flags & ~SEND_FLAGS) || size == 0 || size > IO_COUNT_MOST)
    return false;
  if (!elsewhere(IO_NET_CONTEXT, fd, entry, SYS_sendto, (long)data, (long)size,
                 flags | MSG_DONTWAIT | MSG_NOSIGNAL, (long)to, to_size, result))
    return false;
  if (*result == -EAGAIN && !(flags & MSG_DONTWAIT))
    return false;
  raise_pipe(entry, flags, *result);
  *result = send_rest(fd, data, size, flags, *result);
  return true;
}

#define PARTS_MOST 16

/* A copy of the list, or 0: the caller's pointer may lead nowhere, and then it is the kernel
 * that has to say so.  Returns what they hold together. */
static size_t copy_parts(struct iovec *to, const struct iovec *from, int number) {
  size_t size = (size_t)number * sizeof *from, total = 0;
  struct iovec here = {to, size}, there = {(void *)from, size};
  if (io_raw(SYS_process_vm_readv, io_process.pid, (long)&here, 1, (long)&there, 1, 0) !=
      (long)size)
    return 0;
  for (int i = 0; i < number; i++)
    if (__builtin_add_overflow(total, to[i].iov_len, &total))
      return 0;
  return total;
}

/* Of a message of several parts.  What is sent in part is hard to go on with: only what
 * cannot be (a datagram), or need not be (the caller would not wait either). */
bool io_message_elsewhere(int fd, uint32_t entry, const struct msghdr *message, int flags,
                          long *result) {
  if ((flags & ~SEND_FLAGS) || (io_kind_of(entry) == IO_STREAM && !(flags & MSG_DONTWAIT)) ||
      !elsewhere(IO_NET_CONTEXT, fd, entry, SYS_sendmsg, (long)message,
                 flags | MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0, 0, result))
    return false;
  if (*result == -EAGAIN && !(flags & MSG_DONTWAIT))
    return false;
  raise_pipe(entry, flags, *result);
  return true;
}

bool io_read_elsewhere(int fd, uint32_t entry, void *buffer, size_t size, long *result) {
  if (size == 0 || size > IO_COUNT_MOST)
    return false;
  switch (io_kind_of(entry)) {
  case IO_REGULAR:
    return elsewhere(IO_FILE_CONTEXT, fd, entry, SYS_read, (long)buffer, (long)size, 0, 0, 0,
                     result);
  case IO_STREAM:
  case IO_DATAGRAM:
    return io_receive(fd, entry, SYS_recvfrom, (long)buffer, (long)size, 0, 0, 0, result);
  default:
    return false;
  }
}

bool io_write_elsewhere(int fd, uint32_t entry, const void *buffer, size_t size, long *result) {
  if (size == 0 || size > IO_COUNT_MOST)
    return false;
  switch (io_kind_of(entry)) {
  case IO_REGULAR:
    return elsewhere(IO_FILE_CONTEXT, fd, entry, SYS_write, (long)buffer, (long)size, 0, 0, 0,
                     result);
  case IO_STREAM:
  case IO_DATAGRAM:
    return io_send_elsewhere(fd, entry, buffer, size, 0, NULL, 0, result);
  default:
    return false;
  }
}

bool io_parts_elsewhere(int fd, uint32_t entry, bool writes, const struct iovec *parts, int number,
                        long *result) {
  if (number <= 0 || number > IOV_MAX)
    return false;
  if (io_kind_of(entry) == IO_REGULAR)
    return elsewhere(IO_FILE_CONTEXT, fd, entry, writes ? SYS_writev : SYS_readv, (long)parts,
                     number, 0, 0, 0, result);
  struct iovec copy[PARTS_MOST];
  if ((io_kind_of(entry) != IO_STREAM && io_kind_of(entry) != IO_DATAGRAM) || number > PARTS_MOST)
    return false;
  size_t total = copy_parts(copy, parts, number);
  if (total == 0 || total > IO_COUNT_MOST)
    return false;
  struct msghdr message = {.msg_iov = copy, .msg_iovlen = (size_t)number};
  return writes ? io_message_elsewhere(fd, entry, &message, 0, result)
                : io_receive(fd, entry, SYS_recvmsg, (long)&message, 0, 0, 0, 0, result);
}

bool io_at_elsewhere(int fd, uint32_t entry, long call, const void *buffer, long size, off_t offset,
                     long *result) {
  return io_kind_of(entry) == IO_REGULAR && size > 0 && size <= (long)IO_COUNT_MOST &&
         elsewhere(IO_FILE_CONTEXT, fd, entry, call, (long)buffer, size, offset, 0, 0, result);
}
