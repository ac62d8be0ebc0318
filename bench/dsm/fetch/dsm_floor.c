/* maru-bench-dsm-floor: what the network alone takes for what a fetch sends, over the loopback
 * interface.  Prints JSON.
 *
 *     maru-bench-dsm-floor TRANSPORT SPIN_US ROUNDS
 *
 * Two processes, one connection, nothing else: one sends as many bytes as a request has, the other
 * answers with as many as the answer. One page at a time, then 64, then one with a millisecond
 * before it. Then 4 and 2 KiB go to and fro: half of that is a transfer one way. TRANSPORT is tcp
 * or ofi:PROVIDER. The side that asks looks again and again, and gives way once nothing has come
 * for longer than an answer takes. The other side does so, too, or with SPIN_US 0 sleeps in the
 * kernel (tcp only). Messages of libfabric are sent as one each, with a queue of completions that
 * nobody can sleep on: the quickest that the provider offers.
 */
#define _GNU_SOURCE
#include "times.h"

#include "arguments.h"

#include <maru/wait.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURNS 1024u
#define BATCHES 14u
#define BATCH 64u
#define RESTED 64u
#define PAUSE_NS 1000000
#define SECONDS 60
/* So many in vain: on a busy machine the other waits for this processor. */
#define LOOKS 64u
/* Of maru's messages: a header; for each page its number and version, and what goes with a copy. */
#define HEADER 32u
#define ASKED 12u
#define COPY (16u + 4096u)
#define MOST (HEADER + BATCH * COPY)

static uint8_t memory[MOST];
static volatile pid_t child; /* who answers; 0 there */

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "maru: maru-bench-dsm-floor: %s: %s\n", what, strerror(errno));
  exit(70);
}

/* A handler: it may have interrupted anything. The side that answers would say that we are gone. */
static _Noreturn void late(int signal) {
  static const char line[] =
      "maru: maru-bench-dsm-floor: ended, since it was not done in time (60 s): give it fewer "
      "ROUNDS, or the machine less to do\n";
  (void)signal;
  if (child > 0)
    kill(child, SIGKILL);
  (void)!write(STDERR_FILENO, line, sizeof line - 1);
  _exit(70);
}

/* One way to send and to receive. */
struct way {
  void (*send)(size_t size);
  void (*receive)(size_t size);
  void (*progress)(void); /* of what was sent */
};

static void answer(const struct way *way, uint32_t turns, size_t asked, size_t answered) {
  for (uint32_t i = 0; i < turns; i++) {
    way->receive(asked);
    way->send(answered);
  }
}

/* The times of one of `parts` each. */
static void ask(const struct way *way, uint32_t turns, size_t asked, size_t answered,
                uint32_t parts, int64_t pause_ns, int64_t *times) {
  for (uint32_t i = 0; i < turns; i++) {
    int64_t begin = maru_now_ns();
    for (int64_t until = begin + pause_ns; begin < until;)
      begin = maru_now_ns();
    way->send(asked);
    way->receive(answered);
    times[i] = (maru_now_ns() - begin) / parts;
  }
}

static void looked(bool found) {
  static unsigned in_vain;
  in_vain = found ? 0 : in_vain + 1;
  if (in_vain >= LOOKS)
    sched_yield();
}

/* ---- TCP ------------------------------------------------------------------------ */

static int connection;
static bool sleeps;

static void send_by_tcp(size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = send(connection, memory + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN)
      fail("send");
    looked(n > 0);
    done += n > 0 ? (size_t)n : 0;
  }
}

static void receive_by_tcp(size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = recv(connection, memory + done, size - done, sleeps ? 0 : MSG_DONTWAIT);
    if (n == 0)
      errno = ECONNRESET;
    if (n == 0 || (n < 0 && errno != EAGAIN))
      fail("recv");
    looked(n > 0);
    done += n > 0 ? (size_t)n : 0;
  }
}

static void give_way(void) { sched_yield(); }

static void connect_by_tcp(bool answers, const int *pair) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  if (answers) {
    if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) < 0 ||
        write(pair[1], &address, size) != size || (connection = accept(listener, NULL, NULL)) < 0)
      fail("cannot listen");
    close(listener);
  } else {
    connection = listener;
    if (read(pair[0], &address, size) != size ||
        connect(connection, (struct sockaddr *)&address, size) < 0)
      fail("cannot connect");
  }
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* ---- libfabric ------------------------------------------------------------------- */

