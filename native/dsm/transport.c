/* transport.c: messages between the nodes of a job, over the links of one fabric.
 *
 * Over 500 lines: the state of a peer, what is written to it and what is read from it change
 * together. The parts that stand alone are alive.c, buffer.c, join.c and the fabrics.
 */
#define _GNU_SOURCE
#include "transport.h"

#include "alive.h"
#include "buffer.h"
#include "fabric.h"
#include "join.h"
#include "link.h"
#include "near.h"

#include <errno.h>
#include <maru/wait.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

/* A farewell is a frame of no bytes. A beat is one of this length and has none either: a node
 * that may be lost by its silence says so that it is there. */
#define BEAT UINT32_MAX
#define MESSAGE_MAX (UINT32_C(1) << 30)
#define FRAME_MAX (MESSAGE_MAX + (uint32_t)sizeof(int64_t))
#define EVENTS 16
#define SECOND INT64_C(1000000000)
/* From one look at what is unanswered, or at who is silent, to the next. */
#define LOOK_NS (SECOND / 4)
#define LOOKS 4 /* at least, until somebody is silent for too long */
/* To so few it is as quick to ask each connection as to ask which have something. */
#define FEW 2u
/* With a fabric connections tell of deaths alone, so they are asked seldom: after 16 looks at
 * which nothing came, or a thousand pieces of messages. */
#define SELDOM 1024
#define QUIET (SELDOM / 16)
/* Of what is ready: no connection. */
#define FABRIC UINT32_MAX
#define NEAR (UINT32_MAX - 1)
/* Bytes: of fewer the kernel tells nobody on a link that is hushed. Of more it does, and wakes the
 * server for nothing. */
#define HUSHED (1 << 15)
#define SHM "shm"

struct link {
  int fd;    /* -1: down */
  bool near; /* messages go through shared memory */
  bool kept; /* bytes wait for room */
  bool was_silent;
  struct mr_buffer in, out;
  struct mr_alive alive;
  int64_t heard; /* by looks.awake; before its first word, how long it may take for that */
};

struct mr_transport {
  uint16_t nodes, me;
  uint16_t up;              /* links that are not down */
  int ready;                /* an epoll of all links, and of the fabric's descriptors */
  uint16_t carrying;        /* of those, with messages */
  bool all_near;            /* from the start: no link, and no fabric, carries any */
  struct mr_near *near;     /* NULL: nobody is near */
  struct mr_fabric *fabric; /* NULL: messages go over the links */
  int busy;                 /* while no link carries any, since the last look at them; of SELDOM */
  struct mr_link *slow;     /* NULL: as fast as the network is */
  struct mr_looks looks;
  _Atomic int64_t look_at; /* when the next is due */
  int64_t silent;          /* so long may a peer be; 0: for ever */
  bool left;               /* it has said farewell */
  bool hushed;             /* a message on a link does not make it readable for the kernel */
  struct link links[];
};

static void hush(struct mr_transport *t, bool on);
static bool carries(const struct mr_transport *t, uint16_t node);

/* ---- life ---------------------------------------------------------------------- */

static int watch_links(struct mr_transport *t, const int *fds) {
  for (uint16_t node = 0; node < t->nodes; node++) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = node};
    t->links[node].fd = fds[node];
    if (fds[node] >= 0 && epoll_ctl(t->ready, EPOLL_CTL_ADD, fds[node], &event) < 0)
      return -errno;
  }
  t->up = (uint16_t)(t->nodes - 1);
  t->carrying = t->fabric == NULL ? t->up : 0;
  return 0;
}

/* "tcp" or "ofi:PROVIDER" of a transport's name; "": shared memory alone. */
static const char *beyond(const char *name) {
  size_t size = sizeof SHM - 1;
  return strncmp(name, SHM "+", size + 1) == 0 ? name + size + 1
         : strcmp(name, SHM) == 0              ? ""
                                               : name;
}

