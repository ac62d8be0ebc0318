/* poll_loop.c: ordinary programs that exchange messages over sockets and ask for them without
 * waiting; nothing of maru is in it.  Prints JSON.
 *
 *     poll_loop NAME=VALUE...
 *
 *   ask=HOW       poll, epoll, select, recv, read: again and again with a time-out of zero;
 *                 yield: recv and sched_yield; block: a blocking read (poll)
 *   pairs=N       of processes, one on each of two CPUs, 1 to 16 (2)
 *   compute=US    CPU time between two messages (200)
 *   rounds=N      messages each way (300)
 *   hogs=N        processes on each CPU that only compute (0)
 *   link=WHERE    unix: a socket pair; tcp: TCP between two network namespaces over a pair of
 *                 virtual Ethernet devices (root; made here, gone with the processes)
 *   cgroups=1     a control group for each pair (root, a writable cpu controller)
 *   limit=S       ended after that: "done" is false (10)
 *
 * Each process sends, receives, computes, again. This program outranks what it starts, where it
 * may, and ends all of it at the limit. Status 77: what was asked for cannot be had here, and why.
 */
#define _GNU_SOURCE
#include "../jobs/groups.h"

#include "arguments.h"
#include "json.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#define MOST_PAIRS 16
#define NODES 2
#define PORT 7700
#define WATCH_PRIORITY 50
#define ADDRESS "10.177.0.1"

struct shared {
  _Atomic uint32_t ready, started;
  _Atomic int64_t ended_ns[MOST_PAIRS][NODES];
};

static struct shared *shared;
static const char *ask = "poll", *link_kind = "unix";
static int64_t pairs = 2, rounds = 300, hogs, cgroups, limit_s = 10;
static double compute_us = 200;
static int cpus[NODES];
static pid_t children[MOST_PAIRS * NODES], hog_pids[NODES * 8];
static unsigned hog_count;

static int64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* CPU time, so that whoever is pushed aside computes as long as the others. */
static void compute(void) {
  int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + (int64_t)(compute_us * 1000);
  while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
    continue;
}

static bool is(const char *word, const char *other) { return strcmp(word, other) == 0; }

/* ---- asking -------------------------------------------------------------- */

