#define _GNU_SOURCE
#include "join.h"

#include "address.h"
#include "alive.h"

#include <errno.h>
#include <fcntl.h>
#include <maru/wait.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define AGAIN_MS 20 /* from one call of a node to the next */
/* A listener's kernel answers at once, or its queue is full of strangers. Then another call
 * comes sooner than the kernel's own repeats, which are ever rarer. */
#define CONNECT_MS 500
/* A stranger that came less long ago may not have had time to speak: then others wait in the
 * kernel's queue. */
#define YOUNG_MS 20
#define ACCEPTS 64 /* at a time: those who have spoken are heard in between */

/* What a call of a node came to, where that is no errno. */
enum { SILENT = 0, HUNG_UP = -1, FOREIGN = -2, UNPROVED = -3 };

/* One connection, while it is not known to be a node's. */
struct guest {
  int fd; /* -1: none */
  bool connecting;
  int64_t since; /* it came, or it was called; a call that is not made: when it is to be */
  int came_to;   /* of a call, as of the last one: an errno, or one of the above */
  struct mr_handshake handshake;
};

/* The node that joins, and those that it has met. */
struct meeting {
  const struct mr_job *job;
  const struct mr_card *card;
  int *fds;
  struct mr_card *cards;
  uint32_t *incarnations;
  int64_t now, deadline;
  unsigned missing;    /* nodes */
  unsigned callers;    /* of them those that call this one */
  unsigned held, room; /* guests, the first of `guests`; so many at most */
  bool full;           /* of strangers who came just now */
  struct guest *calls; /* one for each node that is called */
  struct guest *guests;
  struct pollfd *polled;
};

static bool calls(const struct mr_job *job, uint16_t node) {
  return job->again ? node == job->lost && job->me != job->lost : node < job->me;
}

/* ---- one connection ----------------------------------------------------------- */

static void drop(struct guest *g) {
  close(g->fd);
  g->fd = -1;
}