static int watch_near(struct mr_transport *t, bool alone, char *why, size_t size) {
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = NEAR};
  for (uint16_t node = 0; node < t->nodes; node++) {
    struct link *link = &t->links[node];
    if (link->fd < 0)
      continue;
    link->near = mr_near_has(t->near, node);
    t->carrying -= link->near && t->fabric == NULL;
    /* One that has ended is heard of on its link. */
    if (!alone || link->near || mr_near_ended(t->near, node))
      continue;
    if (*why == 0)
      snprintf(why, size,
               "no shared memory with node %u: it is not on this host, or in other "
               "namespaces",
               node);
    return -ENODATA;
  }
  t->all_near = t->fabric == NULL && t->carrying == 0;
  int rc = epoll_ctl(t->ready, EPOLL_CTL_ADD, mr_near_descriptor(t->near), &event);
  return rc < 0 ? -errno : 0;
}

static int watch_fabric(struct mr_transport *t) {
  int fds[MR_FABRIC_FDS];
  int count = mr_fabric_descriptors(t->fabric, fds);
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = FABRIC};
  for (int i = 0; i < count; i++)
    if (epoll_ctl(t->ready, EPOLL_CTL_ADD, fds[i], &event) < 0)
      return -errno;
  return 0;
}

static struct mr_transport *create(const struct mr_job *job) {
  struct mr_transport *t = calloc(1, sizeof *t + job->nodes * sizeof(struct link));
  if (t == NULL)
    return NULL;
  t->nodes = job->nodes;
  t->me = job->me;
  t->silent = job->lost_after * SECOND;
  t->looks.pause = t->silent != 0 && t->silent / LOOKS < LOOK_NS ? t->silent / LOOKS : LOOK_NS;
  t->ready = epoll_create1(EPOLL_CLOEXEC);
  for (uint16_t node = 0; node < t->nodes; node++)
    t->links[node].fd = -1;
  return t;
}

/* Until its first word a peer may take as long as for its join beside what it may be silent.
 * Where it maps its memory, say, its start is slower than ours. */
static void await_first_words(struct mr_transport *t, int seconds) {
  for (uint16_t node = 0; node < t->nodes; node++)
    t->links[node].heard = seconds * SECOND;
}

/* Meets the others and knows what they say of themselves. */
static int join(struct mr_transport *t, const struct mr_job *job, uint32_t *incarnations,
                int seconds, char *why, size_t size) {
  const char *rest = beyond(job->transport), *provider = mr_fabric_provider(rest);
  struct mr_card mine = {.near = {0}};
  int *fds = calloc(job->nodes, sizeof *fds);
  struct mr_card *cards = calloc(job->nodes, sizeof *cards);
  int rc = fds == NULL || cards == NULL ? -ENOMEM : t->ready < 0 ? -EMFILE : 0;
  if (rc == 0 && provider != NULL)
    rc = mr_fabric_open(&t->fabric, provider, job, &mine, why, size);
  if (rc == 0 && rest != job->transport)
    rc = mr_near_open(&t->near, job, &mine);
  if (rc == 0)
    rc = mr_join(job, &mine, fds, cards, incarnations, seconds);
  if (rc == 0)
    rc = watch_links(t, fds);
  await_first_words(t, seconds);
  int64_t deadline = maru_now_ns() + seconds * SECOND;
  if (rc == 0 && t->near != NULL)
    rc = mr_near_connect(t->near, cards, fds, deadline, why, size);
  if (rc == 0 && t->near != NULL)
    rc = watch_near(t, *rest == 0, why, size);
  if (rc == 0 && t->fabric != NULL)
    rc = mr_fabric_connect(t->fabric, cards, deadline, why, size);
  if (rc == 0 && t->fabric != NULL)
    rc = watch_fabric(t);
  free(fds);
  free(cards);
  return rc;
}

int mr_transport_join(struct mr_transport **transport, const struct mr_job *job,
                      uint32_t *incarnations, int seconds, char *why, size_t size) {
  struct mr_transport *t = create(job);
  *why = 0;
  int rc = t == NULL ? -ENOMEM : join(t, job, incarnations, seconds, why, size);
  if (job->listener >= 0)
    close(job->listener);
  if (rc == 0)
    *transport = t;
  else if (t != NULL)
    mr_transport_close(t);
  return rc;
}

static void take_link(struct mr_transport *t, uint16_t node, int fd, int seconds) {
  struct link *link = &t->links[node];
  link->fd = fd;
  link->kept = link->was_silent = false;
  link->in.begin = link->in.end = link->out.begin = link->out.end = 0;
  link->alive = (struct mr_alive){0};
  link->heard = t->looks.awake + seconds * SECOND;
  t->up++;
}

