#define _GNU_SOURCE
#include "launcher.h"

#include "address.h"
#include "numbers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_SECONDS 3
/* So much longer than it takes those who meet to give up, and for a farewell. */
#define ANSWER_SECONDS 5
#define LEAVE_SECONDS 30

int64_t mr_launcher_said(const char *name) {
  const char *text = getenv(name);
  int64_t number = 0;
  return text != NULL && mr_whole(text, 0, INT32_MAX, &number) == 0 ? number : 0;
}

/* More than one process of a step of srun's. */
static bool is_step(void) {
  return getenv("SLURM_PROCID") != NULL && mr_launcher_said("SLURM_STEP_NUM_TASKS") > 1;
}

enum mr_launcher mr_launcher_find(void) {
  if (getenv("PMIX_RANK") != NULL && getenv("PMIX_NAMESPACE") != NULL)
    return MR_LAUNCHER_PMIX;
  if (getenv("PMI_FD") != NULL && getenv("PMI_RANK") != NULL)
    return MR_LAUNCHER_PMI;
  return is_step() ? MR_LAUNCHER_MUTE : MR_LAUNCHER_NONE;
}

static int say(int rc, char *why, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int say(int rc, char *why, size_t size, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, size, format, arguments);
  va_end(arguments);
  return rc;
}

/* ---- where to be reached -------------------------------------------------------- */

/* Whether the launcher says that all processes are on this host. */
static bool all_here(unsigned nodes) {
  static const char *const said[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
  for (size_t i = 0; i < sizeof said / sizeof *said; i++)
    if (mr_launcher_said(said[i]) == nodes)
      return true;
  return mr_launcher_said("SLURM_STEP_NUM_NODES") == 1;
}

/* The loopback interface's where that serves, else what MARU_DSM_ADDRESS or this host's name
 * means. */
static int find_address(unsigned nodes, struct sockaddr_storage *address, char *why, size_t size) {
  const char *asked = getenv("MARU_DSM_ADDRESS");
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  bool here = asked == NULL && all_here(nodes);
  const char *host = here ? "127.0.0.1" : asked != NULL ? asked : name;
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
  int rc = getaddrinfo(host, NULL, &hints, &found);
  if (rc != 0)
    return say(-EHOSTUNREACH, why, size, "unknown host '%s': %s%s", host, gai_strerror(rc),
               asked == NULL ? "; set MARU_DSM_ADDRESS" : "");
  const struct addrinfo *chosen = mr_address_choose(found, here || asked != NULL);
  *address = (struct sockaddr_storage){0};
  if (chosen != NULL)
    memcpy(address, chosen->ai_addr, chosen->ai_addrlen);
  freeaddrinfo(found);
  if (chosen != NULL)
    return 0;
  return asked == NULL
             ? say(-EHOSTUNREACH, why, size,
                   "this host's name, '%s', means an address that other hosts cannot reach; set "
                   "MARU_DSM_ADDRESS",
                   name)
             : say(-EHOSTUNREACH, why, size,
                   "MARU_DSM_ADDRESS is '%s', a link-local address, which other hosts cannot "
                   "reach; set it to another one",
                   asked);
}

static int listen_at(struct sockaddr_storage *address, char *why, size_t size) {
  socklen_t length = mr_address_size(address);
  char text[MR_ADDRESS_TEXT];
  int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)address, length) < 0 || listen(fd, SOMAXCONN) < 0 ||
      getsockname(fd, (struct sockaddr *)address, &length) < 0) {
    int error = errno;
    if (fd >= 0)
      close(fd);
    mr_address_write(address, 0, text);
    return say(-error, why, size, "cannot listen at %s: %s", text, strerror(error));
  }
  return fd;
}

/* ---- meeting ----------------------------------------------------------------------- */

static int put_own(const struct mr_board_way *way, struct mr_meeting *m) {
  char text[MR_ADDRESS_TEXT], secret[2 * MR_SECRET + 1];
  const struct sockaddr_storage *mine = &m->addresses[m->me];
  mr_address_write(mine, mr_address_port(mine), text);
  int rc = way->put("maru-address", text);
  if (m->me != 0 || rc < 0)
    return rc;
  if (getrandom(m->secret, sizeof m->secret, 0) != sizeof m->secret)
    return -EIO;
  for (int i = 0; i < MR_SECRET; i++)
    snprintf(secret + 2 * i, 3, "%02x", m->secret[i]);
  rc = way->put("maru-secret", secret);
  explicit_bzero(secret, sizeof secret);
  return rc;
}

/* The addresses of the first so many. */
static int get_others(const struct mr_board_way *way, struct mr_meeting *m, uint16_t known) {
  char value[MR_BOARD_VALUE];
  int rc = 0;
  for (uint16_t node = 0; node < known && rc == 0; node++) {
    rc = way->get(node, "maru-address", value);
    if (rc == 0 && mr_address_read(value, &m->addresses[node]) == 0)
      rc = -EBADMSG;
  }
  if (rc == 0)
    rc = way->get(0, "maru-secret", value);
  for (int i = 0; i < MR_SECRET && rc == 0; i++)
    if (strlen(value) != 2 * MR_SECRET || sscanf(value + 2 * i, "%2hhx", &m->secret[i]) != 1)
      rc = -EBADMSG;
  explicit_bzero(value, sizeof value);
  return rc;
}

