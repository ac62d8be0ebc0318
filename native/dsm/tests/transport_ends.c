/* Description: whatever carries messages, a node's last ones come before its farewell. A node that
 * looks only when it is told misses none. Who sleeps does so until the next look at most. The end
 * of a node is known to those that live in bounded time, however much others send them.  Where
 * another process takes a dead node's place, those that live meet it, and hear all that it says. */
#define _GNU_SOURCE
#include "../fabric.h"
#include "../transport.h"

#include "check.h"
#include "loopback.h"

#include <maru/wait.h>
#include <poll.h>
#include <sys/socket.h>

#define MESSAGES 200u
#define SIZE 20000u
#define JOIN_SECONDS 20
/* Of a job whose silent nodes are lost: after how long; what a node's start takes beyond that.
 * And how long one may take that never says a word. */
#define LOST_AFTER 2
#define START_SECONDS 4
#define GRACE_SECONDS 8
/* Twenty times what a dead node may go unnoticed. */
#define LIVENESS_NS (INT64_C(20) * MR_LOST_MS * 1000000)
/* Of what came: it takes less than one. The kernel may look again some eight seconds later. */
#define TOLD_MS 4000
#define ENOUGH 64
/* Messages of one node that another always has before it; how many before a third dies, and before
 * that is noticed; how long each occupies it. */
#define AHEAD 500
#define BEFORE 200u
#define UNNOTICED (20u * 2048)
#define SLOW_US 100
#define NODES_MOST 3

static uint16_t nodes;
static struct sockaddr_storage addresses[NODES_MOST];
static int listeners[NODES_MOST];

struct seen {
  uint32_t messages;
  bool ended, farewell, in_order;
};

static void on_message(void *context, uint16_t from, const void *message, size_t length) {
  struct seen *seen = context;
  uint32_t number;
  CHECK(length == SIZE && from < 2 && !seen->ended);
  memcpy(&number, message, sizeof number);
  seen->in_order &= number == seen->messages++;
}

static void on_down(void *context, uint16_t from, bool farewell) {
  struct seen *seen = context;
  (void)from;
  seen->ended = true;
  seen->farewell = farewell;
}

static const struct mr_transport_sink sink = {on_message, on_down};

static struct mr_transport *join_within(uint16_t me, const char *name, int seconds,
                                        unsigned lost_after) {
  struct mr_job job = {.nodes = nodes,
                       .me = me,
                       .listener = listeners[me],
                       .addresses = addresses,
                       .incarnation = me,
                       .transport = name,
                       .lost_after = lost_after};
  struct mr_transport *transport;
  uint32_t incarnations[NODES_MOST];
  char why[256];
  for (uint16_t other = 0; other < nodes; other++)
    if (other != me)
      close(listeners[other]);
  CHECK_EQUAL(mr_transport_join(&transport, &job, incarnations, seconds, why, sizeof why), 0);
  return transport;
}

static struct mr_transport *join_as(uint16_t me, const char *name) {
  return join_within(me, name, JOIN_SECONDS, 0);
}

static void serve_until_end(struct mr_transport *transport, struct seen *seen) {
  int64_t deadline = maru_now_ns() + LIVENESS_NS;
  while (!seen->ended) {
    int came = mr_transport_serve(transport, &sink, seen);
    CHECK(came >= 0 && maru_now_ns() < deadline);
    if (came == 0)
      poll(NULL, 0, 1);
  }
}

static void send_all(struct mr_transport *transport) {
  static uint8_t message[SIZE];
  for (uint32_t i = 0; i < MESSAGES; i++) {
    memcpy(message, &i, sizeof i);
    CHECK_EQUAL(mr_transport_send(transport, 1, message, sizeof message), 0);
  }
}