/* As near as the one before was: who glances at memory alone would not hear of anything else, and
 * what is read is chosen once. */
static int meet_again(struct mr_transport *t, const struct mr_job *job, struct mr_card *cards,
                      int *fds, int seconds, char *why, size_t size) {
  uint32_t *incarnations = calloc(t->nodes, sizeof *incarnations);
  struct link *link = &t->links[job->lost];
  struct mr_card mine = {.near = {0}};
  int64_t deadline = maru_now_ns() + seconds * SECOND;
  bool near = link->near;
  int rc = incarnations != NULL ? 0 : -ENOMEM;
  if (t->near != NULL)
    mr_near_renew(t->near, job->lost, &mine);
  if (rc == 0)
    rc = mr_join(job, &mine, fds, cards, incarnations, seconds);
  free(incarnations);
  if (rc == 0 && t->near != NULL)
    rc = mr_near_connect(t->near, cards, fds, deadline, why, size);
  if (rc == 0 && near != (t->near != NULL && mr_near_has(t->near, job->lost))) {
    rc = -ENODATA;
    if (*why == 0)
      snprintf(why, size, near ? "it has ended" : "it shares memory with this node, and did not");
  }
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = job->lost};
  if (rc == 0 && epoll_ctl(t->ready, EPOLL_CTL_ADD, fds[job->lost], &event) < 0)
    rc = -errno;
  return rc;
}

int mr_transport_rejoin(struct mr_transport *transport, const struct mr_job *job, int seconds,
                        char *why, size_t size) {
  int *fds = calloc(transport->nodes, sizeof *fds);
  struct mr_card *cards = calloc(transport->nodes, sizeof *cards);
  int rc = transport->fabric != NULL ? -ENOTSUP : fds == NULL || cards == NULL ? -ENOMEM : 0;
  *why = 0;
  hush(transport, false);
  if (rc == 0)
    rc = meet_again(transport, job, cards, fds, seconds, why, size);
  if (rc == 0) {
    take_link(transport, job->lost, fds[job->lost], seconds);
    transport->carrying += carries(transport, job->lost);
  } else if (fds != NULL && rc != -ENOTSUP && fds[job->lost] > 0) {
    close(fds[job->lost]);
  }
  free(fds);
  free(cards);
  return rc;
}

bool mr_transport_was_silent(const struct mr_transport *transport, uint16_t node) {
  return transport->links[node].was_silent;
}

unsigned mr_transport_link_descriptors(const struct mr_transport *transport, uint16_t node,
                                       int fds[MR_LINK_FDS]) {
  fds[0] = transport->links[node].fd;
  fds[1] = transport->near != NULL ? mr_near_bell(transport->near, node) : -1;
  return (fds[0] >= 0) + (fds[0] >= 0 && fds[1] >= 0);
}

void mr_transport_close(struct mr_transport *transport) {
  if (transport->fabric != NULL)
    mr_fabric_close(transport->fabric);
  if (transport->near != NULL)
    mr_near_close(transport->near);
  for (uint16_t node = 0; node < transport->nodes; node++) {
    if (transport->links[node].fd >= 0)
      close(transport->links[node].fd);
    free(transport->links[node].in.bytes);
    free(transport->links[node].out.bytes);
  }
  if (transport->ready >= 0)
    close(transport->ready);
  if (transport->slow != NULL)
    mr_link_destroy(transport->slow);
  free(transport);
}

void mr_transport_abandon(const struct mr_transport *transport) {
  for (uint16_t node = 0; node < transport->nodes; node++)
    if (transport->links[node].fd >= 0)
      close(transport->links[node].fd);
}

void mr_transport_slow(struct mr_transport *transport, struct mr_link *link) {
  transport->slow = link;
}

/* ---- sending -------------------------------------------------------------------- */

/* Whether messages go over the link itself. */
static bool carries(const struct mr_transport *t, uint16_t node) {
  return t->fabric == NULL && !t->links[node].near;
}

