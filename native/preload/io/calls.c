/* calls.c: the symbols of libc that read, write and send.
 *
 * stdio is left alone (its own reads and writes do not come by here); so are poll, select and
 * epoll, io_uring and aio. descriptors.c has those that make and close descriptors; leave.c has
 * those by which a program leaves a request behind or restricts itself.
 *
 * The next library's symbols are looked up when the library is loaded.  Calls of 64-bit, fortified
 * and underscored names are the same functions under other names.
 */
#include "calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

extern struct symbol first_symbol[] __asm__("__start_io_symbols"), end_of_symbols[] __asm__(
                                                                       "__stop_io_symbols");

/* dlsym waits while another thread loads a library, which may wait for us: not in a call. */
void io_find_symbols(void) {
  for (struct symbol *s = first_symbol; s < end_of_symbols; s++)
    atomic_store_explicit(&s->address, dlsym(RTLD_NEXT, s->name), memory_order_relaxed);
}

/* ---- reading and writing ------------------------------------------------- */

/* After reads that go on where the last one ended, a helper reads ahead. */
static inline ssize_t has_read(int fd, uint32_t entry, off_t offset, ssize_t got) {
  if (__builtin_expect(io_process.mode == MARU_IO_HINT, 0) && got > 0 &&
      io_kind_of(entry) == IO_REGULAR)
    io_hint_read(fd, entry, offset, (size_t)got);
  return moved_by(entry, false, got, 1);
}

#define READS(name)                                                                                \
  EXPORT ssize_t name(int fd, void *buffer, size_t size) {                                         \
    NEXT(name, ssize_t, (int, void *, size_t))                                                     \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t got = BY(io_read_elsewhere(fd, entry, buffer, size, &by_), next(fd, buffer, size));    \
    return has_read(fd, entry, -1, got);                                                           \
  }
READS(read)
READS(__read)

EXPORT ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room) {
  NEXT(__read_chk, ssize_t, (int, void *, size_t, size_t))
  uint32_t entry = io_file(fd);
  ssize_t got = BY(size <= room && io_read_elsewhere(fd, entry, buffer, size, &by_),
                   next(fd, buffer, size, room));
  return has_read(fd, entry, -1, got);
}

#define WRITES(name)                                                                               \
  EXPORT ssize_t name(int fd, const void *buffer, size_t size) {                                   \
    NEXT(name, ssize_t, (int, const void *, size_t))                                               \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t put = BY(io_write_elsewhere(fd, entry, buffer, size, &by_), next(fd, buffer, size));   \
    return moved_by(entry, true, put, 1);                                                          \
  }
WRITES(write)
WRITES(__write)

#define READS_AT(name, offset_type)                                                                \
  EXPORT ssize_t name(int fd, void *buffer, size_t size, offset_type offset) {                     \
    NEXT(name, ssize_t, (int, void *, size_t, offset_type))                                        \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t got = BY(io_at_elsewhere(fd, entry, SYS_pread64, buffer, (long)size, offset, &by_),    \
                     next(fd, buffer, size, offset));                                              \
    return has_read(fd, entry, offset, got);                                                       \
  }
READS_AT(pread, off_t)
READS_AT(pread64, off64_t)
READS_AT(__pread64, off64_t)

#define READS_AT_CHECKED(name, offset_type)                                                        \
  EXPORT ssize_t name(int fd, void *buffer, size_t size, offset_type offset, size_t room) {        \
    NEXT(name, ssize_t, (int, void *, size_t, offset_type, size_t))                                \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t got = BY(                                                                              \
        size <= room && io_at_elsewhere(fd, entry, SYS_pread64, buffer, (long)size, offset, &by_), \
        next(fd, buffer, size, offset, room));                                                     \
    return has_read(fd, entry, offset, got);                                                       \
  }
READS_AT_CHECKED(__pread_chk, off_t)
READS_AT_CHECKED(__pread64_chk, off64_t)

#define WRITES_AT(name, offset_type)                                                               \
  EXPORT ssize_t name(int fd, const void *buffer, size_t size, offset_type offset) {               \
    NEXT(name, ssize_t, (int, const void *, size_t, offset_type))                                  \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t put = BY(io_at_elsewhere(fd, entry, SYS_pwrite64, buffer, (long)size, offset, &by_),   \
                     next(fd, buffer, size, offset));                                              \
    return moved_by(entry, true, put, 1);                                                          \
  }
WRITES_AT(pwrite, off_t)
WRITES_AT(pwrite64, off64_t)
WRITES_AT(__pwrite64, off64_t)

EXPORT ssize_t readv(int fd, const struct iovec *parts, int number) {
  NEXT(readv, ssize_t, (int, const struct iovec *, int))
  uint32_t entry = io_file(fd);
  ssize_t got =
      BY(io_parts_elsewhere(fd, entry, false, parts, number, &by_), next(fd, parts, number));
  return has_read(fd, entry, -1, got);
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int number) {
  NEXT(writev, ssize_t, (int, const struct iovec *, int))
  uint32_t entry = io_file(fd);
  ssize_t put =
      BY(io_parts_elsewhere(fd, entry, true, parts, number, &by_), next(fd, parts, number));
  return moved_by(entry, true, put, 1);
}