/* Node 0: sends more than a provider takes at once, then leaves. */
static void leave(void *name) {
  struct mr_transport *transport = join_as(0, name);
  struct seen seen = {.in_order = true};
  send_all(transport);
  CHECK_EQUAL(mr_transport_farewell(transport), 0);
  serve_until_end(transport, &seen);
  mr_transport_close(transport);
}

/* Node 0: dies instead. */
static void die(void *name) {
  struct mr_transport *transport = join_as(0, name);
  send_all(transport);
  kill(getpid(), SIGKILL);
}

/* TCP's first look has no room for a whole message; a node that waits is told all the same. */
static void find_piece(struct mr_transport *transport, struct seen *seen) {
  int64_t deadline = maru_now_ns() + LIVENESS_NS;
  while (mr_transport_serve(transport, &sink, seen) == 0)
    CHECK(poll(NULL, 0, 1) == 0 && maru_now_ns() < deadline);
  CHECK_EQUAL(seen->messages, 0);
}

/* Node 1: does not look for a while; by then the farewell would be there, too. */
static void hear(void *name) {
  struct mr_transport *transport = join_as(1, name);
  struct seen seen = {.in_order = true};
  poll(NULL, 0, 200);
  if (strcmp(name, "tcp") == 0)
    find_piece(transport, &seen);
  serve_until_end(transport, &seen);
  CHECK(seen.in_order && seen.farewell);
  CHECK_EQUAL(seen.messages, MESSAGES);
  CHECK_EQUAL(mr_transport_farewell(transport), 0);
  mr_transport_close(transport);
}

/* Node 1: some messages may have come. */
static void bereave(void *name) {
  struct mr_transport *transport = join_as(1, name);
  struct seen seen = {.in_order = true};
  serve_until_end(transport, &seen);
  CHECK(seen.in_order && !seen.farewell);
  mr_transport_close(transport);
}

/* Node 1: looks only when it is told, and is told of all that came while it was awake. */
static void doze(void *name) {
  struct mr_transport *transport = join_as(1, name);
  struct seen seen = {.in_order = true};
  struct pollfd told = {.fd = mr_transport_descriptor(transport), .events = POLLIN};
  while (!seen.ended) {
    mr_transport_awake(transport);
    poll(NULL, 0, 1);
    while (mr_transport_rest(transport) == -EAGAIN)
      CHECK(mr_transport_serve(transport, &sink, &seen) >= 0);
    CHECK(seen.ended || poll(&told, 1, TOLD_MS) == 1);
    CHECK(mr_transport_serve(transport, &sink, &seen) >= 0);
  }
  CHECK(seen.in_order && seen.farewell);
  CHECK_EQUAL(seen.messages, MESSAGES);
  CHECK_EQUAL(mr_transport_farewell(transport), 0);
  mr_transport_close(transport);
}

/* Node 1: what it may still sleep becomes less, whatever came since the last look. */
static void sleep_less(void *name) {
  struct mr_transport *transport = join_as(1, name);
  struct seen seen = {.in_order = true};
  CHECK(mr_transport_serve(transport, &sink, &seen) >= 0);
  int64_t left = mr_transport_patience(transport), now = maru_now_ns(), end = now + left;
  while (now < end) {
    poll(NULL, 0, 1);
    CHECK(mr_transport_patience(transport) <= end - now);
    now = maru_now_ns();
  }
  CHECK_EQUAL(mr_transport_patience(transport), 0);
  serve_until_end(transport, &seen);
  CHECK_EQUAL(mr_transport_farewell(transport), 0);
  mr_transport_close(transport);
}

/* Node 1 dies when node 0 has said farewell, and waits for its. */
static void vanish(void *name) {
  struct mr_transport *transport = join_as(1, name);
  struct seen seen = {.in_order = true};
  while (seen.messages < MESSAGES / 2 && !seen.ended)
    CHECK(mr_transport_serve(transport, &sink, &seen) >= 0);
  kill(getpid(), SIGKILL);
}

/* ---- one that sends without end, one that dies ---------------------------------------- */

