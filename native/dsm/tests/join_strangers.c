/* Over 500 lines: strangers of all sorts at one door, whoever joins there.
 *
 * Description: nodes meet whatever else connects to them: silent, slow, lying, more than are
 * held, more than there are descriptors. They show nobody their secret, and wait for a node that
 * has proved itself as long as it is there.
 *
 * Over 500 lines: all of it has the same nodes and strangers.
 */
#define _GNU_SOURCE
#include "../address.h"
#include "../join.h"

#include "check.h"
#include "loopback.h"

#include <errno.h>
#include <fcntl.h>
#include <maru/wait.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define NODES 4
#define SECONDS 60 /* unless MARU_DSM_SECONDS says so: tests of the tests have no hour */
/* Twenty times what it takes without strangers and with them, at most. */
#define LIVENESS_NS (INT64_C(40) * 1000000000)
#define FEW_DESCRIPTORS 40
#define OPENING (4 + MR_NONCE)

static struct mr_job job = {.nodes = NODES, .epoch = 1, .settings = 7, .transport = "tcp"};
static struct mr_card card;
static struct sockaddr_storage addresses[NODES];
static int listeners[NODES];

static int seconds = SECONDS;

/* ---- nodes ------------------------------------------------------------------- */

static void listen_all(int backlog) {
  for (int node = 0; node < NODES; node++)
    listeners[node] = listen_on_loopback(backlog, &addresses[node]);
}

static void close_all(void) {
  for (int node = 0; node < NODES; node++)
    close(listeners[node]);
}

/* Where a check fails nobody is left. */
static void go_with_parent(void) { CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0); }

/* Meets the others, and says to each who it is. */
static void meet(void *number) {
  go_with_parent();
  struct mr_job mine = job;
  struct mr_card cards[NODES], other;
  uint32_t incarnations[NODES];
  int fds[NODES];
  mine.me = (uint16_t)(intptr_t)number;
  mine.listener = listeners[mine.me];
  mine.incarnation = 100u + mine.me;
  mine.addresses = addresses;
  struct mr_card own = {.bytes = {(uint8_t)(mine.me + 1)}};
  CHECK_EQUAL(mr_join(&mine, &own, fds, cards, incarnations, seconds), 0);
  for (uint16_t node = 0; node < job.nodes; node++) {
    CHECK((fds[node] < 0) == (node == mine.me));
    CHECK_EQUAL(incarnations[node], 100u + node);
    if (node != mine.me)
      CHECK(send(fds[node], &own, sizeof own, MSG_NOSIGNAL) == sizeof own);
  }
  for (uint16_t node = 0; node < job.nodes; node++)
    if (node != mine.me) {
      CHECK(fcntl(fds[node], F_SETFL, 0) == 0);
      CHECK(recv(fds[node], &other, sizeof other, MSG_WAITALL) == sizeof other);
      CHECK(other.bytes[0] == node + 1 && memcmp(&other, &cards[node], sizeof other) == 0);
    }
}

/* That one was lost, and the others meet it alone. */
#define LOST 1

static void meet_lost(void *number) {
  go_with_parent();
  struct mr_job mine = job;
  struct mr_card cards[NODES], other, own = {.bytes = {(uint8_t)(intptr_t)number}};
  uint32_t incarnations[NODES];
  int fds[NODES];
  mine.me = (uint16_t)(intptr_t)number;
  mine.listener = mine.me == LOST ? listeners[LOST] : -1;
  mine.again = true;
  mine.lost = LOST;
  mine.incarnation = 100u + mine.me;
  mine.addresses = addresses;
  CHECK_EQUAL(mr_join(&mine, &own, fds, cards, incarnations, seconds), 0);
  for (uint16_t node = 0; node < job.nodes; node++) {
    bool met = node != mine.me && (node == LOST || mine.me == LOST);
    CHECK((fds[node] >= 0) == met);
    if (!met)
      continue;
    CHECK_EQUAL(incarnations[node], 100u + node);
    CHECK(send(fds[node], &own, sizeof own, MSG_NOSIGNAL) == sizeof own);
    CHECK(fcntl(fds[node], F_SETFL, 0) == 0);
    CHECK(recv(fds[node], &other, sizeof other, MSG_WAITALL) == sizeof other);
    CHECK(other.bytes[0] == node && memcmp(&other, &cards[node], sizeof other) == 0);
  }
}

