/* Description: whatever carries messages, a node's last ones come before its farewell, and the end
 * of each of two nodes is known to the other, who lives, in bounded time. */
#define _GNU_SOURCE
#include "../fabric.h"
#include "../transport.h"

#include "check.h"

#include <maru/wait.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define MESSAGES 200u
#define SIZE 20000u
#define JOIN_SECONDS 20
/* Twenty times what a dead node may go unnoticed. */
#define LIVENESS_NS (INT64_C(20) * MR_LOST_MS * 1000000)
#define ENOUGH 64

static struct sockaddr_storage addresses[2];
static int listeners[2];

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

static void listen_on_loopback(int node) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  listeners[node] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(bind(listeners[node], (struct sockaddr *)&address, size) == 0 &&
        listen(listeners[node], 1) == 0 &&
        getsockname(listeners[node], (struct sockaddr *)&address, &size) == 0);
  memcpy(&addresses[node], &address, sizeof address);
}

static struct mr_transport *join_as(uint16_t me, const char *name) {
  struct mr_job job = {.nodes = 2,
                       .me = me,
                       .listener = listeners[me],
                       .addresses = addresses,
                       .incarnation = me,
                       .transport = name};
  struct mr_transport *transport;
  uint32_t incarnations[2];
  char why[256];
  close(listeners[1 - me]);
  CHECK_EQUAL(mr_transport_join(&transport, &job, incarnations, JOIN_SECONDS, why, sizeof why), 0);
  return transport;
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

/* TCP's first look has no room for a whole message; who waits is told all the same. */
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

/* Node 1 dies when node 0 has said farewell, and waits for its. */
static void vanish(void *name) {
  struct mr_transport *transport = join_as(1, name);
  struct seen seen = {.in_order = true};
  while (seen.messages < MESSAGES / 2 && !seen.ended)
    CHECK(mr_transport_serve(transport, &sink, &seen) >= 0);
  kill(getpid(), SIGKILL);
}

static void run(const char *name, void (*first)(void *), void (*second)(void *)) {
  snprintf(check_note, sizeof check_note, "(%s)", name);
  listen_on_loopback(0);
  listen_on_loopback(1);
  pid_t one = start(first, (void *)name), other = start(second, (void *)name);
  close(listeners[0]);
  close(listeners[1]);
  int ended = finish(one), other_ended = finish(other);
  CHECK_EQUAL(ended, first == die ? SIGKILL : 0);
  CHECK_EQUAL(other_ended, second == vanish ? SIGKILL : 0);
}

static void try(const char *name) {
  run(name, leave, hear);
  run(name, die, bereave);
  run(name, leave, vanish);
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
  try("tcp");
  for (unsigned i = 0; i < sizeof providers / sizeof *providers; i++)
    if (strstr(names, providers[i]) != NULL) {
      snprintf(name, sizeof name, "ofi:%s", providers[i]);
      try(name);
    }
  return 0;
}