struct crowd {
  struct mr_transport *transport;
  uint32_t came;
  bool lost[NODES_MOST];
};

static void on_loss(void *context, uint16_t from, bool farewell) {
  struct crowd *crowd = context;
  CHECK(!farewell);
  crowd->lost[from] = true;
}

static void on_request(void *context, uint16_t from, const void *message, size_t length) {
  struct crowd *crowd = context;
  usleep(SLOW_US);
  CHECK_EQUAL(mr_transport_send(crowd->transport, from, message, length), 0);
  if (++crowd->came == BEFORE)
    CHECK_EQUAL(mr_transport_send(crowd->transport, 2, message, length), 0);
}

static void on_answer(void *context, uint16_t from, const void *message, size_t length) {
  CHECK_EQUAL(mr_transport_send(((struct crowd *)context)->transport, from, message, length), 0);
}

static void on_order(void *context, uint16_t from, const void *message, size_t length) {
  (void)context, (void)from, (void)message, (void)length;
  kill(getpid(), SIGKILL);
}

static void serve_until_lost(struct crowd *crowd, uint16_t node,
                             void (*see)(void *, uint16_t, const void *, size_t)) {
  const struct mr_transport_sink all = {see, on_loss};
  int64_t deadline = maru_now_ns() + LIVENESS_NS;
  while (!crowd->lost[node]) {
    CHECK(mr_transport_serve(crowd->transport, &all, crowd) >= 0);
    CHECK(crowd->came < BEFORE + UNNOTICED && maru_now_ns() < deadline);
  }
  mr_transport_close(crowd->transport);
}

/* Node 0 notices the death of node 2 while node 1 always has something for it. */
static void endure(void *name) {
  struct crowd crowd = {.transport = join_as(0, name)};
  serve_until_lost(&crowd, 2, on_request);
}

static void press(void *name) {
  struct crowd crowd = {.transport = join_as(1, name)};
  for (int i = 0; i < AHEAD; i++)
    CHECK_EQUAL(mr_transport_send(crowd.transport, 0, "again", 5), 0);
  serve_until_lost(&crowd, 0, on_answer);
}

static void obey(void *name) {
  struct crowd crowd = {.transport = join_as(2, name)};
  serve_until_lost(&crowd, 0, on_order);
}

/* ---- one whose start is slow, one that never starts ------------------------------------- */

/* Node 0: silence counts from a peer's first word, not from our own start. */
static void expect(void *name) {
  struct mr_transport *transport = join_within(0, name, JOIN_SECONDS, LOST_AFTER);
  struct seen seen = {.in_order = true};
  serve_until_end(transport, &seen);
  CHECK(seen.in_order && seen.farewell);
  CHECK_EQUAL(seen.messages, MESSAGES);
  CHECK_EQUAL(mr_transport_farewell(transport), 0);
  mr_transport_close(transport);
}

/* Node 1. */
static void begin_late(void *name) {
  struct mr_transport *transport = join_within(1, name, JOIN_SECONDS, LOST_AFTER);
  static uint8_t message[SIZE];
  struct seen seen = {.in_order = true};
  sleep(START_SECONDS);
  for (uint32_t i = 0; i < MESSAGES; i++) {
    memcpy(message, &i, sizeof i);
    CHECK_EQUAL(mr_transport_send(transport, 0, message, sizeof message), 0);
  }
  CHECK_EQUAL(mr_transport_farewell(transport), 0);
  serve_until_end(transport, &seen);
  mr_transport_close(transport);
}

/* Node 0: nor may a peer be silent for ever because it has never said a word. */
static void give_up(void *name) {
  struct mr_transport *transport = join_within(0, name, GRACE_SECONDS, LOST_AFTER);
  struct seen seen = {.in_order = true};
  serve_until_end(transport, &seen);
  CHECK(!seen.farewell);
  mr_transport_close(transport);
}

