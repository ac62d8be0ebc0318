/* calls.c: the symbols of libc that the library stands in front of.
 *
 * stdio is left alone (its own reads and writes do not come by here); so are poll, select and
 * epoll, io_uring and aio.  `fclose` and its kin are here because they close descriptors.
 *
 * The next library's symbols are looked up when the library is loaded.  Calls of 64-bit, fortified
 * and underscored names are the same functions under other names.
 */
/* With these the headers would give our functions other names. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include "guard.h"
#include "io.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* How long a request may wait to be taken; guarded: longer than that cannot pay. */
#define PATIENCE_NS INT64_C(10000000)
#define GUARDED_PATIENCE_NS INT64_C(50000)
#define COUNT_MOST 0x7ffff000u /* what the kernel moves at once */

void io_forked(bool child);

/* One for each function; the linker makes a table of them.  Aligned to its size, so that it
 * leaves no gaps. */
struct symbol {
  const char *name;
  _Atomic(void *) address;
} __attribute__((aligned(16)));
extern struct symbol first_symbol[] __asm__("__start_io_symbols"), end_of_symbols[] __asm__(
                                                                       "__stop_io_symbols");

/* dlsym waits while another thread loads a library, which may wait for us: not in a call. */
void io_find_symbols(void) {
  for (struct symbol *s = first_symbol; s < end_of_symbols; s++)
    atomic_store_explicit(&s->address, dlsym(RTLD_NEXT, s->name), memory_order_relaxed);
}

/* `next`: the symbol behind ours; looked up here only in calls that are made before begin().
 * Relaxed: whoever looks it up finds the same. */