/* So few that not all strangers who may be held can be. */
static void meet_in_need(void *number) {
  struct rlimit few = {FEW_DESCRIPTORS, FEW_DESCRIPTORS};
  /* The test's own strangers. */
  CHECK_EQUAL(close_range((unsigned)listeners[NODES - 1] + 1, ~0u, 0), 0);
  CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &few), 0);
  meet(number);
}

/* What accept says first, in each node of `refused`: it is the caller's error, or a moment's. */
static const int errors[] = {EPERM,        EPROTO,     ENETDOWN,     ENOPROTOOPT, EHOSTDOWN,
                             EHOSTUNREACH, EOPNOTSUPP, ECONNABORTED, EINTR,       ENETUNREACH};
static unsigned errors_left;

/* In the place of libc's. */
int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
  if (errors_left == 0)
    return (int)syscall(SYS_accept4, fd, address, size, flags);
  errno = errors[--errors_left];
  return -1;
}

static void meet_refused(void *number) {
  errors_left = sizeof errors / sizeof *errors;
  meet(number);
  CHECK((intptr_t)number == NODES - 1 || errors_left == 0);
}

/* ---- strangers --------------------------------------------------------------- */

static int connect_to(int node) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0)
    (void)!connect(fd, (struct sockaddr *)&addresses[node], sizeof(struct sockaddr_in));
  return fd;
}

/* Says nothing, and comes again and again. */
static void flood(void *unused) {
  enum { HELD = 3000 }; /* on each node more than it holds */
  static int held[HELD];
  struct rlimit most;
  (void)unused;
  go_with_parent();
  CHECK(getrlimit(RLIMIT_NOFILE, &most) == 0);
  most.rlim_cur = most.rlim_max;
  CHECK(setrlimit(RLIMIT_NOFILE, &most) == 0);
  for (unsigned i = 0;; i++) {
    if (held[i % HELD] > 0)
      close(held[i % HELD]);
    held[i % HELD] = connect_to((int)(i % NODES));
    if (i % 16 == 0)
      poll(NULL, 0, 1);
  }
}

/* One byte now and then, on many connections: the beginning of what a node says. */
static void drip(void *unused) {
  go_with_parent();
  enum { HELD = 200 };
  static int held[HELD];
  uint8_t bytes[64] = {0x44, 0x53, 0x4d, 0x34};
  (void)unused;
  for (int i = 0; i < HELD; i++)
    held[i] = connect_to(i % NODES);
  for (unsigned turn = 0;; turn++) {
    for (int i = 0; i < HELD; i++)
      if (send(held[i], bytes + turn % sizeof bytes, 1, MSG_NOSIGNAL) < 0 && errno != EAGAIN) {
        close(held[i]);
        held[i] = connect_to(i % NODES);
      }
    poll(NULL, 0, 50);
  }
}

/* As a node begins, with what is no proof. */
static void lie(void *unused) {
  go_with_parent();
  uint8_t bytes[1000] = {0x44, 0x53, 0x4d, 0x34};
  (void)unused;
  for (unsigned turn = 0;; turn++) {
    int fd = connect_to((int)(turn % NODES));
    poll(NULL, 0, 1);
    memset(bytes + 4, (int)turn, sizeof bytes - 4);
    (void)!send(fd, bytes, turn % 2 == 0 ? 36 + sizeof(struct mr_introduction) : sizeof bytes,
                MSG_NOSIGNAL);
    poll(NULL, 0, 1);
    close(fd);
  }
}