/* Node 1: until node 0 has hung up. */
static void say_nothing(void *name) {
  struct mr_transport *transport = join_within(1, name, JOIN_SECONDS, LOST_AFTER);
  struct pollfd end = {.events = POLLRDHUP};
  for (int fd = 3; fd < 64 && end.fd == 0; fd++) {
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0)
      end.fd = fd;
  }
  CHECK(end.fd > 0 && poll(&end, 1, (int)(LIVENESS_NS / 1000000)) == 1);
  mr_transport_close(transport);
}

/* ---- another in a dead node's place -------------------------------------------------------- */

static struct sockaddr_storage place; /* of the second node 0 */
static int place_listens;

struct bereaved {
  struct mr_transport *transport;
  struct mr_job again;
  struct seen seen[2]; /* of the first node 0, of the second */
  unsigned lives;
};

static void hear_either(void *context, uint16_t from, const void *message, size_t length) {
  struct bereaved *b = context;
  CHECK_EQUAL(from, 0);
  on_message(&b->seen[b->lives], from, message, length);
}

static void meet_second(void *context, uint16_t from, bool farewell) {
  struct bereaved *b = context;
  char why[256];
  on_down(from == 0 ? &b->seen[b->lives] : &(struct seen){.ended = false}, from, farewell);
  if (from != 0 || b->lives == 1)
    return;
  CHECK(!farewell && !mr_transport_was_silent(b->transport, 0));
  CHECK_EQUAL(mr_transport_rejoin(b->transport, &b->again, JOIN_SECONDS, why, sizeof why), 0);
  int fds[MR_LINK_FDS];
  CHECK(mr_transport_link_descriptors(b->transport, 0, fds) > 0 && fds[0] > 0);
  b->lives++;
}

static void outlive(void *name, uint16_t me) {
  static const struct mr_transport_sink both = {hear_either, meet_second};
  struct bereaved b = {.again = {.nodes = nodes,
                                 .me = me,
                                 .listener = -1,
                                 .addresses = addresses,
                                 .incarnation = me,
                                 .transport = name,
                                 .again = true},
                       .seen = {{.in_order = true}, {.in_order = true}}};
  b.transport = join_as(me, name);
  addresses[0] = place;
  int64_t deadline = maru_now_ns() + LIVENESS_NS;
  while (!b.seen[1].ended) {
    int came = mr_transport_serve(b.transport, &both, &b);
    CHECK(came >= 0 && maru_now_ns() < deadline);
    if (came == 0)
      poll(NULL, 0, 1);
  }
  CHECK(b.lives == 1 && b.seen[1].farewell && b.seen[0].in_order && b.seen[1].in_order);
  CHECK_EQUAL(b.seen[1].messages, me == 1 ? MESSAGES : 0);
  CHECK_EQUAL(mr_transport_farewell(b.transport), 0);
  mr_transport_close(b.transport);
}

static void outlive_as_1(void *name) { outlive(name, 1); }
static void outlive_as_2(void *name) { outlive(name, 2); }

static void count_end(void *context, uint16_t from, bool farewell) {
  (void)from;
  (void)farewell;
  ++*(unsigned *)context;
}

/* All that it says is heard before it goes. */
static void be_second(void *name) {
  static const struct mr_transport_sink ends = {on_message, count_end};
  struct mr_job job = {.nodes = nodes,
                       .listener = place_listens,
                       .addresses = addresses,
                       .transport = name,
                       .again = true};
  struct mr_transport *transport;
  uint32_t incarnations[NODES_MOST];
  unsigned ended = 0;
  char why[256];
  CHECK_EQUAL(mr_transport_join(&transport, &job, incarnations, JOIN_SECONDS, why, sizeof why), 0);
  send_all(transport);
  CHECK_EQUAL(mr_transport_farewell(transport), 0);
  int64_t deadline = maru_now_ns() + LIVENESS_NS;
  while (ended < nodes - 1u) {
    int came = mr_transport_serve(transport, &ends, &ended);
    CHECK(came >= 0 && maru_now_ns() < deadline);
    if (came == 0)
      poll(NULL, 0, 1);
  }
  mr_transport_close(transport);
}