#define PARTS_AT(name, offset_type, call, writes)                                                  \
  EXPORT ssize_t name(int fd, const struct iovec *parts, int number, offset_type offset) {         \
    NEXT(name, ssize_t, (int, const struct iovec *, int, offset_type))                             \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t moved = BY(io_at_elsewhere(fd, entry, call, parts, number, offset, &by_),              \
                       next(fd, parts, number, offset));                                           \
    return moved_by(entry, writes, moved, 1);                                                      \
  }
PARTS_AT(preadv, off_t, SYS_preadv, false)
PARTS_AT(preadv64, off64_t, SYS_preadv, false)
PARTS_AT(pwritev, off_t, SYS_pwritev, true)
PARTS_AT(pwritev64, off64_t, SYS_pwritev, true)

/* With flags that say how: always direct. */
#define PARTS_AT_BY(name, offset_type, writes)                                                     \
  EXPORT ssize_t name(int fd, const struct iovec *parts, int number, offset_type offset,           \
                      int flags) {                                                                 \
    NEXT(name, ssize_t, (int, const struct iovec *, int, offset_type, int))                        \
    uint32_t entry = io_file(fd);                                                                  \
    return moved_by(entry, writes, next(fd, parts, number, offset, flags), 1);                     \
  }
PARTS_AT_BY(preadv2, off_t, false)
PARTS_AT_BY(preadv64v2, off64_t, false)
PARTS_AT_BY(pwritev2, off_t, true)
PARTS_AT_BY(pwritev64v2, off64_t, true)

/* ---- sockets ------------------------------------------------------------- */

static bool is_socket(uint32_t entry) {
  return io_kind_of(entry) == IO_STREAM || io_kind_of(entry) == IO_DATAGRAM;
}

/* For counting: by a call that nothing else takes. */
static uint32_t of_socket(uint32_t entry) {
  return io_kind_of(entry) == IO_UNKNOWN ? IO_STREAM : entry;
}

static bool receive_from(int fd, uint32_t entry, void *buffer, size_t size, int flags,
                         struct sockaddr *from, socklen_t *from_size, long *result) {
  return is_socket(entry) && size > 0 && size <= IO_COUNT_MOST &&
         io_receive(fd, entry, SYS_recvfrom, (long)buffer, (long)size, flags, (long)from,
                    (long)from_size, result);
}

EXPORT ssize_t recv(int fd, void *buffer, size_t size, int flags) {
  NEXT(recv, ssize_t, (int, void *, size_t, int))
  uint32_t entry = io_file(fd);
  ssize_t got = BY(receive_from(fd, entry, buffer, size, flags, NULL, NULL, &by_),
                   next(fd, buffer, size, flags));
  return moved_by(of_socket(entry), false, got, 0);
}

EXPORT ssize_t __recv_chk(int fd, void *buffer, size_t size, size_t room, int flags) {
  NEXT(__recv_chk, ssize_t, (int, void *, size_t, size_t, int))
  uint32_t entry = io_file(fd);
  ssize_t got = BY(size <= room && receive_from(fd, entry, buffer, size, flags, NULL, NULL, &by_),
                   next(fd, buffer, size, room, flags));
  return moved_by(of_socket(entry), false, got, 0);
}

EXPORT ssize_t recvfrom(int fd, void *restrict buffer, size_t size, int flags,
                        struct sockaddr *restrict from, socklen_t *restrict from_size) {
  NEXT(recvfrom, ssize_t, (int, void *, size_t, int, struct sockaddr *, socklen_t *))
  uint32_t entry = io_file(fd);
  ssize_t got = BY(receive_from(fd, entry, buffer, size, flags, from, from_size, &by_),
                   next(fd, buffer, size, flags, from, from_size));
  return moved_by(of_socket(entry), false, got, 0);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *restrict buffer, size_t size, size_t room, int flags,
                              struct sockaddr *restrict from, socklen_t *restrict from_size) {
  NEXT(__recvfrom_chk, ssize_t, (int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *))
  uint32_t entry = io_file(fd);
  ssize_t got =
      BY(size <= room && receive_from(fd, entry, buffer, size, flags, from, from_size, &by_),
         next(fd, buffer, size, room, flags, from, from_size));
  return moved_by(of_socket(entry), false, got, 0);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  NEXT(recvmsg, ssize_t, (int, struct msghdr *, int))
  uint32_t entry = io_file(fd);
  ssize_t got = BY(is_socket(entry) &&
                       io_receive(fd, entry, SYS_recvmsg, (long)message, 0, flags, 0, 0, &by_),
                   next(fd, message, flags));
  return moved_by(of_socket(entry), false, got, 0);
}

#define SENDS(name)                                                                                \
  EXPORT ssize_t name(int fd, const void *buffer, size_t size, int flags) {                        \
    NEXT(name, ssize_t, (int, const void *, size_t, int))                                          \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t put =                                                                                  \
        BY(is_socket(entry) && io_send_elsewhere(fd, entry, buffer, size, flags, NULL, 0, &by_),   \
           next(fd, buffer, size, flags));                                                         \
    return moved_by(of_socket(entry), true, put, 0);                                               \
  }