#ifdef MARU_FABRIC
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define BUFFERS 4
#define ADDRESS 256

static struct {
  struct fi_info *info;
  struct fid_fabric *fabric;
  struct fid_domain *domain;
  struct fid_av *av;
  struct fid_cq *cq;
  struct fid_ep *ep;
  fi_addr_t peer;
  struct fi_context2 contexts[BUFFERS], sending;
  uint8_t *buffers[BUFFERS];
  unsigned came; /* messages that nobody has waited for yet */
  bool sent;
} ofi;

static void succeed(ssize_t rc, const char *what) {
  if (rc == 0)
    return;
  fprintf(stderr, "maru: maru-bench-dsm-floor: %s: %s\n", what, fi_strerror((int)-rc));
  exit(70);
}

static void post(int i) {
  succeed(fi_recv(ofi.ep, ofi.buffers[i], MOST, NULL, FI_ADDR_UNSPEC, &ofi.contexts[i]), "fi_recv");
}

static void look(void) {
  struct fi_cq_msg_entry entries[BUFFERS];
  ssize_t count = fi_cq_read(ofi.cq, entries, BUFFERS);
  looked(count > 0);
  if (count == -FI_EAGAIN)
    return;
  if (count < 0)
    succeed(count, "fi_cq_read");
  for (ssize_t k = 0; k < count; k++)
    if (entries[k].op_context == &ofi.sending) {
      ofi.sent = true;
    } else {
      ofi.came++;
      post((int)((struct fi_context2 *)entries[k].op_context - ofi.contexts));
    }
}

static void send_by_ofi(size_t size) {
  ssize_t rc;
  while (!ofi.sent)
    look();
  ofi.sent = false;
  while ((rc = fi_send(ofi.ep, memory, size, NULL, ofi.peer, &ofi.sending)) == -FI_EAGAIN)
    look();
  succeed(rc, "fi_send");
}

static void receive_by_ofi(size_t size) {
  (void)size;
  while (ofi.came == 0)
    look();
  ofi.came--;
}

