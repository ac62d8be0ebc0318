#define _GNU_SOURCE
#include "transport.h"

#include "core.h"

#include <errno.h>
#include <maru/wait.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define MAGIC UINT32_C(0x314d5344) /* "DSM1" */
/* A farewell is a frame of no bytes. */
#define FRAME_MAX (UINT32_C(1) << 30)
#define LOST_MS 3000u
#define HELLO_SECONDS 2

struct buffer {
  uint8_t *bytes;
  size_t begin, end, capacity;
};

struct link {
  int fd; /* -1: down */
  struct buffer in, out;
};

struct mr_transport {
  uint16_t nodes, me;
  int wake; /* an eventfd: something was kept to be sent */
  /* Whether a peer has to be polled for room; read by the waiting thread. */
  _Atomic bool *kept;
  struct pollfd *polled;
  int64_t spin_ns;
  bool spins; /* the last wait was short enough for it */
  struct link links[];
};

/* Without padding: it is sent as it lies. */
struct hello {
  uint32_t magic;
  uint8_t secret[MR_SECRET];
  uint16_t node, nodes;
  uint32_t epoch, incarnation;
  uint64_t settings;
};
_Static_assert(sizeof(struct hello) == 4 + MR_SECRET + 20, "no padding");

/* ---- buffers ----------------------------------------------------------------- */

static int reserve(struct buffer *buffer, size_t size) {
  if (buffer->begin > 0 && buffer->capacity - buffer->end < size) {
    memmove(buffer->bytes, buffer->bytes + buffer->begin, buffer->end - buffer->begin);
    buffer->end -= buffer->begin;
    buffer->begin = 0;
  }
  if (buffer->capacity - buffer->end >= size)
    return 0;
  size_t capacity = buffer->capacity != 0 ? buffer->capacity : 16384;
  while (capacity - buffer->end < size)
    capacity *= 2;
  uint8_t *wider = realloc(buffer->bytes, capacity);
  if (wider == NULL)
    return -ENOMEM;
  buffer->bytes = wider;
  buffer->capacity = capacity;
  return 0;
}

static int append(struct buffer *buffer, const void *bytes, size_t size) {
  if (reserve(buffer, size) < 0)
    return -ENOMEM;
  memcpy(buffer->bytes + buffer->end, bytes, size);
  buffer->end += size;
  return 0;
}

/* ---- joining ------------------------------------------------------------------ */

/* Takes as long whatever the other secret is. */
static bool same_secret(const uint8_t *left, const uint8_t *right) {
  volatile uint8_t differs = 0;
  for (int i = 0; i < MR_SECRET; i++)
    differs |= left[i] ^ right[i];
  return differs == 0;
}

static bool exchange(int fd, void *bytes, size_t size, bool sending) {
  for (size_t done = 0; done < size;) {
    ssize_t n = sending ? send(fd, (char *)bytes + done, size - done, MSG_NOSIGNAL)
                        : recv(fd, (char *)bytes + done, size - done, 0);
    if (n <= 0 && !(n < 0 && errno == EINTR))
      return false;
    done += n > 0 ? (size_t)n : 0;
  }
  return true;
}

static void tune(int fd) {
  int on = 1;
  unsigned lost = LOST_MS;
  struct timeval patience = {.tv_sec = HELLO_SECONDS};
  /* What a kernel refuses here costs time, not correctness. */
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost, sizeof lost);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

static bool greet(int fd, const struct mr_job *job) {
  struct hello mine = {.magic = MAGIC,
                       .node = job->me,
                       .nodes = job->nodes,
                       .epoch = job->epoch,
                       .incarnation = job->incarnation,
                       .settings = job->settings};
  memcpy(mine.secret, job->secret, MR_SECRET);
  return exchange(fd, &mine, sizeof mine, true);
}

static bool listen_to(int fd, const struct mr_job *job, struct hello *theirs) {
  return exchange(fd, theirs, sizeof *theirs, false) && theirs->magic == MAGIC &&
         same_secret(theirs->secret, job->secret) && theirs->nodes == job->nodes &&
         theirs->epoch == job->epoch && theirs->node < job->nodes;
}

/* The one who connects shows that it knows the secret before it is answered. */
static bool meet(int fd, const struct mr_job *job, bool connected, struct hello *theirs) {
  tune(fd);
  return connected ? greet(fd, job) && listen_to(fd, job, theirs)
                   : listen_to(fd, job, theirs) && greet(fd, job);
}