/* Says nothing, but is there before all others. */
static void hold(int *held, int count, int node) {
  for (int i = 0; i < count; i++)
    held[i] = connect_to(node);
}

static void let_go(const int *held, int count) {
  for (int i = 0; i < count; i++)
    close(held[i]);
}

/* ---- all together -------------------------------------------------------------- */

static void run(const char *what, void (*stranger)(void *), void (*node)(void *), int backlog) {
  enum { EARLY = 100 };
  pid_t started[NODES], visitor;
  int early[NODES][EARLY];
  int64_t begun = maru_now_ns();
  snprintf(check_note, sizeof check_note, "(%s)", what);
  listen_all(backlog);
  for (int i = 0; i < NODES; i++)
    hold(early[i], stranger == flood ? EARLY : 0, i);
  visitor = start(stranger, NULL);
  poll(NULL, 0, 100); /* they are there first */
  for (intptr_t i = 0; i < NODES; i++) {
    poll(NULL, 0, i == NODES - 1 ? 200 : 0); /* the last comes when the others have met */
    started[i] = start(node, (void *)i);
  }
  close_all();
  for (int i = 0; i < NODES; i++)
    CHECK_EQUAL(finish(started[i]), 0);
  kill(visitor, SIGKILL);
  CHECK_EQUAL(finish(visitor), SIGKILL);
  for (int i = 0; i < NODES; i++)
    let_go(early[i], stranger == flood ? EARLY : 0);
  CHECK(maru_now_ns() - begun < LIVENESS_NS);
}

static void nobody(void *unused) {
  (void)unused;
  go_with_parent();
  pause();
}

/* ---- one connection, by hand ------------------------------------------------------ */

/* Only node 0 runs, of job.nodes; this process is whoever calls it. */
static pid_t start_listener(void) {
  listen_all(SOMAXCONN);
  return start(meet, (void *)0);
}

static uint16_t by_hand = 1; /* the node that this process plays */

static void begin_by_hand(struct mr_handshake *h) {
  static struct mr_job mine;
  static uint8_t nonce[MR_NONCE];
  nonce[0]++;
  mine = job;
  mine.me = by_hand;
  mine.incarnation = 100u + by_hand;
  card.bytes[0] = (uint8_t)(by_hand + 1);
  mr_handshake_begin(h, &mine, &card, MR_CALLER, 0, nonce);
}

/* Up to that stage, and sends what is then to be sent, but for a nod. */
static int go_to(struct mr_handshake *h, enum mr_stage stage) {
  int fd = connect_to(0);
  CHECK(fd >= 0 && fcntl(fd, F_SETFL, 0) == 0);
  begin_by_hand(h);
  for (;;) {
    uint8_t bytes[sizeof(struct mr_introduction)];
    if (h->stage == MR_MET || h->left == 0 || h->stage == MR_STRANGER)
      return fd;
    CHECK(send(fd, h->out, h->left, MSG_NOSIGNAL) == (ssize_t)h->left);
    mr_handshake_sent(h, h->left);
    if (h->stage == stage)
      return fd;
    size_t wants = mr_handshake_wants(h);
    CHECK(recv(fd, bytes, wants, MSG_WAITALL) == (ssize_t)wants);
    mr_handshake_hear(h, bytes, wants);
  }
}

static void nod_at(int fd, const struct mr_handshake *h) {
  CHECK(h->stage == MR_MET && send(fd, h->out, h->left, MSG_NOSIGNAL) == (ssize_t)h->left);
}

static void greet_node_0(int fd) {
  struct mr_card other, own = {.bytes = {(uint8_t)(by_hand + 1)}};
  CHECK(send(fd, &own, sizeof own, MSG_NOSIGNAL) == sizeof own);
  CHECK(recv(fd, &other, sizeof other, MSG_WAITALL) == sizeof other && other.bytes[0] == 1);
}

