#define _GNU_SOURCE
#include "join.h"

#include "address.h"

#include <errno.h>
#include <maru/wait.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define MAGIC UINT32_C(0x334d5344) /* "DSM3" */
#define HELLO_SECONDS 2

/* Without padding: it is sent as it lies. */
struct hello {
  uint32_t magic;
  uint8_t secret[MR_SECRET];
  uint16_t node, nodes;
  uint32_t epoch, incarnation;
  uint64_t settings;
  char transport[MR_TRANSPORT_NAME];
  struct mr_card card;
};
_Static_assert(sizeof(struct hello) == 4 + MR_SECRET + 20 + MR_TRANSPORT_NAME + MR_CARD,
               "no padding");

/* Who joins, and whom it has met. */
struct meeting {
  const struct mr_job *job;
  const struct mr_card *card;
  int *fds;
  struct mr_card *cards;
  uint32_t *incarnations;
  int64_t deadline;
};

/* Takes as long whatever the other secret is. */
static bool same_secret(const uint8_t *left, const uint8_t *right) {
  volatile uint8_t differs = 0;
  for (int i = 0; i < MR_SECRET; i++)
    differs |= left[i] ^ right[i];
  return differs == 0;
}

/* Also of who sends a byte now and then we soon have enough. */
static bool exchange(int fd, void *bytes, size_t size, bool sending) {
  int64_t deadline = maru_now_ns() + HELLO_SECONDS * INT64_C(1000000000);
  for (size_t done = 0; done < size;) {
    ssize_t n = sending ? send(fd, (char *)bytes + done, size - done, MSG_NOSIGNAL)
                        : recv(fd, (char *)bytes + done, size - done, 0);
    if ((n <= 0 && !(n < 0 && errno == EINTR)) || maru_now_ns() > deadline)
      return false;
    done += n > 0 ? (size_t)n : 0;
  }
  return true;
}

static void tune(int fd) {
  int on = 1;
  int idle = 1, pause = 1, pauses = MR_LOST_MS / 1000 - 1;
  unsigned lost = MR_LOST_MS;
  struct timeval patience = {.tv_sec = HELLO_SECONDS};
  /* What a kernel refuses here costs time, not correctness. */
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost, sizeof lost);
  /* A host that is gone is missed even where nothing is on the way to it. */
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &pauses, sizeof pauses);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

static bool greet(int fd, const struct meeting *m) {
  const struct mr_job *job = m->job;
  struct hello mine = {.magic = MAGIC,
                       .node = job->me,
                       .nodes = job->nodes,
                       .epoch = job->epoch,
                       .incarnation = job->incarnation,
                       .settings = job->settings,
                       .card = *m->card};
  memcpy(mine.secret, job->secret, MR_SECRET);
  memcpy(mine.transport, job->transport, strlen(job->transport));
  return exchange(fd, &mine, sizeof mine, true);
}

static bool listen_to(int fd, const struct mr_job *job, struct hello *theirs) {
  return exchange(fd, theirs, sizeof *theirs, false) && theirs->magic == MAGIC &&
         same_secret(theirs->secret, job->secret) && theirs->nodes == job->nodes &&
         theirs->epoch == job->epoch && theirs->node < job->nodes;
}

/* The one who connects shows that it knows the secret before it is answered, and nods at the
 * answer: who came late finds connections in its queue that the other has given up. */
static bool meet(int fd, const struct meeting *m, bool connected, struct hello *theirs) {
  uint8_t nod = 1;
  return connected ? greet(fd, m) && listen_to(fd, m->job, theirs) && exchange(fd, &nod, 1, true)
                   : listen_to(fd, m->job, theirs) && greet(fd, m) && exchange(fd, &nod, 1, false);
}

/* Takes `fd`.  Both sides have heard of each other's settings, so both refuse. */
static int admit(struct meeting *m, int fd, const struct hello *theirs) {
  int rc = theirs->settings != m->job->settings                                    ? -EPROTO
           : strncmp(theirs->transport, m->job->transport, MR_TRANSPORT_NAME) != 0 ? -EPROTOTYPE
                                                                                   : 0;
  if (rc < 0) {
    close(fd);
    return rc;
  }
  m->fds[theirs->node] = fd;
  m->cards[theirs->node] = theirs->card;
  m->incarnations[theirs->node] = theirs->incarnation;
  return 0;
}

static int call(struct meeting *m, uint16_t node) {
  struct hello theirs;
  const struct sockaddr_storage *address = &m->job->addresses[node];
  socklen_t size = mr_address_size(address);
  int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -errno;
  tune(fd); /* a host that does not answer is no reason to wait beyond the deadline */
  if (connect(fd, (const struct sockaddr *)address, size) < 0 || !meet(fd, m, true, &theirs) ||
      theirs.node != node) {
    close(fd);
    return -ECONNREFUSED;
  }
  return admit(m, fd, &theirs);
}

static int answer(struct meeting *m) {
  int64_t left_ms = (m->deadline - maru_now_ns()) / 1000000;
  struct pollfd ready = {.fd = m->job->listener, .events = POLLIN};
  if (left_ms <= 0)
    return -ETIMEDOUT;
  if (poll(&ready, 1, (int)left_ms) <= 0)
    return 0;
  int fd = accept4(m->job->listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0)
    return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? 0 : -errno;
  struct hello theirs;
  tune(fd);
  if (!meet(fd, m, false, &theirs) || theirs.node <= m->job->me || m->fds[theirs.node] >= 0) {
    close(fd);
    return 0;
  }
  int rc = admit(m, fd, &theirs);
  return rc < 0 ? rc : 1;
}

static int call_until(struct meeting *m, uint16_t node) {
  int rc;
  while ((rc = call(m, node)) == -ECONNREFUSED) {
    if (maru_now_ns() >= m->deadline)
      return -ETIMEDOUT;
    poll(NULL, 0, 20);
  }
  return rc;
}

static int meet_all(struct meeting *m) {
  for (uint16_t node = 0; node < m->job->me; node++) {
    int rc = call_until(m, node);
    if (rc < 0)
      return rc;
  }
  for (int missing = m->job->nodes - m->job->me - 1; missing > 0;) {
    int rc = answer(m);
    if (rc < 0)
      return rc;
    missing -= rc;
  }
  return 0;
}

int mr_join(const struct mr_job *job, const struct mr_card *mine, int *fds, struct mr_card *cards,
            uint32_t *incarnations, int seconds) {
  struct meeting m = {job,   mine,         fds,
                      cards, incarnations, maru_now_ns() + seconds * INT64_C(1000000000)};
  for (uint16_t node = 0; node < job->nodes; node++)
    fds[node] = -1;
  incarnations[job->me] = job->incarnation;
  int rc = meet_all(&m);
  for (uint16_t node = 0; node < job->nodes && rc < 0; node++)
    if (fds[node] >= 0)
      close(fds[node]);
  return rc;
}