static int launcher_meet(const struct mr_board_way *way, struct mr_meeting *m, bool star, char *why,
                         size_t size) {
  m->addresses = calloc(m->nodes, sizeof *m->addresses);
  if (m->addresses == NULL)
    return say(-ENOMEM, why, size, "no memory");
  struct sockaddr_storage *mine = &m->addresses[m->me];
  int rc = 0;
  if (!star || m->me == 0) {
    rc = find_address(m->nodes, mine, why, size);
    if (rc < 0)
      return rc;
    m->listener = listen_at(mine, why, size);
    if (m->listener < 0)
      return m->listener;
    rc = put_own(way, m);
  }
  if (rc == 0)
    rc = way->meet();
  if (rc == 0)
    rc = get_others(way, m, star ? 1 : m->nodes);
  if (rc < 0)
    say(rc, why, size, "the launcher did not let the nodes meet: %s", strerror(-rc));
  return rc;
}

static const struct mr_board_way *way_of(enum mr_launcher launcher) {
  return launcher == MR_LAUNCHER_PMIX ? &mr_pmix_way : &mr_pmi_way;
}

/* ---- who does not answer -------------------------------------------------------- */

/* What is done by a thread of its own, as libraries wait for a launcher without an end.  Of a
 * process: one who gave up does not come back. */
static struct errand {
  enum mr_launcher launcher;
  uint16_t most;
  bool star;
  int seconds, rc;
  struct mr_meeting meeting;
  char why[256];
} errand;

static bool done_in(void *(*act)(void *), int seconds) {
  pthread_t thread;
  sigset_t every, before;
  struct timespec deadline;
  sigfillset(&every);
  /* Signals are for the program's thread. */
  pthread_sigmask(SIG_SETMASK, &every, &before);
  int rc = pthread_create(&thread, NULL, act, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (rc != 0)
    return act(NULL) == NULL;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_sec += seconds;
  if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &deadline) == 0)
    return true;
  pthread_detach(thread);
  return false;
}

static int meet_by(enum mr_launcher launcher, struct mr_meeting *meeting, uint16_t most, bool star,
                   int seconds, char *why, size_t size) {
  unsigned nodes = 0, me = 0;
  if (launcher == MR_LAUNCHER_MUTE)
    return say(-ENOSYS, why, size,
               "srun offers no way for the nodes to meet; use srun --mpi=pmi2, or --mpi=pmix");
  const struct mr_board_way *way = way_of(launcher);
  int rc = way->open(&nodes, &me, seconds, why, size);
  if (rc < 0)
    return rc;
  if (nodes < 1 || nodes > most || me >= nodes)
    rc = say(-ERANGE, why, size, "the launcher started %u processes; 1 to %u can be nodes", nodes,
             most);
  *meeting = (struct mr_meeting){.nodes = (uint16_t)nodes, .me = (uint16_t)me, .listener = -1};
  if (rc == 0 && nodes > 1)
    rc = launcher_meet(way, meeting, star, why, size);
  if (rc < 0)
    way->close();
  return rc;
}

static void *run_meeting(void *unused) {
  (void)unused;
  errand.rc = meet_by(errand.launcher, &errand.meeting, errand.most, errand.star, errand.seconds,
                      errand.why, sizeof errand.why);
  return NULL;
}

static int meet_in_time(enum mr_launcher launcher, struct mr_meeting *meeting, uint16_t most,
                        bool star, int seconds, char *why, size_t size) {
  errand = (struct errand){.launcher = launcher, .most = most, .star = star, .seconds = seconds};
  if (!done_in(run_meeting, seconds + ANSWER_SECONDS))
    return say(-ETIMEDOUT, why, size, "the launcher does not answer in %d s",
               seconds + ANSWER_SECONDS);
  *meeting = errand.meeting;
  snprintf(why, size, "%s", errand.why);
  explicit_bzero(errand.meeting.secret, sizeof errand.meeting.secret);
  return errand.rc;
}

int mr_launcher_meet(enum mr_launcher launcher, struct mr_meeting *meeting, uint16_t most,
                     int seconds, char *why, size_t size) {
  return meet_in_time(launcher, meeting, most, false, seconds, why, size);
}

int mr_launcher_meet_first(enum mr_launcher launcher, struct mr_meeting *meeting, uint16_t most,
                           int seconds, char *why, size_t size) {
  return meet_in_time(launcher, meeting, most, true, seconds, why, size);
}

static void *run_leave(void *unused) {
  (void)unused;
  way_of(errand.launcher)->close();
  return NULL;
}

int mr_launcher_leave(enum mr_launcher launcher) {
  errand.launcher = launcher;
  return done_in(run_leave, LEAVE_SECONDS) ? 0 : -ETIMEDOUT;
}

void mr_launcher_abort(enum mr_launcher launcher, int status) {
  if (way_of(launcher)->abort == NULL)
    return;
  /* A launcher that does not answer: we end all the same. */
  sigset_t alarmed;
  sigemptyset(&alarmed);
  sigaddset(&alarmed, SIGALRM);
  signal(SIGALRM, SIG_DFL);
  signal(SIGPIPE, SIG_IGN); /* or has gone */
  pthread_sigmask(SIG_UNBLOCK, &alarmed, NULL);
  alarm(PATIENCE_SECONDS);
  way_of(launcher)->abort(status);
}