/* It nods late, when more strangers have come than are held, and the oldest have gone. */
static void check_late_nod(void) {
  enum { MANY = MR_STRANGERS + 100 };
  struct mr_handshake h;
  int held[MANY];
  uint8_t end;
  snprintf(check_note, sizeof check_note, "(a late nod)");
  pid_t listener = start_listener();
  int fd = go_to(&h, MR_MET);
  CHECK(h.stage == MR_MET);
  poll(NULL, 0, 50);
  hold(held, MANY, 0);
  CHECK(fcntl(held[0], F_SETFL, 0) == 0 && recv(held[0], &end, 1, 0) <= 0);
  CHECK(fcntl(held[MANY - 1], F_SETFL, 0) == 0 && recv(held[MANY - 1], &end, 1, 0) <= 0);
  nod_at(fd, &h);
  greet_node_0(fd);
  CHECK_EQUAL(finish(listener), 0);
  let_go(held, MANY);
  close(fd);
  close_all();
}

/* A caller that dies at each of its steps leaves room for its next self. */
static void check_dying_callers(void) {
  struct mr_handshake h;
  snprintf(check_note, sizeof check_note, "(callers that die)");
  pid_t listener = start_listener();
  for (int turn = 0; turn < 300; turn++) {
    int fd = go_to(&h, turn % 3 == 0 ? MR_OPENING : turn % 3 == 1 ? MR_INTRODUCTION : MR_MET);
    close(fd);
  }
  int fd = go_to(&h, MR_MET);
  nod_at(fd, &h);
  greet_node_0(fd);
  CHECK_EQUAL(finish(listener), 0);
  close(fd);
  close_all();
}

/* Two connections of one node: the first that it nods at is the one. */
static void check_twice(void) {
  struct mr_handshake h, again;
  uint8_t end;
  snprintf(check_note, sizeof check_note, "(twice the same node)");
  job.nodes = 3;
  pid_t listener = start_listener();
  int fd = go_to(&h, MR_MET), other = go_to(&again, MR_MET);
  nod_at(fd, &h);
  poll(NULL, 0, 200);
  nod_at(other, &again);
  CHECK(recv(other, &end, 1, 0) <= 0);
  close(other);
  by_hand = 2;
  other = go_to(&again, MR_MET);
  nod_at(other, &again);
  greet_node_0(other);
  by_hand = 1;
  greet_node_0(fd);
  CHECK_EQUAL(finish(listener), 0);
  close(fd);
  close(other);
  close_all();
  job.nodes = 2;
}

/* The stranger that sits there says nothing at all; then node 0 is there. */
static void check_silent_impostor(void) {
  snprintf(check_note, sizeof check_note, "(a silent impostor)");
  listen_all(SOMAXCONN);
  pid_t caller = start(meet, (void *)1);
  int fd = accept4(listeners[0], NULL, NULL, SOCK_CLOEXEC);
  pid_t listener = start(meet, (void *)0);
  CHECK_EQUAL(finish(caller), 0);
  CHECK_EQUAL(finish(listener), 0);
  close(fd);
  close_all();
}

/* A wrong nod is nobody's, and the place is still free. */
static void check_wrong_nod(void) {
  struct mr_handshake h;
  uint8_t end;
  snprintf(check_note, sizeof check_note, "(a wrong nod)");
  pid_t listener = start_listener();
  int fd = go_to(&h, MR_MET);
  h.out[0] ^= 2;
  CHECK(send(fd, h.out, h.left, MSG_NOSIGNAL) == MR_HMAC && recv(fd, &end, 1, 0) <= 0);
  close(fd);
  fd = go_to(&h, MR_MET);
  nod_at(fd, &h);
  greet_node_0(fd);
  CHECK_EQUAL(finish(listener), 0);
  close(fd);
  close_all();
}

/* A stranger sits at node 0's address: a caller shows it no bytes of the secret, whatever it
 * answers, and does not take it for node 0. */