/* Takes `fd`.  Both sides have heard of each other's settings, so both refuse. */
static int admit(struct mr_transport *t, const struct mr_job *job, int fd,
                 const struct hello *theirs, uint32_t *incarnations) {
  if (theirs->settings != job->settings) {
    close(fd);
    return -EPROTO;
  }
  t->links[theirs->node].fd = fd;
  incarnations[theirs->node] = theirs->incarnation;
  return 0;
}

static int call(struct mr_transport *t, const struct mr_job *job, uint16_t node,
                uint32_t *incarnations) {
  struct hello theirs;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -errno;
  const struct sockaddr *address = (const struct sockaddr *)&job->addresses[node];
  if (connect(fd, address, sizeof job->addresses[node]) < 0 || !meet(fd, job, true, &theirs) ||
      theirs.node != node) {
    close(fd);
    return -ECONNREFUSED;
  }
  return admit(t, job, fd, &theirs, incarnations);
}

static int answer(struct mr_transport *t, const struct mr_job *job, uint32_t *incarnations,
                  int64_t deadline) {
  int64_t left_ms = (deadline - maru_now_ns()) / 1000000;
  struct pollfd ready = {.fd = job->listener, .events = POLLIN};
  if (left_ms <= 0)
    return -ETIMEDOUT;
  if (poll(&ready, 1, (int)left_ms) <= 0)
    return 0;
  int fd = accept4(job->listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0)
    return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? 0 : -errno;
  struct hello theirs;
  if (!meet(fd, job, false, &theirs) || theirs.node <= job->me || t->links[theirs.node].fd >= 0) {
    close(fd);
    return 0;
  }
  int rc = admit(t, job, fd, &theirs, incarnations);
  return rc < 0 ? rc : 1;
}

static int call_until(struct mr_transport *t, const struct mr_job *job, uint16_t node,
                      uint32_t *incarnations, int64_t deadline) {
  int rc;
  while ((rc = call(t, job, node, incarnations)) == -ECONNREFUSED) {
    if (maru_now_ns() >= deadline)
      return -ETIMEDOUT;
    poll(NULL, 0, 20);
  }
  return rc;
}

static int connect_all(struct mr_transport *t, const struct mr_job *job, uint32_t *incarnations,
                       int64_t deadline) {
  for (uint16_t node = 0; node < job->me; node++) {
    int rc = call_until(t, job, node, incarnations, deadline);
    if (rc < 0)
      return rc;
  }
  for (int missing = job->nodes - job->me - 1; missing > 0;) {
    int rc = answer(t, job, incarnations, deadline);
    if (rc < 0)
      return rc;
    missing -= rc;
  }
  return 0;
}

int mr_transport_join(struct mr_transport **transport, const struct mr_job *job,
                      uint32_t *incarnations, int seconds) {
  struct mr_transport *t = calloc(1, sizeof *t + job->nodes * sizeof(struct link));
  if (t == NULL)
    return -ENOMEM;
  t->nodes = job->nodes;
  t->me = job->me;
  t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  t->kept = calloc(job->nodes, sizeof *t->kept);
  t->polled = calloc(job->nodes + 1u, sizeof *t->polled);
  for (uint16_t node = 0; node < job->nodes; node++)
    t->links[node].fd = -1;
  int rc = t->kept == NULL || t->polled == NULL ? -ENOMEM : t->wake < 0 ? -EMFILE : 0;
  incarnations[job->me] = job->incarnation;
  if (rc == 0)
    rc = connect_all(t, job, incarnations, maru_now_ns() + seconds * INT64_C(1000000000));
  if (job->listener >= 0)
    close(job->listener);
  if (rc < 0)
    mr_transport_close(t);
  else
    *transport = t;
  return rc;
}

void mr_transport_close(struct mr_transport *transport) {
  for (uint16_t node = 0; node < transport->nodes; node++) {
    if (transport->links[node].fd >= 0)
      close(transport->links[node].fd);
    free(transport->links[node].in.bytes);
    free(transport->links[node].out.bytes);
  }
  if (transport->wake >= 0)
    close(transport->wake);
  free(transport->kept);
  free(transport->polled);
  free(transport);
}

/* ---- sending -------------------------------------------------------------------- */

static void hang_up(struct mr_transport *t, uint16_t node) {
  /* Relaxed, here and below: a hint for the waiting thread, which is woken where it
   * matters and looks again. */
  atomic_store_explicit(&t->kept[node], false, memory_order_relaxed);
  close(t->links[node].fd);
  t->links[node].fd = -1;
}

/* Sends of `out` what the kernel takes now.  A broken connection shows when it
 * is read. */
