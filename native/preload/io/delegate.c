/* delegate.c: which calls are made by a context, and how their answers are made those of the call.
 */
#include "calls.h"
#include "gate.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <time.h>

/* How long a request may wait to be taken; guarded: longer than that cannot pay. */
#define PATIENCE_NS INT64_C(10000000)
#define GUARDED_PATIENCE_NS INT64_C(50000)

#pragma weak __libc_single_threaded /* glibc has it from 2.32 */

/* Guarded: files only (what a socket's call costs depends on the other side), and no small calls.
 * A guard for each range of sizes.  All threads share it, and all processes that were forked and
 * run the same program: a server with a process a client would begin a trial with each client.  Who
 * comes while another one looks goes direct, unmeasured. */
#define GUARDED_LEAST (16u << 10)
#define GUARDED_RANGES 3

static struct io_gate own_gates[GUARDED_RANGES], *gates = own_gates;

/* Before anything forks.  Where no memory is to be had each process learns by itself. */
void io_gates_open(void) {
  void *shared =
      mmap(NULL, sizeof own_gates, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED)
    gates = shared;
}

/* A few ns, and some ms behind: enough for pauses of seconds. */
static uint64_t coarse_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A trial was lost. */
static bool rests(struct io_gate *gate) {
  /* Relaxed: nothing hangs on it. */
  uint64_t until = atomic_load_explicit(&gate->rests_until, memory_order_relaxed);
  return until > 0 && coarse_ns() < until;
}

static bool enter(struct io_gate *gate) {
  enum io_gate_answer answer = io_gate_enter(gate, io_process.pid);
  if (answer == IO_GATE_TAKEN_OVER)
    io_say("learns anew what delegation is worth: a process was killed while it looked");
  return answer != IO_GATE_SHUT;
}

/* The kernel's list: one number, or more than that. */
static bool has_several_nodes(void) {
  enum { NOT_ASKED, ONE, SEVERAL };
  static _Atomic int known;
  char text[32];
  /* Relaxed: whoever asks finds the same. */
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (answer != NOT_ASKED)
    return answer == SEVERAL;
  long fd = io_raw(SYS_openat, AT_FDCWD, (long)"/sys/devices/system/node/online",
                   O_RDONLY | O_CLOEXEC, 0, 0, 0);
  long got = fd < 0 ? 0 : io_raw(SYS_read, fd, (long)text, sizeof text, 0, 0, 0);
  if (fd >= 0)
    io_raw(SYS_close, fd, 0, 0, 0, 0, 0);
  answer =
      got > 0 && (memchr(text, '-', (size_t)got) || memchr(text, ',', (size_t)got)) ? SEVERAL : ONE;
  atomic_store_explicit(&known, answer, memory_order_relaxed);
  return answer == SEVERAL;
}

/* A lone thread waits for its call whoever makes it: that can pay where somebody is nearer to the
 * device, and nowhere else.  And a trial has its price for good: libc takes its locks once there
 * were two threads. */
static bool may_pay(void) {
  return &__libc_single_threaded == NULL || !__libc_single_threaded || has_several_nodes();
}

static bool guard_says(struct trial *trial, uint32_t entry, size_t size) {
  if (io_kind_of(entry) != IO_REGULAR || size < GUARDED_LEAST || !may_pay())
    return false;
  struct io_gate *gate = &gates[size < 4 * GUARDED_LEAST ? 0 : size < 16 * GUARDED_LEAST ? 1 : 2];
  if (rests(gate) || !enter(gate))
    return false;
  trial->gate = gate;
  trial->on = io_guard_on(&gate->guard);
  io_gate_leave(gate);
  /* What it costs to start a context is not what its calls cost. */
  if (trial->on)
    io_context_prepare(IO_FILE_CONTEXT);
  trial->began_ns = maru_now_ns();
  return trial->on;
}

static void count_trial(bool won) {
  struct maru_io_section *section = io_section();
  if (section == NULL)
    return;
  /* Relaxed: for people. */
  atomic_fetch_add_explicit(&section->trials, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&section->won, won, memory_order_relaxed);
}

/* Whether the call is to be made by a context. */
bool io_decide(struct trial *trial, uint32_t entry, size_t size) {
  if (!io_may_delegate())
    return false;
  return io_process.mode == MARU_IO_ALWAYS || guard_says(trial, entry, size);
}

void io_conclude(const struct trial *trial, ssize_t moved) {
  struct io_gate *gate = trial->gate;
  int saved = errno;
  uint64_t ns = (uint64_t)(maru_now_ns() - trial->began_ns);
  errno = saved;
  if (moved <= 0 || rests(gate) || !enter(gate))
    return;
  /* Another thread's call may have ended the slice meanwhile. */
  bool tried = gate->guard.trying;
  bool counts = io_guard_on(&gate->guard) == trial->on;
  uint64_t pause = counts ? io_guard_add(&gate->guard, (uint64_t)moved, ns) : 0;
  if (pause > 0)
    atomic_store_explicit(&gate->rests_until, coarse_ns() + pause, memory_order_relaxed);
  if (pause > 0 || (tried && !gate->guard.trying))
    count_trial(pause == 0);
  io_gate_leave(gate);
}

static bool elsewhere(enum io_context_class class, int fd, uint32_t entry, long number, long a,
                      long b, long c, long d, long e, long *result) {
  struct io_request request = {number, {fd, a, b, c, d, e}, fd, entry};
  int64_t patience = io_process.mode == MARU_IO_ALWAYS ? PATIENCE_NS : GUARDED_PATIENCE_NS;
  /* Not a socket any more, and nobody told us: the answer is that of the call as it was made. */
  return io_delegate(class, &request, patience, result) && *result != -ENOTSOCK;
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
