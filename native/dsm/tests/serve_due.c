/* Description: a message that the serving thread finds, and that is due later, is served when it is
 * due, though the program's thread sleeps by then. The transport is this file's: it brings the two
 * threads to that place each time. */
#define _GNU_SOURCE
#include "../serve.h"
#include "check.h"

#include <fcntl.h>
#include <maru/wait.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#define ROUNDS 20
/* The message is due so long after it was found: more than a thread waits for awake. */
#define LATER_NS 2000000
/* A thread that is told nothing sleeps so long, the test less. */
#define PATIENCE_S 600
#define TEST_S 25

struct mr_transport {
  int descriptor;
  pthread_t program;
  atomic_int server; /* thread id */
  bool announced;    /* the server was told of something, which the program's thread then served */
  int64_t due;       /* INT64_MAX: nothing is kept */
  bool answered, over;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_program(const struct mr_transport *t) {
  return pthread_equal(pthread_self(), t->program);
}

/* The server waits for the lock. */
static bool is_blocked(int thread) {
  char name[64], text[8] = "";
  snprintf(name, sizeof name, "/proc/self/task/%d/syscall", thread);
  int fd = open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    skip("what a thread waits for cannot be read");
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  return n > 0 && atoi(text) == SYS_futex;
}

/* ---- the transport --------------------------------------------------------------- */

/* The program's thread, with the lock held. What comes now wakes the server, which then waits for
 * the lock. */
bool mr_transport_awake(struct mr_transport *t) {
  t->announced = true;
  eventfd_write(t->descriptor, 1);
  while (!is_blocked(atomic_load_explicit(&t->server, memory_order_acquire)))
    usleep(1000);
  return false;
}

/* That first message is the program thread's; the next comes when that sleeps, and the server
 * finds it. */
int mr_transport_serve(struct mr_transport *t, const struct mr_transport_sink *sink,
                       void *context) {
  eventfd_t unused;
  (void)sink;
  (void)context;
  if (!is_program(t)) {
    atomic_store_explicit(&t->server, gettid(), memory_order_release);
    if (t->announced)
      t->due = maru_now_ns() + LATER_NS;
    t->announced = false;
  }
  eventfd_read(t->descriptor, &unused);
  if (t->due > maru_now_ns())
    return 0;
  t->due = INT64_MAX;
  t->answered = true;
  return 1;
}

int mr_transport_descriptor(const struct mr_transport *t) { return t->descriptor; }
int mr_transport_glance(const struct mr_transport *t) { return (void)t, -1; }
int mr_transport_rest(struct mr_transport *t) { return (void)t, 0; }
bool mr_transport_tells_of_sends(const struct mr_transport *t) { return (void)t, false; }
int64_t mr_transport_patience(const struct mr_transport *t) {
  return (void)t, INT64_C(1000000000) * PATIENCE_S;
}
int64_t mr_transport_due(const struct mr_transport *t) { return t->due; }

void mr_ready_attach(struct mr_ready *ready, enum mr_listener who) { (void)ready, (void)who; }
void mr_ready_detach(struct mr_ready *ready, enum mr_listener who) { (void)ready, (void)who; }
void mr_ready_listens(struct mr_ready *ready, enum mr_listener who) { (void)ready, (void)who; }
void mr_ready_leaves(struct mr_ready *ready, enum mr_listener who) { (void)ready, (void)who; }

/* ---- the test -------------------------------------------------------------------- */

static bool is_over(void *transport) { return ((struct mr_transport *)transport)->over; }

static void has_failed(void *transport, int error) {
  (void)transport;
  CHECK_EQUAL(error, 0);
}

int main(void) {
  struct mr_transport transport = {.descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                   .program = pthread_self(),
                                   .due = INT64_MAX};
  struct mr_server_config config = {.transport = &transport,
                                    .lock = &lock,
                                    .context = &transport,
                                    .over = is_over,
                                    .failed = has_failed};
  struct mr_server *server;
  CHECK(transport.descriptor >= 0);
  CHECK_EQUAL(mr_server_start(&server, &config), 0);
  while (atomic_load_explicit(&transport.server, memory_order_acquire) == 0)
    usleep(1000);
  alarm(TEST_S);
  for (int round = 0; round < ROUNDS; round++) {
    transport.answered = false;
    mr_server_await(server, &transport.answered);
    CHECK(transport.answered);
  }
  pthread_mutex_lock(&lock);
  transport.over = true;
  pthread_mutex_unlock(&lock);
  mr_server_join(server);
  close(transport.descriptor);
  return 0;
}
