/* Description: a node that writes to one that sleeps, and is stopped before it rings, keeps no
 * other from waking it. */
#define _GNU_SOURCE
#undef write /* of meson.build, for near.c alone */
#include "../transport.h"

#include "check.h"
#include "loopback.h"

#include <poll.h>

#define NODES 3
#define JOIN_SECONDS 20
#define WAITS_MS 20000 /* for what takes a moment; a node that is held stays so for longer */

enum { SLEEPS, HOLDS, HEARD, PIPES };

static struct sockaddr_storage addresses[NODES];
static int listeners[NODES], pipes[PIPES][2];

static void say(int what, int times) {
  for (int i = 0; i < times; i++)
    CHECK_EQUAL(write(pipes[what][1], "", 1), 1);
}

static void await(int what, int milliseconds) {
  struct pollfd polled = {.fd = pipes[what][0], .events = POLLIN};
  char byte;
  CHECK_EQUAL(poll(&polled, 1, milliseconds), 1);
  CHECK_EQUAL(read(pipes[what][0], &byte, 1), 1);
}

/* near.c's write (meson.build): node 1 is stopped in its first. */
static bool holds;
ssize_t held_write(int fd, const void *bytes, size_t size);
ssize_t held_write(int fd, const void *bytes, size_t size) {
  if (holds) {
    holds = false;
    say(HOLDS, 1);
    await(HEARD, 2 * WAITS_MS);
  }
  return write(fd, bytes, size);
}

static struct mr_transport *join_as(uint16_t me) {
  struct mr_job job = {.nodes = NODES,
                       .me = me,
                       .listener = listeners[me],
                       .addresses = addresses,
                       .incarnation = me,
                       .transport = "shm"};
  struct mr_transport *transport;
  uint32_t incarnations[NODES];
  char why[256];
  for (uint16_t other = 0; other < NODES; other++)
    if (other != me)
      close(listeners[other]);
  CHECK_EQUAL(mr_transport_join(&transport, &job, incarnations, JOIN_SECONDS, why, sizeof why), 0);
  return transport;
}

static void on_message(void *context, uint16_t from, const void *message, size_t length) {
  (void)message;
  CHECK_EQUAL(length, 1);
  ((bool *)context)[from] = true;
}

static void on_down(void *context, uint16_t from, bool farewell) {
  (void)context, (void)from, (void)farewell;
  CHECK(!"nobody leaves");
}

static const struct mr_transport_sink sink = {on_message, on_down};

static void sleep_on(void *unused) {
  struct mr_transport *transport = join_as(0);
  struct pollfd told = {.fd = mr_transport_descriptor(transport), .events = POLLIN};
  bool heard[NODES] = {false};
  (void)unused;
  while (mr_transport_rest(transport) == -EAGAIN)
    CHECK(mr_transport_serve(transport, &sink, heard) >= 0);
  say(SLEEPS, 1);
  CHECK_EQUAL(poll(&told, 1, WAITS_MS), 1);
  CHECK(mr_transport_serve(transport, &sink, heard) >= 0);
  CHECK(heard[1] && heard[2]);
  say(HEARD, 2);
  mr_transport_close(transport);
}

static void write_and_stop(void *unused) {
  struct mr_transport *transport = join_as(1);
  (void)unused;
  await(SLEEPS, WAITS_MS);
  holds = true;
  CHECK_EQUAL(mr_transport_send(transport, 0, "1", 1), 0);
  mr_transport_close(transport);
}

static void write_then(void *unused) {
  struct mr_transport *transport = join_as(2);
  (void)unused;
  await(HOLDS, WAITS_MS);
  CHECK_EQUAL(mr_transport_send(transport, 0, "2", 1), 0);
  await(HEARD, 2 * WAITS_MS);
  mr_transport_close(transport);
}

int main(void) {
  void (*const roles[NODES])(void *) = {sleep_on, write_and_stop, write_then};
  pid_t started[NODES];
  for (int i = 0; i < PIPES; i++)
    CHECK_EQUAL(pipe(pipes[i]), 0);
  for (int node = 0; node < NODES; node++)
    listeners[node] = listen_on_loopback(NODES, &addresses[node]);
  for (int node = 0; node < NODES; node++)
    started[node] = start(roles[node], NULL);
  for (int node = 0; node < NODES; node++)
    close(listeners[node]);
  for (int node = 0; node < NODES; node++)
    CHECK_EQUAL(finish(started[node]), 0);
  return 0;
}