SENDS(send)
SENDS(__send)

EXPORT ssize_t sendto(int fd, const void *buffer, size_t size, int flags, const struct sockaddr *to,
                      socklen_t to_size) {
  NEXT(sendto, ssize_t, (int, const void *, size_t, int, const struct sockaddr *, socklen_t))
  uint32_t entry = io_file(fd);
  ssize_t put =
      BY(is_socket(entry) && io_send_elsewhere(fd, entry, buffer, size, flags, to, to_size, &by_),
         next(fd, buffer, size, flags, to, to_size));
  return moved_by(of_socket(entry), true, put, 0);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  NEXT(sendmsg, ssize_t, (int, const struct msghdr *, int))
  uint32_t entry = io_file(fd);
  ssize_t put = BY(is_socket(entry) && io_message_elsewhere(fd, entry, message, flags, &by_),
                   next(fd, message, flags));
  return moved_by(of_socket(entry), true, put, 0);
}

static ssize_t bytes_of(const struct mmsghdr *messages, int number) {
  ssize_t bytes = number;
  if (number > 0)
    for (bytes = 0; number > 0; number--)
      bytes += messages[number - 1].msg_len;
  return bytes;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned number, int flags,
                    struct timespec *timeout) {
  NEXT(recvmmsg, int, (int, struct mmsghdr *, unsigned, int, struct timespec *))
  uint32_t entry = io_file(fd);
  int got = next(fd, messages, number, flags, timeout);
  moved_by(of_socket(entry), false, bytes_of(messages, got), 0);
  return got;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned number, int flags) {
  NEXT(sendmmsg, int, (int, struct mmsghdr *, unsigned, int))
  uint32_t entry = io_file(fd);
  int put = next(fd, messages, number, flags);
  moved_by(of_socket(entry), true, bytes_of(messages, put), 0);
  return put;
}

/* A mark below which a blocking receive goes on waiting: a context's attempt would not. */
EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t size) {
  NEXT(setsockopt, int, (int, int, int, const void *, socklen_t))
  int rc = next(fd, level, name, value, size);
  if (level == SOL_SOCKET && name == SO_RCVLOWAT)
    io_forget_from(0, UINT_MAX); /* any may be a copy: looked at again (files.c) */
  count_state();
  return rc;
}

/* ---- from one descriptor to another -------------------------------------- */

#define SENDS_FILE(name, offset_type)                                                              \
  EXPORT ssize_t name(int to, int from, offset_type *offset, size_t size) {                        \
    NEXT(name, ssize_t, (int, int, offset_type *, size_t))                                         \
    uint32_t entry = io_file(to);                                                                  \
    return moved_by(entry, true, next(to, from, offset, size), 2);                                 \
  }
SENDS_FILE(sendfile, off_t)
SENDS_FILE(sendfile64, off64_t)

EXPORT ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size,
                               unsigned flags) {
  NEXT(copy_file_range, ssize_t, (int, off64_t *, int, off64_t *, size_t, unsigned))
  uint32_t entry = io_file(to);
  return moved_by(entry, true, next(from, from_at, to, to_at, size, flags), 2);
}

EXPORT ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t size,
                      unsigned flags) {
  NEXT(splice, ssize_t, (int, off64_t *, int, off64_t *, size_t, unsigned))
  uint32_t entry = io_file(to);
  return moved_by(entry, true, next(from, from_at, to, to_at, size, flags), 0);
}

EXPORT ssize_t tee(int from, int to, size_t size, unsigned flags) {
  NEXT(tee, ssize_t, (int, int, size_t, unsigned))
  return moved_by(0, true, next(from, to, size, flags), 0);
}

EXPORT ssize_t vmsplice(int fd, const struct iovec *parts, size_t number, unsigned flags) {
  NEXT(vmsplice, ssize_t, (int, const struct iovec *, size_t, unsigned))
  return moved_by(0, true, next(fd, parts, number, flags), 0);
}

/* ---- durability and hints ------------------------------------------------ */

#define SYNCS(name, result, parameters, arguments)                                                 \
  EXPORT result name parameters {                                                                  \
    NEXT(name, result, parameters)                                                                 \
    count(MARU_IO_SYNC, 0, 0);                                                                     \
    return next arguments;                                                                         \
  }
SYNCS(fsync, int, (int fd), (fd))
SYNCS(fdatasync, int, (int fd), (fd))
SYNCS(sync_file_range, int, (int fd, off64_t at, off64_t size, unsigned flags),
      (fd, at, size, flags))
SYNCS(readahead, ssize_t, (int fd, off64_t at, size_t size), (fd, at, size))
SYNCS(posix_fadvise, int, (int fd, off_t at, off_t size, int advice), (fd, at, size, advice))
SYNCS(posix_fadvise64, int, (int fd, off64_t at, off64_t size, int advice), (fd, at, size, advice))