static void check_impostor(void) {
  uint8_t heard[4096], answer[OPENING + sizeof(struct mr_introduction)] = {0x44, 0x53, 0x4d, 0x34};
  snprintf(check_note, sizeof check_note, "(an impostor)");
  listen_all(SOMAXCONN);
  pid_t caller = start(meet, (void *)1);
  for (int turn = 0; turn < 3; turn++) {
    int fd = accept4(listeners[0], NULL, NULL, SOCK_CLOEXEC);
    const size_t whole = OPENING + sizeof(struct mr_introduction);
    memset(answer + 4, turn, sizeof answer - 4);
    CHECK(fd >= 0 && send(fd, answer, OPENING, MSG_NOSIGNAL) == OPENING);
    CHECK(recv(fd, heard, whole, MSG_WAITALL) == (ssize_t)whole);
    CHECK(send(fd, answer + OPENING, sizeof answer - OPENING, MSG_NOSIGNAL) > 0);
    ssize_t more = recv(fd, heard + whole, sizeof heard - whole, MSG_WAITALL);
    size_t length = whole + (more > 0 ? (size_t)more : 0);
    CHECK_EQUAL(length, whole); /* no nod either */
    for (int i = 0; i + 4 <= MR_SECRET; i++)
      CHECK(memmem(heard, length, job.secret + i, 4) == NULL);
    close(fd);
  }
  kill(caller, SIGKILL);
  CHECK_EQUAL(finish(caller), SIGKILL);
  close_all();
}

static char missing[MR_MISSING];

/* Whether a node was told to be missing at its address, for that reason. */
static bool is_missing(uint16_t node, const char *reason) {
  char at[MR_ADDRESS_TEXT], told[MR_MISSING];
  mr_address_write(&addresses[node], mr_address_port(&addresses[node]), at);
  snprintf(told, sizeof told, "node %u at %s: %s", node, at, reason);
  return strcmp(missing, told) == 0;
}

/* A node calls whoever is in the place of the lost one. That one died while they met, and nobody
 * comes. */
static void check_nobody_again(void) {
  struct mr_job mine = job;
  struct mr_card cards[NODES];
  uint32_t incarnations[NODES];
  int fds[NODES];
  snprintf(check_note, sizeof check_note, "(nobody joins again)");
  mine.nodes = NODES;
  mine.addresses = addresses;
  mine.again = true;
  mine.lost = LOST;
  listen_all(SOMAXCONN);
  mine.listener = -1;
  mine.missing = missing;
  CHECK_EQUAL(mr_join(&mine, &card, fds, cards, incarnations, 1), -ETIMEDOUT);
  CHECK(fds[LOST] < 0);
  CHECK(is_missing(LOST, "it does not answer"));
  mine.me = LOST;
  mine.listener = listeners[LOST];
  CHECK_EQUAL(mr_join(&mine, &card, fds, cards, incarnations, 1), -ETIMEDOUT);
  CHECK(strcmp(missing, "node 0 has not called") == 0);
  close_all();
}

/* Says that to each who calls node 0, and hangs up. */
static const char *greeting;
static void answer_all(void *unused) {
  uint8_t heard[OPENING];
  (void)unused;
  go_with_parent();
  for (;;) {
    int fd = accept4(listeners[0], NULL, NULL, SOCK_CLOEXEC);
    (void)!recv(fd, heard, sizeof heard, MSG_WAITALL);
    (void)!send(fd, greeting, strlen(greeting), MSG_NOSIGNAL);
    close(fd);
  }
}