static void run_again(const char *name) {
  pid_t started[NODES_MOST];
  snprintf(check_note, sizeof check_note, "(%s, again)", name);
  nodes = 3;
  listeners[0] = listen_on_loopback(NODES_MOST, &addresses[0]);
  place = addresses[0];
  place_listens = listeners[0];
  for (uint16_t node = 0; node < nodes; node++)
    listeners[node] = listen_on_loopback(NODES_MOST, &addresses[node]);
  started[0] = start(die, (void *)name);
  started[1] = start(outlive_as_1, (void *)name);
  started[2] = start(outlive_as_2, (void *)name);
  for (uint16_t node = 0; node < nodes; node++)
    close(listeners[node]);
  CHECK_EQUAL(finish(started[0]), SIGKILL);
  started[0] = start(be_second, (void *)name);
  close(place_listens);
  for (uint16_t node = 0; node < nodes; node++)
    CHECK_EQUAL(finish(started[node]), 0);
}

/* ---- all of it -------------------------------------------------------------------------- */

static void run(const char *name, uint16_t count, void (*const roles[])(void *)) {
  pid_t started[NODES_MOST];
  snprintf(check_note, sizeof check_note, "(%s)", name);
  nodes = count;
  for (uint16_t node = 0; node < count; node++)
    listeners[node] = listen_on_loopback(NODES_MOST, &addresses[node]);
  for (uint16_t node = 0; node < count; node++)
    started[node] = start(roles[node], (void *)name);
  for (uint16_t node = 0; node < count; node++)
    close(listeners[node]);
  for (uint16_t node = 0; node < count; node++) {
    bool killed = roles[node] == die || roles[node] == vanish || roles[node] == obey;
    CHECK_EQUAL(finish(started[node]), killed ? SIGKILL : 0);
  }
}

static void try(const char *name) {
  run(name, 2, (void (*const[])(void *)){leave, hear});
  run(name, 2, (void (*const[])(void *)){die, bereave});
  run(name, 2, (void (*const[])(void *)){leave, vanish});
  run(name, 3, (void (*const[])(void *)){endure, press, obey});
}

/* In a child: libraries of providers may start threads. */
static void list(void *pipe_end) {
  char names[256], why[256];
  if (mr_fabric_list(names, sizeof names, why, sizeof why) == 0)
    CHECK(write(*(int *)pipe_end, names, strlen(names)) > 0);
}

int main(void) {
  static const char *const providers[] = {"net", "tcp;ofi_rxm", "udp;ofi_rxd"};
  char names[256] = "", name[ENOUGH];
  int ends[2];
  CHECK(pipe(ends) == 0);
  CHECK_EQUAL(finish(start(list, &ends[1])), 0);
  close(ends[1]);
  CHECK(read(ends[0], names, sizeof names - 1) >= 0);
  static const char *const always[] = {"tcp", "shm"};
  for (unsigned i = 0; i < sizeof always / sizeof *always; i++) {
    try(always[i]);
    run_again(always[i]);
    run(always[i], 2, (void (*const[])(void *)){leave, doze});
    run(always[i], 2, (void (*const[])(void *)){leave, sleep_less});
    run(always[i], 2, (void (*const[])(void *)){expect, begin_late});
    run(always[i], 2, (void (*const[])(void *)){give_up, say_nothing});
  }
  for (unsigned i = 0; i < sizeof providers / sizeof *providers; i++)
    if (strstr(names, providers[i]) != NULL) {
      snprintf(name, sizeof name, "ofi:%s", providers[i]);
      try(name);
    }
  return 0;
}