static void open_endpoint(const char *provider) {
  struct fi_info *hints = fi_allocinfo();
  struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_MSG};
  struct fi_av_attr addresses = {.count = 2};
  hints->caps = FI_MSG;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->fabric_attr->prov_name = strdup(provider);
  succeed(fi_getinfo(FI_VERSION(1, 9), "127.0.0.1", NULL, FI_SOURCE, hints, &ofi.info),
          "fi_getinfo");
  fi_freeinfo(hints);
  succeed(fi_fabric(ofi.info->fabric_attr, &ofi.fabric, NULL), "fi_fabric");
  succeed(fi_domain(ofi.fabric, ofi.info, &ofi.domain, NULL), "fi_domain");
  succeed(fi_av_open(ofi.domain, &addresses, &ofi.av, NULL), "fi_av_open");
  succeed(fi_cq_open(ofi.domain, &queue, &ofi.cq, NULL), "fi_cq_open");
  succeed(fi_endpoint(ofi.domain, ofi.info, &ofi.ep, NULL), "fi_endpoint");
  succeed(fi_ep_bind(ofi.ep, &ofi.av->fid, 0), "fi_ep_bind");
  succeed(fi_ep_bind(ofi.ep, &ofi.cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
  succeed(fi_enable(ofi.ep), "fi_enable");
}

static void connect_by_ofi(const char *provider, bool answers, const int *pair) {
  uint8_t mine[ADDRESS] = {0}, theirs[ADDRESS];
  size_t size = sizeof mine;
  open_endpoint(provider);
  succeed(fi_getname(&ofi.ep->fid, mine, &size), "fi_getname");
  if (write(pair[answers], mine, sizeof mine) != sizeof mine ||
      read(pair[answers], theirs, sizeof theirs) != sizeof theirs ||
      fi_av_insert(ofi.av, theirs, 1, &ofi.peer, 0, NULL) != 1)
    fail("cannot exchange addresses");
  for (int i = 0; i < BUFFERS; i++) {
    ofi.buffers[i] = malloc(MOST);
    if (ofi.buffers[i] == NULL)
      fail("memory");
    post(i);
  }
  ofi.sent = true;
}

static const struct way by_ofi = {send_by_ofi, receive_by_ofi, look};
#endif

/* ---- both ------------------------------------------------------------------------- */

static const struct way *connect_by(const char *transport, bool answers, const int *pair) {
  static const struct way by_tcp = {send_by_tcp, receive_by_tcp, give_way};
  if (strcmp(transport, "tcp") == 0) {
    connect_by_tcp(answers, pair);
    return &by_tcp;
  }
#ifdef MARU_FABRIC
  if (strncmp(transport, "ofi:", 4) == 0) {
    connect_by_ofi(transport + 4, answers, pair);
    return &by_ofi;
  }
#endif
  fprintf(stderr, "maru: maru-bench-dsm-floor: no transport '%s' here\n", transport);
  exit(69);
}

/* The side that answers goes on until the other has got its last message: a provider may need
 * both. */
static void part(const struct way *way, bool answers, const int *pair) {
  char byte = 0;
  if (!answers && write(pair[0], &byte, 1) != 1)
    fail("the other is gone");
  while (answers && recv(pair[1], &byte, 1, MSG_DONTWAIT) != 1)
    way->progress();
}

/* What goes to and fro, and the times of which part of it. */
static const struct exchange {
  const char *name;
  size_t asked, answered;
  uint32_t turns, parts;
  int64_t pause_ns;
} exchanges[] = {
    {"one", HEADER + ASKED, HEADER + COPY, TURNS, 1, 0},
    {"batched", HEADER + BATCH *ASKED, MOST, BATCHES, BATCH, 0},
    {"rested", HEADER + ASKED, HEADER + COPY, RESTED, 1, PAUSE_NS},
    {"one_way_4096", 4096, 4096, TURNS, 2, 0},
    {"one_way_2048", 2048, 2048, TURNS, 2, 0},
};
#define EXCHANGES (sizeof exchanges / sizeof *exchanges)

static void serve(const char *transport, uint32_t rounds, const int *pair) {
  const struct way *way = connect_by(transport, true, pair);
  for (uint32_t round = 0; round < rounds; round++)
    for (size_t e = 0; e < EXCHANGES; e++)
      answer(way, exchanges[e].turns, exchanges[e].asked, exchanges[e].answered);
  part(way, true, pair);
  exit(0);
}

static void measure(const char *transport, uint32_t rounds, const int *pair) {
  int64_t *times[EXCHANGES];
  for (size_t e = 0; e < EXCHANGES; e++)
    if ((times[e] = calloc(rounds * (size_t)exchanges[e].turns, sizeof **times)) == NULL)
      fail("memory");
  const struct way *way = connect_by(transport, false, pair);
  for (uint32_t round = 0; round < rounds; round++)
    for (size_t e = 0; e < EXCHANGES; e++) {
      const struct exchange *x = &exchanges[e];
      ask(way, x->turns, x->asked, x->answered, x->parts, x->pause_ns,
          times[e] + round * (size_t)x->turns);
    }
  part(way, false, pair);
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  mr_json_text(&json, "unit", "ns");
  for (size_t e = 0; e < EXCHANGES; e++)
    report(&json, exchanges[e].name, times[e], rounds * (size_t)exchanges[e].turns);
  mr_json_end_object(&json);
  putchar('\n');
}

int main(int count, char **arguments) {
  int pair[2], status;
  const char *transport;
  int64_t spin_us, asked;
  const struct mr_option operands[] = {
      {"TRANSPORT", MR_TEXT, &transport, NULL, 0, 0},
      {"SPIN_US", MR_WHOLE, &spin_us, "microseconds", 0, 1000000},
      {"ROUNDS", MR_WHOLE, &asked, "rounds", 1, 10000},
  };
  mr_operands("maru-bench-dsm-floor", operands, 3, count - 1, arguments + 1);
  uint32_t rounds = (uint32_t)asked;
  signal(SIGALRM, late);
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
    fail("socketpair");
  child = fork();
  if (child < 0)
    fail("fork");
  alarm(child == 0 ? SECONDS + 5 : SECONDS); /* who asks says so; the other ends with it */
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(pair[0]);
    sleeps = spin_us == 0;
    serve(transport, rounds, pair);
  }
  close(pair[1]);
  measure(transport, rounds, pair);
  return waitpid(child, &status, 0) == child && status == 0 ? 0 : 70;
}