/* Why nobody was met there is said. */
static void check_reasons(void) {
  static const struct {
    const char *greeting, *why; /* NULL: nothing listens there */
  } cases[] = {{"", "it hung up"},
               {"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n",
                "what answers there is no node of this version"},
               {NULL, "Connection refused"}};
  struct mr_job mine = job;
  struct mr_card cards[2];
  uint32_t incarnations[2];
  int fds[2];
  snprintf(check_note, sizeof check_note, "(reasons)");
  mine.nodes = 2;
  mine.me = 1;
  mine.addresses = addresses;
  mine.missing = missing;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    listen_all(SOMAXCONN);
    mine.listener = listeners[1];
    greeting = cases[i].greeting;
    pid_t other = greeting != NULL ? start(answer_all, NULL) : 0;
    close(listeners[0]);
    listeners[0] = -1;
    CHECK_EQUAL(mr_join(&mine, &card, fds, cards, incarnations, 3), -ETIMEDOUT);
    CHECK(is_missing(0, cases[i].why));
    if (other != 0) {
      kill(other, SIGKILL);
      CHECK_EQUAL(finish(other), SIGKILL);
    }
    close_all();
  }
}

static void check_refusals(void) {
  struct mr_job mine = job;
  struct mr_card cards[2];
  uint32_t incarnations[2];
  int fds[2];
  snprintf(check_note, sizeof check_note, "(refusals)");
  mine.nodes = 2;
  mine.addresses = addresses;
  listen_all(SOMAXCONN);
  mine.listener = listeners[0];
  CHECK_EQUAL(mr_join(&mine, &card, fds, cards, incarnations, 1), -ETIMEDOUT);
  mine.me = 1;
  mine.listener = listeners[1];
  CHECK_EQUAL(mr_join(&mine, &card, fds, cards, incarnations, 1), -ETIMEDOUT);
  close_all();
}

static void fail_by_settings(void *number) {
  struct mr_job mine = job;
  struct mr_card cards[2];
  uint32_t incarnations[2];
  int fds[2], before = dup(0);
  mine.me = (uint16_t)(intptr_t)number;
  mine.listener = listeners[mine.me];
  mine.addresses = addresses;
  mine.settings += mine.me;
  CHECK_EQUAL(mr_join(&mine, &card, fds, cards, incarnations, seconds), -EPROTO);
  mine.settings = 7;
  mine.transport = mine.me == 0 ? "tcp" : "ofi:net";
  CHECK_EQUAL(mr_join(&mine, &card, fds, cards, incarnations, seconds), -EPROTOTYPE);
  close(before);
  CHECK_EQUAL(dup(0), before); /* none is left open */
}

static void check_differences(void) {
  snprintf(check_note, sizeof check_note, "(nodes that differ)");
  listen_all(SOMAXCONN);
  pid_t one = start(fail_by_settings, (void *)0), other = start(fail_by_settings, (void *)1);
  CHECK_EQUAL(finish(one), 0);
  CHECK_EQUAL(finish(other), 0);
  close_all();
}

int main(void) {
  const char *asked = getenv("MARU_DSM_SECONDS");
  seconds = asked != NULL ? atoi(asked) : SECONDS;
  for (int i = 0; i < MR_SECRET; i++)
    job.secret[i] = (uint8_t)(0x80 + i * 3);
  run("nobody", nobody, meet, SOMAXCONN);
  run("nobody, and accept fails", nobody, meet_refused, SOMAXCONN);
  run("silent ones", flood, meet, SOMAXCONN);
  run("silent ones, and a short queue", flood, meet, 4);
  run("silent ones, and few descriptors", flood, meet_in_need, SOMAXCONN);
  run("slow ones", drip, meet, SOMAXCONN);
  run("liars", lie, meet, SOMAXCONN);
  run("nobody, again", nobody, meet_lost, SOMAXCONN);
  run("silent ones, again", flood, meet_lost, SOMAXCONN);
  run("liars, again", lie, meet_lost, SOMAXCONN);
  check_nobody_again();
  job.nodes = 2;
  check_late_nod();
  check_twice();
  check_silent_impostor();
  check_dying_callers();
  check_wrong_nod();
  check_impostor();
  check_refusals();
  check_reasons();
  check_differences();
  return 0;
}