static void hang_up(struct mr_transport *t, uint16_t node) {
  /* A child that is no fork of libc's may hold it open. */
  epoll_ctl(t->ready, EPOLL_CTL_DEL, t->links[node].fd, NULL);
  close(t->links[node].fd);
  t->links[node].fd = -1;
  t->up--;
  t->carrying -= carries(t, node);
  if (t->near != NULL)
    mr_near_forget(t->near, node);
  if (t->fabric != NULL)
    mr_fabric_forget(t->fabric, node);
}

/* How much of the frame the stream takes now.  A connection that is broken takes all of it, and
 * shows when it is read. */
static size_t push(struct mr_transport *t, uint16_t node, const struct iovec *frame, int parts) {
  struct link *link = &t->links[node];
  const struct msghdr header = {.msg_iov = (struct iovec *)frame, .msg_iovlen = (size_t)parts};
  size_t size = 0;
  ssize_t n;
  if (link->near)
    return mr_near_put(t->near, node, frame, parts);
  while ((n = sendmsg(link->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR)
    ;
  for (int i = 0; i < parts; i++)
    size += frame[i].iov_len;
  return n >= 0 ? (size_t)n : errno == EAGAIN ? 0 : size;
}

/* Sends of `out` what the stream takes now. */
static void drain(struct mr_transport *t, uint16_t node) {
  struct link *link = &t->links[node];
  struct mr_buffer *out = &link->out;
  for (size_t took = 1; out->begin < out->end && took > 0; out->begin += took) {
    const struct iovec rest = {out->bytes + out->begin, out->end - out->begin};
    took = push(t, node, &rest, 1);
  }
  if (out->begin == out->end)
    out->begin = out->end = 0;
  bool kept = out->end > 0;
  if (kept == link->kept)
    return;
  link->kept = kept;
  /* Shared memory tells by its bell. */
  if (link->near)
    return;
  struct epoll_event event = {.events = EPOLLIN | (kept ? EPOLLOUT : 0u), .data.u32 = node};
  epoll_ctl(t->ready, EPOLL_CTL_MOD, link->fd, &event);
}

/* `head` is its length, or says what it is. */
static int send_frame(struct mr_transport *t, uint16_t to, uint32_t head, const void *message,
                      size_t length) {
  struct link *link = &t->links[to];
  const struct iovec frame[] = {{&head, sizeof head}, {(void *)message, length}};
  /* Behind what is kept. */
  size_t sent = link->out.end > 0 ? 0 : push(t, to, frame, 2);
  for (int i = 0; i < 2; i++) {
    size_t part = sent < frame[i].iov_len ? sent : frame[i].iov_len;
    if (part < frame[i].iov_len &&
        mr_buffer_append(&link->out, (const uint8_t *)frame[i].iov_base + part,
                         frame[i].iov_len - part) < 0)
      return -ENOMEM;
    sent -= part;
  }
  if (link->out.end > 0)
    drain(t, to);
  return 0;
}

static int send_either_way(struct mr_transport *t, uint16_t to, const void *message,
                           size_t length) {
  return t->fabric != NULL && !t->links[to].near
             ? mr_fabric_send(t->fabric, to, message, length)
             : send_frame(t, to, (uint32_t)length, message, length);
}

/* When it is due goes before it. */
static int send_late(struct mr_transport *t, uint16_t to, const void *message, size_t length) {
  int64_t due = mr_link_leave(t->slow, length);
  uint8_t *both = malloc(sizeof due + length);
  if (both == NULL)
    return -ENOMEM;
  memcpy(both, &due, sizeof due);
  memcpy(both + sizeof due, message, length);
  int rc = send_either_way(t, to, both, sizeof due + length);
  free(both);
  return rc;
}

int mr_transport_send(struct mr_transport *transport, uint16_t to, const void *message,
                      size_t length) {
  if (length > MESSAGE_MAX)
    return -EMSGSIZE;
  if (transport->links[to].fd < 0)
    return 0;
  return transport->slow != NULL ? send_late(transport, to, message, length)
                                 : send_either_way(transport, to, message, length);
}

int mr_transport_farewell(struct mr_transport *transport) {
  int rc = 0;
  for (uint16_t node = 0; node < transport->nodes; node++) {
    if (transport->links[node].fd < 0)
      continue;
    int sent = transport->fabric != NULL && !transport->links[node].near
                   ? mr_fabric_farewell(transport->fabric, node)
                   : send_frame(transport, node, 0, "", 0);
    rc = sent < 0 ? sent : rc;
  }
  transport->left = true;
  return rc;
}

/* ---- receiving -------------------------------------------------------------------- */

static int plus(int came, int more) { return more < 0 ? more : came + more; }

/* The whole frames at the buffer's front; how many.  -EPIPE: a farewell; -EBADMSG. */
static int hand_out(struct link *link, uint16_t from, const struct mr_transport_sink *sink,
                    void *context) {
  struct mr_buffer *in = &link->in;
  uint32_t size;
  int count = 0;
  while (in->end - in->begin >= sizeof size) {
    memcpy(&size, in->bytes + in->begin, sizeof size);
    if (size == 0)
      return -EPIPE;
    if (size == BEAT) {
      in->begin += sizeof size;
      continue;
    }
    if (size > FRAME_MAX)
      return -EBADMSG;
    if (in->end - in->begin < sizeof size + size)
      break;
    in->begin += sizeof size;
    sink->message(context, from, in->bytes + in->begin, size);
    in->begin += size;
    count++;
  }
  return count;
}

static ssize_t pull(struct mr_transport *t, uint16_t node, void *bytes, size_t most) {
  struct link *link = &t->links[node];
  if (!link->near) {
    ssize_t n = recv(link->fd, bytes, most, MSG_DONTWAIT);
    return n > 0 ? n : n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -ECONNRESET;
  }
  return mr_near_take(t->near, node, bytes, most);
}

/* A piece of a message counts as one. */
static int receive(struct mr_transport *t, uint16_t node, const struct mr_transport_sink *sink,
                   void *context) {
  struct link *link = &t->links[node];
  if (link->kept)
    drain(t, node);
  if (mr_buffer_reserve(&link->in, 16384) < 0)
    return -ENOMEM;
  struct mr_buffer *in = &link->in;
  ssize_t n = pull(t, node, in->bytes + in->end, in->capacity - in->end);
  if (n == 0)
    return 0;
  int rc = -ECONNRESET;
  if (n > 0) {
    link->heard = t->looks.awake;
    in->end += (size_t)n;
    rc = hand_out(link, node, sink, context);
  }
  if (rc >= 0)
    return rc > 0 ? rc : 1;
  drain(t, node);
  hang_up(t, node);
  sink->down(context, node, rc == -EPIPE);
  return 1;
}

/* Of nodes of this host, which look by themselves from here on. */
static int serve_near(struct mr_transport *t, const struct mr_transport_sink *sink, void *context) {
  int came = 0;
  mr_near_awake(t->near);
  for (uint16_t node = 0; node < t->nodes && came >= 0; node++) {
    struct link *link = &t->links[node];
    if (link->near && link->fd >= 0 && (link->kept || mr_near_waits(t->near, node)))
      came = plus(came, receive(t, node, sink, context));
  }
  return came;
}

/* The connection of a near node has something: its end, as nothing else is said there.  What it
 * wrote before is heard before. */
static int end_near(struct mr_transport *t, uint16_t node, const struct mr_transport_sink *sink,
                    void *context) {
  uint8_t byte;
  int came = 0;
  if (recv(t->links[node].fd, &byte, 1, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR))
    return 0;
  while (came >= 0 && t->links[node].fd >= 0 && mr_near_waits(t->near, node))
    came = plus(came, receive(t, node, sink, context));
  if (came < 0 || t->links[node].fd < 0)
    return came;
  hang_up(t, node);
  sink->down(context, node, false);
  return came + 1;
}

/* Which links to look at: all if they are few, else those that are ready. */
static int find_ready(struct mr_transport *t, uint16_t *which) {
  int count = 0;
  if (t->up <= FEW && t->carrying == t->up) {
    for (uint16_t node = 0; node < t->nodes; node++)
      if (t->links[node].fd >= 0)
        which[count++] = node;
    return count;
  }
  struct epoll_event events[EVENTS];
  int ready = epoll_wait(t->ready, events, EVENTS, 0);
  for (int i = 0; i < ready; i++)
    if (events[i].data.u32 < NEAR)
      which[count++] = (uint16_t)events[i].data.u32;
  return count;
}

/* Of the fabric, and of who has said farewell by it. */
static int serve_fabric(struct mr_transport *t, const struct mr_transport_sink *sink,
                        void *context) {
  int came = mr_fabric_serve(t->fabric, sink, context), node;
  while (came >= 0 && (node = mr_fabric_leaver(t->fabric)) >= 0) {
    if (t->links[node].fd < 0)
      continue;
    hang_up(t, (uint16_t)node);
    sink->down(context, (uint16_t)node, true);
    came++;
  }
  return came;
}

/* However much others send, a death is noticed. */
static bool asks_links(struct mr_transport *t, int came) {
  if (t->carrying > 0)
    return true;
  t->busy += came > 0 ? came : QUIET;
  if (t->busy < SELDOM)
    return false;
  t->busy = 0;
  return true;
}

/* Messages that wait in the fabric are older than the end of their sender's link, so while some
 * come it is not looked at. */
static bool may_end(struct mr_transport *t, uint16_t node) {
  if (t->links[node].fd < 0)
    return false;
  if (t->fabric == NULL || t->links[node].near || !mr_fabric_spoke(t->fabric, node))
    return true;
  t->links[node].heard = t->looks.awake;
  return false;
}

/* ---- who is silent -------------------------------------------------------------- */

/* On the link, whatever carries messages, and where nothing waits that says as much. */
static int send_beats(struct mr_transport *t) {
  int rc = 0;
  for (uint16_t node = 0; node < t->nodes && rc == 0; node++)
    if (t->links[node].fd >= 0 && !t->links[node].kept)
      rc = send_frame(t, node, BEAT, "", 0);
  return rc;
}

static bool is_lost(const struct mr_transport *t, struct link *link, int64_t now) {
  bool silent = t->silent != 0 && t->looks.awake - link->heard > t->silent;
  return mr_alive_lost(&link->alive, link->fd, now) || silent;
}

/* Behind all that could be heard. */
static int lose_silent(struct mr_transport *t, const struct mr_transport_sink *sink,
                       void *context) {
  int64_t now = maru_now_ns();
  int rc = t->silent != 0 && !t->left ? send_beats(t) : 0, lost = 0;
  for (uint16_t node = 0; node < t->nodes && rc == 0; node++)
    if (t->links[node].fd >= 0 && is_lost(t, &t->links[node], now)) {
      hang_up(t, node);
      t->links[node].was_silent = true;
      sink->down(context, node, false);
      lost++;
    }
  return rc < 0 ? rc : lost;
}

/* Of the links; *full: there may be more that are ready. */
static int serve_links(struct mr_transport *t, const struct mr_transport_sink *sink, void *context,
                       bool *full) {
  uint16_t which[EVENTS];
  int count = find_ready(t, which), came = 0;
  *full = count == EVENTS;
  for (int i = 0; i < count && came >= 0; i++)
    if (may_end(t, which[i]))
      came = plus(came, t->links[which[i]].near ? end_near(t, which[i], sink, context)
                                                : receive(t, which[i], sink, context));
  return came;
}

/* All links are heard before any is called silent. */
static int look_at_links(struct mr_transport *t, const struct mr_transport_sink *sink,
                         void *context) {
  bool full = true;
  int came = 0;
  for (uint16_t turn = 0; full && came >= 0 && turn <= t->nodes; turn++)
    came = plus(came, serve_links(t, sink, context, &full));
  return came < 0 ? came : plus(came, lose_silent(t, sink, context));
}

static int serve_now(struct mr_transport *t, const struct mr_transport_sink *sink, void *context) {
  bool look = mr_looks_due(&t->looks, maru_now_ns()), full;
  /* Relaxed: who reads the one before looks too early, and serves. */
  if (look)
    atomic_store_explicit(&t->look_at, t->looks.last + t->looks.pause, memory_order_relaxed);
  int came = t->near != NULL ? serve_near(t, sink, context) : 0;
  if (t->fabric != NULL && came >= 0)
    came = plus(came, serve_fabric(t, sink, context));
  if (came < 0 || !(look || asks_links(t, came)))
    return came;
  return plus(came, look ? look_at_links(t, sink, context) : serve_links(t, sink, context, &full));
}

/* ---- a slower network -------------------------------------------------------------- */

struct late {
  struct mr_link *link;
  const struct mr_transport_sink *sink;
  void *context;
  int served; /* or what went wrong */
};

static void keep(void *context, uint16_t from, const void *message, size_t length) {
  struct late *late = context;
  int64_t due = 0;
  int rc = length < sizeof due ? -EBADMSG : 0;
  if (rc == 0) {
    memcpy(&due, message, sizeof due);
    rc = mr_link_keep(late->link, due, from, (const uint8_t *)message + sizeof due,
                      length - sizeof due);
  }
  late->served = rc < 0 ? rc : late->served;
}

/* No more comes, and nobody waits for what is kept. */
static void end_of_link(void *context, uint16_t from, bool farewell) {
  struct late *late = context;
  mr_link_serve(late->link, INT64_MAX, late->sink->message, late->context);
  late->sink->down(late->context, from, farewell);
  late->served += late->served >= 0;
}

static int serve_late(struct mr_transport *t, const struct mr_transport_sink *sink, void *context) {
  static const struct mr_transport_sink keeping = {keep, end_of_link};
  struct late late = {t->slow, sink, context, 0};
  int came = serve_now(t, &keeping, &late);
  int served = mr_link_serve(t->slow, maru_now_ns(), sink->message, context);
  return came < 0 ? came : late.served < 0 ? late.served : late.served + served;
}

int mr_transport_serve(struct mr_transport *transport, const struct mr_transport_sink *sink,
                       void *context) {
  return transport->slow != NULL ? serve_late(transport, sink, context)
                                 : serve_now(transport, sink, context);
}

/* ---- waiting ---------------------------------------------------------------------- */

int mr_transport_descriptor(const struct mr_transport *transport) { return transport->ready; }

bool mr_transport_tells_of_sends(const struct mr_transport *transport) {
  return transport->fabric != NULL;
}

static void hush(struct mr_transport *t, bool on) {
  const int least = on ? HUSHED : 1;
  if (t->hushed == on)
    return;
  t->hushed = on;
  for (uint16_t node = 0; node < t->nodes; node++)
    if (t->links[node].fd >= 0)
      setsockopt(t->links[node].fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
}

bool mr_transport_awake(struct mr_transport *transport) {
  if (transport->near != NULL)
    mr_near_awake(transport->near);
  /* For one link: that call takes half as long as epoll_ctl for the descriptor. */
  if (transport->up == 1 && transport->carrying == 1)
    hush(transport, true);
  return transport->hushed;
}

int mr_transport_rest(struct mr_transport *transport) {
  hush(transport, false);
  int rc = transport->near != NULL ? mr_near_rest(transport->near) : 0;
  return rc == 0 && transport->fabric != NULL ? mr_fabric_rest(transport->fabric) : rc;
}

int mr_transport_glance(const struct mr_transport *transport) {
  return transport->all_near ? mr_near_glance(transport->near) : -1;
}

struct mr_shown *mr_transport_shown(const struct mr_transport *transport) {
  return transport->near != NULL ? mr_near_shown(transport->near) : NULL;
}

int mr_transport_copy(struct mr_transport *transport, uint16_t node, uint32_t page, void *bytes,
                      uint64_t *version) {
  return transport->near != NULL ? mr_near_copy(transport->near, node, page, bytes, version)
                                 : -ENOENT;
}

int mr_transport_map(const struct mr_transport *transport, uint16_t node, enum mr_share_part part,
                     void **at) {
  return transport->near != NULL ? mr_near_map(transport->near, node, part, at) : -ENOENT;
}

int64_t mr_transport_patience(const struct mr_transport *transport) {
  int64_t fabric = transport->fabric != NULL ? mr_fabric_patience(transport->fabric) : -1;
  int64_t left = atomic_load_explicit(&transport->look_at, memory_order_relaxed) - maru_now_ns();
  left = left > 0 ? left : 0;
  return fabric >= 0 && fabric < left ? fabric : left;
}

int64_t mr_transport_due(const struct mr_transport *transport) {
  return transport->slow != NULL ? mr_link_due(transport->slow) : INT64_MAX;
}