static int epoll_of(int fd) {
  struct epoll_event event = {.events = EPOLLIN};
  int set = epoll_create1(0);
  CHECK(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
  return set;
}

static bool there(int fd, int set) {
  struct pollfd one = {.fd = fd, .events = POLLIN};
  struct epoll_event event;
  struct timeval zero = {0};
  fd_set in;
  if (is(ask, "poll"))
    return poll(&one, 1, 0) == 1;
  if (is(ask, "epoll"))
    return epoll_wait(set, &event, 1, 0) == 1;
  FD_ZERO(&in);
  FD_SET(fd, &in);
  return select(fd + 1, &in, NULL, NULL, &zero) == 1;
}

static ssize_t receive(int fd, uint64_t *number) {
  if (is(ask, "recv") || is(ask, "yield"))
    return recv(fd, number, sizeof *number, MSG_DONTWAIT);
  return read(fd, number, sizeof *number);
}

/* Messages are eight bytes and come whole: one is under way at a time. */
static void expect(int fd, int set, uint64_t wanted) {
  uint64_t number;
  ssize_t got;
  if (is(ask, "poll") || is(ask, "epoll") || is(ask, "select"))
    while (!there(fd, set))
      continue;
  while ((got = receive(fd, &number)) < 0 && errno == EAGAIN)
    if (is(ask, "yield"))
      sched_yield();
  CHECK_EQUAL(got, sizeof number);
  CHECK_EQUAL(number, wanted);
}

static void converse(unsigned pair, unsigned node, int fd) {
  int set = is(ask, "epoll") ? epoll_of(fd) : -1;
  if (is(ask, "read"))
    CHECK_EQUAL(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  atomic_fetch_add(&shared->ready, 1);
  while (!atomic_load(&shared->started))
    usleep(200);
  for (uint64_t round = 1; round <= (uint64_t)rounds; round++) {
    CHECK_EQUAL(write(fd, &round, sizeof round), sizeof round);
    expect(fd, set, round);
    compute();
  }
  atomic_store(&shared->ended_ns[pair][node], clock_ns(CLOCK_MONOTONIC));
}

/* ---- places -------------------------------------------------------------- */

static void choose_cpus(void) {
  cpu_set_t set;
  int found = 0;
  CHECK_EQUAL(sched_getaffinity(0, sizeof set, &set), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE && found < NODES; cpu++)
    if (CPU_ISSET(cpu, &set))
      cpus[found++] = cpu;
  if (found < NODES)
    skip("needs two CPUs");
}

/* A child's beginning: on its node, like any other program, and gone with its parent. */
static void settle(unsigned node) {
  cpu_set_t set;
  struct sched_param normal = {0};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  CPU_ZERO(&set);
  CPU_SET(cpus[node], &set);
  CHECK_EQUAL(sched_setaffinity(0, sizeof set, &set), 0);
  CHECK_EQUAL(sched_setscheduler(0, SCHED_OTHER, &normal), 0);
}

/* ---- links --------------------------------------------------------------- */

/* The second node's network namespace lives as long as this process. */
static pid_t other_network;

static void hold_network(void *unused) {
  (void)unused;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  CHECK_EQUAL(unshare(CLONE_NEWNET), 0);
  atomic_fetch_add(&shared->ready, 1);
  for (;;)
    pause();
}

static void make_networks(void) {
  char script[512];
  if (unshare(CLONE_NEWNET) < 0)
    skip("needs the right to make network namespaces");
  other_network = start(hold_network, NULL);
  while (atomic_load(&shared->ready) == 0)
    usleep(1000);
  atomic_store(&shared->ready, 0);
  snprintf(script, sizeof script,
           "exec 2>/dev/null; ip link add m0 type veth peer name m1 netns %d && ip addr add "
           "10.177.0.1/24 dev m0 && ip link set m0 up && nsenter -t %d -n sh -c 'ip addr add "
           "10.177.0.2/24 dev m1 && ip link set m1 up'",
           (int)other_network, (int)other_network);
  if (system(script) != 0)
    skip("needs ip (iproute2), nsenter (util-linux) and virtual Ethernet devices");
}

static void enter_other_network(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/net", (int)other_network);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0 && setns(fd, CLONE_NEWNET) == 0);
  close(fd);
}

static int tcp(unsigned pair, unsigned node) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT + pair))};
  int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK_EQUAL(inet_pton(AF_INET, ADDRESS, &address.sin_addr), 1);
  CHECK(fd >= 0);
  if (node == 0) {
    CHECK_EQUAL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    CHECK_EQUAL(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQUAL(listen(fd, 1), 0);
    fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    CHECK(fd >= 0);
  } else {
    enter_other_network();
    int tries = 0;
    while (connect(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), (struct sockaddr *)&address,
                   sizeof address) < 0) {
      close(fd);
      CHECK(++tries < 1000);
      usleep(5000);
    }
  }
  CHECK_EQUAL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
  return fd;
}

static void start_pair(unsigned pair) {
  int ends[NODES];
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  for (unsigned node = 0; node < NODES; node++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      settle(node);
      join_group(pair);
      converse(pair, node, is(link_kind, "tcp") ? tcp(pair, node) : ends[node]);
      exit(0); /* what stands before libc tells what it counted */
    }
    children[pair * NODES + node] = pid;
  }
  close(ends[0]);
  close(ends[1]);
}

static void start_hog(unsigned node) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    settle(node);
    while (!atomic_load(&shared->started))
      usleep(200);
    for (;;)
      __asm__ volatile("");
  }
  hog_pids[hog_count++] = pid;
}

/* ---- the run ------------------------------------------------------------- */

