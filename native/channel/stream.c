#define _GNU_SOURCE
#include "stream.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define LENGTH_MAX (UINT64_C(1) << 47) /* as a log's */
#define KIND_MAX 32767u

/* Records are padded to whole headers, so that every chunk is aligned for any
 * value when the buffer is. */
struct header {
  uint64_t length;
  uint64_t index;
  uint64_t kind;
  uint64_t reserved;
};

/* No sender says anything else.  The lengths that are left can be added to without overflow. */
static int check(const struct header *h) {
  return h->length <= LENGTH_MAX && h->kind <= KIND_MAX && h->reserved == 0 ? 0 : -EBADMSG;
}

static size_t padded(uint64_t length) {
  return (length + sizeof(struct header) - 1) & ~(sizeof(struct header) - 1);
}

int maru_stream_pair(int ends[2]) {
  return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) ? -errno : 0;
}

/* Takes `sent` bytes off the front of the message. */
static void advance(struct msghdr *message, size_t sent) {
  while (message->msg_iovlen && sent >= message->msg_iov->iov_len) {
    sent -= message->msg_iov->iov_len;
    message->msg_iov++;
    message->msg_iovlen--;
  }
  if (message->msg_iovlen) {
    message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + sent;
    message->msg_iov->iov_len -= sent;
  }
}

static int send_all(int fd, struct iovec *parts, size_t count) {
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
  while (message.msg_iovlen) {
    ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (n >= 0)
      advance(&message, (size_t)n);
    else if (errno != EINTR)
      return -errno;
  }
  return 0;
}

static const char zeros[sizeof(struct header)];

static bool fits(uint64_t length, uint32_t kind) {
  return length <= LENGTH_MAX && kind <= KIND_MAX;
}

int maru_stream_send(int fd, uint64_t index, uint32_t kind, const void *chunk, uint64_t length) {
  if (!fits(length, kind))
    return -EINVAL;
  struct header h = {length, index, kind, 0};
  struct iovec parts[3] = {{&h, sizeof h},
                           {(void *)(uintptr_t)chunk, length},
                           {(void *)(uintptr_t)zeros, padded(length) - length}};
  return send_all(fd, parts, 3);
}

int maru_stream_send_away(int fd, uint64_t index, uint32_t kind, char *chunk, uint64_t length) {
  enum { STEP = 1 << 20 };
  if (!fits(length, kind))
    return -EINVAL;
  struct header h = {length, index, kind, 0};
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t given = ((uintptr_t)chunk + page - 1) & ~(page - 1);
  int r = send_all(fd, &(struct iovec){&h, sizeof h}, 1);
  for (uint64_t done = 0; r == 0 && done < length;) {
    size_t n = length - done < STEP ? length - done : STEP;
    r = send_all(fd, &(struct iovec){chunk + done, n}, 1);
    done += n;
    uintptr_t end = ((uintptr_t)chunk + done) & ~(page - 1);
    if (end > given && madvise((void *)given, end - given, MADV_DONTNEED) == 0)
      given = end;
  }
  if (r == 0 && padded(length) > length)
    r = send_all(fd, &(struct iovec){(void *)(uintptr_t)zeros, padded(length) - length}, 1);
  return r;
}

static int receive_all(int fd, void *to, size_t length) {
  ssize_t n;
  do
    n = recv(fd, to, length, MSG_WAITALL);
  while (n < 0 && errno == EINTR);
  if (n < 0)
    return -errno;
  return (size_t)n == length ? 0 : -EPIPE;
}

int maru_stream_receive(int fd, uint64_t *index, uint32_t *kind, void *chunk, uint64_t length,
                        int timeout_ms) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  int ready = poll(&p, 1, timeout_ms);
  if (ready <= 0)
    return ready < 0 && errno != EINTR ? -errno : 0;
  struct header h;
  int r = receive_all(fd, &h, sizeof h);
  if (r < 0)
    return r;
  if (h.length != length || check(&h) < 0)
    return -EBADMSG;
  *index = h.index;
  *kind = (uint32_t)h.kind;
  char pad[sizeof h];
  r = receive_all(fd, chunk, length);
  if (r == 0 && padded(length) > length)
    r = receive_all(fd, pad, padded(length) - length);
  return r < 0 ? r : 1;
}

/* The reader keeps what it has read of the next record; read parts of records
 * lie at [start, end) of the buffer. */
struct maru_stream_reader {
  int fd;
  int closed;
  size_t start, end, capacity;
  char *buffer;
};

struct maru_stream_reader *maru_stream_reader_new(int fd) {
  struct maru_stream_reader *r = calloc(1, sizeof *r);
  if (r)
    r->fd = fd;
  return r;
}

void maru_stream_reader_free(struct maru_stream_reader *r) {
  if (r)
    free(r->buffer);
  free(r);
}

/* The record that starts the buffer, if it is whole: 1.  -EBADMSG. */
static int stream_take(struct maru_stream_reader *r, struct maru_record *record, size_t *wanted) {
  size_t have = r->end - r->start;
  struct header h;
  *wanted = sizeof h;
  if (have < sizeof h)
    return 0;
  memcpy(&h, r->buffer + r->start, sizeof h);
  int rc = check(&h);
  if (rc < 0)
    return rc;
  *wanted = sizeof h + padded(h.length);
  if (have < *wanted)
    return 0;
  *record =
      (struct maru_record){r->buffer + r->start + sizeof h, h.length, h.index, (uint32_t)h.kind};
  r->start += *wanted;
  return 1;
}

/* Room for `wanted` bytes from start on, and some for what follows. */
static int make_room(struct maru_stream_reader *r, size_t wanted) {
  if (r->start > 0) {
    memmove(r->buffer, r->buffer + r->start, r->end - r->start);
    r->end -= r->start;
    r->start = 0;
  }
  size_t capacity = wanted + 65536;
  if (capacity <= r->capacity)
    return 0;
  char *grown = realloc(r->buffer, capacity);
  if (!grown)
    return -ENOMEM;
  r->buffer = grown;
  r->capacity = capacity;
  return 0;
}

int maru_stream_reader_next(struct maru_stream_reader *r, struct maru_record *record) {
  size_t wanted;
  int rc;
  while ((rc = stream_take(r, record, &wanted)) == 0) {
    if (r->closed)
      return -EPIPE;
    int error = make_room(r, wanted);
    if (error)
      return error;
    ssize_t n = recv(r->fd, r->buffer + r->end, r->capacity - r->end, MSG_DONTWAIT);
    if (n > 0)
      r->end += (size_t)n;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
      r->closed = 1; /* a reset is how a killed peer may look */
    else if (errno == EAGAIN)
      return 0;
  }
  return rc;
}

int maru_stream_wait(const int *fds, unsigned count, int timeout_ms) {
  struct pollfd polled[count ? count : 1];
  for (unsigned i = 0; i < count; i++)
    polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
  return poll(polled, count, timeout_ms) < 0 ? -errno : 0;
}
