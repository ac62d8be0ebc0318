/* calls.h: what the functions that stand before libc's share (internal).
 *
 * For files that define such functions: with these undefined the headers do not give them other
 * names. */
#ifndef MARU_PRELOAD_IO_CALLS_H
#define MARU_PRELOAD_IO_CALLS_H

#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/* One for each function; the linker makes a table of them.  Aligned to its size, so that it
 * leaves no gaps. */
struct symbol {
  const char *name;
  _Atomic(void *) address;
} __attribute__((aligned(16)));

/* `next`: the symbol behind ours; looked up here only in calls that are made before begin().
 * Relaxed: each thread that looks it up finds the same. */
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

static inline void count_state(void) { count(MARU_IO_STATE, 0, 0); }

/* ---- delegating: delegate.c ---------------------------------------------- */

/* As the call returns it. */
ssize_t io_outcome(long result);

/* By a context, what `size` and the kind of the descriptor permit.  True: it was made, *result is
 * what it returned, or -errno. */
bool io_read_elsewhere(int fd, uint32_t entry, void *buffer, size_t size, long *result);
bool io_write_elsewhere(int fd, uint32_t entry, const void *buffer, size_t size, long *result);
bool io_parts_elsewhere(int fd, uint32_t entry, bool writes, const struct iovec *parts, int number,
                        long *result);
bool io_at_elsewhere(int fd, uint32_t entry, long call, const void *buffer, long size, off_t offset,
                     long *result);
bool io_receive(int fd, uint32_t entry, long number, long a, long b, int flags, long d, long e,
                long *result);
bool io_send_elsewhere(int fd, uint32_t entry, const void *data, size_t size, int flags,
                       const struct sockaddr *to, socklen_t to_size, long *result);
bool io_message_elsewhere(int fd, uint32_t entry, const struct msghdr *message, int flags,
                          long *result);

/* The wrapper's body: delegated, or by the next library; `entry` is in scope. */
#define BY(try, call)                                                                              \
  ({                                                                                               \
    long by_;                                                                                      \
    __builtin_expect(io_process.mode == MARU_IO_ALWAYS, 0) && io_may_delegate() && (try)           \
        ? io_outcome(by_)                                                                          \
        : (call);                                                                                  \
  })

void io_forked(bool child);

#endif