static int tune(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* a refusal costs time alone */
  mr_alive_tune(fd);
  return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* The other side's silence is not yet its end. */
static bool is_passing(void) { return errno == EAGAIN || errno == EINTR; }

static bool send_out(struct guest *g) {
  struct mr_handshake *h = &g->handshake;
  ssize_t n = h->left > 0 ? send(g->fd, h->out, h->left, MSG_NOSIGNAL) : 0;
  if (n < 0)
    return is_passing();
  mr_handshake_sent(h, (size_t)n);
  return true;
}

/* No byte more than it wants: what follows the handshake is the job's. */
static bool take_in(struct guest *g) {
  uint8_t bytes[sizeof(struct mr_introduction)];
  for (size_t wants; (wants = mr_handshake_wants(&g->handshake)) > 0;) {
    bool opens = g->handshake.stage == MR_OPENING;
    ssize_t n = recv(g->fd, bytes, wants, 0);
    if (n < 0 && is_passing())
      return true;
    if (n <= 0) {
      g->came_to = n < 0 ? errno : HUNG_UP;
      return false;
    }
    mr_handshake_hear(&g->handshake, bytes, (size_t)n);
    if (g->handshake.stage == MR_STRANGER)
      g->came_to = opens ? FOREIGN : UNPROVED;
  }
  return g->handshake.stage != MR_STRANGER;
}

static bool is_through(struct guest *g) {
  int error = 0;
  socklen_t size = sizeof error;
  g->connecting = false;
  if (getsockopt(g->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
    error = errno;
  if (error != 0 || g->came_to > 0)
    g->came_to = error;
  return error == 0;
}

/* False: it is nobody's, or has ended. */
static bool go_on(struct guest *g) {
  return (!g->connecting || is_through(g)) && take_in(g) && send_out(g);
}

static bool has_met(const struct guest *g) {
  return g->handshake.stage == MR_MET && g->handshake.left == 0;
}

/* It has proved that it knows the secret: only its end ends it (handshake.h). */
static bool is_stranger(const struct guest *g) { return g->handshake.stage < MR_NOD; }

static bool is_overdue(const struct meeting *m, const struct guest *g) {
  int64_t most = g->connecting ? CONNECT_MS : MR_STRANGER_MS;
  return is_stranger(g) && m->now - g->since > most * MS;
}

/* Takes the connection.  Both sides have heard of each other's settings, so both refuse. */
static int admit(struct meeting *m, struct guest *g) {
  const struct mr_introduction *other = &g->handshake.other;
  int rc = other->settings != m->job->settings                                    ? -EPROTO
           : strncmp(other->transport, m->job->transport, MR_TRANSPORT_NAME) != 0 ? -EPROTOTYPE
                                                                                  : 0;
  if (rc < 0 || m->fds[other->from] >= 0) {
    drop(g);
    return rc;
  }
  m->fds[other->from] = g->fd;
  m->cards[other->from] = other->card;
  m->incarnations[other->from] = other->incarnation;
  m->missing--;
  m->callers -= mr_is_called_by(m->job, other->from);
  g->fd = -1;
  return 0;
}

static int join_begin(struct meeting *m, struct guest *g, enum mr_role role, uint16_t to) {
  uint8_t nonce[MR_NONCE];
  if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
    return -EIO;
  mr_handshake_begin(&g->handshake, m->job, m->card, role, to, nonce);
  g->since = m->now;
  return 0;
}

/* ---- strangers ---------------------------------------------------------------- */

static struct guest *oldest_stranger(struct meeting *m) {
  struct guest *oldest = NULL;
  for (unsigned i = 0; i < m->held; i++) {
    struct guest *g = &m->guests[i];
    if (g->fd >= 0 && is_stranger(g) && (oldest == NULL || g->since < oldest->since))
      oldest = g;
  }
  return oldest;
}

static void close_gaps(struct meeting *m) {
  unsigned kept = 0;
  for (unsigned i = 0; i < m->held; i++)
    if (m->guests[i].fd >= 0)
      m->guests[kept++] = m->guests[i];
  m->held = kept;
}

/* Where there are too many descriptors, a stranger's is to be had. */
static int give_up_stranger(struct meeting *m, int error) {
  struct guest *oldest = oldest_stranger(m);
  if (oldest == NULL)
    return -error;
  drop(oldest);
  close_gaps(m);
  return 0;
}

/* ---- calling -------------------------------------------------------------------- */

static int call(struct meeting *m, uint16_t node) {
  struct guest *g = &m->calls[node];
  const struct sockaddr_storage *address = &m->job->addresses[node];
  g->fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (g->fd < 0)
    return give_up_stranger(m, errno);
  int rc = tune(g->fd);
  if (rc == 0)
    rc = join_begin(m, g, MR_CALLER, node);
  if (rc < 0)
    return rc;
  g->connecting = true;
  if (connect(g->fd, (const struct sockaddr *)address, mr_address_size(address)) < 0 &&
      errno != EINPROGRESS) {
    g->came_to = errno;
    drop(g);
  }
  return 0;
}

/* Those that are due. */
static int call_all(struct meeting *m) {
  int rc = 0;
  for (uint16_t node = 0; node < m->job->nodes && rc == 0; node++) {
    const struct guest *g = &m->calls[node];
    if (calls(m->job, node) && m->fds[node] < 0 && g->fd < 0 && m->now - g->since >= AGAIN_MS * MS)
      rc = call(m, node);
  }
  return rc;
}

/* A call that did not come to a node is made again. */
static int serve_calls(struct meeting *m, const struct pollfd *polled) {
  int rc = 0;
  for (uint16_t node = 0; node < m->job->nodes && rc == 0; node++) {
    struct guest *g = &m->calls[node];
    if (g->fd < 0)
      continue;
    bool late = is_overdue(m, g), good = !late && (polled[node].revents == 0 || go_on(g));
    /* The kernel knows why only after some of our calls. */
    if (late && g->connecting && g->came_to != EHOSTUNREACH)
      g->came_to = ETIMEDOUT;
    if (good && has_met(g))
      rc = admit(m, g);
    else if (!good) {
      drop(g);
      g->since = m->now;
    }
  }
  return rc;
}

/* ---- listening ------------------------------------------------------------------ */

static int serve_guests(struct meeting *m, const struct pollfd *polled) {
  int rc = 0;
  for (unsigned i = 0; i < m->held && rc == 0; i++) {
    struct guest *g = &m->guests[i];
    bool good = !is_overdue(m, g) && (polled[i].revents == 0 || go_on(g));
    if (!good)
      drop(g);
    else if (has_met(g))
      rc = admit(m, g);
  }
  close_gaps(m);
  return rc;
}

/* Room for one more guest, the oldest stranger's if there is none else.  False: they are all
 * young, or no strangers. */
static bool make_room(struct meeting *m) {
  unsigned strangers = 0;
  for (unsigned i = 0; i < m->held; i++)
    strangers += is_stranger(&m->guests[i]);
  if (strangers < MR_STRANGERS && m->held < m->room)
    return true;
  struct guest *oldest = oldest_stranger(m);
  if (oldest == NULL || m->now - oldest->since < YOUNG_MS * MS)
    return false;
  drop(oldest);
  close_gaps(m);
  return true;
}

static int take_guests(struct meeting *m) {
  int rc = 0;
  for (int i = 0; i < ACCEPTS && rc == 0; i++) {
    m->full = !make_room(m);
    if (m->full)
      return 0;
    struct guest *g = &m->guests[m->held];
    g->fd = accept4(m->job->listener, NULL, NULL, SOCK_CLOEXEC);
    if (g->fd < 0 && (is_passing() || errno == ECONNABORTED))
      return 0;
    /* Of what is scarce a stranger gives back; other errors are the caller's alone. */
    if (g->fd < 0 && errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
      return 0;
    if (g->fd < 0) {
      rc = give_up_stranger(m, errno);
      continue;
    }
    m->held++;
    g->connecting = false;
    rc = tune(g->fd);
    if (rc == 0)
      rc = join_begin(m, g, MR_LISTENER, 0);
  }
  return rc;
}

/* ---- all at once -------------------------------------------------------------------- */

static struct pollfd wish(const struct guest *g) {
  bool sends = g->connecting || g->handshake.left > 0;
  return (struct pollfd){.fd = g->fd, .events = (short)(POLLIN | (sends ? POLLOUT : 0))};
}

static nfds_t set_polled(struct meeting *m) {
  nfds_t count = 0;
  bool listens = m->callers > 0 && !m->full;
  m->polled[count++] = (struct pollfd){.fd = listens ? m->job->listener : -1, .events = POLLIN};
  for (uint16_t node = 0; node < m->job->nodes; node++)
    m->polled[count++] = wish(&m->calls[node]);
  for (unsigned i = 0; i < m->held; i++)
    m->polled[count++] = wish(&m->guests[i]);
  return count;
}

/* Until a call is due, or somebody's patience may end. */
static int look(struct meeting *m) {
  int64_t left_ms = (m->deadline - m->now) / MS;
  int most = m->missing > m->callers || m->full ? AGAIN_MS : 10 * AGAIN_MS;
  nfds_t count = set_polled(m);
  int ready = poll(m->polled, count, left_ms < most ? (int)left_ms + 1 : most);
  m->now = maru_now_ns();
  for (nfds_t i = 0; i < count && ready <= 0; i++)
    m->polled[i].revents = 0;
  bool came = m->polled[0].revents != 0;
  int rc = serve_calls(m, m->polled + 1);
  if (rc == 0)
    rc = serve_guests(m, m->polled + 1 + m->job->nodes);
  if (rc == 0 && (came || m->full))
    rc = take_guests(m);
  return rc;
}

static int meet_all(struct meeting *m) {
  int rc = 0;
  while (rc == 0 && m->missing > 0) {
    rc = m->now >= m->deadline ? -ETIMEDOUT : call_all(m);
    if (rc == 0)
      rc = look(m);
  }
  return rc;
}

/* ---- the missing node ----------------------------------------------------------------- */

static const char *name_outcome(int came_to) {
  switch (came_to) {
  case SILENT:
    return "it does not answer";
  case HUNG_UP:
    return "it hung up";
  case FOREIGN:
    return "what answers there is no node of this version";
  case UNPROVED:
    return "what answers there is no node of this job";
  default:
    return strerror(came_to);
  }
}

/* One that was called, if any: of that more is known. */
static void tell_missing(const struct meeting *m) {
  const struct mr_job *job = m->job;
  char at[MR_ADDRESS_TEXT];
  bool known = false;
  for (uint16_t node = 0; node < job->nodes && !known; node++) {
    known = calls(job, node) && m->fds[node] < 0;
    if (known) {
      mr_address_write(&job->addresses[node], mr_address_port(&job->addresses[node]), at);
      snprintf(job->missing, MR_MISSING, "node %u at %s: %s", node, at,
               name_outcome(m->calls[node].came_to));
    }
  }
  for (uint16_t node = 0; node < job->nodes && !known; node++) {
    known = mr_is_called_by(job, node) && m->fds[node] < 0;
    if (known)
      snprintf(job->missing, MR_MISSING, "node %u has not called", node);
  }
}

static void close_rest(struct meeting *m, int rc) {
  for (uint16_t node = 0; node < m->job->nodes; node++)
    if (m->calls[node].fd >= 0)
      drop(&m->calls[node]);
  for (unsigned i = 0; i < m->held; i++)
    if (m->guests[i].fd >= 0)
      drop(&m->guests[i]);
  for (uint16_t node = 0; node < m->job->nodes && rc < 0; node++)
    if (m->fds[node] >= 0)
      close(m->fds[node]);
}

static int join(struct meeting *m, int seconds) {
  const struct mr_job *job = m->job;
  for (uint16_t node = 0; node < job->nodes; node++) {
    m->fds[node] = m->calls[node].fd = -1;
    m->callers += mr_is_called_by(job, node);
    m->missing += mr_is_called_by(job, node) || calls(job, node);
  }
  m->incarnations[job->me] = job->incarnation;
  m->now = maru_now_ns();
  m->deadline = m->now + seconds * INT64_C(1000000000);
  bool listens = m->callers > 0;
  int rc = listens && fcntl(job->listener, F_SETFL, O_NONBLOCK) < 0 ? -errno : meet_all(m);
  if (rc == -ETIMEDOUT && job->missing != NULL)
    tell_missing(m);
  close_rest(m, rc);
  return rc;
}

int mr_join(const struct mr_job *job, const struct mr_card *mine, int *fds, struct mr_card *cards,
            uint32_t *incarnations, int seconds) {
  struct meeting m = {.job = job,
                      .card = mine,
                      .fds = fds,
                      .cards = cards,
                      .incarnations = incarnations,
                      .room = MR_STRANGERS + job->nodes,
                      .calls = calloc(job->nodes, sizeof *m.calls),
                      .guests = calloc(MR_STRANGERS + job->nodes, sizeof *m.guests),
                      .polled =
                          calloc(1u + job->nodes + MR_STRANGERS + job->nodes, sizeof *m.polled)};
  bool room = m.calls != NULL && m.guests != NULL && m.polled != NULL;
  int rc = room ? join(&m, seconds) : -ENOMEM;
  free(m.calls);
  free(m.guests);
  free(m.polled);
  return rc;
}