static void drain(struct mr_transport *t, uint16_t node) {
  struct link *link = &t->links[node];
  struct buffer *out = &link->out;
  while (out->begin < out->end) {
    ssize_t n =
        send(link->fd, out->bytes + out->begin, out->end - out->begin, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno != EAGAIN)
      out->begin = out->end;
    if (n < 0)
      break;
    out->begin += (size_t)n;
  }
  if (out->begin == out->end)
    out->begin = out->end = 0;
  bool kept = out->end > 0;
  if (atomic_exchange_explicit(&t->kept[node], kept, memory_order_relaxed) != kept && kept)
    eventfd_write(t->wake, 1);
}

int mr_transport_send(struct mr_transport *transport, uint16_t to, const void *message,
                      size_t length) {
  struct link *link = &transport->links[to];
  uint32_t size = (uint32_t)length;
  if (length > FRAME_MAX)
    return -EMSGSIZE;
  if (link->fd < 0)
    return 0;
  if (append(&link->out, &size, sizeof size) < 0 || append(&link->out, message, length) < 0)
    return -ENOMEM;
  drain(transport, to);
  return 0;
}

int mr_transport_farewell(struct mr_transport *transport) {
  int rc = 0;
  for (uint16_t node = 0; node < transport->nodes; node++)
    if (mr_transport_send(transport, node, "", 0) < 0)
      rc = -ENOMEM;
  return rc;
}

/* ---- receiving -------------------------------------------------------------------- */

void mr_transport_spin(struct mr_transport *transport, int64_t ns) { transport->spin_ns = ns; }

/* Looks again and again for so long as the last wait makes hope; then sleeps. */
static void look(struct mr_transport *t) {
  int64_t begin = maru_now_ns(), deadline = begin + t->spin_ns;
  int found = 0;
  while (t->spins && found == 0 && maru_now_ns() < deadline) {
    found = poll(t->polled, t->nodes + 1u, 0);
    /* Whoever else wants this processor computes. */
    sched_yield();
  }
  if (found <= 0)
    poll(t->polled, t->nodes + 1u, -1);
  t->spins = maru_now_ns() < deadline;
}

void mr_transport_wait(struct mr_transport *transport) {
  uint16_t nodes = transport->nodes;
  for (uint16_t node = 0; node < nodes; node++) {
    bool kept = atomic_load_explicit(&transport->kept[node], memory_order_relaxed);
    transport->polled[node] = (struct pollfd){.fd = transport->links[node].fd,
                                              .events = (short)(POLLIN | (kept ? POLLOUT : 0))};
  }
  transport->polled[nodes] = (struct pollfd){.fd = transport->wake, .events = POLLIN};
  look(transport);
  eventfd_t unused;
  if (transport->polled[nodes].revents != 0)
    eventfd_read(transport->wake, &unused);
}

/* The whole frames at the buffer's front.  -EPIPE: a farewell; -EBADMSG. */
static int hand_out(struct link *link, uint16_t from, const struct mr_transport_sink *sink,
                    void *context) {
  struct buffer *in = &link->in;
  uint32_t size;
  while (in->end - in->begin >= sizeof size) {
    memcpy(&size, in->bytes + in->begin, sizeof size);
    if (size == 0)
      return -EPIPE;
    if (size > FRAME_MAX)
      return -EBADMSG;
    if (in->end - in->begin < sizeof size + size)
      break;
    in->begin += sizeof size;
    sink->message(context, from, in->bytes + in->begin, size);
    in->begin += size;
  }
  return 0;
}

static int receive(struct mr_transport *t, uint16_t node, const struct mr_transport_sink *sink,
                   void *context) {
  struct link *link = &t->links[node];
  if (reserve(&link->in, 16384) < 0)
    return -ENOMEM;
  struct buffer *in = &link->in;
  ssize_t n = recv(link->fd, in->bytes + in->end, in->capacity - in->end, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return 0;
  int rc = -ECONNRESET;
  if (n > 0) {
    in->end += (size_t)n;
    rc = hand_out(link, node, sink, context);
  }
  if (rc < 0) {
    drain(t, node);
    hang_up(t, node);
    sink->down(context, node, rc == -EPIPE);
  }
  return 0;
}

int mr_transport_serve(struct mr_transport *transport, const struct mr_transport_sink *sink,
                       void *context) {
  for (uint16_t node = 0; node < transport->nodes; node++) {
    if (transport->links[node].fd < 0)
      continue;
    drain(transport, node);
    if (receive(transport, node, sink, context) < 0)
      return -ENOMEM;
  }
  return 0;
}