static void sleep_ms(long ms) {
  struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

static double reap(pid_t pid) {
  struct rusage used;
  int status;
  while (wait4(pid, &status, 0, &used) < 0)
    CHECK(errno == EINTR);
  if (WIFEXITED(status))
    CHECK_EQUAL(WEXITSTATUS(status), 0);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static unsigned ended(void) {
  unsigned count = 0;
  for (long pair = 0; pair < pairs; pair++)
    for (unsigned node = 0; node < NODES; node++)
      count += atomic_load(&shared->ended_ns[pair][node]) != 0;
  return count;
}

static void read_settings(int argc, char **argv) {
  const struct mr_option settings[] = {
      {"pairs", MR_WHOLE, &pairs, "pairs", 1, MOST_PAIRS},
      {"rounds", MR_WHOLE, &rounds, "rounds", 1, 10000000},
      {"hogs", MR_WHOLE, &hogs, "hogs", 0, 4},
      {"cgroups", MR_WHOLE, &cgroups, "no or yes", 0, 1},
      {"limit", MR_WHOLE, &limit_s, "seconds", 1, 300},
      {"compute", MR_REAL, &compute_us, "microseconds", 0, 1e9},
      {"ask", MR_TEXT, &ask, NULL, 0, 0},
      {"link", MR_TEXT, &link_kind, NULL, 0, 0},
  };
  for (int i = 1; i < argc; i++)
    mr_setting("poll_loop", settings, sizeof settings / sizeof *settings, argv[i]);
}

static void report(int64_t began_ns, double cpu, double hog_cpu) {
  int64_t last = 0;
  unsigned count = ended();
  for (long pair = 0; pair < pairs; pair++)
    for (unsigned node = 0; node < NODES; node++) {
      int64_t at = atomic_load(&shared->ended_ns[pair][node]);
      last = at > last ? at : last;
    }
  bool done = count == (unsigned)pairs * NODES;
  double wall = done ? (double)(last - began_ns) * 1e-9 : (double)limit_s;
  double ideal = (double)pairs * compute_us * 1e-6 * (double)rounds;
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  mr_json_bool(&json, "done", done);
  mr_json_real(&json, "wall_s", wall, 6);
  mr_json_real(&json, "ideal_s", ideal, 6);
  mr_json_real(&json, "times_ideal", wall / ideal, 4);
  mr_json_real(&json, "cpu_s", cpu, 6);
  mr_json_real(&json, "hog_share", hog_cpu / (NODES * wall), 4);
  mr_json_end_object(&json);
  putchar('\n');
}

int main(int argc, char **argv) {
  read_settings(argc, argv);
  choose_cpus();
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  if (cgroups)
    make_groups(pairs);
  if (is(link_kind, "tcp"))
    make_networks();
  /* Without the right it shares the CPUs with what it watches. */
  struct sched_param param = {.sched_priority = WATCH_PRIORITY};
  (void)sched_setscheduler(0, SCHED_FIFO, &param);
  for (unsigned pair = 0; pair < (unsigned)pairs; pair++)
    start_pair(pair);
  for (unsigned i = 0; i < (unsigned)hogs * NODES; i++)
    start_hog(i % NODES);
  int64_t end_ns = clock_ns(CLOCK_MONOTONIC) + 20 * INT64_C(1000000000);
  while (atomic_load(&shared->ready) < (unsigned)pairs * NODES) {
    CHECK(clock_ns(CLOCK_MONOTONIC) < end_ns);
    sleep_ms(1);
  }
  int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
  end_ns = began_ns + limit_s * 1000000000;
  atomic_store(&shared->started, 1);
  while (ended() < (unsigned)pairs * NODES && clock_ns(CLOCK_MONOTONIC) < end_ns)
    sleep_ms(2);
  double cpu = 0, hog_cpu = 0;
  bool done = ended() == (unsigned)pairs * NODES;
  for (unsigned i = 0; i < hog_count; i++) {
    kill(hog_pids[i], SIGKILL);
    hog_cpu += reap(hog_pids[i]);
  }
  for (unsigned i = 0; i < (unsigned)pairs * NODES; i++) {
    if (!done)
      kill(children[i], SIGKILL);
    cpu += reap(children[i]);
  }
  if (other_network > 0) {
    kill(other_network, SIGKILL);
    (void)waitpid(other_network, NULL, 0);
  }
  report(began_ns, cpu, hog_cpu);
  return 0;
}