#define NEXT(name, result, parameters)                                                             \
  typedef result(*next_type) parameters;                                                           \
  static struct symbol symbol_ __attribute__((section("io_symbols"), used)) = {#name, NULL};       \
  next_type next = (next_type)atomic_load_explicit(&symbol_.address, memory_order_relaxed);        \
  if (__builtin_expect(next == NULL, 0)) {                                                         \
    next = (next_type)io_next_symbol(#name);                                                       \
    atomic_store_explicit(&symbol_.address, (void *)next, memory_order_relaxed);                   \
  }

/* ---- counting ------------------------------------------------------------ */

static inline enum maru_io_class class_of(uint32_t entry, bool writes) {
  switch (io_kind_of(entry)) {
  case IO_REGULAR:
    return writes ? MARU_IO_FILE_WRITE : MARU_IO_FILE_READ;
  case IO_STREAM:
  case IO_DATAGRAM:
    return writes ? MARU_IO_NET_WRITE : MARU_IO_NET_READ;
  default:
    return writes ? MARU_IO_OTHER_WRITE : MARU_IO_OTHER_READ;
  }
}

static inline void count(enum maru_io_class class, ssize_t moved, unsigned kernel) {
  struct maru_io_line *line = io_line();
  io_add(line, &line->of[class].calls, 1);
  if (moved > 0)
    io_add(line, &line->of[class].bytes, (uint64_t)moved);
  if (kernel > 0 && (moved >= 0 || errno != EBADF)) /* the kernel counts no call on nothing */
    io_add(line, &line->kernel, kernel);
}

static inline ssize_t moved_by(uint32_t entry, bool writes, ssize_t moved, unsigned kernel) {
  count(class_of(entry, writes), moved, kernel);
  return moved;
}

static void count_state(void) { count(MARU_IO_STATE, 0, 0); }

/* ---- delegating ---------------------------------------------------------- */

/* Guarded: files only (what a socket's call costs depends on the other side), and no small calls.
 * A guard for each range of sizes; all threads share it, and who comes while another one looks
 * goes direct, unmeasured. */
#define GUARDED_LEAST (16u << 10)
#define GUARDED_RANGES 3
#define SLICE_CALLS 32u
#define PAUSE_SLICES 4096u

static struct gate {
  _Atomic uint64_t rest; /* calls before it is looked at again; a few may get lost */
  _Atomic bool taken;
  bool begun;
  struct io_guard guard;
} gates[GUARDED_RANGES];

/* A call that is measured, or `gate` is NULL. */
struct trial {
  struct gate *gate;
  bool on;
  bool timed;
  int64_t began_ns;
};

/* Acquire and release: the gate is one thread's at a time. */
static bool enter(struct gate *gate) {
  return !atomic_exchange_explicit(&gate->taken, true, memory_order_acquire);
}
static void leave(struct gate *gate) {
  atomic_store_explicit(&gate->taken, false, memory_order_release);
}

/* In a forked child: the threads that were in there are not. */
void io_gates_fork(void) {
  for (unsigned i = 0; i < GUARDED_RANGES; i++)
    leave(&gates[i]);
}

static bool guard_says(struct trial *trial, uint32_t entry, size_t size) {
  if (io_kind_of(entry) != IO_REGULAR || size < GUARDED_LEAST)
    return false;
  struct gate *gate = &gates[size < 4 * GUARDED_LEAST ? 0 : size < 16 * GUARDED_LEAST ? 1 : 2];
  /* Relaxed: nothing hangs on it. */
  uint64_t rest = atomic_load_explicit(&gate->rest, memory_order_relaxed);
  if (rest > 0) {
    atomic_store_explicit(&gate->rest, rest - 1, memory_order_relaxed);
    return false;
  }
  if (!enter(gate))
    return false;
  if (!gate->begun)
    io_guard_begin(&gate->guard, SLICE_CALLS, PAUSE_SLICES);
  gate->begun = true;
  trial->gate = gate;
  trial->on = io_guard_on(&gate->guard);
  trial->timed = gate->guard.trying;
  leave(gate);
  if (trial->timed)
    trial->began_ns = maru_now_ns();
  return trial->on;
}

/* Whether the call is to be made by a context. */
static bool decide(struct trial *trial, uint32_t entry, size_t size) {
  if (!io_may_delegate())
    return false;
  return io_process.mode == MARU_IO_ALWAYS || guard_says(trial, entry, size);
}

static void conclude(const struct trial *trial, ssize_t moved) {
  struct gate *gate = trial->gate;
  int saved = errno;
  uint64_t ns = trial->timed ? (uint64_t)(maru_now_ns() - trial->began_ns) : 0;
  errno = saved;
  if (moved <= 0 || !enter(gate))
    return;
  /* Another thread's call may have ended the slice meanwhile. */
  if (io_guard_on(&gate->guard) == trial->on && gate->guard.trying == trial->timed &&
      io_guard_add(&gate->guard, (uint64_t)moved, ns))
    atomic_store_explicit(&gate->rest, io_guard_rest(&gate->guard), memory_order_relaxed);
  leave(gate);
}

static bool elsewhere(enum io_context_class class, int fd, uint32_t entry, long number, long a,
                      long b, long c, long d, long e, long *result) {
  struct io_request request = {number, {fd, a, b, c, d, e}, fd, entry};
  int64_t patience = io_process.mode == MARU_IO_ALWAYS ? PATIENCE_NS : GUARDED_PATIENCE_NS;
  return io_delegate(class, &request, patience, result);
}

/* As the call returns it. */
static ssize_t outcome(long result) {
  if (result >= 0)
    return result;
  errno = (int)-result;
  return -1;
}

/* recvfrom and recvmsg by a context.  What would block is not made there. */
static bool receive(int fd, uint32_t entry, long number, long a, long b, int flags, long d, long e,
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

static bool send_elsewhere(int fd, uint32_t entry, const void *data, size_t size, int flags,
                           const struct sockaddr *to, socklen_t to_size, long *result) {
  if ((flags & ~SEND_FLAGS) || size == 0 || size > COUNT_MOST)
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
static bool message_elsewhere(int fd, uint32_t entry, const struct msghdr *message, int flags,
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

static bool read_elsewhere(int fd, uint32_t entry, void *buffer, size_t size, long *result) {
  if (size == 0 || size > COUNT_MOST)
    return false;
  switch (io_kind_of(entry)) {
  case IO_REGULAR:
    return elsewhere(IO_FILE_CONTEXT, fd, entry, SYS_read, (long)buffer, (long)size, 0, 0, 0,
                     result);
  case IO_STREAM:
  case IO_DATAGRAM:
    return receive(fd, entry, SYS_recvfrom, (long)buffer, (long)size, 0, 0, 0, result);
  default:
    return false;
  }
}

static bool write_elsewhere(int fd, uint32_t entry, const void *buffer, size_t size, long *result) {
  if (size == 0 || size > COUNT_MOST)
    return false;
  switch (io_kind_of(entry)) {
  case IO_REGULAR:
    return elsewhere(IO_FILE_CONTEXT, fd, entry, SYS_write, (long)buffer, (long)size, 0, 0, 0,
                     result);
  case IO_STREAM:
  case IO_DATAGRAM:
    return send_elsewhere(fd, entry, buffer, size, 0, NULL, 0, result);
  default:
    return false;
  }
}

static bool parts_elsewhere(int fd, uint32_t entry, bool writes, const struct iovec *parts,
                            int number, long *result) {
  if (number <= 0 || number > IOV_MAX)
    return false;
  if (io_kind_of(entry) == IO_REGULAR)
    return elsewhere(IO_FILE_CONTEXT, fd, entry, writes ? SYS_writev : SYS_readv, (long)parts,
                     number, 0, 0, 0, result);
  struct iovec copy[PARTS_MOST];
  if ((io_kind_of(entry) != IO_STREAM && io_kind_of(entry) != IO_DATAGRAM) || number > PARTS_MOST)
    return false;
  size_t total = copy_parts(copy, parts, number);
  if (total == 0 || total > COUNT_MOST)
    return false;
  struct msghdr message = {.msg_iov = copy, .msg_iovlen = (size_t)number};
  return writes ? message_elsewhere(fd, entry, &message, 0, result)
                : receive(fd, entry, SYS_recvmsg, (long)&message, 0, 0, 0, 0, result);
}

static bool at_elsewhere(int fd, uint32_t entry, long call, const void *buffer, long size,
                         off_t offset, long *result) {
  return io_kind_of(entry) == IO_REGULAR && size > 0 && size <= (long)COUNT_MOST &&
         elsewhere(IO_FILE_CONTEXT, fd, entry, call, (long)buffer, size, offset, 0, 0, result);
}

/* ---- reading and writing ------------------------------------------------- */

/* The wrapper's body: delegated, or by the next library; `entry` is in scope. */
#define BY(size, try, call)                                                                        \
  ({                                                                                               \
    struct trial trial_ = {.gate = NULL};                                                          \
    long by_;                                                                                      \
    ssize_t moved_ = __builtin_expect(io_process.mode >= MARU_IO_GUARDED, 0) &&                    \
                             decide(&trial_, entry, size) && (try)                                 \
                         ? outcome(by_)                                                            \
                         : (call);                                                                 \
    if (__builtin_expect(trial_.gate != NULL, 0))                                                  \
      conclude(&trial_, moved_);                                                                   \
    moved_;                                                                                        \
  })

/* After reads that go on where the last one ended, a helper reads ahead. */
static inline ssize_t has_read(int fd, uint32_t entry, off_t offset, ssize_t got) {
  if (__builtin_expect(io_process.mode == MARU_IO_HINT || io_process.mode == MARU_IO_GUARDED, 0) &&
      got > 0 && io_kind_of(entry) == IO_REGULAR)
    io_hint_read(fd, entry, offset, (size_t)got);
  return moved_by(entry, false, got, 1);
}

#define READS(name)                                                                                \
  EXPORT ssize_t name(int fd, void *buffer, size_t size) {                                         \
    NEXT(name, ssize_t, (int, void *, size_t))                                                     \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t got = BY(size, read_elsewhere(fd, entry, buffer, size, &by_), next(fd, buffer, size)); \
    return has_read(fd, entry, -1, got);                                                           \
  }
READS(read)
READS(__read)

EXPORT ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room) {
  NEXT(__read_chk, ssize_t, (int, void *, size_t, size_t))
  uint32_t entry = io_file(fd);
  ssize_t got = BY(size, size <= room && read_elsewhere(fd, entry, buffer, size, &by_),
                   next(fd, buffer, size, room));
  return has_read(fd, entry, -1, got);
}

#define WRITES(name)                                                                               \
  EXPORT ssize_t name(int fd, const void *buffer, size_t size) {                                   \
    NEXT(name, ssize_t, (int, const void *, size_t))                                               \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t put =                                                                                  \
        BY(size, write_elsewhere(fd, entry, buffer, size, &by_), next(fd, buffer, size));          \
    return moved_by(entry, true, put, 1);                                                          \
  }
WRITES(write)
WRITES(__write)

#define READS_AT(name, offset_type)                                                                \
  EXPORT ssize_t name(int fd, void *buffer, size_t size, offset_type offset) {                     \
    NEXT(name, ssize_t, (int, void *, size_t, offset_type))                                        \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t got = BY(size, at_elsewhere(fd, entry, SYS_pread64, buffer, (long)size, offset, &by_), \
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
    ssize_t got =                                                                                  \
        BY(size,                                                                                   \
           size <= room && at_elsewhere(fd, entry, SYS_pread64, buffer, (long)size, offset, &by_), \
           next(fd, buffer, size, offset, room));                                                  \
    return has_read(fd, entry, offset, got);                                                       \
  }
READS_AT_CHECKED(__pread_chk, off_t)
READS_AT_CHECKED(__pread64_chk, off64_t)

#define WRITES_AT(name, offset_type)                                                               \
  EXPORT ssize_t name(int fd, const void *buffer, size_t size, offset_type offset) {               \
    NEXT(name, ssize_t, (int, const void *, size_t, offset_type))                                  \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t put =                                                                                  \
        BY(size, at_elsewhere(fd, entry, SYS_pwrite64, buffer, (long)size, offset, &by_),          \
           next(fd, buffer, size, offset));                                                        \
    return moved_by(entry, true, put, 1);                                                          \
  }
WRITES_AT(pwrite, off_t)
WRITES_AT(pwrite64, off64_t)
WRITES_AT(__pwrite64, off64_t)

EXPORT ssize_t readv(int fd, const struct iovec *parts, int number) {
  NEXT(readv, ssize_t, (int, const struct iovec *, int))
  uint32_t entry = io_file(fd);
  ssize_t got =
      BY(0, parts_elsewhere(fd, entry, false, parts, number, &by_), next(fd, parts, number));
  return has_read(fd, entry, -1, got);
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int number) {
  NEXT(writev, ssize_t, (int, const struct iovec *, int))
  uint32_t entry = io_file(fd);
  ssize_t put =
      BY(0, parts_elsewhere(fd, entry, true, parts, number, &by_), next(fd, parts, number));
  return moved_by(entry, true, put, 1);
}

#define PARTS_AT(name, offset_type, call, writes)                                                  \
  EXPORT ssize_t name(int fd, const struct iovec *parts, int number, offset_type offset) {         \
    NEXT(name, ssize_t, (int, const struct iovec *, int, offset_type))                             \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t moved = BY(0, at_elsewhere(fd, entry, call, parts, number, offset, &by_),              \
                       next(fd, parts, number, offset));                                           \
    return moved_by(entry, writes, moved, 1);                                                      \
  }
PARTS_AT(preadv, off_t, SYS_preadv, false)
PARTS_AT(preadv64, off64_t, SYS_preadv, false)
PARTS_AT(pwritev, off_t, SYS_pwritev, true)
PARTS_AT(pwritev64, off64_t, SYS_pwritev, true)

/* With flags that say how: always direct. */
#define PARTS_AT_BY(size, name, offset_type, writes)                                               \
  EXPORT ssize_t name(int fd, const struct iovec *parts, int number, offset_type offset,           \
                      int flags) {                                                                 \
    NEXT(name, ssize_t, (int, const struct iovec *, int, offset_type, int))                        \
    uint32_t entry = io_file(fd);                                                                  \
    return moved_by(entry, writes, next(fd, parts, number, offset, flags), 1);                     \
  }
PARTS_AT_BY(size, preadv2, off_t, false)
PARTS_AT_BY(size, preadv64v2, off64_t, false)
PARTS_AT_BY(size, pwritev2, off_t, true)
PARTS_AT_BY(size, pwritev64v2, off64_t, true)

/* ---- sockets ------------------------------------------------------------- */

static bool is_socket(uint32_t entry) {
  return io_kind_of(entry) == IO_STREAM || io_kind_of(entry) == IO_DATAGRAM;
}

static bool receive_from(int fd, uint32_t entry, void *buffer, size_t size, int flags,
                         struct sockaddr *from, socklen_t *from_size, long *result) {
  return is_socket(entry) && size > 0 && size <= COUNT_MOST &&
         receive(fd, entry, SYS_recvfrom, (long)buffer, (long)size, flags, (long)from,
                 (long)from_size, result);
}

EXPORT ssize_t recv(int fd, void *buffer, size_t size, int flags) {
  NEXT(recv, ssize_t, (int, void *, size_t, int))
  uint32_t entry = io_file(fd);
  ssize_t got = BY(size, receive_from(fd, entry, buffer, size, flags, NULL, NULL, &by_),
                   next(fd, buffer, size, flags));
  return moved_by(entry, false, got, 0);
}

EXPORT ssize_t __recv_chk(int fd, void *buffer, size_t size, size_t room, int flags) {
  NEXT(__recv_chk, ssize_t, (int, void *, size_t, size_t, int))
  uint32_t entry = io_file(fd);
  ssize_t got =
      BY(size, size <= room && receive_from(fd, entry, buffer, size, flags, NULL, NULL, &by_),
         next(fd, buffer, size, room, flags));
  return moved_by(entry, false, got, 0);
}

EXPORT ssize_t recvfrom(int fd, void *restrict buffer, size_t size, int flags,
                        struct sockaddr *restrict from, socklen_t *restrict from_size) {
  NEXT(recvfrom, ssize_t, (int, void *, size_t, int, struct sockaddr *, socklen_t *))
  uint32_t entry = io_file(fd);
  ssize_t got = BY(size, receive_from(fd, entry, buffer, size, flags, from, from_size, &by_),
                   next(fd, buffer, size, flags, from, from_size));
  return moved_by(entry, false, got, 0);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *restrict buffer, size_t size, size_t room, int flags,
                              struct sockaddr *restrict from, socklen_t *restrict from_size) {
  NEXT(__recvfrom_chk, ssize_t, (int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *))
  uint32_t entry = io_file(fd);
  ssize_t got =
      BY(size, size <= room && receive_from(fd, entry, buffer, size, flags, from, from_size, &by_),
         next(fd, buffer, size, room, flags, from, from_size));
  return moved_by(entry, false, got, 0);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  NEXT(recvmsg, ssize_t, (int, struct msghdr *, int))
  uint32_t entry = io_file(fd);
  ssize_t got = BY(
      0, is_socket(entry) && receive(fd, entry, SYS_recvmsg, (long)message, 0, flags, 0, 0, &by_),
      next(fd, message, flags));
  return moved_by(entry, false, got, 0);
}

#define SENDS(name)                                                                                \
  EXPORT ssize_t name(int fd, const void *buffer, size_t size, int flags) {                        \
    NEXT(name, ssize_t, (int, const void *, size_t, int))                                          \
    uint32_t entry = io_file(fd);                                                                  \
    ssize_t put = BY(                                                                              \
        size, is_socket(entry) && send_elsewhere(fd, entry, buffer, size, flags, NULL, 0, &by_),   \
        next(fd, buffer, size, flags));                                                            \
    return moved_by(entry, true, put, 0);                                                          \
  }
SENDS(send)
SENDS(__send)

EXPORT ssize_t sendto(int fd, const void *buffer, size_t size, int flags, const struct sockaddr *to,
                      socklen_t to_size) {
  NEXT(sendto, ssize_t, (int, const void *, size_t, int, const struct sockaddr *, socklen_t))
  uint32_t entry = io_file(fd);
  ssize_t put = BY(
      size, is_socket(entry) && send_elsewhere(fd, entry, buffer, size, flags, to, to_size, &by_),
      next(fd, buffer, size, flags, to, to_size));
  return moved_by(entry, true, put, 0);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  NEXT(sendmsg, ssize_t, (int, const struct msghdr *, int))
  uint32_t entry = io_file(fd);
  ssize_t put = BY(0, is_socket(entry) && message_elsewhere(fd, entry, message, flags, &by_),
                   next(fd, message, flags));
  return moved_by(entry, true, put, 0);
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
  moved_by(entry, false, bytes_of(messages, got), 0);
  return got;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned number, int flags) {
  NEXT(sendmmsg, int, (int, struct mmsghdr *, unsigned, int))
  uint32_t entry = io_file(fd);
  int put = next(fd, messages, number, flags);
  moved_by(entry, true, bytes_of(messages, put), 0);
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

/* ---- what makes descriptors ---------------------------------------------- */

/* Whoever closed the number before may have done it behind our back. */
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

/* ---- who leaves a request behind ----------------------------------------- */

#define JUMPS(name, buffer)                                                                        \
  EXPORT void name(buffer environment, int value) {                                                \
    NEXT(name, void, (buffer, int))                                                                \
    io_abandon();                                                                                  \
    next(environment, value);                                                                      \
    __builtin_unreachable();                                                                       \
  }
JUMPS(longjmp, jmp_buf)
JUMPS(_longjmp, jmp_buf)
JUMPS(siglongjmp, sigjmp_buf)
void __longjmp_chk(jmp_buf environment, int value) __attribute__((noreturn));
JUMPS(__longjmp_chk, jmp_buf)

/* Not in a handler, so contexts may be started: servers block signals in the threads they make. */
EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument) {
  NEXT(pthread_create, int, (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))
  if (io_process.mode == MARU_IO_ALWAYS)
    io_contexts_start();
  return next(thread, attributes, run, argument);
}

EXPORT pid_t _Fork(void) {
  NEXT(_Fork, pid_t, (void))
  io_forked(false);
  pid_t pid = next();
  if (pid == 0)
    io_forked(true);
  return pid;
}

/* ---- who restricts itself ------------------------------------------------ */

/* What a thread may no longer do, a context must not do for it; threads inherit it, so the
 * whole process is direct from then on. */
#define RESTRICTS(name, result, parameters, arguments)                                             \
  EXPORT result name parameters {                                                                  \
    NEXT(name, result, parameters)                                                                 \
    io_go_direct("delegates nothing any more: it called " #name);                                  \
    return next arguments;                                                                         \
  }
RESTRICTS(setfsuid, int, (uid_t id), (id))
RESTRICTS(setfsgid, int, (gid_t id), (id))
RESTRICTS(capset, int, (void *header, const void *data), (header, data))

/* Some want a process of one thread. */
#define LEAVES(name, parameters, arguments)                                                        \
  EXPORT int name parameters {                                                                     \
    NEXT(name, int, parameters)                                                                    \
    io_go_direct("delegates nothing any more: it called " #name);                                  \
    io_contexts_retire();                                                                          \
    return next arguments;                                                                         \
  }
LEAVES(unshare, (int flags), (flags))
LEAVES(setns, (int fd, int type), (fd, type))

static bool restricts(int option) {
  switch (option) {
  case PR_SET_SECCOMP:
  case PR_CAPBSET_DROP:
  case PR_CAP_AMBIENT:
  case PR_SET_SECUREBITS:
  case 57: /* PR_SET_IO_FLUSHER */
  case 59: /* PR_SET_SYSCALL_USER_DISPATCH */
    return true;
  default:
    return false;
  }
}

EXPORT int prctl(int option, ...) {
  NEXT(prctl, int, (int, ...))
  va_list rest;
  va_start(rest, option);
  unsigned long a = va_arg(rest, unsigned long), b = va_arg(rest, unsigned long),
                c = va_arg(rest, unsigned long), d = va_arg(rest, unsigned long);
  va_end(rest);
  if (restricts(option))
    io_go_direct("delegates nothing any more: it called prctl to restrict itself");
  return next(option, a, b, c, d);
}

static void scheduling_changes(void) {
  atomic_fetch_add_explicit(&io_process.epoch, 1, memory_order_relaxed); /* threads look again */
}

#define SCHEDULES(name, parameters, arguments)                                                     \
  EXPORT int name parameters {                                                                     \
    NEXT(name, int, parameters)                                                                    \
    int rc = next arguments;                                                                       \
    scheduling_changes();                                                                          \
    return rc;                                                                                     \
  }
SCHEDULES(sched_setscheduler, (pid_t pid, int policy, const struct sched_param *how),
          (pid, policy, how))
SCHEDULES(pthread_setschedparam, (pthread_t thread, int policy, const struct sched_param *how),
          (thread, policy, how))

/* ---- syscall(3) ---------------------------------------------------------- */

static void forget_raw(long number, long a, long b) {
  switch (number) {
  case SYS_close:
    io_forget((int)a);
    break;
#ifdef SYS_dup2
  case SYS_dup2:
#endif
  case SYS_dup3:
    io_forget((int)b);
    break;
  case SYS_close_range:
    io_forget_from((unsigned)a, (unsigned)b);
    break;
  default:
    break;
  }
}

static void before_raw(long number, long a, long c) {
  switch (number) {
  case SYS_close_range:
    if (c & (long)CLOSE_RANGE_UNSHARE)
      io_go_direct("delegates nothing any more: a thread has descriptors of its own");
    break;
  case SYS_unshare:
  case SYS_setns:
  case SYS_seccomp: /* a filter may be for all threads, and kill who calls what contexts do */
    io_go_direct("delegates nothing any more: it called unshare, setns or seccomp by syscall");
    io_contexts_retire();
    break;
  case SYS_capset:
  case SYS_setuid:
  case SYS_setgid:
  case SYS_setresuid:
  case SYS_setresgid:
  case SYS_setreuid:
  case SYS_setregid:
  case SYS_setgroups:
  case SYS_setfsuid:
  case SYS_setfsgid:
  case SYS_ioprio_set:
  case SYS_set_mempolicy:
    io_go_direct("delegates nothing any more: it changed its rights or policy by syscall");
    break;
  case SYS_prctl:
    if (restricts((int)a))
      io_go_direct("delegates nothing any more: it restricted itself by syscall");
    break;
  case SYS_sched_setscheduler:
  case SYS_sched_setattr:
    scheduling_changes();
    break;
  default:
    break;
  }
}

EXPORT long syscall(long number, ...) {
  NEXT(syscall, long, (long, ...))
  va_list rest;
  va_start(rest, number);
  long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long),
       d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
  va_end(rest);
  before_raw(number, a, c);
  forget_raw(number, a, b);
  long result = next(number, a, b, c, d, e, f);
  forget_raw(number, a, b);
  return result;
}
